"""Patterns of custom resources are RE2's."""

import pytest

from delegate.simulator.regexes import InvalidPatternError, check_pattern, finds


def test_what_only_re2_takes_is_taken() -> None:
    """A flag in the middle, as definitions of the Prometheus operator have it; `\\z` for the end."""
    assert finds(r"^((?i)january|february|\d)$", "JANUARY")
    assert finds(r"a\z", "ba")


@pytest.mark.parametrize("pattern", ["(", "a(?=b)", r"(a)\1"])
def test_what_re2_does_not_take_is_refused(pattern: str) -> None:
    """Look-ahead and back references, which Python would take, among it."""
    with pytest.raises(InvalidPatternError):
        check_pattern(pattern)
