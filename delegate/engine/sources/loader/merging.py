"""Mappings with merge keys (`<<`), as kubectl reads them.

go-yaml v2 applies members and merges in written order, so what is merged in replaces a key that stands before it, and a
key that stands after it replaces what was merged in. Of several mappings in one merge the first wins.
"""

from collections.abc import Sequence

from delegate.engine.sources.loader.documents import count_nodes
from delegate.model.resources import JsonObject


class MergedMapping:
    """A mapping under construction whose members' lines are kept apart, because a merge changes their order."""

    def __init__(self, mapping: JsonObject, lines: list[int], start: int) -> None:
        self._mapping = mapping
        self._lines: dict[str, list[int]] = {}
        self._own: set[str] = set(mapping)
        position = start + 1
        for key, value in mapping.items():
            count = count_nodes(value)
            self._lines[key] = lines[position : position + count]
            position += count
        del lines[start + 1 :]

    def may_override(self, key: str) -> bool:
        """Whether a written key may stand although the mapping has it: it was merged in, and not written yet."""
        return key not in self._own

    def take(self, key: str, lines: list[int], start: int) -> None:
        """Notes a written member whose lines begin at `start`, and takes them off the document's."""
        self._own.add(key)
        self._lines[key] = lines[start:]
        del lines[start:]

    def merge(self, mappings: Sequence[JsonObject], line: int) -> list[str]:
        """Merges mappings in. Returns the written keys whose values were replaced by different ones."""
        replaced = []
        for mapping in reversed(mappings):
            for key, value in mapping.items():
                if key in self._own and self._mapping[key] != value:
                    replaced.append(key)
                self._mapping[key] = value
                self._lines[key] = [line] * count_nodes(value)
        return replaced

    def finish(self, lines: list[int], start: int) -> None:
        """Puts the members' lines back, in the order of the mapping."""
        del lines[start + 1 :]
        for key in self._mapping:
            lines.extend(self._lines[key])
