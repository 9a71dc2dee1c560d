"""Which files of a directory are manifests, with the include and exclude globs of Argo CD's directory sources.

`*` and `?` match `/` too, `[...]` is a set, `{a,b}` are alternatives, `\\` takes the next character as it is. A pattern is
matched against the whole path below the source's directory.
"""

import fnmatch
import itertools
import re
from collections.abc import Iterator

from delegate.engine.sources.errors import SourceError

_SUFFIXES = (".yaml", ".yml", ".json")
_LONGEST_PATTERN = 1024
_MOST_ALTERNATIVES = 256


class Filter:
    """The files that a source chooses. It is true where it has globs."""

    def __init__(self, include: str = "", exclude: str = "") -> None:
        """Raises SourceError for a pattern that can't be read."""
        self._include = _compile(include)
        self._exclude = _compile(exclude)

    def __bool__(self) -> bool:
        return bool(self._include or self._exclude)

    def accepts_file(self, path: str) -> bool:
        """Whether the file at `path`, relative to the source's directory, is to be read."""
        return path.endswith(_SUFFIXES) and self.chooses(path)

    def chooses(self, path: str) -> bool:
        """The same for a file whose name may end in anything."""
        return not self.excludes(path) and (not self._include or any(pattern.fullmatch(path) for pattern in self._include))

    def excludes(self, path: str) -> bool:
        return any(pattern.fullmatch(path) for pattern in self._exclude)


def _compile(glob: str) -> list[re.Pattern[str]]:
    if len(glob) > _LONGEST_PATTERN:
        raise SourceError(f"a pattern of {len(glob)} characters is too long; the limit is {_LONGEST_PATTERN}")
    if not glob:
        return []
    alternatives: list[str] = []
    for alternative in _expand(glob):
        alternatives.append(alternative)
        if len(alternatives) > _MOST_ALTERNATIVES:
            raise SourceError(f"pattern {glob!r} has more than {_MOST_ALTERNATIVES} alternatives")
    # fnmatch's translation matches in linear time, whatever the number of stars.
    return [re.compile(fnmatch.translate(_without_escapes(alternative))) for alternative in alternatives]


def _expand(glob: str) -> Iterator[str]:
    """The pattern once for each choice of its alternatives."""
    start, end, commas = _first_group(glob)
    if start < 0:
        yield glob
        return
    bounds = [start, *commas, end]
    for left, right in itertools.pairwise(bounds):
        yield from _expand(glob[:start] + glob[left + 1 : right] + glob[end + 1 :])


def _first_group(glob: str) -> tuple[int, int, list[int]]:
    """Where the first `{...}` begins and ends, and its own commas; -1 where there is none."""
    start, depth, position = -1, 0, 0
    commas: list[int] = []
    while position < len(glob):
        character = glob[position]
        if character == "\\":
            position += 1
        elif character == "[":
            position = max(position, glob.find("]", position + 2))
        elif character == "{":
            start = position if depth == 0 else start
            depth += 1
        elif character == "}" and depth:
            depth -= 1
            if depth == 0:
                return start, position, commas
        elif character == "," and depth == 1:
            commas.append(position)
        position += 1
    if depth:
        raise SourceError(f"pattern {glob!r} opens a brace that it doesn't close")
    return -1, -1, []


def _without_escapes(glob: str) -> str:
    """Escaped characters as one-character sets, which is how fnmatch spells them."""
    return re.sub(r"\\(.)", lambda match: f"[{match[1]}]" if match[1] in "*?[" else match[1], glob)
