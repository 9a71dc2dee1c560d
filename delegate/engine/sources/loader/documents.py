"""What a file holds, decoded: its documents, where each of their nodes was written, and the faults met on the way."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from delegate.engine.sources.errors import SyntaxFaultError, TooLargeError
from delegate.foundation.errors import DelegateError
from delegate.model.resources import JsonObject

Path = tuple[str | int, ...]
"""The way from a document's root to one of its nodes: keys of mappings and indexes of lists."""


class Lines(Protocol):
    """The lines of a value's nodes, all counted from 1. `body` is always the value that they belong to."""

    def first(self, body: object) -> int:
        """The line of its first key."""
        ...

    def find(self, body: object, path: Path) -> int:
        """The line where the key or item at `path` begins; that of its nearest ancestor if there is no such node."""
        ...

    def items(self, body: JsonObject) -> Iterator["Lines"]:
        """The lines of each of its `items`."""
        ...

    def with_fields_in_front(self, count: int) -> "Lines":
        """The lines of the same value after `count` scalar fields were put in front of its own."""
        ...


class Document(NamedTuple):
    """One document of a file. `mixed` says that its keys can't be trusted to belong together."""

    body: object
    number: int
    lines: Lines
    mixed: bool = False

    @property
    def line(self) -> int:
        return self.lines.first(self.body)


class Faults:
    """The faults of a whole set, in the order they were found; past the limit they are only counted."""

    def __init__(self, limit: int) -> None:
        self.found: list[DelegateError] = []
        self.left_out = 0
        self._limit = limit

    def add(self, error: DelegateError) -> None:
        if len(self.found) < self._limit:
            self.found.append(error)
        else:
            self.left_out += 1

    def extend(self, errors: Sequence[DelegateError]) -> None:
        for error in errors:
            self.add(error)

    def all(self) -> list[DelegateError]:
        """Every fault, and what was left out as one more."""
        if not self.left_out:
            return self.found
        return [*self.found, SyntaxFaultError(f"{self.left_out} more faults are not listed", hint="mend these first")]


def children(node: object) -> Iterator[tuple[str | int, object]]:
    """The members of a mapping or list with their keys, in written order; nothing for a scalar."""
    if isinstance(node, dict):
        yield from node.items()
    elif isinstance(node, list):
        yield from enumerate(node)


def count_nodes(node: object) -> int:
    """How many nodes a value holds, itself included."""
    count, pending = 0, [node]
    while pending:
        current = pending.pop()
        count += 1
        if isinstance(current, dict):
            pending.extend(current.values())
        elif isinstance(current, list):
            pending.extend(current)
    return count


def check_depth(body: object, depth: int, file: str, line: int) -> None:
    """Raises TooLargeError where mappings and lists stand deeper in each other than `depth`."""
    level = [body]
    for _ in range(depth + 1):
        level = [child for node in level for _, child in children(node) if isinstance(child, (dict, list))]
        if not level:
            return
    raise too_deep(depth, file, line)


def too_deep(depth: int, file: str, line: int) -> TooLargeError:
    return TooLargeError(f"mappings and lists nest deeper than {depth} levels (line {line})", file=file, line=line)


def describe_path(path: Path) -> str:
    """`spec.containers[0].env`, `metadata.labels["app.kubernetes.io/name"]`."""
    words = ""
    for step in path:
        if isinstance(step, int):
            words += f"[{step}]"
        elif step.replace("_", "").replace("-", "").isalnum():
            words += f".{step}" if words else step
        else:
            words += f'["{step}"]'
    return words or "the document"


def describe_type(value: object) -> str:
    """A JSON type in words: `boolean`, `integer`, `number`, `string`, `null`, `list`, `mapping`."""
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case None:
            return "null"
        case list():
            return "list"
        case _:
            return "mapping"


def as_object(value: object) -> JsonObject | None:
    return value if isinstance(value, dict) else None
