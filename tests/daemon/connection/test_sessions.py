"""Tokens are renewed in time and once, sessions are opened again when they must be, and what ends a process ends it."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from delegate.daemon.connection.enrolling import EnrolmentRefusedError
from delegate.daemon.connection.errors import OverloadedError, UnauthorizedError
from delegate.daemon.connection.sessions import new_request_id
from delegate.protocol import routes
from delegate.protocol.enrolment import AttemptReport
from delegate.protocol.work import AcquireAnswer, AcquireRequest
from tests.daemon.connection.harness import Link, linked, linked_to
from tests.daemon.waiting import eventually
from tests.fakes.scripted_manager import LOGIN_PAGE, Json, Scripted, problem, raw, scripted_manager


@asynccontextmanager
async def linked_with(route: str, scripted: Scripted, *, enrolled: bool = False) -> AsyncIterator[Link]:
    """A link to a manager that answers one route like this from the first call on."""
    async with scripted_manager() as manager:
        manager.always[route] = scripted
        async with linked_to(manager, enrolled=enrolled) as link:
            yield link


async def answer_late(request: web.Request, body: Json) -> web.StreamResponse:
    await asyncio.sleep(1.0)
    return web.json_response({"requestId": body["requestId"]})


async def acquire(link: Link) -> AcquireAnswer:
    request_id = new_request_id()
    return await link.caller.call(
        routes.ACQUIRE,
        lambda session: AcquireRequest(request_id=request_id, epoch=session.epoch, free_slots=1, wait_seconds=0.0),
        AcquireAnswer,
    )


async def test_a_new_delegate_enrols_and_opens_a_session() -> None:
    """The bootstrap token is used for enrolment alone; the session says who the process is and what it holds."""
    async with linked() as link:
        link.reports.append(AttemptReport(attempt_id="a", state="lost"))

        session = await link.keeper.session()

        assert session.epoch == 1
        assert link.told.enrolled == [("d-1", "refresh-1")]
        [enrolment], [opening] = link.manager.at(routes.ENROL), link.manager.at(routes.SESSION)
        assert (enrolment.token, enrolment.body["name"], enrolment.body["instance"]) == ("bootstrap", "shop", "i-1")
        assert (opening.token, opening.body["incarnation"], opening.body["bootCount"]) == ("session-1", "p-1", 1)
        assert [each["state"] for each in opening.body["attempts"]] == ["lost"]
        assert opening.body["clusters"] == [{"name": "in-cluster", "uid": "u"}]


async def test_a_known_delegate_needs_no_bootstrap_token() -> None:
    """The stored refresh token gives the session token."""
    async with linked(enrolled=True) as link:
        await link.keeper.session()

        assert link.manager.at(routes.ENROL) == []
        assert [each.token for each in link.manager.at(routes.REFRESH_TOKEN)] == ["refresh-0"]


async def test_the_token_is_renewed_with_a_third_of_its_life_left() -> None:
    """Case 08: the renewal starts after two thirds of the token's life, and the next calls carry the new one."""
    async with linked(session_token_seconds=1.5) as link:
        await link.keeper.session()
        enrolled_at = link.manager.at(routes.ENROL)[0].at
        await eventually(lambda: link.manager.at(routes.REFRESH_TOKEN))

        assert 0.9 <= link.manager.at(routes.REFRESH_TOKEN)[0].at - enrolled_at <= 1.5
        await eventually(lambda: link.manager.at(routes.HEARTBEAT)[-1].token == "session-2")
        assert link.manager.epoch == 1


async def test_a_refused_token_costs_one_renewal_and_one_replay() -> None:
    """Case 08: ten calls that meet a 401 at once share one renewal, and each is made once more."""
    async with linked(heartbeat_seconds=60.0) as link:
        await link.keeper.session()
        await eventually(lambda: link.manager.at(routes.HEARTBEAT))
        link.manager.on(routes.ACQUIRE, *[problem(401, "token_expired")] * 10)

        answers = await asyncio.gather(*(acquire(link) for _ in range(10)))

        assert len(answers) == 10
        assert len(link.manager.at(routes.REFRESH_TOKEN)) == 1
        asked = link.manager.at(routes.ACQUIRE)
        assert len(asked) == 20
        assert {each.token for each in asked[10:]} == {"session-2"}
        assert len({each.body["requestId"] for each in asked}) == 10


async def test_a_token_that_is_refused_again_is_no_loop() -> None:
    """Case 08: after one renewal and one replay the refusal is the caller's to handle."""
    async with linked(heartbeat_seconds=60.0) as link:
        await link.keeper.session()
        link.manager.always[routes.ACQUIRE] = problem(401, "unauthorized")

        with pytest.raises(UnauthorizedError):
            await acquire(link)

        assert len(link.manager.at(routes.ACQUIRE)) == 2
        assert len(link.manager.at(routes.REFRESH_TOKEN)) == 1


async def test_a_renewal_that_fails_is_tried_again_while_the_rest_goes_on() -> None:
    """Case 08: while renewals are answered 503, calls with the old token work; the renewal comes when it can."""
    async with linked(session_token_seconds=0.9) as link:
        await link.keeper.session()
        link.manager.on(routes.REFRESH_TOKEN, *[problem(503, "overloaded", Retry_After="0.1")] * 3)

        await eventually(lambda: len(link.manager.at(routes.REFRESH_TOKEN)) >= 4)

        await acquire(link)
        assert link.told.ended == []


async def test_a_refresh_token_that_is_refused_leads_back_to_enrolment() -> None:
    """The identity stays, the tokens are new."""
    async with linked(enrolled=True) as link:
        link.manager.on(routes.REFRESH_TOKEN, problem(401, "unauthorized"))
        session = await link.keeper.session()

        assert session.delegate_id == "d-1"
        assert [each.token for each in link.manager.at(routes.ENROL)] == ["bootstrap"]


async def test_an_unknown_session_is_opened_again_and_the_call_replayed() -> None:
    """The manager forgot the session: one opening, one replay, and the same request id."""
    async with linked(heartbeat_seconds=60.0) as link:
        await link.keeper.session()
        link.manager.on(routes.ACQUIRE, problem(409, "session_unknown"), problem(409, "session_unknown"))

        await asyncio.gather(acquire(link), acquire(link))

        assert link.manager.epoch == 2
        assert [each.body["epoch"] for each in link.manager.at(routes.ACQUIRE)] == [1, 1, 2, 2]


@pytest.mark.parametrize(("status", "code"), [(403, "delegate_revoked"), (409, "session_superseded")])
async def test_an_ending_is_told_once_and_nothing_is_asked_any_more(status: int, code: str) -> None:
    """Cases 08 and 39: revoked or superseded, whichever lane hears it first, the process does not hammer."""
    async with linked() as link:
        await link.keeper.session()
        link.manager.always[routes.HEARTBEAT] = problem(status, code)
        await eventually(lambda: link.told.ended)
        calls = len(link.manager.seen)

        waiting = asyncio.create_task(acquire(link))
        await asyncio.sleep(0.3)

        assert not waiting.done()
        assert len(link.told.ended) == 1
        assert len(link.manager.seen) - calls <= 1
        waiting.cancel()


async def test_a_bootstrap_token_that_is_refused_ends_a_delegate_that_was_never_enrolled() -> None:
    """The error names the setting and how to get a token."""
    async with linked_with(routes.ENROL, problem(401, "unauthorized")) as link:
        await eventually(lambda: link.told.ended)

        [error] = link.told.ended
        assert isinstance(error, EnrolmentRefusedError)
        assert "DELEGATE_TOKEN" in str(error)
        assert "delegate token create" in error.hint


async def test_a_known_delegate_waits_for_a_token_instead_of_ending() -> None:
    """Whoever was enrolled may be healing a cluster: it tries on, and is back when it may."""
    async with linked_with(routes.REFRESH_TOKEN, problem(401, "unauthorized"), enrolled=True) as link:
        link.manager.always[routes.ENROL] = problem(401, "unauthorized")
        await eventually(lambda: link.manager.at(routes.ENROL))
        await asyncio.sleep(0.1)

        assert link.told.ended == []
        assert "DELEGATE_TOKEN" in link.faults.words


async def test_an_outage_is_logged_once_with_all_that_helps() -> None:
    """Case 36: status, content type, preview and hop are in one line, and one more says that it is over."""
    with capture_logs() as logs:
        async with linked_with(routes.ENROL, raw(200, LOGIN_PAGE, Content_Type="text/html", Via="1.1 portal")) as link:
            await eventually(lambda: len(link.manager.at(routes.ENROL)) >= 3)
            del link.manager.always[routes.ENROL]
            await link.keeper.session()
            await eventually(lambda: any(entry["event"] == "connection.restored" for entry in logs))

    failures = [entry for entry in logs if entry["event"] == "connection.failed"]
    assert len(failures) == 1
    assert (failures[0]["status"], failures[0]["content_type"], failures[0]["via"]) == (200, "text/html", "1.1 portal")
    assert "Sign in" in failures[0]["preview"]
    assert link.faults.words == ""


async def test_an_outdated_delegate_says_so_and_lives_on() -> None:
    """Without a protocol version in common it takes no task, and does not end by itself."""
    async with linked_with(routes.ENROL, problem(426, "outdated")) as link:
        await eventually(lambda: link.told.outdated)

        assert link.told.ended == []


async def test_what_a_process_says_of_itself_can_change() -> None:
    """A cluster that was found later is announced by opening the session again."""
    async with linked(heartbeat_seconds=60.0) as link:
        await link.keeper.session()

        await link.keeper.introduce_again()

        assert link.manager.epoch == 2
        assert (await link.keeper.session()).epoch == 2


async def test_a_clean_leave_is_said_and_a_deaf_manager_does_not_hold_it_up() -> None:
    """Bye is bounded in time."""
    async with linked() as link:
        await link.keeper.session()
        await link.keeper.say_bye("drained", 2.0)
        assert [each.body["reason"] for each in link.manager.at(routes.BYE)] == ["drained"]

        link.manager.always[routes.BYE] = answer_late
        began = time.monotonic()
        await link.keeper.say_bye("drained", 0.2)

        assert time.monotonic() - began < 2.0


async def test_a_leave_comes_after_the_session_that_is_being_opened() -> None:
    """Said before, it would be of a session that the opening has ended already, and the manager would hear of the opening last."""
    async with linked(heartbeat_seconds=60.0) as link:
        await link.keeper.session()
        answered = asyncio.Event()

        async def second(request: web.Request, body: Json) -> web.StreamResponse:
            await answered.wait()
            return web.json_response({"requestId": body["requestId"], **link.manager.session(body)})

        link.manager.on(routes.SESSION, second)
        opening = asyncio.ensure_future(link.keeper.introduce_again())
        await eventually(lambda: len(link.manager.at(routes.SESSION)) == 2)
        leaving = asyncio.ensure_future(link.keeper.say_bye("drained", 5.0))
        await asyncio.sleep(0)
        answered.set()
        await asyncio.gather(opening, leaving)

        assert [each.body["epoch"] for each in link.manager.at(routes.BYE)] == [2]


async def test_nothing_is_opened_after_a_leave() -> None:
    """Neither for a call that is told that its session is unknown, nor for something new to say."""
    async with linked(heartbeat_seconds=60.0) as link:
        stale = await link.keeper.session()
        await link.keeper.say_bye("drained", 5.0)

        late = [asyncio.ensure_future(link.keeper.reopened(stale)), asyncio.ensure_future(link.keeper.introduce_again())]
        await late[1]
        late[0].cancel()

        assert len(link.manager.at(routes.SESSION)) == 1


async def test_patience_is_asked_of_one_route_alone() -> None:
    """Case 09: a 429 on one route slows neither heartbeats nor other calls."""
    async with linked() as link:
        await link.keeper.session()
        link.manager.on(routes.ACQUIRE, problem(429, "overloaded", Retry_After="30"))
        with pytest.raises(OverloadedError):
            await acquire(link)
        beats = len(link.manager.at(routes.HEARTBEAT))

        await eventually(lambda: len(link.manager.at(routes.HEARTBEAT)) >= beats + 3)

        assert link.transport.patience.remaining(routes.ACQUIRE) > 25
        assert link.transport.patience.remaining(routes.RESULTS) == 0
