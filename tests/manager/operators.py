"""An operator as a test sees it: the public API over real HTTP."""

import io
from typing import Any

import aiohttp
import msgspec

from delegate.model.resources import JsonObject
from delegate.protocol.problems import Problem
from delegate.protocol.routes import PROBLEM_TYPE
from tests.manager.delegates import RefusedCallError


def sync_document(application: str = "checkout", **more: Any) -> JsonObject:
    """A sync task that a manager takes."""
    return {
        "kind": "sync",
        "application": application,
        "destination": {"name": "in-cluster", "namespace": "default"},
        "spec": {"source": {"repoURL": "https://git.example/config.git"}},
        **more,
    }


def verify_document(application: str = "shop") -> JsonObject:
    """A task that needs no cluster."""
    check = {"name": "errors", "type": "http", "url": "https://shop.example/errors", "unit": "ratio", "threshold": "<= 1%"}
    return {"kind": "verify", "application": application, "spec": {"verification": [check]}}


class Operator:
    """Calls the API with an admin token; raises RefusedCallError for problems."""

    def __init__(self, session: aiohttp.ClientSession, url: str, token: str) -> None:
        self.session = session
        self.url = url
        self.token = token

    async def call(self, method: str, path: str, body: object = None, **options: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.token}", **options.pop("headers", {})}
        data = options.pop("data", None)
        if body is not None:
            data = msgspec.json.encode(body)
            headers.setdefault("Content-Type", "application/json")
        if isinstance(data, bytes):
            data = io.BytesIO(data)  # large bytes at once make aiohttp warn
        async with self.session.request(method, self.url + path, data=data, headers=headers, allow_redirects=False, **options) as response:
            raw = await response.read()
            if response.status >= 400:
                assert response.content_type == PROBLEM_TYPE, raw
                raise RefusedCallError(msgspec.json.decode(raw, type=Problem), dict(response.headers))
            return msgspec.json.decode(raw)

    async def submit(self, document: JsonObject | None = None, *, key: str = "", **more: Any) -> str:
        """The id of a new task."""
        headers = {"Idempotency-Key": key} if key else {}
        shown = await self.call("POST", "/api/v1/tasks", document or sync_document(**more), headers=headers)
        return str(shown["task"]["id"])

    async def show(self, task_id: str) -> Any:
        return await self.call("GET", f"/api/v1/tasks/{task_id}")

    async def task(self, task_id: str) -> Any:
        """The summary of a task."""
        return (await self.show(task_id))["task"]

    async def why(self, task_id: str) -> str:
        return str((await self.show(task_id))["whyQueued"])

    async def cancel(self, task_id: str, reason: str = "") -> str:
        return str((await self.call("POST", f"/api/v1/tasks/{task_id}/cancel", {"reason": reason}))["effect"])

    async def history(self, task_id: str) -> list[Any]:
        return list((await self.call("GET", f"/api/v1/tasks/{task_id}/history"))["items"])

    async def create_token(self, name: str = "edge", scope: str = "GITOPS", **more: Any) -> str:
        """The secret of a new token."""
        return str((await self.call("POST", "/api/v1/tokens", {"name": name, "scope": scope, **more}))["secret"])
