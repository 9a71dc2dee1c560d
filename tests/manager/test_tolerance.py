"""Delegates of other versions: what they add is ignored, what they leave out has its default, one odd item spoils no other."""

from typing import Any

import aiohttp
import msgspec
import pytest

from delegate.manager.service import Manager
from delegate.protocol import routes
from delegate.protocol.enrolment import AttemptReport
from tests.manager.delegates import Caller, FakeDelegate, RefusedCallError, make_result
from tests.manager.operators import Operator, verify_document


@pytest.fixture
def database_url(tmp_path: Any) -> str:
    """What is tolerated is decided before the store."""
    return f"sqlite:///{tmp_path / 'manager.db'}"


async def post(delegate: FakeDelegate, route: str, document: dict[str, Any], token: str = "") -> Any:
    """A message as another version might write it."""
    headers = {"Authorization": f"Bearer {token or delegate.token}", "Content-Type": "application/json"}
    body = msgspec.json.encode(document)
    async with delegate.caller.session.post(delegate.caller.url + route, data=body, headers=headers) as response:
        answer = await response.json(content_type=None)
        assert response.status == 200, answer
        assert answer["requestId"] == document["requestId"]
        return answer


async def test_a_newer_delegate(manager: Manager, operator: Operator, http: aiohttp.ClientSession, token: str) -> None:
    """New fields at every level, new kinds, new states, null for what is empty."""
    delegate = FakeDelegate(Caller(http, manager.url))
    enrolled = await post(
        delegate,
        routes.ENROL,
        {
            "requestId": "r1",
            "name": "new",
            "instance": "i-1",
            "labels": None,
            "kinds": ["sync", "teleport"],
            "protocol": {"min": 1, "max": 7, "preview": 8},
            "features": ["events", "telepathy"],
            "build": {"version": "9.9", "commit": "abc"},
            "added": {"later": [1]},
        },
        token,
    )
    delegate.delegate_id, delegate.token = enrolled["delegateId"], enrolled["sessionToken"]
    assert (enrolled["protocol"], enrolled["features"]) == (1, ["events"])
    session = await post(
        delegate,
        routes.SESSION,
        {
            "requestId": "r2",
            "delegateId": delegate.delegate_id,
            "incarnation": "p-1",
            "kinds": ["sync", "teleport"],
            "capacity": 4,
            "clusters": [{"name": "in-cluster", "uid": "uid-1", "region": "eu"}],
            "attempts": None,
            "mood": "good",
        },
    )
    await operator.submit(application="one")
    await operator.submit(application="two")
    acquired = await post(
        delegate, routes.ACQUIRE, {"requestId": "r3", "epoch": session["epoch"], "freeSlots": 4, "waitSeconds": 0, "classes": {"io": 4}}
    )
    one, two = acquired["tasks"]
    heartbeat = await post(
        delegate,
        routes.HEARTBEAT,
        {
            "requestId": "r4",
            "epoch": session["epoch"],
            "sequence": 2**62,
            "attempts": [
                {"attemptId": one["attemptId"], "fence": 1, "state": "meditating", "progress": 0.5},
                {"attemptId": "unknown-9", "fence": 9, "state": "running"},
                {"attemptId": two["attemptId"], "fence": 1},
            ],
            "certificateExpiresInSeconds": None,
            "acknowledged": ["never-heard-of"],
        },
    )
    assert [decision["verdict"] for decision in heartbeat["attempts"]] == ["ok", "lost", "ok"]
    released = await post(
        delegate,
        routes.RELEASE,
        {
            "requestId": "r5",
            "epoch": session["epoch"],
            "attempts": [
                {"attemptId": one["attemptId"], "fence": 1, "reason": "a reason of a newer version"},
                {"attemptId": "unknown-9", "fence": 1, "reason": "draining"},
            ],
        },
    )
    assert [decision["verdict"] for decision in released["attempts"]] == ["accepted", "lease_lost"]


async def test_a_delegate_that_leaves_everything_out(manager: Manager, operator: Operator, http: aiohttp.ClientSession, token: str) -> None:
    """An older one says only what it has to."""
    delegate = FakeDelegate(Caller(http, manager.url))
    enrolled = await post(delegate, routes.ENROL, {"requestId": "r1", "name": "old", "instance": "i-1"}, token)
    delegate.delegate_id, delegate.token = enrolled["delegateId"], enrolled["sessionToken"]
    session = await post(delegate, routes.SESSION, {"requestId": "r2", "delegateId": delegate.delegate_id, "incarnation": "p-1"})
    await operator.submit(verify_document())
    acquired = await post(delegate, routes.ACQUIRE, {"requestId": "r3", "epoch": session["epoch"], "freeSlots": 1, "waitSeconds": 0})
    heartbeat = await post(delegate, routes.HEARTBEAT, {"requestId": "r4", "epoch": session["epoch"], "sequence": 1})

    assert len(acquired["tasks"]) == 1
    assert heartbeat["attempts"] == []


async def test_lists_are_bounded(delegate: FakeDelegate) -> None:
    """A message that names more than anybody could mean is refused before the store sees it."""
    many = [f"a-{number}" for number in range(10_001)]
    for call in (
        delegate.acquire(1, running=many),
        delegate.beat(acknowledged=many),
        delegate.commands(acknowledged=many),
        delegate.open([AttemptReport(attempt_id=each) for each in many]),
    ):
        with pytest.raises(RefusedCallError, match=r"422 invalid: \w+: 10001 are more than the 10000 that one call may carry"):
            await call


async def test_a_result_with_more_than_is_known_is_kept_whole(operator: Operator, delegate: FakeDelegate) -> None:
    """The document is the delegate's; what this version doesn't know is not lost."""
    task_id = await operator.submit()
    (task,) = await delegate.acquire()
    await delegate.report(make_result(task, "succeeded", addedLater={"large": 2**60, "nested": [None, {"a": 1.5}]}))

    assert (await operator.show(task_id))["result"]["addedLater"] == {"large": 2**60, "nested": [None, {"a": 1.5}]}
