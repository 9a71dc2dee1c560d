"""Anchors of one document, and the copies that aliases stand for.

An alias is a copy: a label added to one object must not appear on another. What all copies of a file may add up to is
bounded, because nine lines can stand for a billion nodes.
"""

from delegate.engine.sources.limits import SourceLimits


class Anchors:
    """The anchors seen so far in a document. The budgets are those of the whole file."""

    def __init__(self, limits: SourceLimits) -> None:
        self._limits = limits
        self._values: dict[str, object] = {}
        self._open: set[str] = set()
        self._nodes = 0
        self._bytes = 0

    def clear(self) -> None:
        """Forgets the anchors at the end of a document."""
        self._values.clear()
        self._open.clear()

    def open(self, name: str) -> None:
        self._open.add(name)

    def close(self, name: str, value: object) -> None:
        self._open.discard(name)
        self._values[name] = value

    def copy(self, name: str, depth: int) -> tuple[object, int]:
        """A deep copy of the anchored value for a place `depth` levels below the root, and how many nodes it has.

        Raises KeyError for an unknown anchor, RecursionError for one that contains itself, OverflowError past a budget.
        """
        if name in self._open:
            raise RecursionError
        nodes_before = self._nodes
        copied = self._copy(self._values[name], depth)
        return copied, self._nodes - nodes_before

    def _copy(self, value: object, depth: int) -> object:
        self._nodes += 1
        if self._nodes > self._limits.alias_nodes:
            raise OverflowError(f"aliases stand for more than {self._limits.alias_nodes} nodes")
        if depth > self._limits.depth:
            raise OverflowError(f"aliases nest deeper than {self._limits.depth} levels")
        if isinstance(value, dict):
            self._spend(sum(map(len, value)))
            return {key: self._copy(member, depth + 1) for key, member in value.items()}
        if isinstance(value, list):
            return [self._copy(member, depth + 1) for member in value]
        if isinstance(value, str):
            self._spend(len(value))
        return value

    def _spend(self, size: int) -> None:
        self._bytes += size
        if self._bytes > self._limits.alias_bytes:
            raise OverflowError(f"aliases stand for more than {self._limits.alias_bytes} characters")
