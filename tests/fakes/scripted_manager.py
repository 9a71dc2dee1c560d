"""A manager that answers as a test says: each route has a line of scripted answers, and a sane one when the line is empty.

It keeps no rules of its own. Where rules matter, the tests use the real manager.
"""

import asyncio
import base64
import gzip
import json
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from delegate.protocol import routes

Json = dict[str, Any]
Scripted = Callable[[web.Request, Json], web.StreamResponse | Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Seen:
    """A request that arrived, with the time of its arrival."""

    route: str
    at: float
    body: Json
    token: str


def answer(**fields: Any) -> Scripted:
    """A success with these fields; the request's id is echoed."""
    return lambda request, body: web.json_response({"requestId": body.get("requestId"), **fields})


def problem(status: int, code: str, *, hint: str = "", **headers: str) -> Scripted:
    def refuse(request: web.Request, body: Json) -> web.StreamResponse:
        document = {
            "title": "No",
            "status": status,
            "code": code,
            "detail": "as scripted",
            "hint": hint,
            "requestId": body.get("requestId"),
        }
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(status=status, body=json.dumps(document).encode(), headers={**named, "Content-Type": routes.PROBLEM_TYPE})

    return refuse


def raw(status: int = 200, body: bytes = b"", **headers: str) -> Scripted:
    """Bytes that no manager would send."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda request, _: web.Response(status=status, body=body, headers=named)


LOGIN_PAGE = b"<!doctype html>\n<title>Sign in</title><p>Welcome to the guest network\x07"
STRANGE_ANSWERS: dict[str, Scripted] = {
    "a login page with 200": raw(200, LOGIN_PAGE, Content_Type="text/html", Via="1.1 portal"),
    "a redirect to a login page": raw(302, b"", Location="http://user:secret@portal.example/login"),
    "HTML that says it is JSON": raw(200, LOGIN_PAGE, Content_Type="application/json"),
    "truncated gzip": raw(200, gzip.compress(b'{"requestId": "x"}' * 50)[:40], Content_Type="application/json", Content_Encoding="gzip"),
    "an empty body": raw(200, b"", Content_Type="application/json"),
    "another request's answer": lambda request, body: web.json_response({"requestId": "another", "results": []}),
    "a proxy's 503": raw(503, b"<h1>Service unavailable</h1>", Content_Type="text/html"),
    "a proxy's 403": raw(403, b"<h1>Blocked</h1>", Content_Type="text/html"),
}


@dataclass
class ScriptedManager:
    """`script[route]` are the next answers of a route; `seen` is what arrived; `tasks` go out by the next polls."""

    url: str = ""
    script: dict[str, deque[Scripted]] = field(default_factory=lambda: defaultdict(deque))
    always: dict[str, Scripted] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    tasks: list[Json] = field(default_factory=list)
    commands: list[Json] = field(default_factory=list)
    verdicts: dict[str, str] = field(default_factory=dict)
    result_verdicts: dict[str, str] = field(default_factory=dict)
    results: dict[str, Json] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    letters: dict[str, Json] = field(default_factory=dict)
    session_token_seconds: float = 900.0
    lease_seconds: float = 45.0
    heartbeat_seconds: float = 0.1
    come_back_seconds: float = 0.0
    version: str = ""
    poll_seconds: float = 5.0
    epoch: int = 0
    tokens: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def on(self, route: str, *answers: Scripted) -> None:
        self.script[route].extend(answers)

    def at(self, route: str) -> list[Seen]:
        return [each for each in self.seen if each.route == route]

    def hand_out(self, *tasks: Json) -> None:
        self.tasks += tasks
        self.changed.set()

    def command(self, **fields: Any) -> None:
        self.commands.append(fields)
        self.changed.set()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        body: Json = json.loads(await request.read() or b"{}")
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.seen.append(Seen(request.path, time.monotonic(), body, token))
        line = self.script[request.path]
        scripted = line.popleft() if line else self.always.get(request.path)
        if scripted is None:
            returned = _DEFAULTS[request.path](self, body)
            fields = await returned if isinstance(returned, Awaitable) else returned
            return web.json_response({"requestId": body.get("requestId"), **fields})
        response = scripted(request, body)
        return await response if isinstance(response, Awaitable) else response

    def _new_token(self) -> Json:
        self.tokens += 1
        return {"sessionToken": f"session-{self.tokens}", "sessionTokenSeconds": self.session_token_seconds}

    def enrol(self, body: Json) -> Json:
        return {"delegateId": "d-1", "refreshToken": "refresh-1", "protocol": 1, **self._new_token()}

    def refresh(self, body: Json) -> Json:
        return self._new_token()

    def session(self, body: Json) -> Json:
        self.epoch += 1
        settings = {"leaseSeconds": self.lease_seconds, "heartbeatSeconds": self.heartbeat_seconds, "pollSeconds": self.poll_seconds}
        features = ["commands", "dead-letters", "events"]
        return {"epoch": self.epoch, "protocol": 1, "features": features, "settings": settings, "version": self.version}

    def heartbeat(self, body: Json) -> Json:
        decisions = [
            {"attemptId": each["attemptId"], "verdict": self.verdicts.get(each["attemptId"], "ok")} for each in body.get("attempts", ())
        ]
        return {
            "attempts": decisions,
            "leaseSeconds": self.lease_seconds,
            "heartbeatSeconds": self.heartbeat_seconds,
            "comeBackSeconds": self.come_back_seconds,
        }

    async def poll_commands(self, body: Json) -> Json:
        self._acknowledge(body)
        await self._wait(body["waitSeconds"], lambda: self.commands)
        return {"commands": list(self.commands)}

    async def acquire(self, body: Json) -> Json:
        await self._wait(body["waitSeconds"], lambda: self.tasks)
        batch, self.tasks = self.tasks[: body["freeSlots"]], self.tasks[body["freeSlots"] :]
        return {"tasks": batch}

    def take_results(self, body: Json) -> Json:
        decisions = []
        for item in body["results"]:
            verdict = self.result_verdicts.get(item["attemptId"], "accepted")
            if verdict == "accepted":
                self.results[item["attemptId"]] = item
            decisions.append({"attemptId": item["attemptId"], "verdict": verdict})
        return {"results": decisions}

    def take_piece(self, body: Json) -> Json:
        received = self.blobs.setdefault(body["sha256"], b"")
        if body["offset"] == len(received):
            received = self.blobs[body["sha256"]] = received + base64.b64decode(body["data"])
        return {"received": len(received), "complete": len(received) == body["size"]}

    def take_letters(self, body: Json) -> Json:
        self.letters |= {each["id"]: each for each in body["letters"]}
        return {"added": len(body["letters"])}

    def _acknowledge(self, body: Json) -> None:
        self.commands = [each for each in self.commands if each["id"] not in body.get("acknowledged", ())]

    async def _wait(self, seconds: float, condition: Callable[[], object]) -> None:
        try:
            async with asyncio.timeout(seconds):
                while not condition():
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            return


_DEFAULTS: dict[str, Callable[[ScriptedManager, Json], Any]] = {
    routes.ENROL: ScriptedManager.enrol,
    routes.REFRESH_TOKEN: ScriptedManager.refresh,
    routes.SESSION: ScriptedManager.session,
    routes.HEARTBEAT: ScriptedManager.heartbeat,
    routes.COMMANDS: ScriptedManager.poll_commands,
    routes.ACQUIRE: ScriptedManager.acquire,
    routes.RESULTS: ScriptedManager.take_results,
    routes.BLOBS: ScriptedManager.take_piece,
    routes.LETTERS: ScriptedManager.take_letters,
    routes.RELEASE: lambda manager, body: {"attempts": []},
    routes.EVENTS: lambda manager, body: {"kept": len(body["events"])},
    routes.BYE: lambda manager, body: {},
}


@asynccontextmanager
async def scripted_manager(**fields: Any) -> AsyncIterator[ScriptedManager]:
    """One that listens on a free port of this machine."""
    manager = ScriptedManager(**fields)
    application = web.Application(client_max_size=2**30)
    application.router.add_post("/{path:.*}", manager.serve)
    runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    manager.url = "http://{}:{}".format(*runner.addresses[0][:2])
    try:
        yield manager
    finally:
        await _see_off_connections()
        await site.stop()
        await _see_off_connections()
        await runner.cleanup()
        await _see_off_connections()


async def _see_off_connections() -> None:
    """The loop gets to finish what it began with connections that just came or went."""
    for _ in range(5):
        await asyncio.sleep(0)


def task(attempt: str, application: str = "", **fields: Any) -> Json:
    """A hand-out as it travels."""
    application = application or f"app-{attempt}"
    return {
        "taskId": f"task-{attempt}",
        "attemptId": attempt,
        "fence": 1,
        "kind": "sync",
        "application": application,
        "document": {"kind": "sync", "application": application},
        "leaseSeconds": 45.0,
        "deadlineSeconds": 60.0,
        "attemptToken": f"token-{attempt}",
        **fields,
    }
