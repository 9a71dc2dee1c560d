"""The API servers that the suite runs against, and the clients that it uses."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from delegate.engine.clusters.client import ApiClient, new_client
from delegate.engine.clusters.credentials import Credentials, bearer
from delegate.engine.clusters.metering import OnRequest
from delegate.engine.clusters.registry import Cluster, ClusterRegistry, ClusterSettings
from delegate.engine.clusters.transport import Transport
from delegate.foundation.clocks import SYSTEM_CLOCK, Clock
from delegate.foundation.lifecycle.retrying import Retrying
from delegate.model.resource_types import NAMESPACES
from delegate.model.resources import GroupKind, JsonObject
from delegate.model.tasks import Destination

FAST = Retrying(max_attempts=4, base_seconds=0.001, max_seconds=0.01, max_duration_seconds=20.0)


class StaticSource:
    """Credentials that a test gives; `credentials` may be changed meanwhile. `loads` counts how often they were read."""

    def __init__(self, credentials: Credentials) -> None:
        self.credentials = credentials
        self.loads: list[bool] = []
        self.on_rejected: Callable[[], Credentials] | None = None

    @property
    def description(self) -> str:
        return "the test's own credentials"

    async def load(self, *, rejected: bool = False) -> Credentials:
        self.loads.append(rejected)
        if rejected and self.on_rejected is not None:
            self.credentials = self.on_rejected()
        return self.credentials


@asynccontextmanager
async def client_of(
    server: str,
    *,
    token: str = "flaky-token",
    policy: Retrying = FAST,
    clock: Clock = SYSTEM_CLOCK,
    on_request: OnRequest | None = None,
) -> AsyncIterator[ApiClient]:
    async with client_from(
        StaticSource(Credentials(server=server, authorization=bearer(token))), policy=policy, clock=clock, on_request=on_request
    ) as client:
        yield client


@asynccontextmanager
async def client_from(
    source: StaticSource, *, policy: Retrying = FAST, clock: Clock = SYSTEM_CLOCK, on_request: OnRequest | None = None
) -> AsyncIterator[ApiClient]:
    client = new_client(Transport(source, clock=clock), policy=policy, clock=clock, on_request=on_request)
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def opened(kubeconfig: Path, directory: Path, *, policy: Retrying = FAST) -> AsyncIterator[Cluster]:
    """The cluster that a kubeconfig's current context leads to."""
    registry = ClusterRegistry(ClusterSettings(kubeconfig=str(kubeconfig), directory=directory, policy=policy), environment={})
    try:
        yield await registry.open(Destination())
    finally:
        await registry.close()


def config_map(namespace: str, name: str = "a", data: dict[str, str] | None = None, **metadata: object) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "data": data if data is not None else {"k": "v"},
    }


async def new_namespace(client: ApiClient, prefix: str = "test-") -> JsonObject:
    return await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": prefix}})


async def drop_namespace(client: ApiClient, namespace: JsonObject) -> None:
    await client.delete(NAMESPACES, "", namespace["metadata"]["name"], uid=namespace["metadata"]["uid"])


def kind(text: str) -> GroupKind:
    group, _, name = text.rpartition("/")
    return GroupKind(group, name)


async def eventually(condition: Callable[[], object], *, within: float = 10.0) -> None:
    """Returns once the condition, which may be awaited, holds; AssertionError when it does not in time."""
    try:
        async with asyncio.timeout(within):
            while not await _answer(condition):  # noqa: ASYNC110  # what is waited for has no event
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"not so within {within:g} s") from None


async def _answer(condition: Callable[[], object]) -> object:
    answer = condition()
    return await answer if inspect.isawaitable(answer) else answer
