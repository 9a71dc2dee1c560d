"""Parts that die are started again; one that dies too often ends the process, by name."""

import asyncio
import contextlib

import pytest

from delegate.foundation.lifecycle import DeathLimit, PartFailedError, StopReason, StopRequests, supervise
from tests.foundation.clocks import ManualClock


class Part:
    """A part that lives through the given lives: an exception to die of, or None to end well; then for ever."""

    def __init__(self, clock: ManualClock, *lives: BaseException | None, seconds: float = 0.0) -> None:
        self.clock = clock
        self.lives = list(lives)
        self.seconds = seconds
        self.starts = 0
        self.last_life = asyncio.Event()

    async def __call__(self) -> None:
        self.starts += 1
        if not self.lives:
            self.last_life.set()
            await asyncio.Event().wait()
        self.clock.seconds += self.seconds
        life = self.lives.pop(0)
        if life is not None:
            raise life


async def test_a_part_that_dies_is_started_again() -> None:
    """With a wait between, and each death told."""
    clock, deaths = ManualClock(), list[tuple[str, str]]()
    part = Part(clock, ValueError("one"), OSError("two"))

    async with asyncio.timeout(30):
        running = asyncio.create_task(
            supervise("poller", part, clock=clock, on_death=lambda name, error: deaths.append((name, str(error))))
        )
        await part.last_life.wait()

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert deaths == [("poller", "one"), ("poller", "two")]
    assert len(clock.slept) == 2


async def test_five_deaths_in_five_minutes_end_it_by_name() -> None:
    """The error names the part, and its cause is the last death."""
    clock = ManualClock()
    part = Part(clock, *(ValueError(f"death {number}") for number in range(1, 9)), seconds=10)

    with pytest.raises(PartFailedError) as raised:
        await supervise("courier", part, clock=clock)

    assert part.starts == 5
    assert raised.value.part == "courier"
    assert raised.value.code == "internal.part_failed"
    assert raised.value.message == "courier died 5 times in 300 s, last of ValueError: death 5"
    assert str(raised.value.__cause__) == "death 5"


async def test_deaths_that_lie_further_apart_are_lived_with() -> None:
    """Twenty deaths, each a good while after the other."""
    clock = ManualClock()
    part = Part(clock, *(ValueError() for _ in range(20)), None, seconds=90)

    await supervise("poller", part, clock=clock)

    assert part.starts == 21


async def test_waits_grow_with_quick_deaths_and_begin_anew_after_a_good_minute() -> None:
    """Full jitter below a ceiling that doubles."""
    clock = ManualClock()
    limit = DeathLimit(deaths=100)
    quick = Part(clock, *(ValueError() for _ in range(4)), None)
    good = Part(clock, *(ValueError() for _ in range(4)), None, seconds=61)

    await supervise("quick", quick, clock=clock, limit=limit, dice=lambda: 1.0)
    quick_waits, clock.slept = clock.slept, []
    await supervise("good", good, clock=clock, limit=limit, dice=lambda: 1.0)

    assert quick_waits == [0.5, 1.0, 2.0, 4.0]
    assert clock.slept == [0.5, 0.5, 0.5, 0.5]


async def test_an_end_before_any_stop_is_a_death() -> None:
    """A poller that returns has stopped polling: nobody else would notice."""
    clock, stops = ManualClock(), StopRequests()
    part = Part(clock, None, None)

    async with asyncio.timeout(30):
        running = asyncio.create_task(supervise("poller", part, until=stops, clock=clock))
        await part.last_life.wait()
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running

    assert part.starts == 3


async def test_an_end_after_a_stop_is_the_end() -> None:
    """The part did what it was asked."""
    clock, stops = ManualClock(), StopRequests()
    stops.request(StopReason.SIGTERM)
    part = Part(clock, None)

    await supervise("poller", part, until=stops, clock=clock)

    assert part.starts == 1


async def test_nothing_is_started_again_after_a_stop() -> None:
    """A death while draining is told and left; the wait for a restart ends with the stop."""
    stops = StopRequests()
    deaths = list[str]()

    async def die() -> None:
        if deaths:
            raise AssertionError("started again")
        asyncio.get_running_loop().call_soon(stops.request, StopReason.SIGTERM)
        raise ValueError

    async with asyncio.timeout(30):
        await supervise(
            "poller", die, until=stops, on_death=lambda name, _: deaths.append(name), limit=DeathLimit(base_seconds=3600), dice=lambda: 1.0
        )

    assert deaths == ["poller"]


async def test_cancellation_passes_through() -> None:
    """It is no death, and nothing is started again."""
    clock, deaths = ManualClock(), list[str]()
    part = Part(clock)
    running = asyncio.create_task(supervise("poller", part, clock=clock, on_death=lambda name, _: deaths.append(name)))
    await part.last_life.wait()

    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running

    assert running.cancelled()
    assert (part.starts, deaths) == (1, [])


async def test_a_part_that_something_inside_cancelled_died() -> None:
    """A CancelledError nobody asked for is no reason to stop silently."""
    clock, deaths = ManualClock(), list[Exception]()
    part = Part(clock, asyncio.CancelledError(), None)

    await supervise("poller", part, clock=clock, on_death=lambda _, error: deaths.append(error))

    assert part.starts == 2
    assert "cancelled by something inside it" in str(deaths[0])


async def test_faults_that_are_nobodys_death_pass_at_once() -> None:
    """Revocation, for one, is no accident of the part that learns of it."""
    part = Part(ManualClock(), PermissionError("revoked"))

    with pytest.raises(PermissionError):
        await supervise("control", part, passing=(PermissionError,))

    assert part.starts == 1


async def test_it_fails_a_task_group_with_the_name_of_the_part() -> None:
    """As the daemon's groups see it."""
    clock = ManualClock()

    async def run_parts() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(supervise("courier", Part(clock, *(ValueError() for _ in range(5))), clock=clock))
            group.create_task(supervise("poller", Part(clock), clock=clock))

    with pytest.raises(ExceptionGroup) as raised:
        await run_parts()

    assert [each.part for each in raised.value.exceptions if isinstance(each, PartFailedError)] == ["courier"]
