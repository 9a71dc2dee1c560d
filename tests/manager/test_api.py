"""The HTTP surface: what is accepted, how refusals look, what every answer carries."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from delegate.manager.service import Manager
from delegate.protocol import routes
from delegate.protocol.work import ProgressEvent
from tests.manager.clocks import FakeClock
from tests.manager.delegates import FakeDelegate, RefusedCallError
from tests.manager.operators import Operator, sync_document

YAML = b"""
kind: sync
application: checkout
destination: {name: in-cluster, namespace: shop}
spec:
  source: {repoURL: https://git.example/config.git, path: apps/checkout}
"""
ARGO = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "Application",
    "metadata": {"name": "guestbook", "namespace": "argocd"},
    "spec": {
        "project": "default",
        "source": {"repoURL": "https://git.example/apps.git", "targetRevision": "HEAD", "path": "guestbook"},
        "destination": {"server": "https://kubernetes.default.svc", "namespace": "guestbook"},
    },
}


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """The surface is the same on every dialect."""
    return f"sqlite:///{tmp_path / 'manager.db'}"


async def submit_bytes(operator: Operator, body: bytes, media_type: str) -> Any:
    return await operator.call("POST", "/api/v1/tasks", data=body, headers={"Content-Type": media_type})


@pytest.mark.parametrize("media_type", ["application/yaml", "application/x-yaml", "text/yaml", "application/yaml; charset=utf-8"])
async def test_a_task_document_in_yaml(operator: Operator, media_type: str) -> None:
    """As people write it."""
    shown = await submit_bytes(operator, YAML, media_type)

    assert shown["task"]["application"] == "checkout"
    assert shown["document"]["spec"]["source"]["path"] == "apps/checkout"


async def test_an_argo_cd_application(operator: Operator) -> None:
    """Is taken as a sync task with its own spec and destination."""
    shown = await operator.call("POST", "/api/v1/tasks", ARGO)

    assert (shown["task"]["kind"], shown["task"]["application"]) == ("sync", "guestbook")
    assert shown["task"]["destination"]["name"] == "in-cluster"


@pytest.mark.parametrize(
    ("document", "words", "hint"),
    [
        ({"kind": "sync"}, "missing required field `application`", ""),
        (sync_document(supersede=True), "unknown field `supersede`", "did you mean `supersedes`?"),
        (sync_document(kind="sink"), "kind", ""),
        (sync_document(timeout="soon"), "timeout: 'soon' is no duration", ""),
        (sync_document(priority=5000), "priority", ""),
        (sync_document("Not A Name"), "'Not A Name' is no name", ""),
        (sync_document(spec={}), "spec.source.repoURL", ""),
        ([], "a task document is a mapping", ""),
        (sync_document(environment="e" * 300), "environment: 300 bytes are more than the 253", ""),
        (sync_document(environment="a\x00b"), "environment: control characters", ""),
        (sync_document(destination={"name": "ü" * 200}), "destination.name: 400 bytes are more than the 253", ""),
        (sync_document(destination={"server": "https://" + "s" * 3000}), "destination.server: 3008 bytes are more than the 1000", ""),
        (sync_document(selector={f"label-{number}": "v" * 100 for number in range(30)}), "selector: ", ""),
        (ARGO | {"kind": "AppProject"}, "is no task", ""),
    ],
)
async def test_a_document_that_cannot_be_meant(operator: Operator, document: object, words: str, hint: str) -> None:
    """422 with the field, and the nearest known one; nothing is queued."""
    with pytest.raises(RefusedCallError) as refused:
        await operator.call("POST", "/api/v1/tasks", document)

    assert (refused.value.problem.status, refused.value.problem.code) == (422, "invalid")
    assert words in refused.value.problem.detail
    assert hint in refused.value.problem.hint
    assert (await operator.call("GET", "/api/v1/tasks"))["items"] == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"kind: sync\nkind: diff\napplication: a\n", "kind"),
        (b"kind: [\n", ""),
        (b"", "there is no document"),
        (b"---\nkind: sync\n---\nkind: diff\n", "2 documents in one call"),
        (b"a: &a [x, x]\nb: &b [*a, *a]\n" + b"".join(b"c%d: [*b, *b]\n" % number for number in range(3)), ""),
        (b"\xff\xfe\x00", ""),
    ],
)
async def test_yaml_that_cannot_be_read(operator: Operator, body: bytes, words: str) -> None:
    """Is refused like a manifest would be."""
    with pytest.raises(RefusedCallError) as refused:
        await submit_bytes(operator, body, "application/yaml")

    assert refused.value.problem.status == 422
    assert words in refused.value.problem.detail


@pytest.mark.parametrize(
    ("request_line", "media_type", "body", "status", "code"),
    [
        ("GET /api/v1/nothing", "", None, 404, "not_found"),
        ("GET /api/v1/tasks/none", "", None, 404, "not_found"),
        ("PUT /api/v1/tasks", "", b"{}", 405, "invalid"),
        ("GET /api/delegate/v1/heartbeat", "", None, 405, "invalid"),
        ("POST /api/v1/tasks", "text/html", b"<html>", 415, "invalid"),
        ("POST /api/v1/tokens", "application/yaml", b"a: b", 415, "invalid"),
        ("POST /api/v1/tokens", "application/json", b"{", 400, "invalid"),
        ("POST /api/v1/tokens", "application/json", b'{"name": 7}', 422, "invalid"),
        ("POST /api/v1/tokens", "application/json", b"\xff", 400, "invalid"),
        ("POST /api/v1/tasks", "application/json", b" " * (2**20 + 1), 413, "too_large"),
        ("GET /api/v1/tasks?limit=x", "", None, 422, "invalid"),
        ("GET /api/v1/tasks?continue=x", "", None, 422, "invalid"),
    ],
)
async def test_every_refusal_is_a_problem(
    *, operator: Operator, request_line: str, media_type: str, body: bytes | None, status: int, code: str
) -> None:
    """With the type, the status, the code and the id of the request."""
    method, _, path = request_line.partition(" ")
    headers = {"X-Request-Id": "mine-1"} | ({"Content-Type": media_type} if media_type else {})
    with pytest.raises(RefusedCallError) as refused:
        await operator.call(method, path, data=body, headers=headers)

    problem = refused.value.problem
    assert (problem.status, problem.code, problem.request_id) == (status, code, "mine-1")
    assert problem.title
    assert problem.server_time
    assert refused.value.headers["X-Request-ID"] == "mine-1"


async def test_a_failure_inside_shows_nothing_of_the_inside(
    manager: Manager, operator: Operator, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """500 with the id that the log has, and no traceback."""
    from delegate.manager.store import reading

    def fail(*arguments: object) -> None:
        raise ZeroDivisionError("a secret of the inside")

    monkeypatch.setattr(reading, "list_tasks", fail)
    with pytest.raises(RefusedCallError) as refused:
        await operator.call("GET", "/api/v1/tasks", headers={"X-Request-Id": "mine-2"})

    assert (refused.value.problem.status, refused.value.problem.code) == (500, "internal")
    assert "secret" not in msgspec.json.encode(refused.value.problem).decode()
    assert "Traceback" not in msgspec.json.encode(refused.value.problem).decode()
    assert "mine-2" in capsys.readouterr().out


async def test_every_answer_carries_an_id_and_is_not_kept(manager: Manager, http: aiohttp.ClientSession) -> None:
    """The caller's id where it is a good one, else one of ours; nothing may be cached or sniffed."""
    for given, expected in (("abc-1", "abc-1"), ("x" * 200, None), (None, None)):
        headers = {"X-Request-Id": given} if given else {}
        async with http.get(manager.url + "/healthz", headers=headers) as response:
            assert response.headers["X-Request-ID"] == expected or (expected is None and len(response.headers["X-Request-ID"]) == 20)
            assert response.headers["Cache-Control"] == "no-store"
            assert response.headers["X-Content-Type-Options"] == "nosniff"
            assert "aiohttp" not in response.headers["Server"]


async def test_answers_to_delegates_repeat_the_id_of_the_message(delegate: FakeDelegate) -> None:
    """Without it an answer could be anybody's; the time of the manager is told for people."""
    answer = await delegate.beat()

    assert answer.server_time == "2027-01-15T08:00:00.000Z"


async def test_ping_tells_what_the_manager_saw(manager: Manager, http: aiohttp.ClientSession) -> None:
    """No token is needed."""
    async with http.get(manager.url + routes.PING, headers={"X-Request-Id": "p-1", "Via": "1.1 proxy"}) as response:
        answer = await response.json()

    assert (answer["requestId"], answer["clientAddress"], answer["scheme"], answer["via"]) == ("p-1", "127.0.0.1", "http", "1.1 proxy")


async def test_probes_and_metrics(manager: Manager, operator: Operator, http: aiohttp.ClientSession, delegate: FakeDelegate) -> None:
    """Healthy, ready, and counted."""
    await operator.submit()
    (task,) = await delegate.acquire()
    await delegate.finish(task)
    for path, status in (("/healthz", "healthy"), ("/livez", "healthy"), ("/readyz", "ready")):
        async with http.get(manager.url + path) as response:
            assert (response.status, await response.json()) == (200, {"status": status})
    async with http.get(manager.url + "/metrics") as response:
        text = await response.text()

    assert 'delegate_manager_tasks_finished_total{kind="sync",outcome="succeeded"} 1.0' in text
    assert 'delegate_manager_requests_total{code="200",method="POST",route="/api/delegate/v1/results"} 1.0' in text
    assert task.task_id not in text


async def test_pages_of_tasks(operator: Operator) -> None:
    """The newest first; `continue` leads on, and filters hold."""
    ids = [await operator.submit(application=f"app-{number % 2}") for number in range(5)]
    await operator.cancel(ids[0])
    first = await operator.call("GET", "/api/v1/tasks?limit=2")
    second = await operator.call("GET", f"/api/v1/tasks?limit=2&continue={first['continue']}")
    third = await operator.call("GET", f"/api/v1/tasks?limit=2&continue={second['continue']}")

    assert [task["id"] for page in (first, second, third) for task in page["items"]] == list(reversed(ids))
    assert third["continue"] == ""
    for query, expected in (
        ("state=finished", [ids[0]]),
        ("outcome=cancelled", [ids[0]]),
        ("application=app-1", [ids[3], ids[1]]),
        ("kind=diff", []),
        ("cluster=in-cluster&state=queued", list(reversed(ids[1:]))),
    ):
        listed = await operator.call("GET", f"/api/v1/tasks?{query}")
        assert [task["id"] for task in listed["items"]] == expected, query


async def test_events_are_followed_by_polling(operator: Operator, delegate: FakeDelegate, clock: FakeClock) -> None:
    """In order, each once, and it is said when no more will come."""
    task_id = await operator.submit()
    (task,) = await delegate.acquire()

    def event(sequence: int) -> ProgressEvent:
        return ProgressEvent(attempt_id=task.attempt_id, fence=task.fence, sequence=sequence, event=f"step-{sequence}", ago_seconds=1.0)

    assert await delegate.events(event(1), event(2)) == 2
    first = await operator.call("GET", f"/api/v1/tasks/{task_id}/events")
    assert await delegate.events(event(2), event(3)) == 1
    second = await operator.call("GET", f"/api/v1/tasks/{task_id}/events?after={first['next']}")
    await delegate.finish(task)
    assert await delegate.events(event(4)) == 1  # its result was faster
    last = await operator.call("GET", f"/api/v1/tasks/{task_id}/events?after={second['next']}")

    assert [each["event"] for each in (*first["items"], *second["items"])] == ["step-1", "step-2", "step-3"]
    assert [first["finished"], second["finished"], last["finished"]] == [False, False, True]
    assert first["items"][0]["at"] == "2027-01-15T07:59:59.000Z"


async def test_events_are_bounded(operator: Operator, delegate: FakeDelegate) -> None:
    """An attempt that tells too much is not listened to; one event that is too large is cut to nothing."""
    task_id = await operator.submit()
    (task,) = await delegate.acquire()
    large = ProgressEvent(attempt_id=task.attempt_id, fence=task.fence, sequence=1, event="large", data={"x": "y" * 20_000})
    many = [ProgressEvent(attempt_id=task.attempt_id, fence=task.fence, sequence=number, event="e") for number in range(2, 1200)]

    assert await delegate.events(large) == 1
    kept = await delegate.events(*many[:600]) + await delegate.events(*many[600:])

    assert kept == 999
    assert (await operator.call("GET", f"/api/v1/tasks/{task_id}/events?limit=1"))["items"][0]["data"] == {"truncated": True}


async def test_the_history_of_a_task(operator: Operator, delegate: FakeDelegate) -> None:
    """Who did what, in order."""
    task_id = await operator.submit()
    (task,) = await delegate.acquire()
    await delegate.beat(task)
    await delegate.finish(task)

    told = [(entry["operation"], entry["actor"]) for entry in await operator.history(task_id)]

    assert told == [
        ("submitted", "first-admin"),
        ("handed_out", delegate.delegate_id),
        ("confirmed", delegate.delegate_id),
        ("result_accepted", delegate.delegate_id),
        ("finished", delegate.delegate_id),
    ]


async def test_a_body_that_does_not_come(tmp_path: Path) -> None:
    """A client that stops sending is not waited for."""
    from delegate.manager.settings import Limits

    async with Manager(state_dir=tmp_path / "slow", limits=Limits(header_seconds=0.1)) as manager:
        host, port = manager.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = (
            f"POST /api/v1/tasks HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {manager.admin_token}\r\n"
            "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
        )
        writer.write(head.encode())
        answer = await asyncio.wait_for(reader.readuntil(b"\r\n"), 10)
        writer.close()
        await writer.wait_closed()

    assert answer.startswith(b"HTTP/1.1 408 ")
