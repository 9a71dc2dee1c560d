"""The control lane keeps its rhythm whatever the main loop does, and brings verdicts and commands down at once."""

import asyncio
import time

from aiohttp import web
from structlog.testing import capture_logs

from delegate.protocol import routes
from delegate.protocol.control import HeldAttempt, PauseReport
from tests.daemon.connection.harness import linked
from tests.daemon.waiting import eventually
from tests.fakes.scripted_manager import Json, Scripted, ScriptedManager, answer, problem, raw


def beats(manager: ScriptedManager) -> int:
    return len(manager.at(routes.HEARTBEAT))


async def test_heartbeats_name_what_is_held_and_renew_it() -> None:
    """Each heartbeat counts up, names the attempts, and their leases are renewed by its answer."""
    async with linked() as link:
        link.held.append(HeldAttempt(attempt_id="a", fence=3, state="parked"))
        await eventually(lambda: link.told.renewed.count("a") >= 3)

        last = link.manager.at(routes.HEARTBEAT)[-1].body
        assert last["attempts"] == [{"attemptId": "a", "fence": 3, "state": "parked", "pause": None}]
        assert [each.body["sequence"] for each in link.manager.at(routes.HEARTBEAT)][:3] == [1, 2, 3]


async def test_a_blocked_main_loop_stops_no_heartbeat() -> None:
    """Case 13: while the main loop does nothing but burn, the rhythm goes on from the other thread."""
    async with linked(heartbeat_seconds=0.1) as link:
        await eventually(lambda: beats(link.manager) >= 2)
        sent_before = link.lane._sequence
        until = time.monotonic() + 1.0
        while time.monotonic() < until:  # the manager lives in this loop too, so nothing is answered meanwhile
            sum(range(1000))

        assert link.lane._sequence > sent_before
        await eventually(lambda: link.faults.words == "")


async def test_a_verdict_is_told_once() -> None:
    """However often heartbeats repeat it, the attempt is told to stop one time for each verdict."""
    async with linked() as link:
        link.held.append(HeldAttempt(attempt_id="a", fence=1))
        link.manager.verdicts["a"] = "cancel"
        await eventually(lambda: link.told.verdicts)
        seen = beats(link.manager)
        await eventually(lambda: beats(link.manager) >= seen + 3)
        assert link.told.verdicts == [("a", "cancel")]
        assert link.told.renewed == []

        link.manager.verdicts["a"] = "lost"

        await eventually(lambda: link.told.verdicts == [("a", "cancel"), ("a", "lost")])


async def test_an_unknown_verdict_renews() -> None:
    """Case 25: a word of a newer manager means what the contract's default says."""
    async with linked() as link:
        link.held.append(HeldAttempt(attempt_id="a", fence=1))
        link.manager.verdicts["a"] = "think_about_it"

        await eventually(lambda: "a" in link.told.renewed)

        assert link.told.verdicts == []


async def test_a_cancel_arrives_at_once_and_is_acknowledged() -> None:
    """Case 44: with the poll open a command needs no heartbeat; repeated until acknowledged, it is obeyed once."""
    async with linked(heartbeat_seconds=30.0, poll_seconds=30.0) as link:
        await eventually(lambda: link.manager.at(routes.COMMANDS))
        sent_at = time.monotonic()

        link.manager.command(id="c-1", kind="cancel", data={"attemptId": "a", "verdict": "superseded"})
        link.manager.command(id="c-2", kind="cancel", data={"attemptId": "b"})

        await eventually(lambda: len(link.told.verdicts) == 2)
        assert time.monotonic() - sent_at < 2.0
        assert link.told.verdicts == [("a", "superseded"), ("b", "cancel")]
        await eventually(lambda: not link.manager.commands)


async def test_a_command_of_a_newer_manager_is_counted_acknowledged_and_ignored() -> None:
    """Case 25."""
    async with linked() as link:
        link.manager.command(id="c-1", kind="dance", data={"partner": None})
        link.manager.command(id="c-2", kind="drain")

        await eventually(lambda: link.told.drains)

        assert link.told.unknown_commands == ["dance"]
        await eventually(lambda: not link.manager.commands)


async def test_a_stuck_main_loop_is_not_vouched_for() -> None:
    """Case 13: beyond the limit heartbeats name no attempt and say that it is stalled; afterwards they vouch again."""
    async with linked(stall_limit=5.0) as link:
        link.held.append(HeldAttempt(attempt_id="a", fence=1))
        await eventually(lambda: "a" in link.told.renewed)

        link.lag[0] = 6.0
        await eventually(lambda: link.manager.at(routes.HEARTBEAT)[-1].body["stalled"])
        assert link.manager.at(routes.HEARTBEAT)[-1].body["attempts"] == []

        link.lag[0] = 0.0
        await eventually(lambda: link.manager.at(routes.HEARTBEAT)[-1].body["attempts"])


async def test_heartbeats_come_soon_again_after_a_fault() -> None:
    """A heartbeat that failed is not waited out: the next try comes within the interval."""
    async with linked(heartbeat_seconds=0.5) as link:
        await eventually(lambda: beats(link.manager) >= 1)
        link.manager.on(routes.HEARTBEAT, *[raw(502, b"<h1>Bad gateway</h1>", Content_Type="text/html")] * 3)

        await eventually(lambda: beats(link.manager) >= 6)

        assert link.told.ended == []


async def test_patience_of_heartbeats_is_bounded_by_the_lease() -> None:
    """Case 09: a Retry-After of ten minutes may not cost the leases."""
    async with linked(lease_seconds=1.5) as link:
        await eventually(lambda: beats(link.manager) >= 1)
        link.manager.on(routes.HEARTBEAT, problem(429, "overloaded", Retry_After="600"))
        asked = beats(link.manager)

        await eventually(lambda: beats(link.manager) >= asked + 2)


async def test_quiet_polls_that_are_cut_become_shorter() -> None:
    """Case 01: after two cuts at about the same age the poll asks for less, says so once, and counts no fault."""
    async with linked(poll_seconds=30.0) as link:
        cut = cut_after(1.1)
        link.manager.on(routes.COMMANDS, cut, cut)

        with capture_logs() as logs:
            await eventually(lambda: len(link.manager.at(routes.COMMANDS)) >= 3)
            await eventually(lambda: [entry for entry in logs if entry["event"] == "connection.poll_shortened"])

        waits = [each.body["waitSeconds"] for each in link.manager.at(routes.COMMANDS)]
        assert waits[:2] == [30.0, 30.0]
        assert waits[2] < 1.1
        assert {reason for _, reason in link.told.faults} == {"idle_cut"}
        gaps = [
            later.at - earlier.at
            for earlier, later in zip(link.manager.at(routes.COMMANDS), link.manager.at(routes.COMMANDS)[1:], strict=False)
        ]
        assert max(gaps[:2]) < 1.6  # asked again at once


def cut_after(seconds: float) -> Scripted:
    async def cut(request: web.Request, body: Json) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    return cut


async def test_answers_with_null_and_novelties_are_heard() -> None:
    """Case 25: null for an optional array spoils no heartbeat."""
    async with linked() as link:
        link.held.append(HeldAttempt(attempt_id="a", fence=1))
        await eventually(lambda: beats(link.manager) >= 1)
        heard = beats(link.manager)
        link.manager.on(routes.HEARTBEAT, answer(attempts=None, commands=None, heartbeatSeconds=0.1, mood="good"))

        await eventually(lambda: beats(link.manager) >= heard + 3)

        assert link.told.faults == []


async def test_a_heartbeat_that_is_answered_brings_the_poll_for_commands_back() -> None:
    """After an outage a cancel is heard at once again, and not when the longest of waits is over."""
    async with linked(heartbeat_seconds=0.05) as link:
        link.manager.on(routes.COMMANDS, *[problem(500, "internal")] * 9)
        await eventually(lambda: len(link.manager.at(routes.COMMANDS)) > 9, within=20.0)

        link.manager.command(id="c-1", kind="cancel", data={"attemptId": "a"})

        await eventually(lambda: link.told.verdicts == [("a", "cancel")])


async def test_news_of_an_attempt_is_told_before_the_next_heartbeat_is_due() -> None:
    """A pause that begins, for whoever waits for it; and the rhythm goes on from there."""
    async with linked(heartbeat_seconds=60.0) as link:
        await eventually(lambda: beats(link.manager) >= 1)
        link.held.append(HeldAttempt(attempt_id="a", fence=3, pause=PauseReport(number=2, step=1, ago_seconds=1.5)))

        link.lane.beat_soon()

        await eventually(lambda: beats(link.manager) >= 2)
        (told,) = link.manager.at(routes.HEARTBEAT)[-1].body["attempts"]
        assert told["pause"] == {"number": 2, "step": 1, "agoSeconds": 1.5, "leftSeconds": None, "held": False, "reason": ""}


async def test_a_resumption_names_the_pause_that_it_means() -> None:
    """None, of an older manager: whichever it stands at."""
    async with linked() as link:
        link.manager.command(id="c-1", kind="resume", data={"attemptId": "a", "pause": 2})
        link.manager.command(id="c-2", kind="resume", data={"attemptId": "a"})

        await eventually(lambda: link.told.resumed == [("a", 2), ("a", 0)])
