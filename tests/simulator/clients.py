"""A small HTTP client for tests of an API server, and the bodies they send."""

import asyncio
import io
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, NamedTuple, Self

import aiohttp

PATIENCE_SECONDS = 30.0
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"


class Answer(NamedTuple):
    status: int
    body: Any
    headers: Any

    @property
    def warnings(self) -> list[str]:
        return list(self.headers.getall("Warning", ()))

    @property
    def causes(self) -> list[tuple[str, str]]:
        """Reason and field of each cause of a refusal."""
        return [(cause["reason"], cause["field"]) for cause in (self.body.get("details") or {}).get("causes") or ()]


class Client:
    """Sends JSON, reads JSON; leaves judging the answer to the test."""

    def __init__(self, url: str, token: str, trust: ssl.SSLContext | None = None) -> None:
        self.url = url
        self.token = token
        self._trust = trust

    async def __aenter__(self) -> Self:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        connector = aiohttp.TCPConnector(ssl=self._trust if self._trust is not None else True)
        self.session = aiohttp.ClientSession(headers=headers, connector=connector)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.session.close()

    async def send(
        self, method: str, path: str, body: Any = None, *, kind: str = "application/json", accept: str = "application/json", **params: str
    ) -> Answer:
        data: Any = body if isinstance(body, str | bytes | None) else json.dumps(body)
        headers = {"Accept": accept} | ({"Content-Type": kind} if data is not None else {})
        timeout = aiohttp.ClientTimeout(total=30)
        if isinstance(data, str):
            data = io.BytesIO(data.encode())  # large bodies are not to be sent at once
        async with self.session.request(method, self.url + path, data=data, headers=headers, params=params, timeout=timeout) as answer:
            text = await answer.text()
            try:
                read = json.loads(text)
            except ValueError:
                read = text
            return Answer(answer.status, read, answer.headers.copy())

    async def get(self, path: str, **params: str) -> Any:
        return (await self.send("GET", path, **params)).body

    async def post(self, path: str, body: Any, **params: str) -> Answer:
        return await self.send("POST", path, body, **params)

    async def put(self, path: str, body: Any, **params: str) -> Answer:
        return await self.send("PUT", path, body, **params)

    async def patch(self, path: str, body: Any, kind: str = MERGE, **params: str) -> Answer:
        return await self.send("PATCH", path, body, kind=kind, **params)

    async def delete(self, path: str, options: Any = None, **params: str) -> Answer:
        return await self.send("DELETE", path, options, **params)

    async def apply(self, path: str, body: Any, manager: str = "tester", **params: str) -> Answer:
        return await self.send("PATCH", path, body, kind=APPLY, fieldManager=manager, **params)

    async def until(self, path: str, holds: Callable[[Any], bool], **params: str) -> Any:
        """The object once a condition holds for it; fails after a while, with what it is then."""
        body: Any = None
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    body = await self.get(path, **params)
                    if holds(body):
                        return body
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"{path} never became what was waited for: {json.dumps(body)[:2000]}") from None

    async def until_gone(self, path: str) -> None:
        await self.until(path, lambda body: body.get("reason") == "NotFound")

    @asynccontextmanager
    async def watch(self, path: str, *, accept: str = "application/json", **params: str) -> AsyncIterator["Events"]:
        """A watch whose events can be awaited one by one."""
        timeout = aiohttp.ClientTimeout(total=PATIENCE_SECONDS)
        query = {"watch": "1", "timeoutSeconds": "30", **params}
        async with self.session.get(self.url + path, params=query, headers={"Accept": accept}, timeout=timeout) as answer:
            yield Events(answer)


class Events:
    """What a watch tells."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer
        self.status = answer.status

    async def next(self) -> tuple[str, Any]:
        """The next event's type and object; fails where the watch has ended."""
        line = await self._answer.content.readline()
        assert line, "the watch has ended"
        event = json.loads(line)
        return event["type"], event["object"]

    async def named(self, count: int) -> list[tuple[str, str]]:
        """Types and names of the next events."""
        events = [await self.next() for _ in range(count)]
        return [(kind, body["metadata"]["name"]) for kind, body in events]

    async def rest(self) -> list[tuple[str, Any]]:
        """Everything until the server ends it."""
        found = [json.loads(line) async for line in self._answer.content]
        return [(event["type"], event["object"]) for event in found]


def deployment(name: str, image: str = "nginx:1.0", replicas: int | None = 3, **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main", "image": image}]}}
    made = {"selector": {"matchLabels": {"app": name}}, "template": template, **spec}
    if replicas is not None:
        made["replicas"] = replicas
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": made}


def config_map(name: str, data: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}
    return made if data is None else {**made, "data": data}


def service(name: str, *ports: dict[str, Any], **spec: Any) -> dict[str, Any]:
    made = {"selector": {"app": name}, "ports": list(ports) or [{"port": 80}], **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": made}


def pod(name: str, image: str = "nginx:1.0", **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": image}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": containers, **spec},
    }


def owned_by(body: Any, manager: str, operation: str = "Apply", subresource: str = "") -> Any:
    """The fieldsV1 of a manager's entry; None where it has none."""
    for entry in body["metadata"].get("managedFields") or ():
        if (entry["manager"], entry["operation"], entry.get("subresource", "")) == (manager, operation, subresource):
            return entry["fieldsV1"]
    return None


def owner_reference(body: Any, **more: Any) -> dict[str, Any]:
    metadata = body["metadata"]
    return {"apiVersion": body["apiVersion"], "kind": body["kind"], "name": metadata["name"], "uid": metadata["uid"], **more}
