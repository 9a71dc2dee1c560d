"""Which objects of a set a selective sync is about: `group:kind:[namespace/]name`, as Argo CD writes it, or as results show an object.

Each part may hold `*` and `?`; one that begins with `!` leaves out what it matches.
"""

import fnmatch
import re
from collections.abc import Iterable

import msgspec

from delegate.model.resources import ResourceKey

_ARGO = re.compile(r"(?P<group>[^:/\s]*):(?P<kind>[^:/\s]+):(?:(?P<namespace>[^:/\s]*)/)?(?P<name>[^:/\s]+)")
_SHOWN = re.compile(r"(?:(?P<group>[^:/\s]+)/)?(?P<kind>[^:/\s]+)\s+(?:(?P<namespace>[^:/\s]+)/)?(?P<name>[^:/\s]+)")


class Pattern(msgspec.Struct, frozen=True):
    """`namespace` None: in any namespace, or in none."""

    group: str
    kind: str
    name: str
    namespace: str | None = None
    leaves_out: bool = False

    def matches(self, key: ResourceKey) -> bool:
        pairs = [(key.group, self.group), (key.kind, self.kind), (key.name, self.name)]
        if self.namespace is not None:
            pairs.append((key.namespace, self.namespace))
        return all(fnmatch.fnmatchcase(value, pattern) for value, pattern in pairs)


def read_pattern(text: str) -> Pattern:
    """Raises ValueError, which says how one is written."""
    leaves_out = text.startswith("!")
    written = text.removeprefix("!").strip()
    match = _ARGO.fullmatch(written) or _SHOWN.fullmatch(written)
    if match is None:
        raise ValueError(f"{text!r} names no object: write group:kind:namespace/name, as apps:Deployment:shop/web; * stands for anything")
    return Pattern(match["group"] or "", match["kind"], match["name"], match["namespace"], leaves_out)


class Selection(msgspec.Struct, frozen=True):
    """An object is selected where some pattern takes it in and none leaves it out. Without patterns everything is."""

    patterns: tuple[Pattern, ...] = ()

    @property
    def is_whole(self) -> bool:
        return not self.patterns

    def without(self, keys: Iterable[ResourceKey]) -> "Selection":
        """The same, but for these objects."""
        return Selection((*self.patterns, *(Pattern(key.group, key.kind, key.name, key.namespace, leaves_out=True) for key in keys)))

    def __contains__(self, key: ResourceKey) -> bool:
        taking = [pattern for pattern in self.patterns if not pattern.leaves_out]
        left_out = any(pattern.matches(key) for pattern in self.patterns if pattern.leaves_out)
        return not left_out and (not taking or any(pattern.matches(key) for pattern in taking))

    def unmatched(self, keys: Iterable[ResourceKey]) -> list[Pattern]:
        """The patterns that match none of the objects: most likely slips."""
        known = list(keys)
        return [pattern for pattern in self.patterns if not any(pattern.matches(key) for key in known)]


def read_selection(texts: Iterable[str]) -> Selection:
    """Raises ValueError."""
    return Selection(tuple(read_pattern(text) for text in texts))
