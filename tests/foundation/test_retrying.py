"""A step is tried again within its limits, never earlier than asked, and only if it may help."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegate.foundation.errors import DelegateError
from delegate.foundation.lifecycle import RetryDetails, Retrying, backoff, retrying
from delegate.foundation.settings import Retry
from tests.foundation.clocks import ManualClock


class Step:
    """Fails as often as told, then returns 'done'."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.calls = 0

    async def __call__(self) -> str:
        self.calls += 1
        if self.failures:
            raise self.failures.pop(0)
        return "done"


def transient(retry_after: float | None = None) -> DelegateError:
    return DelegateError("busy", retryable=True, retry_after=retry_after)


async def test_a_retryable_fault_is_tried_again_until_it_works() -> None:
    """Each wait is told before it is waited."""
    clock, told = ManualClock(), list[RetryDetails]()

    result = await retrying(Step(transient(), transient()), Retrying(), on_retry=told.append, clock=clock)

    assert result == "done"
    assert [details.attempt for details in told] == [1, 2]
    assert [details.wait_seconds for details in told] == clock.slept


@pytest.mark.parametrize("error", [DelegateError("no"), ValueError("bug")])
async def test_other_faults_pass_at_once(error: Exception) -> None:
    """Trying again can't help where the fault is final, or no fault of ours at all."""
    step = Step(error)

    with pytest.raises(type(error)):
        await retrying(step, Retrying(), clock=ManualClock())

    assert step.calls == 1


async def test_the_last_fault_passes_after_the_most_attempts() -> None:
    """The first try counts."""
    step = Step(*(transient() for _ in range(20)))

    with pytest.raises(DelegateError, match="busy"):
        await retrying(step, Retrying(max_attempts=8), clock=ManualClock())

    assert step.calls == 8


async def test_no_wait_reaches_beyond_the_longest_duration() -> None:
    """It gives up when the next try would come too late, instead of waiting for nothing."""
    clock = ManualClock()
    started_at = clock.monotonic()

    with pytest.raises(DelegateError, match="busy"):
        await retrying(
            Step(*(transient() for _ in range(100))),
            Retrying(max_attempts=100, base_seconds=10, max_seconds=10, max_duration_seconds=60),
            clock=clock,
            dice=lambda: 0.99,
        )

    assert clock.monotonic() - started_at == pytest.approx(59.4)


async def test_no_wait_reaches_beyond_the_deadline() -> None:
    """The deadline of the whole task counts if it comes first."""
    clock = ManualClock()
    step = Step(transient(retry_after=30))

    with pytest.raises(DelegateError, match="busy"):
        await retrying(step, Retrying(), deadline=clock.monotonic() + 20, clock=clock)

    assert (step.calls, clock.slept) == (1, [])


@given(st.integers(1, 200), st.floats(0, 600), st.integers())
def test_nobody_comes_back_before_retry_after_nor_much_later(attempt: int, retry_after: float, seed: int) -> None:
    """Up to a fifth later, so that not everybody comes at the same moment, or as late as the own wait says."""
    policy = Retrying()

    wait = policy.wait_after(attempt, retry_after, random.Random(seed).random)

    assert retry_after <= wait <= max(retry_after * 1.2, policy.max_seconds)


@given(st.integers(1, 5000), st.integers())
def test_waits_lie_between_nothing_and_the_doubled_base_up_to_the_cap(attempt: int, seed: int) -> None:
    """Full jitter, also at the cap and after any number of attempts."""
    wait = Retrying().wait_after(attempt, None, random.Random(seed).random)

    assert 0 <= wait <= min(30.0, 0.25 * 2 ** min(attempt - 1, 60))


def test_jitter_does_not_collapse_at_the_cap() -> None:
    """Many that wait the longest wait are spread over all of it."""
    waits = [Retrying().wait_after(50, None, random.Random(seed).random) for seed in range(1000)]

    quarters = [sum(1 for wait in waits if low <= wait < low + 7.5) for low in (0, 7.5, 15, 22.5)]
    assert min(quarters) > 150


def test_backoff_doubles_up_to_the_cap_and_never_ends() -> None:
    """For loops without an end."""
    waits = backoff(1, 8, dice=lambda: 1.0)

    assert [next(waits) for _ in range(6)] == [1, 2, 4, 8, 8, 8]


def test_a_task_overrides_the_settings() -> None:
    """Each limit by itself; what it doesn't name stays as set."""
    policy = Retrying.from_settings(Retry(max_attempts=3, base_ms=100, max_ms=2000, max_duration=60))

    assert policy == Retrying(3, 0.1, 2.0, 60)
    assert policy.overridden() == policy
    assert policy.overridden(max_attempts=9, base_ms=500) == Retrying(9, 0.5, 2.0, 60)
    assert policy.overridden(max_ms=5000, max_duration_seconds=0) == Retrying(3, 0.1, 5.0, 0)
