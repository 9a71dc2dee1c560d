"""Versions and ranges of them: what Masterminds/semver admits, and what is no version at all."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegate.engine.sources.versions import Version, is_range, read_range, read_version

ORDERED = [
    "0.0.1",
    "0.1.0",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "1.0.1",
    "1.10.0",
    "2.0.0",
    "10.0.0",
]
"""The order of semver.org §11."""


def version(text: str) -> Version:
    found = read_version(text)
    assert found is not None
    return found


def admitted(text: str, *versions: str) -> list[str]:
    found = read_range(text)
    assert found is not None, text
    return [each for each in versions if found.admits(version(each))]


def test_order() -> None:
    """Each way to compare agrees."""
    for one, other in itertools.combinations(ORDERED, 2):
        assert version(one) < version(other)
        assert version(other) > version(one)
        assert version(other) >= version(one)
        assert version(one) != version(other)
    assert version("v1.0") == version("1.0.0+build")
    assert len({version("v1"), version("1.0.0")}) == 1


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("1.0.*", ["1.0.0", "1.0.9", "v1.0.1"], ["1.1.0", "2.0.0", "1.0.1-rc.1"]),
        ("v1.x", ["1.0.0", "1.9.9"], ["2.0.0", "0.9.0"]),
        ("*", ["0.0.0", "9.9.9"], ["1.0.0-rc.1"]),
        ("*-0", ["0.0.0", "1.0.0-rc.1"], []),
        ("1", ["1.0.0", "1.9.9"], ["2.0.0"]),
        ("1.2", ["1.2.0", "1.2.9"], ["1.3.0"]),
        ("1.2.3", ["1.2.3"], ["1.2.4", "1.2.3-rc.1"]),
        ("=1.2.3", ["1.2.3"], ["1.2.4"]),
        ("!=1.2.3", ["1.2.4"], ["1.2.3"]),
        ("!=1.2", ["1.3.0"], ["1.2.0", "1.2.9"]),
        (">=1.0.0", ["1.0.0", "2.0.0"], ["0.9.9", "1.1.0-rc.1"]),
        (">=1.0.0-0", ["1.0.0-rc.1", "1.1.0-rc.1", "1.0.0"], ["0.9.0"]),
        (">1.2", ["1.3.0", "2.0.0"], ["1.2.9"]),
        (">1", ["2.0.0"], ["1.9.9"]),
        ("<=1.2", ["1.2.9", "1.0.0"], ["1.3.0"]),
        ("<1.2", ["1.1.9"], ["1.2.0"]),
        ("~1.2.3", ["1.2.3", "1.2.9"], ["1.2.2", "1.3.0"]),
        ("~1", ["1.0.0", "1.9.9"], ["2.0.0"]),
        ("^1.2.3", ["1.2.3", "1.9.0"], ["1.2.2", "2.0.0"]),
        ("^0.2.3", ["0.2.3", "0.2.9"], ["0.3.0", "0.2.2"]),
        ("^0.0.3", ["0.0.3"], ["0.0.4"]),
        ("^0.0", ["0.0.9"], ["0.1.0"]),
        ("^0", ["0.9.9"], ["1.0.0"]),
        ("^1.x", ["1.0.0", "1.9.9"], ["2.0.0"]),
        ("1.2 - 1.4", ["1.2.0", "1.4.9"], ["1.5.0", "1.1.0"]),
        (">= 1.0, < 2 || 3.x", ["1.5.0", "3.1.0"], ["2.0.0", "4.0.0"]),
        (">=1.0 <2.0", ["1.5.0"], ["2.0.0"]),
        (">=1.0.0-rc.1 <1.0.0", ["1.0.0-rc.2"], ["1.0.0", "0.9.0"]),
    ],
)
def test_ranges(text: str, inside: list[str], outside: list[str]) -> None:
    """What each admits and what not."""
    assert admitted(text, *inside, *outside) == inside


@pytest.mark.parametrize(
    "text", ["main", "1.2.3", "v1", "HEAD", "feature/x", "2024-09-22-test", "release-1.x", "a, b", "1.0 || main", "", "^", "9" * 300]
)
def test_what_is_no_range(text: str) -> None:
    """Names, and versions as they stand."""
    assert not is_range(text)


@pytest.mark.parametrize("text", ["1.x", "*", "x", ">=1", "~1.2", "^1.0.0", "1.2 - 1.4", "1.*.*", ">=1.0, <2"])
def test_what_is_a_range(text: str) -> None:
    """Anything with a sign or a wildcard that can be read."""
    assert is_range(text)


@pytest.mark.parametrize("text", ["", "main", "1.2.3.4", "1..2", "v", "2024-09-22-test", "1.2-rc", "a1.2.3", "1.2.3-", "9" * 300])
def test_what_is_no_version(text: str) -> None:
    """Among them names that begin like one."""
    assert read_version(text) is None


def test_the_newest() -> None:
    """Of equal ones the first."""
    found = read_range("1.x")
    assert found is not None
    newest = found.newest(map(version, ["1.0.0", "v1.2.0", "1.2.0", "1.1.0", "2.0.0", "1.3.0-rc.1"]))
    assert newest is not None
    assert newest.text == "v1.2.0"
    assert found.newest([]) is None


@given(st.text(alphabet="0123456789.xX*v<>=~^!-+|, a", max_size=30))
def test_any_text_is_a_range_or_none(text: str) -> None:
    """Nothing else happens, and what it is admits or doesn't."""
    found = read_range(text)
    if found is not None:
        for each in ORDERED:
            assert found.admits(version(each)) in (True, False)


NUMBERS = st.integers(0, 3)


@given(NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS)
def test_signs_agree_with_the_order(a: int, b: int, c: int, d: int, e: int, f: int) -> None:  # noqa: PLR0917 - two versions
    """`>=` is not `<`, `^` and `~` are within `>=`, and `~` is within `^` where the major is not 0."""
    one, other = f"{a}.{b}.{c}", f"{d}.{e}.{f}"
    assert bool(admitted(f">={other}", one)) is not bool(admitted(f"<{other}", one))
    assert bool(admitted(f">{other}", one)) is (version(one) > version(other))
    for sign in "~^":
        assert not admitted(f"{sign}{other}", one) or admitted(f">={other}", one)
    if d:
        assert not admitted(f"~{other}", one) or admitted(f"^{other}", one)
