"""Tokens: what they allow, how they end, and that nobody can read them."""

import asyncio
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest

from delegate.manager.service import Manager
from tests.manager.clocks import FakeClock
from tests.manager.delegates import Caller, FakeDelegate, RefusedCallError
from tests.manager.operators import Operator
from tests.manager.waiting import eventually

Start = Callable[..., Awaitable[FakeDelegate]]


async def test_a_token_is_shown_once(operator: Operator) -> None:
    """The list has everything but the secret."""
    created = await operator.call(
        "POST",
        "/api/v1/tokens",
        {"name": "edge", "scope": "gitops", "labels": {"env": "dev"}, "description": "for the shops", "expiresIn": "1h"},
    )
    listed = {token["name"]: token for token in (await operator.call("GET", "/api/v1/tokens"))["items"]}

    assert created["secret"].startswith("dgt_")
    assert listed["edge"] == created["token"]
    assert (listed["edge"]["scopes"], listed["edge"]["state"], listed["edge"]["createdBy"]) == (["GITOPS"], "active", "first-admin")
    assert created["secret"] not in str(listed)


async def test_the_default_life_is_ninety_days(operator: Operator, clock: FakeClock) -> None:
    """2160h."""
    created = await operator.call("POST", "/api/v1/tokens", {"name": "edge", "scope": "GITOPS"})

    assert created["token"]["createdAt"] == "2027-01-15T08:00:00.000Z"
    assert created["token"]["expiresAt"] == "2027-04-15T08:00:00.000Z"


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_secrets_are_not_in_the_database(tmp_path: Path, manager: Manager, operator: Operator, delegate: FakeDelegate) -> None:
    """Neither tokens nor those of sessions: only their hashes."""
    secret = await operator.create_token("another")
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("manager.db*"))  # noqa: ASYNC240 - a small file of the test

    for each in (secret, manager.admin_token, delegate.token, delegate.refresh_token):
        assert each.encode() not in stored
        assert each.partition("_")[2].encode() not in stored


async def test_the_first_admin_token_is_for_its_owner_alone(manager: Manager, tmp_path: Path) -> None:
    """It is in the state directory with mode 0600."""
    path = tmp_path / "state" / "admin-token"

    assert path.read_text().strip() == manager.admin_token
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"name": "edge", "scope": "everything"}, "scope: 'everything' is no scope"),
        ({"name": "edge", "scope": ""}, "scope: a token needs a scope"),
        ({"name": "edge", "scope": "admin,sync"}, "scope: admin stands alone"),
        ({"name": "", "scope": "GITOPS"}, "name: '' is no name"),
        ({"name": "edge", "scope": "GITOPS", "expiresIn": "soon"}, "expiresIn: 'soon' is no duration"),
        ({"name": "edge", "scope": "GITOPS", "expiresIn": "0s"}, "expiresIn: a token lives longer than nothing"),
        ({"name": "edge", "scope": "GITOPS", "labels": {"a b": "c"}}, "labels: 'a b=c' is no label"),
        ({"name": "edge", "scope": "GITOPS", "maxUses": 0}, "maxUses"),
    ],
)
async def test_a_token_that_cannot_be_meant_is_refused(operator: Operator, body: dict[str, object], words: str) -> None:
    """The message names the field."""
    with pytest.raises(RefusedCallError) as refused:
        await operator.call("POST", "/api/v1/tokens", body)

    assert refused.value.problem.status == 422
    assert words in refused.value.problem.detail


async def test_two_living_tokens_have_different_names(operator: Operator) -> None:
    """A revoked one gives its name free."""
    await operator.create_token("edge")
    with pytest.raises(RefusedCallError, match="409 conflict: there is a token named 'edge' already"):
        await operator.create_token("edge")
    await operator.call("DELETE", "/api/v1/tokens/edge")

    await operator.create_token("edge")


async def test_an_expired_token_enrols_nobody(operator: Operator, manager: Manager, http: aiohttp.ClientSession, clock: FakeClock) -> None:
    """Whom it enrolled before goes on working."""
    token = await operator.create_token("short", expiresIn="1h")
    early = await FakeDelegate(Caller(http, manager.url), "early").start(token)
    clock.advance(3601)
    with pytest.raises(RefusedCallError, match="401 token_expired: the token 'short' has expired"):
        await FakeDelegate(Caller(http, manager.url), "late").enrol(token)

    await early.refresh()
    assert await early.acquire() == []


async def test_the_number_of_uses_counts_delegates(operator: Operator, manager: Manager, http: aiohttp.ClientSession) -> None:
    """A delegate that enrols again uses nothing up."""
    token = await operator.create_token("once", maxUses=1)
    first = FakeDelegate(Caller(http, manager.url), "first")
    await first.enrol(token)
    await first.enrol(token)

    with pytest.raises(RefusedCallError, match="401 unauthorized: the token 'once' was used 1 times"):
        await FakeDelegate(Caller(http, manager.url), "second").enrol(token)


async def test_a_scope_limits_the_kinds(operator: Operator, manager: Manager, http: aiohttp.ClientSession) -> None:
    """A delegate gets only the kinds that its token allows, whatever it can do."""
    token = await operator.create_token("diffs", scope="diff,verify")
    delegate = await FakeDelegate(Caller(http, manager.url)).start(token)
    sync = await operator.submit(application="one")
    diff = await operator.submit(application="two", kind="diff")

    assert [task.task_id for task in await delegate.acquire(4)] == [diff]
    assert await operator.why(sync) == "the token of d-1 lacks the scope sync"


async def test_a_missing_scope_is_named(operator: Operator, manager: Manager, http: aiohttp.ClientSession) -> None:
    """403 says which scope the token has, and which one it would need."""
    token = await operator.create_token("diffs", scope="diff")
    with pytest.raises(RefusedCallError) as refused:
        await FakeDelegate(Caller(http, manager.url), kinds=("sync", "canary")).enrol(token)

    problem = refused.value.problem
    assert (problem.status, problem.code) == (403, "scope_missing")
    assert problem.detail == "the token 'diffs' has the scope diff; missing: GITOPS, or one of sync, canary"


async def test_an_operators_token_enrols_nobody(manager: Manager, http: aiohttp.ClientSession) -> None:
    """The admin token is for operators."""
    with pytest.raises(RefusedCallError, match="403 scope_missing: the token 'first-admin' has the scope admin"):
        await FakeDelegate(Caller(http, manager.url)).enrol(manager.admin_token)


async def test_a_delegates_token_is_no_operators(operator: Operator, delegate: FakeDelegate, token: str) -> None:
    """Neither the one that it enrolled with nor the one of its session."""
    operator.token = token
    with pytest.raises(RefusedCallError, match="403 scope_missing: the token 'edge' has the scope GITOPS; missing: admin"):
        await operator.submit()
    operator.token = delegate.token
    with pytest.raises(RefusedCallError, match="403 scope_missing: a delegate's token is for its own calls; missing: admin"):
        await operator.submit()


@pytest.mark.parametrize("token", ["", "dga_wrong", "x" * 600])
async def test_a_wrong_token_is_refused(operator: Operator, token: str) -> None:
    """401, with what to do."""
    operator.token = token
    with pytest.raises(RefusedCallError) as refused:
        await operator.submit()

    assert (refused.value.problem.status, refused.value.problem.code) == (401, "unauthorized")
    assert refused.value.problem.hint
    assert refused.value.headers["WWW-Authenticate"].startswith("Bearer")


async def test_revoking_a_token_cuts_its_delegates_off(manager: Manager, operator: Operator, delegate: FakeDelegate) -> None:
    """Open polls end at once, and the next call is refused for good."""
    async with asyncio.TaskGroup() as group:
        poll = group.create_task(_code(delegate.acquire(1, wait_seconds=5.0)))
        commands = group.create_task(_code(delegate.commands(wait_seconds=5.0)))
        await eventually(lambda: manager.open_polls == 1 and manager.open_command_polls == 1)
        revoked = await operator.call("DELETE", "/api/v1/tokens/edge")

    assert revoked["state"] == "revoked"
    assert (poll.result(), commands.result()) == ("delegate_revoked", "delegate_revoked")
    assert await _code(delegate.beat()) == "delegate_revoked"
    assert await _code(delegate.refresh()) == "delegate_revoked"


async def _code(call: Awaitable[object]) -> str:
    try:
        await call
    except RefusedCallError as error:
        return error.problem.code
    return "accepted"


async def test_a_revoked_delegate_gets_no_result_in(
    operator: Operator, delegate: FakeDelegate, other: Start, clock: FakeClock, swept: Callable[[], Awaitable[None]]
) -> None:
    """What it held goes to another after the lease."""
    task_id = await operator.submit()
    (task,) = await delegate.acquire()
    second = await operator.create_token("second")
    await operator.call("POST", f"/api/v1/delegates/{delegate.delegate_id}/revoke")

    assert await delegate.finish(task) == "lease_lost"
    clock.advance(46)
    await swept()
    clock.advance(2)
    stand_in = await FakeDelegate(delegate.caller, "d-2").start(second)
    assert [each.task_id for each in await stand_in.acquire()] == [task_id]


async def test_a_revoked_delegate_enrols_with_a_newer_token_alone(
    operator: Operator, delegate: FakeDelegate, token: str, clock: FakeClock
) -> None:
    """The token that it had before does not bring it back."""
    await operator.call("POST", f"/api/v1/delegates/{delegate.delegate_id}/revoke")
    assert await _code(delegate.enrol(token)) == "delegate_revoked"
    clock.advance(1)
    newer = await operator.create_token("newer")

    await delegate.enrol(newer)
    await delegate.open()
    assert await delegate.acquire() == []


async def test_a_session_token_expires_and_is_refreshed(delegate: FakeDelegate, clock: FakeClock) -> None:
    """401 token_expired, then the refresh token gives a new one."""
    clock.advance(901)
    assert await _code(delegate.acquire()) == "token_expired"

    await delegate.refresh()
    assert await delegate.acquire() == []


async def test_two_session_tokens_live_at_most(delegate: FakeDelegate) -> None:
    """A call under way with the one before is not cut; the third ends the first."""
    first = delegate.token
    await delegate.refresh()
    second, delegate.token = delegate.token, first
    assert await _code(delegate.beat()) == "accepted"
    await delegate.refresh()
    delegate.token = second
    assert await _code(delegate.beat()) == "accepted"
    delegate.token = first

    assert await _code(delegate.beat()) == "unauthorized"


async def test_labels_of_a_token_are_stamped(operator: Operator, manager: Manager, http: aiohttp.ClientSession) -> None:
    """A delegate carries the labels of its token, and may not claim others in their place."""
    token = await operator.create_token("dev", labels={"env": "dev"})
    with pytest.raises(
        RefusedCallError, match="403 scope_missing: the token is for delegates with env=dev, this one calls itself env=prod"
    ):
        await FakeDelegate(Caller(http, manager.url), labels={"env": "prod"}).enrol(token)
    await FakeDelegate(Caller(http, manager.url), labels={"zone": "b"}).start(token)

    (shown,) = (await operator.call("GET", "/api/v1/delegates"))["items"]
    assert shown["labels"] == {"env": "dev", "zone": "b"}
