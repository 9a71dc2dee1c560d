"""Who has authority to write an Application."""

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegate.model.leases import (
    LEASE_SECONDS,
    Hold,
    Take,
    Wait,
    authority_ends_at,
    decide,
    held_lease,
    observe,
    read_lease,
    released_lease,
    renewed_lease,
)
from delegate.model.resources import JsonObject

_NOW = dt.datetime(2026, 1, 1, 12, 0, tzinfo=dt.UTC)


def _lease(holder: str = "a", fence: int = 3, renewed: dt.datetime = _NOW) -> JsonObject:
    body = held_lease("shop", "demo", holder=holder, taking=Take(fence), now=renewed)
    body["metadata"]["resourceVersion"] = f"{renewed.timestamp()}"
    return body


def test_a_lease_that_is_not_there() -> None:
    """It is created with the first fence, or one past the highest that is known from elsewhere."""
    nothing = observe(None, None, 10.0)

    assert decide(nothing, "a", 10.0) == Take(1)
    assert decide(nothing, "a", 10.0, fence_floor=7) == Take(8)


def test_our_own_lease() -> None:
    """A restarted attempt finds that it is the holder, with the fence that it had."""
    assert decide(observe(None, _lease("a"), 10.0), "a", 10.0) == Hold(3)


def test_fences_go_on_from_the_highest_known() -> None:
    """A Lease that was made anew by somebody else must not bring old fences back."""
    seen = observe(None, _lease("a", fence=1), 0.0)

    assert isinstance(decide(seen, "b", 100.0), Take)
    assert decide(seen, "b", 100.0, fence_floor=9) == Take(10, _lease()["metadata"]["resourceVersion"])


def test_a_holder_that_renews_keeps_its_authority() -> None:
    """Each renewal that is seen starts the waiting anew, whatever its time says."""
    seen = observe(None, _lease("a"), 100.0)
    renewed = observe(seen, _lease("a", renewed=_NOW + dt.timedelta(seconds=5)), 110.0)

    assert decide(renewed, "b", 120.0) == Wait("a", 5.0)
    assert renewed.since == 110.0


def test_a_holder_that_is_gone() -> None:
    """After a whole life without a change the next one takes over, with the next fence, over exactly what was seen."""
    first = observe(None, _lease("a"), 100.0)
    again = observe(first, _lease("a"), 114.0)

    assert decide(again, "b", 114.0) == Wait("a", 1.0)
    assert decide(again, "b", 115.0) == Take(4, _lease("a")["metadata"]["resourceVersion"])


def test_clocks_that_differ_make_no_difference() -> None:
    """A renewTime far in the past or future is compared with nothing."""
    for away in (dt.timedelta(days=-400), dt.timedelta(days=400)):
        seen = observe(None, _lease("a", renewed=_NOW + away), 100.0)

        assert decide(seen, "b", 100.0) == Wait("a", float(LEASE_SECONDS))


def test_a_lease_that_was_given_back() -> None:
    """The next one need not wait, and counts on."""
    released = released_lease(_lease("a"), _NOW)

    decision = decide(observe(None, released, 100.0), "b", 100.0)

    assert isinstance(decision, Take)
    assert decision.fence == 4
    assert "holderIdentity" not in released["spec"]


@pytest.mark.parametrize("spec", [None, {}, {"holderIdentity": None, "leaseTransitions": None}])
def test_a_lease_without_a_holder(spec: object) -> None:
    """Absent fields read as a Lease that nobody holds."""
    assert decide(observe(None, {"spec": spec}, 5.0), "b", 5.0) == Take(1)


def test_the_bodies() -> None:
    """What is written is what is read; a renewal changes its time and nothing else; the version seen guards the write."""
    taken = held_lease("shop", "demo", holder="b", taking=Take(4, "77"), now=_NOW)
    renewed = renewed_lease(taken, _NOW + dt.timedelta(seconds=5))

    assert taken["metadata"]["name"] == "delegate-shop"
    assert taken["metadata"]["resourceVersion"] == "77"
    assert taken["spec"]["renewTime"] == "2026-01-01T12:00:00.000000Z"
    assert read_lease(taken).fence == read_lease(renewed).fence == 4
    assert {**renewed["spec"], "renewTime": ""} == {**taken["spec"], "renewTime": ""}
    assert "resourceVersion" not in held_lease("shop", "demo", holder="b", taking=Take(1), now=_NOW)["metadata"]


@given(st.lists(st.tuples(st.floats(0, 30), st.booleans()), max_size=20), st.floats(0, 14.9))
def test_authority_never_overlaps(looks: list[tuple[float, bool]], delay: float) -> None:
    """Whenever another one may take over, the holder has stopped writing for a while, by the same clock.

    The holder sends a renewal, the other one sees it at some later look: what counts for the holder is when it sent.
    """
    now, sent, number, seen = 0.0, 0.0, 0, observe(None, _lease("a"), 0.0)
    for pause, renews in looks:
        now += pause
        if renews and now < authority_ends_at(sent):
            sent, number = now, number + 1
        lease = _lease("a", renewed=_NOW + dt.timedelta(seconds=number))
        seen = observe(seen, lease, now + min(delay, 1.0))
        if isinstance(decide(seen, "b", now), Take):
            assert now > authority_ends_at(sent)
