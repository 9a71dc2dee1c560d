"""Whether a text may hold one of many words, found out at the speed of a few machine instructions a character.

A word of at least 15 bytes covers, wherever it stands, one whole 8-byte cell of a text that is cut into such cells: one of the eight
grams that begin in the word's first eight bytes. So a text none of whose cells is such a gram holds none of the words. The same goes for
words of at least 7 bytes with cells of 4. Shorter words are looked for one by one.
"""

import re
from collections.abc import Iterable
from typing import Literal

_Code = Literal["Q", "I"]
_CELLS: tuple[tuple[_Code, int], ...] = (("Q", 8), ("I", 4))
_FEW = 24
"""So many words are found one by one sooner than by cells."""


class GramFilter:
    """`may_match` is False only where no word is in the text."""

    def __init__(self, words: Iterable[str]) -> None:
        self._single = [word.encode(errors="surrogatepass") for word in words]
        self._grams: list[tuple[_Code, int, frozenset[int]]] = []
        for code, width in _CELLS:
            covered = [word for word in self._single if len(word) >= 2 * width - 1]
            if len(covered) > _FEW:
                grams = frozenset(_gram(word[start : start + width], code) for word in covered for start in range(width))
                self._grams.append((code, width, grams))
                self._single = [word for word in self._single if len(word) < 2 * width - 1]

    def may_match(self, text: str) -> bool:
        raw = text.encode(errors="surrogatepass")
        view = memoryview(raw)
        for code, width, grams in self._grams:
            if not grams.isdisjoint(view[: len(raw) // width * width].cast(code)):
                return True
        return any(word in raw for word in self._single)


def _gram(raw: bytes, code: _Code) -> int:
    return memoryview(raw).cast(code)[0]


class HeadIndex:
    """Where words of at least four characters stand in a text, and where it ends in what may be the beginning of one."""

    _HEAD = 4

    def __init__(self, words: Iterable[str]) -> None:
        self._by_head: dict[str, list[str]] = {}
        self._beginnings: set[str] = set()
        self._longest = 0
        for word in sorted(words, key=len, reverse=True):
            self._longest = max(self._longest, len(word))
            self._by_head.setdefault(word[: self._HEAD], []).append(word)
            self._beginnings.update(word[:length] for length in range(1, self._HEAD))
        self._heads = re.compile(_by_first_character(self._by_head), re.DOTALL)

    def find(self, text: str, position: int) -> tuple[int, int] | None:
        """The first place from `position` on where a word stands, and its end; of several there the longest."""
        while (head := self._heads.search(text, position)) is not None:
            start = head.start()
            for word in self._by_head[head[0]]:
                if text.startswith(word, start):
                    return start, start + len(word)
            position = start + 1
        return None

    def replace(self, text: str, replacement: str) -> str:
        """The text with every word replaced."""
        pieces: list[str] = []
        position = 0
        while (found := self.find(text, position)) is not None:
            pieces += (text[position : found[0]], replacement)
            position = found[1]
        return "".join((*pieces, text[position:]))

    def find_beginning(self, text: str, position: int) -> int:
        """Where the first suffix begins, from `position` on, that more text could make a word of; the text's length for none."""
        end, size = len(text), self._HEAD
        for start in range(max(position, end - self._longest + 1), end - size + 1):
            words = self._by_head.get(text[start : start + size])
            if words is not None and any(len(word) > end - start and text.startswith(word[: end - start], start) for word in words):
                return start
        for start in range(max(position, end - size + 1), end):
            if text[start:] in self._beginnings:
                return start
        return end


def _by_first_character(heads: Iterable[str]) -> str:
    """An expression for any of the heads, with few alternatives at each step, so that many cost little more than few."""
    groups: dict[str, list[str]] = {}
    for head in heads:
        groups.setdefault(head[0], []).append(re.escape(head[1:]))
    return "|".join(f"{re.escape(first)}(?:{'|'.join(rest)})" for first, rest in groups.items())
