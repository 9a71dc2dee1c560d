"""Versions and ranges of them, as Argo CD and Helm read them (Masterminds/semver, version 3). Pure.

A range is made of comparisons: blanks or commas between them mean "and", `||` means "or". `~1.2.3` allows newer patches,
`^1.2.3` newer minors, `1.2.x` and `*` anything in the place, `1.2 - 1.4` what lies between. A version with a pre-release
(`1.0.0-rc.1`) is in a range only where one of the comparisons has one too, so `>=1.0.0-0` is how they are let in.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import total_ordering
from typing import NamedTuple

_IDENTIFIERS = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_VERSION = re.compile(rf"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?(?:-({_IDENTIFIERS}))?(?:\+({_IDENTIFIERS}))?", re.ASCII)
_PLACE = r"(?:\d+|[xX*])"
_PATTERN = rf"v?{_PLACE}(?:\.{_PLACE})?(?:\.{_PLACE})?(?:-{_IDENTIFIERS})?(?:\+{_IDENTIFIERS})?"
_COMPARISON = re.compile(rf"(=||!=|>|<|>=|=>|<=|=<|~|~>|\^)\s*({_PATTERN})", re.ASCII)
_ONE = re.compile(rf"(?:=|!=|>=|=>|<=|=<|>|<|~>|~|\^)?\s*{_PATTERN}")
_HYPHEN = re.compile(rf"\s*({_PATTERN})\s+-\s+({_PATTERN})\s*")
_LONGEST = 256
_SIGNS = re.compile(r"[<>=~^*,\s|]|(?:^|\.)[xX](?:\.|$|-)")


@total_ordering
@dataclass(frozen=True, eq=False)
class Version:
    """A version; `text` is how it was written. Its order is that of semver.org §11."""

    major: int
    minor: int
    patch: int
    prerelease: str
    text: str

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Version):
            return NotImplemented
        return _order(self) < _order(other)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and _order(self) == _order(other)

    def __hash__(self) -> int:
        return hash(_order(self))


def read_version(text: str) -> Version | None:
    """A version, with `v` or without, minor and patch 0 where they are left out; None for what is none.

    A pre-release wants all three numbers: `2024-09-22-test` is a name, and no version of the year 2024.
    """
    match = _VERSION.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None or (match[4] and match[3] is None):
        return None
    return Version(int(match[1]), int(match[2] or 0), int(match[3] or 0), match[4] or "", text)


class _Bound(NamedTuple):
    """A version in a comparison; `places` is how many of its numbers were written out."""

    version: Version
    places: int


class _Comparison(NamedTuple):
    sign: str
    bound: _Bound


class Range:
    """A range of versions, read."""

    def __init__(self, text: str, alternatives: list[list[_Comparison]]) -> None:
        self.text = text
        self._alternatives = alternatives

    def admits(self, version: Version) -> bool:
        return any(
            (not version.prerelease or any(bound.version.prerelease for _, bound in comparisons))
            and all(_SIGN[sign](version, bound) for sign, bound in comparisons)
            for comparisons in self._alternatives
        )

    def newest(self, versions: Iterable[Version]) -> Version | None:
        """The newest version in the range; of equal ones the first."""
        best: Version | None = None
        for version in versions:
            if self.admits(version) and (best is None or version > best):
                best = version
        return best


def is_range(text: str) -> bool:
    """Whether a text means a range and not one version or a name."""
    return _SIGNS.search(text) is not None and read_range(text) is not None


def read_range(text: str) -> Range | None:
    """A range; None for what is none. One version is the range of itself."""
    if not text.strip() or len(text) > _LONGEST:
        return None
    alternatives = []
    for part in text.split("||"):
        comparisons = _read_comparisons(part)
        if not comparisons:
            return None
        alternatives.append(comparisons)
    return Range(text, alternatives)


def _read_comparisons(text: str) -> list[_Comparison]:
    between = _HYPHEN.fullmatch(text)
    if between is not None:
        text = f">={between[1]} <={between[2]}"
    found = []
    position = 0
    while position < len(text):
        if text[position] in ", \t":
            position += 1
            continue
        match = _ONE.match(text, position)
        whole = _COMPARISON.fullmatch(match[0]) if match is not None else None
        if match is None or whole is None or (match.end() < len(text) and text[match.end()] not in ", \t"):
            return []
        found.append(_Comparison(whole[1], _read_bound(whole[2])))
        position = match.end()
    return found


def _read_bound(text: str) -> _Bound:
    numbers, _, prerelease = text.removeprefix("v").partition("+")[0].partition("-")
    written: list[int] = []
    for part in numbers.split("."):
        if part in ("x", "X", "*"):
            break
        written.append(int(part))
    major, minor, patch = [*written, 0, 0, 0][:3]
    return _Bound(Version(major, minor, patch, prerelease, text), len(written))


def _is(version: Version, bound: _Bound) -> bool:
    return version == bound.version if bound.places == 3 else _patches(version, bound)


def _is_not(version: Version, bound: _Bound) -> bool:
    return not _is(version, bound)


def _above(version: Version, bound: _Bound) -> bool:
    """`>1.2` means newer than any 1.2."""
    if bound.places == 3:
        return version > bound.version
    return _numbers(version)[: bound.places] > _numbers(bound.version)[: bound.places]


def _at_least(version: Version, bound: _Bound) -> bool:
    return version >= bound.version


def _below(version: Version, bound: _Bound) -> bool:
    return version < bound.version


def _at_most(version: Version, bound: _Bound) -> bool:
    """`<=1.2` admits any 1.2."""
    if bound.places == 3:
        return version <= bound.version
    return _numbers(version)[: bound.places] <= _numbers(bound.version)[: bound.places]


def _patches(version: Version, bound: _Bound) -> bool:
    """`~1.2.3` and `~1.2` hold the minor, `~1` the major."""
    held = min(bound.places, 2)
    return version >= bound.version and _numbers(version)[:held] == _numbers(bound.version)[:held]


def _minors(version: Version, bound: _Bound) -> bool:
    """`^1.2.3` holds the first number that is not 0, or the last one written."""
    if version < bound.version or not bound.places:
        return not bound.places
    numbers = _numbers(bound.version)
    first = next((index for index, number in enumerate(numbers) if number), 2)
    held = min(first, bound.places - 1) + 1
    return _numbers(version)[:held] == numbers[:held]


_SIGN: dict[str, Callable[[Version, _Bound], bool]] = {
    "": _is,
    "=": _is,
    "!=": _is_not,
    ">": _above,
    "<": _below,
    ">=": _at_least,
    "=>": _at_least,
    "<=": _at_most,
    "=<": _at_most,
    "~": _patches,
    "~>": _patches,
    "^": _minors,
}


def _numbers(version: Version) -> tuple[int, int, int]:
    return version.major, version.minor, version.patch


def _order(version: Version) -> tuple[tuple[int, int, int], bool, tuple[tuple[bool, int, str], ...]]:
    """Without a pre-release is after with one; numbers of a pre-release come before words."""
    identifiers = version.prerelease.split(".") if version.prerelease else []
    ranks = tuple((not each.isdigit(), int(each) if each.isdigit() else 0, each) for each in identifiers)
    return _numbers(version), not version.prerelease, ranks
