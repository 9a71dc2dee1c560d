"""Whose fields are whose: which of what a manifest states we set, and which we leave to others.

Four modes, for a whole object or for single fields of it:

- *override*: what somebody else changed is set back, as it is where nothing is said; and what somebody else added is taken away.
- *merge*: a field that another manager has changed is left to it; the rest is applied.
- *create-only*: stated when the object is created, left alone from then on.
- *ignore*: never stated.

An Application's `ignoreDifferences` mean create-only for the fields that they name. A field that is left alone is taken out of what is
sent where another manager owns it; where we own it alone its live value is sent instead, for the server would otherwise take it
away or reset it to its default.
"""

import copy
import enum
import fnmatch
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from delegate.model.applied import APPLIED_ANNOTATION, FIELD_MANAGER, PART_OF_LABEL
from delegate.model.fieldsets import Path, ownership_at, resolve_conflict, resolve_pointer, value_at
from delegate.model.lists import likely_keys
from delegate.model.pointers import pointer_of
from delegate.model.resources import JsonObject, Manifest
from delegate.model.strict import Strict

OWNERSHIP_ANNOTATION = "delegate.gitops/ownership"
_IDENTITY: frozenset[Path] = frozenset(
    {
        ("apiVersion",),
        ("kind",),
        ("metadata", "name"),
        ("metadata", "namespace"),
        ("metadata", "labels", PART_OF_LABEL),
        ("metadata", "annotations", APPLIED_ANNOTATION),
    }
)
"""What is ours whatever rules say: without it an object would not be known again."""


class Mode(enum.StrEnum):
    OVERRIDE = "override"
    MERGE = "merge"
    CREATE_ONLY = "create-only"
    IGNORE = "ignore"


class _Subject(Strict, frozen=True):
    """Which objects a rule is about; an empty part stands for any, and may hold `*`."""

    group: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""

    def is_about(self, manifest: Manifest) -> bool:
        key = manifest.key
        parts = ((key.group, self.group), (key.kind, self.kind), (key.name, self.name), (key.namespace, self.namespace))
        return all(not pattern or fnmatch.fnmatchcase(value, pattern) for value, pattern in parts)


class IgnoredDifference(_Subject, frozen=True):
    """An entry of `ignoreDifferences`, as Argo CD has it."""

    json_pointers: tuple[str, ...] = ()
    jq_path_expressions: tuple[str, ...] = ()
    managed_fields_managers: tuple[str, ...] = ()


class OwnershipRule(_Subject, frozen=True):
    """A mode for whole objects, or for the fields that `paths` (JSON pointers) name."""

    mode: Mode = Mode.OVERRIDE
    paths: tuple[str, ...] = ()


class Ownership(msgspec.Struct, frozen=True):
    """What is said of one object. `mode` None: nothing, of the whole. `fingerprint` tells one such value from another."""

    mode: Mode | None = None
    paths: tuple[tuple[Mode, str], ...] = ()
    managers: tuple[str, ...] = ()
    expressions: tuple[str, ...] = ()

    @property
    def is_plain(self) -> bool:
        return self == _PLAIN

    @property
    def fingerprint(self) -> str:
        return "" if self.is_plain else msgspec.json.encode(self).decode()

    def mode_at(self, path: Path, body: JsonObject) -> Mode | None:
        """Of the field at a path of a body: what the rule of the longest path that leads to it says, else that of the whole."""
        found, length = self.mode, -1
        for mode, pointer in self.paths:
            for resolved in resolve_pointer(pointer, body):
                if len(resolved) > length and path[: len(resolved)] == resolved:
                    found, length = mode, len(resolved)
        return found


_PLAIN = Ownership()


class Settled(msgspec.Struct, frozen=True):
    """What is sent of an object; the rules that matched nothing in it; and the fields that are left to others."""

    body: JsonObject
    unused: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def ownership_of(manifest: Manifest, ignored: Sequence[IgnoredDifference] = (), rules: Sequence[OwnershipRule] = ()) -> Ownership:
    """What the rules and the object's own annotation, which wins, say of it. Raises ValueError where the annotation can't be read."""
    mode: Mode | None = None
    paths: list[tuple[Mode, str]] = []
    managers: list[str] = []
    expressions: list[str] = []
    for rule in rules:
        if rule.is_about(manifest):
            paths += [(rule.mode, path) for path in rule.paths]
            mode = mode if rule.paths else rule.mode
    for difference in ignored:
        if difference.is_about(manifest):
            paths += [(Mode.CREATE_ONLY, pointer) for pointer in difference.json_pointers]
            managers += difference.managed_fields_managers
            expressions += difference.jq_path_expressions
    for own_mode, own_paths in _annotated(manifest):
        paths += [(own_mode, path) for path in own_paths]
        mode = mode if own_paths else own_mode
    return Ownership(mode, tuple(paths), tuple(dict.fromkeys(managers)), tuple(dict.fromkeys(expressions)))


def _annotated(manifest: Manifest) -> Iterator[tuple[Mode, list[str]]]:
    """`MODE` or `MODE /pointer ...`, several of them between semicolons."""
    for part in str(manifest.annotations.get(OWNERSHIP_ANNOTATION, "")).split(";"):
        words = part.split()
        if not words:
            continue
        try:
            mode = Mode(words[0])
        except ValueError:
            known = ", ".join(each.value for each in Mode)
            raise ValueError(f"{OWNERSHIP_ANNOTATION}: {words[0]!r} is not known; known are {known}") from None
        for word in words[1:]:
            if not word.startswith("/"):
                raise ValueError(f"{OWNERSHIP_ANNOTATION}: {word!r} is no JSON pointer; write /spec/replicas")
        yield mode, words[1:]


def settle_new(body: JsonObject, ownership: Ownership) -> JsonObject:
    """What is sent to create an object: all but what is never stated."""
    ignored = [path for mode, pointer in ownership.paths if mode is Mode.IGNORE for path in resolve_pointer(pointer, body)]
    return _without(body, ignored) if ignored else body


def settle(
    body: JsonObject,
    live: JsonObject,
    ownership: Ownership,
    *,
    found: Mapping[str, Sequence[Path]] | None = None,
    manager: str = FIELD_MANAGER,
) -> Settled:
    """What is sent onto a live object. `found` holds the paths in the body that each expression of the ownership leads to."""
    chosen, unused = list[Path](), list[str]()
    for mode, pointer in ownership.paths:
        if mode in (Mode.CREATE_ONLY, Mode.IGNORE):
            resolved = resolve_pointer(pointer, body)
            chosen += resolved
            unused += [] if resolved or value_at(live, pointer) else [pointer]
    for expression in ownership.expressions:
        paths = (found or {}).get(expression, ())
        chosen += paths
        unused += [] if paths else [expression]
    drop, adopt = dict[Path, None](), dict[Path, Any]()
    for leaf in (leaf for path in chosen for leaf in _leaves(body, path)):
        place = ownership_at(live, leaf, body, manager=manager)
        if place.others or not place.exists:
            drop[leaf] = None
        else:
            adopt[leaf] = place.value
    if ownership.managers:
        drop |= {leaf: None for leaf in _leaves(body, ()) if _is_owned_by(ownership.managers, live, leaf, body, manager)}
    left = tuple(pointer_of(leaf) for leaf in (*adopt, *drop))
    return Settled(_without(_with(body, adopt), drop), tuple(unused), left)


def _is_owned_by(managers: Sequence[str], live: JsonObject, leaf: Path, body: JsonObject, manager: str) -> bool:
    return not set(managers).isdisjoint(ownership_at(live, leaf, body, manager=manager).others)


def leave_conflicts(body: JsonObject, fields: Iterable[str]) -> tuple[JsonObject, tuple[str, ...]]:
    """A body without the fields that a conflict names (`.spec.replicas`), and those of them that are in it."""
    paths = [path for field in fields if (path := resolve_conflict(field, body)) is not None]
    return _without(body, paths), tuple(pointer_of(path) for path in paths)


def _leaves(body: JsonObject, path: Path) -> Iterator[Path]:
    """The leaves of a body at and below a path. What keys the entries of a list is none: an entry is left as a whole, or in its rest."""
    value: Any = body
    for step in path:
        value = value[step]
    yield from (leaf for leaf in _below(value, path) if leaf not in _IDENTITY)


def _below(value: Any, path: Path) -> Iterator[Path]:
    if isinstance(value, dict) and value:
        for name, each in value.items():
            yield from _below(each, (*path, name))
        return
    if isinstance(value, list) and value:
        keys = likely_keys(str(path[-1]) if path else "", value)
        if keys is not None and all(isinstance(each, dict) for each in value):
            for index, each in enumerate(value):
                for name, inner in each.items():
                    if name not in keys:
                        yield from _below(inner, (*path, index, name))
            return
    if path:
        yield path


def _with(body: JsonObject, values: Mapping[Path, Any]) -> JsonObject:
    if not values:
        return body
    made = copy.deepcopy(body)
    for path, value in values.items():
        parent: Any = made
        for step in path[:-1]:
            parent = parent[step]
        parent[path[-1]] = value
    return made


def _without(body: JsonObject, paths: Iterable[Path]) -> JsonObject:
    """A copy without these places; maps that this empties go too, for an empty map would be stated."""
    made = copy.deepcopy(body)
    for path in sorted(set(paths), key=len, reverse=True):
        parents: list[Any] = [made]
        for step in path[:-1]:
            parents.append(parents[-1][step])
        if isinstance(parents[-1], dict):
            parents[-1].pop(path[-1], None)
        for depth in range(len(path) - 1, 0, -1):
            if parents[depth] == {} and isinstance(parents[depth - 1], dict):
                del parents[depth - 1][path[depth - 1]]
            else:
                break
    return made
