"""Durations and sizes read what people write, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegate.foundation.quantities import format_duration, parse_duration, parse_size
from delegate.foundation.settings.kinds import duration, size


@given(st.integers(min_value=0, max_value=10**12))
def test_a_duration_that_was_written_is_read_back(milliseconds: int) -> None:
    """To the millisecond, whatever its length."""
    assert round(parse_duration(format_duration(milliseconds / 1000)) * 1000) == milliseconds


@given(st.integers(min_value=0, max_value=2**50))
def test_a_size_that_was_shown_is_read_back(count: int) -> None:
    """Exactly, with whichever unit it is shown."""
    kind = size()

    assert kind.parse(str(kind.show(count))) == count


@given(st.text(max_size=20))
def test_any_text_is_a_duration_and_a_size_or_refused_with_words(text: str) -> None:
    """No other error than ValueError, and no negative result."""
    for parse in (parse_duration, parse_size):
        words = ""
        try:
            assert parse(text) >= 0
        except ValueError as error:
            words = str(error)
        assert not words or "such as" in words


def test_a_number_beyond_all_bounds_is_refused() -> None:
    """It neither overflows nor becomes infinite."""
    with pytest.raises(ValueError, match="larger than any size"):
        parse_size("9" * 400)
    with pytest.raises(ValueError, match="out of range"):
        duration().parse("9" * 400 + "h")


@pytest.mark.parametrize(("text", "seconds"), [("250ms", 0.25), ("30s", 30), ("5m", 300), ("24h", 86400), ("1h30m", 5400), ("1.5s", 1.5)])
def test_durations_have_units(text: str, seconds: float) -> None:
    """As the contract writes them."""
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "m", "5 m", "-5s", "5x", "5s!", "٣s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    """A number alone has no meaning."""
    with pytest.raises(ValueError, match="is no duration"):
        parse_duration(text)


@pytest.mark.parametrize(("text", "count"), [("64Mi", 2**26), ("512Ki", 2**19), ("2Gi", 2**31), ("1k", 1000), ("10M", 10**7), ("7", 7)])
def test_sizes_have_binary_and_decimal_units(text: str, count: int) -> None:
    """As Kubernetes writes them."""
    assert parse_size(text) == count
