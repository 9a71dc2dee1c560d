"""How two versions stand to each other."""

import pytest

from delegate.protocol.versions import skew_of


@pytest.mark.parametrize(
    ("own", "managers", "skew"),
    [
        ("1.2.3", "1.2.3", "none"),
        ("1.2.3", "1.2.3+build.7", "none"),
        ("1.2", "v1.2.0", "none"),
        ("1.9.0", "1.10.0", "older"),
        ("2.0.0", "1.99.99", "newer"),
        ("1.2.3", "", "unknown"),
        ("main", "1.2.3", "unknown"),
        ("1.2.3", "9" * 5000, "unknown"),
    ],
)
def test_skew(own: str, managers: str, skew: str) -> None:
    """By major, minor and patch, as numbers."""
    assert skew_of(own, managers) == skew
