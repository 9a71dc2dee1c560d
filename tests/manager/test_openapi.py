"""The OpenAPI document is true: every operation is called, and what it answers is what the document says."""

import hashlib
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import jsonschema
import pytest

from delegate.manager.api.application import OPERATIONS
from delegate.manager.service import Manager
from delegate.protocol.control import PauseReport
from delegate.protocol.pki.keys import make_key
from delegate.protocol.pki.requests import make_request
from delegate.protocol.work import ProgressEvent
from tests.manager.accounts import SigningKey, registration
from tests.manager.delegates import Caller, FakeDelegate, RefusedCallError, make_notice, make_result
from tests.manager.operators import Operator, sync_document
from tests.manager.test_resume import canary_document

META_SCHEMA = "https://spec.openapis.org/oas/3.1/schema/2022-10-07"


class Checker:
    """Looks every exchange up in the document and validates it."""

    def __init__(self, document: Any) -> None:
        self.document = document
        self.seen: set[str] = set()
        self.refusals: set[int] = set()

    def check(self, method: str, path: str, status: int, content_type: str, body: Any) -> None:
        described = self._find(method, path)
        self.seen.add(described["operationId"])
        assert str(status) in described["responses"], f"{method} {path} answered {status}, which is not documented"
        content = described["responses"][str(status)]["content"]
        assert content_type in content, f"{method} {path} answered {content_type}"
        if status >= 400:
            self.refusals.add(status)
        schema = content[content_type]["schema"] | {"components": self.document["components"]}
        jsonschema.Draft202012Validator(schema).validate(body)

    def _find(self, method: str, path: str) -> Any:
        for template, methods in self.document["paths"].items():
            parts, wanted = template.split("/"), path.split("/")
            same = len(parts) == len(wanted) and all(a == b or a.startswith("{") for a, b in zip(parts, wanted, strict=True))
            if same and method.lower() in methods:
                return methods[method.lower()]
        raise AssertionError(f"{method} {path} is not documented")


@pytest.fixture
def database_url(tmp_path: Any) -> str:
    """One dialect is enough for the shape of answers."""
    return f"sqlite:///{tmp_path / 'manager.db'}"


@pytest.fixture
async def document(manager: Manager, http: aiohttp.ClientSession) -> Any:
    async with http.get(manager.url + "/api/v1/openapi.json") as response:
        assert response.status == 200
        return await response.json()


@pytest.fixture
async def checker(document: Any) -> Checker:
    return Checker(document)


@pytest.fixture
async def http(checker_hook: list[Checker]) -> AsyncIterator[aiohttp.ClientSession]:
    """A session that has every answer checked."""
    trace = aiohttp.TraceConfig()

    async def check(session: aiohttp.ClientSession, context: Any, ended: aiohttp.TraceRequestEndParams) -> None:
        if checker_hook and ended.url.path != "/api/v1/openapi.json":
            body = await ended.response.json(content_type=None)
            checker_hook[0].check(ended.method, ended.url.path, ended.response.status, ended.response.content_type, body)

    trace.on_request_end.append(check)
    async with aiohttp.ClientSession(trace_configs=[trace]) as session:
        yield session


@pytest.fixture
def checker_hook() -> list[Checker]:
    return []


async def test_every_operation_answers_as_documented(
    manager: Manager, http: aiohttp.ClientSession, checker: Checker, checker_hook: list[Checker]
) -> None:
    """Each operation is called, with success and with refusals, and validated."""
    checker_hook.append(checker)
    operator = Operator(http, manager.url, manager.admin_token)
    token = await operator.create_token("edge", labels={"zone": "b"}, description="for the shops", maxUses=5)
    await operator.call("GET", "/api/v1/tokens")
    delegate = await FakeDelegate(Caller(http, manager.url)).start(token)
    async with http.get(manager.url + "/api/delegate/v1/ping") as response:
        assert response.status == 200
    async with http.get(manager.url + "/api/delegate/v1/authorities") as response:
        assert response.status == 200
    await delegate.refresh()
    await delegate.renew(make_request(make_key(), "d-1"))
    first, second = await operator.submit(), await operator.submit(application="second")
    (task,) = await delegate.acquire(1)
    await delegate.events(ProgressEvent(attempt_id=task.attempt_id, fence=task.fence, sequence=1, event="sync.planned", data={"n": 1}))
    await operator.cancel(first)
    await delegate.beat(task)
    await delegate.commands()
    await delegate.report(make_result(task, "cancelled", resources=[]))
    (again,) = await delegate.acquire(1)
    await operator.show(second)
    await delegate.release(again)
    paused = await operator.submit(canary_document())
    for held in await delegate.acquire(10):
        if held.task_id == paused:
            await delegate.beat(held, pause=PauseReport(number=1, step=1, ago_seconds=1.0))
            await operator.show(paused)
            await operator.call("POST", f"/api/v1/tasks/{paused}/resume?pause=1")
        await delegate.release(held)
    await operator.show(first)
    await operator.show(second)
    await operator.call("GET", "/api/v1/tasks?limit=1&state=queued")
    await operator.call("GET", f"/api/v1/tasks/{first}/events?after=0")
    await operator.call("GET", f"/api/v1/tasks/{first}/history")
    await operator.call("POST", f"/api/v1/tasks/{first}/retry")
    await operator.call("GET", f"/api/v1/tasks/{second}/why")
    await operator.call("PUT", "/api/v1/limits/environment/prod", {"maxParallel": 1})
    await operator.call("GET", "/api/v1/limits")
    await operator.call("DELETE", "/api/v1/limits/environment/prod")
    await operator.call("GET", "/api/v1/delegates?revoked=true")
    await operator.call("GET", f"/api/v1/delegates/{delegate.delegate_id}")
    await delegate.send_piece(again, b"{}", 0, 2)
    await operator.call("GET", f"/api/v1/blobs/{hashlib.sha256(b'{}').hexdigest()}")
    await delegate.letters(make_notice(again))
    await operator.call("GET", "/api/v1/dead-letters")
    await operator.call("GET", f"/api/v1/dead-letters/letter-{again.attempt_id}")
    await operator.call("POST", "/api/v1/dead-letters/purge", {"filter": {"reason": "invalid"}})
    redrive = await operator.call("POST", "/api/v1/redrives", {"rate": 1})
    await operator.call("GET", f"/api/v1/redrives/{redrive['id']}")
    await operator.call("GET", "/api/v1/redrives")
    await operator.call("POST", f"/api/v1/redrives/{redrive['id']}/cancel")
    await delegate.bye()
    (certificate,) = (await operator.call("GET", "/api/v1/certificates"))["items"]
    await operator.call("POST", "/api/v1/revocations", {"serial": certificate["serial"], "reason": "lost"})
    await operator.call("GET", "/api/v1/revocations")
    await operator.call("GET", "/api/v1/authorities")
    await operator.call("POST", "/api/v1/authorities", {"signsAfter": "1h"})
    await operator.call("PUT", "/api/v1/clusters/prod/keys", registration(SigningKey(), labels={"env": "prod"}))
    await operator.call("GET", "/api/v1/clusters/prod/keys")
    await operator.call("GET", "/api/v1/clusters/keys")
    await operator.call("DELETE", "/api/v1/clusters/prod/keys")
    for method, path, body, status in (
        ("GET", "/api/v1/tasks/none", None, 404),
        ("GET", "/api/v1/tasks?limit=many", None, 422),
        ("POST", "/api/v1/tasks", {"kind": "sync"}, 422),
        ("POST", f"/api/v1/tasks/{second}/retry", None, 409),
        ("POST", "/api/v1/tokens", {"name": "edge", "scope": "GITOPS"}, 409),
        ("DELETE", "/api/v1/tokens/none", None, 404),
    ):
        with pytest.raises(RefusedCallError) as refused:
            await operator.call(method, path, body)
        assert refused.value.problem.status == status
    for headers, data, status in (
        ({"Content-Type": "text/html"}, b"<html>", 415),
        ({"Content-Type": "application/json"}, b"{", 400),
        ({"Content-Type": "application/json"}, b" " * (65 * 2**10), 413),
    ):
        with pytest.raises(RefusedCallError) as refused:
            await operator.call("POST", "/api/v1/tokens", headers=headers, data=data)
        assert refused.value.problem.status == status
    await operator.call("POST", f"/api/v1/delegates/{delegate.delegate_id}/revoke")
    await operator.call("DELETE", "/api/v1/tokens/edge")
    with pytest.raises(RefusedCallError):
        await delegate.acquire()
    operator.token = "dga_wrong"
    with pytest.raises(RefusedCallError):
        await operator.submit()

    assert checker.seen == {operation.name for operation in OPERATIONS}
    assert checker.refusals == {400, 401, 403, 404, 409, 413, 415, 422}


async def test_the_document_holds_together(document: Any) -> None:
    """Every reference leads somewhere, and every operation has a name of its own."""

    def references(node: Any) -> list[str]:
        if isinstance(node, dict):
            own = [node["$ref"]] if "$ref" in node else []
            return own + [found for value in node.values() for found in references(value)]
        return [found for value in node for found in references(value)] if isinstance(node, list) else []

    schemas = document["components"]["schemas"]
    assert document["openapi"] == "3.1.0"
    assert {reference.rpartition("/")[2] for reference in references(document)} <= set(schemas)
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)
    names = [described["operationId"] for methods in document["paths"].values() for described in methods.values()]
    assert len(names) == len(set(names)) == len(OPERATIONS) + 1


async def test_a_wrong_answer_is_seen(document: Any) -> None:
    """The check above can fail: on a missing field, a wrong type, an undocumented status."""
    checker = Checker(document)
    good = {"items": [], "continue": ""}
    checker.check("GET", "/api/v1/tasks", 200, "application/json", good)
    for status, kind, body in (
        (200, "application/json", {"items": []}),
        (200, "application/json", {"items": {}, "continue": ""}),
        (204, "application/json", good),
        (200, "text/html", good),
    ):
        with pytest.raises((AssertionError, jsonschema.ValidationError)):
            checker.check("GET", "/api/v1/tasks", status, kind, body)


def test_documents_that_are_accepted_are_described() -> None:
    """The task document's schema accepts what a sync task looks like."""
    from delegate.manager.api.openapi import describe_api

    schemas = describe_api(OPERATIONS)["components"]
    validator = jsonschema.Draft202012Validator({"$ref": "#/components/schemas/Task", "components": schemas})
    validator.validate(sync_document(priority=3, options={"prune": True}))
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(sync_document(unknown=1))
