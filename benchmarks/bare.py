"""The API server's limit: the least that a client can do, eight requests in flight, nothing decoded and nothing decided."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec
from yarl import URL

from benchmarks.errors import BrokenRunError
from benchmarks.sets import collection_paths, path_of
from delegate.engine.clusters.credentials import build_ssl_context
from delegate.engine.clusters.registry import ClusterRegistry, ClusterSettings
from delegate.model.resources import JsonObject
from delegate.model.tasks import Destination

IN_FLIGHT = 8
_MANAGER = "bench"
_APPLY = f"?fieldManager={_MANAGER}&fieldValidation=Strict"
_METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_QUIET_REVISIONS = 5
_QUIET_SECONDS = 0.5


class BareClient:
    """Calls an API server; the times it returns are seconds."""

    def __init__(self, session: aiohttp.ClientSession, server: str, authorization: str) -> None:
        self._session = session
        self._server = server
        self._headers = {"Authorization": authorization, "Accept": "application/json"}

    async def apply_all(self, objects: Iterable[JsonObject], *, dry_run: bool = False) -> float:
        """Server-side apply of each object, bodies made beforehand."""
        query = _APPLY + ("&dryRun=All" if dry_run else "")
        headers = {**self._headers, "Content-Type": "application/apply-patch+yaml"}
        calls = [(URL(self._server + path_of(body) + query, encoded=True), msgspec.json.encode(body)) for body in objects]
        began = time.monotonic()
        left = iter(calls)

        async def send() -> None:
            for url, body in left:
                async with self._session.patch(url, data=body, headers=headers) as response:
                    answer = await response.read()
                    if response.status not in (200, 201):
                        raise BrokenRunError(f"{url} answered {response.status}: {answer[:300]!r}")

        async with asyncio.TaskGroup() as group:
            for _ in range(IN_FLIGHT):
                group.create_task(send())
        return time.monotonic() - began

    async def list_all(self, namespace: str) -> tuple[int, float]:
        """The metadata of every object of the set in a namespace: how many, and in which time."""
        headers = {**self._headers, "Accept": _METADATA_LIST}
        began = time.monotonic()

        async def list_one(path: str) -> int:
            async with self._session.get(self._server + path, headers=headers) as response:
                return len(msgspec.json.decode(await response.read())["items"])

        counts = await asyncio.gather(*(list_one(path) for path in collection_paths(namespace)))
        return sum(counts), time.monotonic() - began

    async def version(self) -> str:
        return str((await self._call("GET", "/version"))["gitVersion"])

    async def create_namespace(self, name: str) -> None:
        await self._call("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    async def delete_namespace(self, name: str) -> None:
        await self._call("DELETE", f"/api/v1/namespaces/{name}")

    async def until_quiet(self, within: float) -> bool:
        """Waits for controllers to have done what the last writes gave them to do. Whether they had in time."""
        ends_at = time.monotonic() + within
        revision = await self._revision()
        while time.monotonic() < ends_at:
            await asyncio.sleep(_QUIET_SECONDS)
            before, revision = revision, await self._revision()
            if revision - before <= _QUIET_REVISIONS:
                return True
        return False

    async def _revision(self) -> int:
        listing = await self._call("GET", "/api/v1/namespaces?limit=1")
        return int(listing["metadata"]["resourceVersion"])

    async def _call(self, method: str, path: str, body: JsonObject | None = None) -> JsonObject:
        data = msgspec.json.encode(body) if body is not None else None
        headers = {**self._headers, "Content-Type": "application/json"}
        async with self._session.request(method, self._server + path, data=data, headers=headers) as response:
            answer = await response.read()
            if response.status >= 300:
                raise BrokenRunError(f"{method} {path} answered {response.status}: {answer[:300]!r}")
            decoded: JsonObject = msgspec.json.decode(answer)
            return decoded


@asynccontextmanager
async def bare_client(kubeconfig: Path) -> AsyncIterator[BareClient]:
    """A client of the server that the kubeconfig's current context names."""
    registry = ClusterRegistry(ClusterSettings(kubeconfig=str(kubeconfig)), environment={})
    try:
        credentials = await (await registry.open(Destination())).client.transport.credentials()
    finally:
        await registry.close()
    context = build_ssl_context(credentials, None)
    connector = aiohttp.TCPConnector(ssl=context if context is not None else True, limit=0)
    authorization = credentials.authorization.reveal() if credentials.authorization is not None else ""
    async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as session:
        yield BareClient(session, credentials.server, authorization)
