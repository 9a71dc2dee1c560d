"""The poller asks for what it has slots for, loses no batch, and hands back what it can't start."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from structlog.testing import capture_logs

from delegate.daemon.connection.work_lane import Poller
from delegate.protocol import routes
from delegate.protocol.codec import UndecodableTask
from delegate.protocol.work import LeasedTask
from tests.daemon.connection.harness import Link, linked
from tests.daemon.connection.test_control_lane import cut_after
from tests.daemon.waiting import eventually
from tests.fakes.scripted_manager import STRANGE_ANSWERS, Json, answer, problem, task


@dataclass
class Slots:
    """A reservation that the test watches."""

    count: int
    exhausted: asyncio.Event = field(default_factory=asyncio.Event)
    given_back: int = 0

    def give_back(self) -> None:
        self.given_back += 1


@dataclass
class Polling:
    link: Link
    poller: Poller[Slots]
    reservations: list[Slots] = field(default_factory=list)
    submitted: list[LeasedTask] = field(default_factory=list)
    refused: list[UndecodableTask] = field(default_factory=list)
    blocked: str = ""
    running: asyncio.Task[None] | None = None

    @property
    def asked(self) -> list[Json]:
        return [each.body for each in self.link.manager.at(routes.ACQUIRE)]

    async def stop(self) -> None:
        self.poller.stop()
        assert self.running is not None
        await self.running


@asynccontextmanager
async def polling(*, slots: int = 4, poll_seconds: float = 5.0) -> AsyncIterator[Polling]:
    async with linked(heartbeat_seconds=30.0, poll_seconds=poll_seconds) as link:
        refused: list[UndecodableTask] = []

        async def refuse(task: UndecodableTask) -> None:
            refused.append(task)

        async def reserve() -> Slots:
            reservation = Slots(slots)
            state.reservations.append(reservation)
            return reservation

        poller: Poller[Slots] = Poller(
            link.caller,
            link.keeper,
            link.faults,
            reserve=reserve,
            submit=lambda reservation, leased: state.submitted.append(leased),
            refuse=refuse,
            running=lambda: [each.attempt_id for each in state.submitted],
            blocked=lambda: state.blocked,
        )
        state = Polling(link, poller, refused=refused)
        state.running = asyncio.create_task(poller.run())
        try:
            yield state
        finally:
            await state.stop()
            assert all(reservation.given_back == 1 for reservation in state.reservations)


async def test_asks_for_the_slots_that_it_reserved() -> None:
    """A poll names its free slots and what runs; what comes is submitted, and the next poll begins."""
    async with polling() as state:
        state.link.manager.hand_out(task("a"), task("b"))
        await eventually(lambda: len(state.submitted) == 2)
        await eventually(lambda: len(state.asked) == 2)

        assert [body["freeSlots"] for body in state.asked] == [4, 4]
        assert state.asked[1]["running"] == ["a", "b"]
        assert state.asked[0]["requestId"] != state.asked[1]["requestId"]


async def test_a_lost_answer_is_asked_for_again_by_its_id() -> None:
    """Case 36: whatever came instead of the answer, the same request is made until it is answered."""
    async with polling() as state:
        state.link.manager.hand_out(task("a"))
        state.link.manager.on(routes.ACQUIRE, *list(STRANGE_ANSWERS.values())[:4])
        await eventually(lambda: state.submitted)

        assert len({body["requestId"] for body in state.asked[:5]}) == 1
        assert len(state.reservations) <= 2


async def test_a_task_that_can_not_be_read_spoils_no_other() -> None:
    """Case 25: the unreadable one is refused with what could be read of it; its neighbours run."""
    async with polling() as state:
        state.link.manager.hand_out(task("a"), {**task("b"), "fence": "high"}, {**task("c"), "novelty": [1]})
        await eventually(lambda: len(state.submitted) == 2)

        assert [each.attempt_id for each in state.submitted] == ["a", "c"]
        assert len(state.refused) == 1


async def test_nothing_is_asked_for_while_something_is_in_the_way() -> None:
    """A full outbox or a drain keeps the poller from asking, says so once, and lets it go on by itself."""
    with capture_logs() as logs:
        async with polling() as state:
            await eventually(lambda: state.asked)
            state.blocked = "the outbox is full"
            state.link.manager.hand_out(task("a"))
            await eventually(lambda: [entry for entry in logs if entry["event"] == "work.not_acquiring"])
            asked = len(state.asked)
            state.link.manager.hand_out(task("b"))
            await asyncio.sleep(0.6)
            assert len(state.asked) == asked

            state.blocked = ""

            await eventually(lambda: len(state.submitted) == 2)
    assert [entry["reason"] for entry in logs if entry["event"] == "work.not_acquiring"] == ["the outbox is full"]


async def test_stopping_ends_an_open_poll_at_once_and_asks_for_what_it_was_given() -> None:
    """Case 14: the poll is cancelled; a batch that was handed out in that moment comes with the same request id."""
    async with polling(poll_seconds=30.0) as state:
        await eventually(lambda: state.asked)
        state.link.manager.on(routes.ACQUIRE, answer(tasks=[task("late")]))

        async with asyncio.timeout(5.0):
            await state.stop()

        assert [each.attempt_id for each in state.submitted] == ["late"]
        assert [body["waitSeconds"] for body in state.asked] == [30.0, 0.0]
        assert state.asked[0]["requestId"] == state.asked[1]["requestId"]


async def test_stopping_does_not_wait_for_a_manager_that_is_away() -> None:
    """Case 14: with the manager unreachable the poller ends within seconds."""
    async with polling() as state:
        await eventually(lambda: state.asked)
        state.link.manager.always[routes.ACQUIRE] = problem(503, "overloaded", Retry_After="60")

        async with asyncio.timeout(8.0):
            await state.stop()


async def test_a_poll_whose_slots_went_to_resuming_work_is_given_up() -> None:
    """With nothing left to start a task in, the poll ends and its batch is not waited for."""
    async with polling(poll_seconds=30.0) as state:
        await eventually(lambda: state.asked)

        state.reservations[0].count = 0
        state.reservations[0].exhausted.set()

        await eventually(lambda: len(state.reservations) == 2)
        assert state.asked[1]["requestId"] == state.asked[0]["requestId"]
        assert state.asked[1]["waitSeconds"] == 0.0


async def test_a_middlebox_that_cuts_quiet_polls_is_learned() -> None:
    """Case 01: two cuts at the same age shorten the poll; none of them delays the next one, and a task comes once."""
    with capture_logs() as logs:
        async with polling(poll_seconds=30.0) as state:
            cut = cut_after(1.1)
            state.link.manager.on(routes.ACQUIRE, cut, cut)
            await eventually(lambda: len(state.asked) >= 3)
            state.link.manager.hand_out(task("a"))
            await eventually(lambda: state.submitted)

            assert [body["waitSeconds"] for body in state.asked[:2]] == [30.0, 30.0]
            assert state.asked[2]["waitSeconds"] < 1.1
            assert [each.attempt_id for each in state.submitted] == ["a"]
    assert len([entry for entry in logs if entry["event"] == "connection.poll_shortened" and entry["lane"] == "work"]) == 1


async def test_contact_by_another_way_ends_the_wait_for_the_next_try() -> None:
    """After an outage the first heartbeat that is answered brings the poll back, however long it would have waited."""
    async with polling() as state:
        state.link.manager.on(routes.ACQUIRE, *[problem(500, "internal")] * 9)

        def is_back() -> bool:
            if state.poller.waits_for_contact:
                state.poller.wake()
            return len(state.asked) > 9

        await eventually(is_back, within=20.0)

        state.link.manager.hand_out(task("a"))
        await eventually(lambda: [each.attempt_id for each in state.submitted] == ["a"])
