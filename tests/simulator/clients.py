"""A small HTTP client for tests, and the bodies they send."""

import asyncio
import json
from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple, Self

import aiohttp

PATIENCE_SECONDS = 10.0
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"


class Answer(NamedTuple):
    status: int
    body: Any
    headers: Any


class Client:
    """Sends JSON, reads JSON; leaves judging the answer to the test."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self._token = token

    async def __aenter__(self) -> Self:
        self.session = aiohttp.ClientSession(headers={"Authorization": f"Bearer {self._token}"})
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.session.close()

    async def send(self, method: str, path: str, body: Any = None, *, kind: str = "application/json", **params: str) -> Answer:
        data = body if isinstance(body, str | bytes | None) else json.dumps(body)
        headers = {"Content-Type": kind} if data is not None else {}
        timeout = aiohttp.ClientTimeout(total=30)
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


def deployment(name: str, image: str = "nginx:1.0", replicas: int | None = 3, **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main", "image": image}]}}
    made = {"selector": {"matchLabels": {"app": name}}, "template": template, **spec}
    if replicas is not None:
        made["replicas"] = replicas
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": made}


def config_map(name: str, data: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": data or {}}
