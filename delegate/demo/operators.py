"""The demo's operator: speaks to the manager as any client of its public API does."""

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Self

import aiohttp
import msgspec

from delegate.demo.errors import DemoError, UnexpectedError
from delegate.demo.narration import OnEvent
from delegate.model.resources import JsonObject
from delegate.model.results import TaskResult

_CALL = aiohttp.ClientTimeout(total=15.0)
_POLL_SECONDS = 0.05
TASK_SECONDS = 60.0


class Operator:
    """A session with an operator's token."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._session = aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}, timeout=_CALL)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._session.close()

    async def create_token(self, name: str, labels: Mapping[str, str]) -> str:
        """A token for one delegate; its secret."""
        answer = await self._call("POST", "/api/v1/tokens", {"name": name, "scope": "GITOPS", "expiresIn": "1h", "labels": dict(labels)})
        return str(answer["secret"])

    async def find_delegate(self, name: str) -> JsonObject | None:
        answer = await self._call("GET", "/api/v1/delegates")
        return next((each for each in answer["items"] if each["name"] == name), None)

    async def run(self, document: JsonObject, on_event: OnEvent) -> TaskResult:
        """Submits a task, watches it to its end, and answers its result. Raises UnexpectedError where it has none in time."""
        task = str((await self._call("POST", "/api/v1/tasks", document))["task"]["id"])
        after, finished = 0, False
        try:
            async with asyncio.timeout(TASK_SECONDS):
                while not finished:
                    events = await self._call("GET", f"/api/v1/tasks/{task}/events?after={after}")
                    for each in events["items"]:
                        on_event(str(each["event"]), each.get("data") or {})
                    after, finished = events["next"], events["finished"]
                    if not finished:
                        await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            view = await self._call("GET", f"/api/v1/tasks/{task}")
            raise UnexpectedError(
                f"task {task} has not ended within {TASK_SECONDS:g} s; it is {view['task']['state']} {view.get('whyQueued', '')}"
            ) from None
        view = await self._call("GET", f"/api/v1/tasks/{task}")
        if not view.get("result"):
            raise UnexpectedError(f"task {task} ended without a result: {view['task']['outcome']} {view['task']['message']}")
        return msgspec.convert(view["result"], TaskResult)

    async def _call(self, method: str, path: str, body: JsonObject | None = None) -> JsonObject:
        try:
            async with self._session.request(method, self._url + path, json=body) as answer:
                document = await answer.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise DemoError(f"{method} {path}: {error}") from error
        if answer.status >= 400 or not isinstance(document, dict):
            raise DemoError(f"{method} {path} was answered {answer.status}: {document}")
        return document
