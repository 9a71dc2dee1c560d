"""Runs canary tasks the way a local command does, and watches what becomes of the stable version's capacity."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.errors import NotFoundError
from delegate.engine.clusters.watches import WatchEventKind
from delegate.engine.records.journals import JournalStore
from delegate.engine.tasks.building import Engine
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.resuming import ResumeSignal
from delegate.engine.tasks.stopping import StopSignal
from delegate.engine.verification.providers.registry import load_providers
from delegate.model.leases import LEASE_SECONDS
from delegate.model.resource_types import DEPLOYMENTS, SERVICES
from delegate.model.resources import JsonObject, ResourceType
from delegate.model.results import TaskResult
from delegate.model.rollouts.journals import Journal
from delegate.model.rollouts.pauses import Pause
from delegate.model.rollouts.versions import images_of
from delegate.model.rollouts.workloads import wanted_replicas
from delegate.model.tasks import read_task
from tests.cluster.servers import eventually
from tests.cluster.syncing import deployment, syncer_for

QUOTAS = ResourceType(group="", version="v1", kind="ResourceQuota", plural="resourcequotas", namespaced=True)
OLD, NEW = "registry.example/web:1.0", "registry.example/web:2.0"


def _told(event: str, data: JsonObject) -> None:
    del event, data


def _shown(pause: Pause | None) -> None:
    del pause


@dataclass
class Canarist:
    """One delegate that runs canaries of `web`."""

    engine: Engine
    namespace: str
    application: str = "shop"
    on_event: Callable[[str, JsonObject], None] = _told
    on_pause: Callable[[Pause | None], None] = _shown
    resume: ResumeSignal = field(default_factory=ResumeSignal)

    async def run(
        self,
        *steps: JsonObject,
        image: str = NEW,
        task: str = "task-1",
        timeout: str = "50s",
        stop: StopSignal | None = None,
        **spec: object,
    ) -> TaskResult:
        body = {
            "workload": {"kind": "Deployment", "name": "web"},
            "images": {"main": image},
            "steps": list(steps),
            "minReady": "0s",
            "progressDeadline": "20s",
            **spec,
        }
        options = {"failFastAfter": "1s"}
        return await self.attempt(kind="canary", spec=body, options=options, task=task, timeout=timeout, stop=stop)

    async def attempt(
        self,
        *,
        kind: str,
        spec: JsonObject,
        options: JsonObject,
        task: str = "task-1",
        timeout: str = "50s",
        stop: StopSignal | None = None,
    ) -> TaskResult:
        """One attempt of a task of any kind."""
        document = {
            "kind": kind,
            "application": self.application,
            "destination": {"namespace": self.namespace},
            "timeout": timeout,
            "spec": spec,
            "options": options,
        }
        read = read_task(document)
        context = AttemptContext(
            task_id=task,
            attempt_id=str(uuid.uuid4()),
            deadline=asyncio.get_running_loop().time() + read.timeout_seconds,
            stop=stop or StopSignal(),
            resume=self.resume,
            report=self.on_event,
            paused=self.on_pause,
        )
        return await self.engine.run(read, context)


def canarist_for(kubeconfig: Path, directory: Path, namespace: str, *, lease_seconds: int = LEASE_SECONDS) -> Canarist:
    directory.mkdir(exist_ok=True)
    return Canarist(syncer_for(kubeconfig, directory, namespace, lease_seconds=lease_seconds).engine, namespace)


@asynccontextmanager
async def running_canarist(
    kubeconfig: Path, directory: Path, namespace: str, *, lease_seconds: int = LEASE_SECONDS
) -> AsyncIterator[Canarist]:
    """Closed at the end."""
    made = canarist_for(kubeconfig, directory, namespace, lease_seconds=lease_seconds)
    try:
        yield made
    finally:
        await made.engine.close()


def verifying(canarist: Canarist) -> Canarist:
    """The same, with providers of evidence."""
    parts = canarist.engine._parts
    fields = {field: getattr(parts, field) for field in parts.__struct_fields__}
    canarist.engine = Engine(type(parts)(**{**fields, "providers": load_providers(None, {})}))
    return canarist


async def stable_stands(client: ApiClient, namespace: str, replicas: int = 4, **labels: str) -> JsonObject:
    """A stable Deployment `web` behind a Service, all its pods ready."""
    body = deployment("web", OLD, replicas, namespace=namespace)
    body["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}}
    if labels:
        body["spec"]["selector"]["matchLabels"] |= labels
        body["spec"]["template"]["metadata"]["labels"] |= labels
    await client.create(DEPLOYMENTS, body)
    await client.create(SERVICES, service(namespace))
    await eventually(lambda: _ready(client, namespace, replicas), within=20)
    return await client.get(DEPLOYMENTS, namespace, "web")


def service(namespace: str) -> JsonObject:
    metadata = {"name": "web", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}


def no_more_pods(namespace: str) -> JsonObject:
    """A quota that whatever stands already exceeds."""
    metadata = {"name": "none", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": {"pods": "1"}}}


async def _ready(client: ApiClient, namespace: str, replicas: int) -> bool:
    live = await client.get(DEPLOYMENTS, namespace, "web")
    return int((live.get("status") or {}).get("availableReplicas") or 0) == replicas


async def image_of(client: ApiClient, namespace: str, name: str = "web") -> str:
    """Of its only container; empty where there is no such Deployment."""
    try:
        live = await client.get(DEPLOYMENTS, namespace, name)
    except NotFoundError:
        return ""
    return images_of(live["spec"]["template"])["main"]


async def replicas_of(client: ApiClient, namespace: str, name: str = "web-canary") -> int:
    """What is wanted of a Deployment; -1 where there is none."""
    try:
        return wanted_replicas(await client.get(DEPLOYMENTS, namespace, name))
    except NotFoundError:
        return -1


async def journal_of(client: ApiClient, namespace: str) -> Journal:
    journal = (await JournalStore(client, namespace, "Deployment", "web").read()).journal
    assert journal is not None
    return journal


@dataclass
class Capacity:
    """The least that served while it was watched: available pods of both sets, and of the stable set while it was the old version."""

    least: int = 10**6
    least_stable: int = 10**6


@asynccontextmanager
async def watched(client: ApiClient, namespace: str) -> AsyncIterator[Capacity]:
    """Watches both Deployments while the block runs."""
    capacity, now = Capacity(), {"web": 0, "web-canary": 0}

    async def watch() -> None:
        deadline = asyncio.get_running_loop().time() + 120
        async with contextlib.aclosing(client.watch(DEPLOYMENTS, namespace, deadline=deadline)) as events:
            async for event in events:
                body = event.object
                if not body or body["metadata"]["name"] not in now:
                    continue
                now[body["metadata"]["name"]] = int((body.get("status") or {}).get("availableReplicas") or 0)
                if event.kind is WatchEventKind.DELETED:
                    now[body["metadata"]["name"]] = 0
                if not now["web"]:
                    continue
                capacity.least = min(capacity.least, sum(now.values()))
                if images_of(body["spec"]["template"]).get("main") == OLD and body["metadata"]["name"] == "web":
                    capacity.least_stable = min(capacity.least_stable, now["web"])

    watching = asyncio.create_task(watch())
    try:
        await eventually(lambda: capacity.least < 10**6, within=20)
        yield capacity
    finally:
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
