"""Case 09: a route is left alone for as long as it asked, and no other route suffers."""

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegate.daemon.connection.patience import Patience, read_retry_after

NOW = dt.datetime(2026, 11, 30, 12, 0, 0, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("value", "date", "seconds"),
    [
        ("7", "", 7.0),
        (" 120 ", "", 120.0),
        ("0", "", 0.0),
        ("1.5", "", 1.5),
        ("Mon, 30 Nov 2026 09:00:30 GMT", "Mon, 30 Nov 2026 09:00:00 GMT", 30.0),
        ("Mon, 30 Nov 2026 12:01:00 GMT", "", 60.0),
        ("Mon, 30 Nov 2026 12:01:00 GMT", "yesterday", 60.0),
        ("Mon, 30 Nov 2026 08:00:00 GMT", "Mon, 30 Nov 2026 09:00:00 GMT", 0.0),
        ("", "", None),
        ("soon", "", None),
        ("-5", "", None),
        ("1e9", "", None),
        ("٧", "", None),
        ("99999999999999999999", "", None),
    ],
)
def test_reads_what_an_answer_asks_for(value: str, date: str, seconds: float | None) -> None:
    """Seconds, or a date against the answer's own clock; nonsense asks for nothing."""
    assert read_retry_after(value, date, NOW) == seconds


@given(st.text(max_size=40), st.text(max_size=40))
def test_nonsense_never_raises(value: str, date: str) -> None:
    """Whatever a proxy writes there, reading it gives a number that is not negative, or none."""
    seconds = read_retry_after(value, date, NOW)

    assert seconds is None or seconds >= 0


@given(st.floats(0, 10_000), st.floats(0, 0.999), st.floats(1, 700))
def test_waits_never_less_than_asked_and_a_fifth_more_at_most(asked: float, dice: float, cap: float) -> None:
    """The wait lies between what was asked and a fifth above it, but for the route's own cap."""
    patience = Patience({"/capped": cap}, monotonic=lambda: 1000.0, jitter=lambda: dice)
    patience.ask("/free", asked)
    patience.ask("/capped", asked)

    assert min(asked, 600.0) <= patience.remaining("/free") + 1e-6
    assert patience.remaining("/free") <= min(asked * 1.2, 600.0) + 1e-6
    assert patience.remaining("/capped") == pytest.approx(min(patience_of(asked, dice), cap), abs=1e-6)
    assert patience.remaining("/other") == 0


def patience_of(asked: float, dice: float) -> float:
    return asked * (1 + 0.2 * dice)


def test_a_shorter_wish_does_not_shorten_a_longer_one() -> None:
    """Of two wishes the later end counts, and it passes with time."""
    now = 0.0
    patience = Patience(monotonic=lambda: now, jitter=lambda: 0.0)
    patience.ask("/a", 10)
    patience.ask("/a", 2)
    assert patience.remaining("/a") == 10

    now = 10.5

    assert patience.remaining("/a") == 0
