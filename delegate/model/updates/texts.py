"""YAML as text with places: where each scalar begins and ends, so that one can be replaced and no other byte moves.

A file is never written out again from what it means: that would fold lines, move comments and change quotes. It is read into
the parser's events, which carry positions; aliases stay what they are, so that a few lines can't become millions of nodes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import yaml

from delegate.model.updates.errors import UnreadableYamlError

_BOM = "\ufeff"
_MOST_CHARACTERS = 4 * 1024 * 1024
_DEEPEST = 100
# The one in C is ten times as fast, and its positions are the same.
_Loader: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Node:
    """A value in a text. `event` is its number among the file's events; `start` and `end` are characters of the text."""

    event: int
    start: int
    end: int
    line: int


@dataclass(frozen=True)
class Scalar(Node):
    value: str = ""
    style: str = ""
    """Empty for plain, else the quote, `|` or `>`."""
    decorated: bool = False
    """Whether it carries an anchor or a tag."""
    is_text: bool = True
    """Whether it is a text, and no number, truth value or null."""


@dataclass(frozen=True)
class Alias(Node):
    pass


@dataclass(frozen=True)
class Mapping(Node):
    members: list[tuple[Scalar, "AnyNode"]] = field(default_factory=list)
    in_flow: bool = False

    def get(self, name: str) -> "AnyNode | None":
        """The first member of that name."""
        return next((value for key, value in self.members if key.value == name), None)

    def text_of(self, name: str) -> str:
        """The value of a member that is a scalar, else nothing."""
        value = self.get(name)
        return value.value if isinstance(value, Scalar) else ""


@dataclass(frozen=True)
class ListNode(Node):
    items: list["AnyNode"] = field(default_factory=list)


AnyNode = Scalar | Alias | Mapping | ListNode


@dataclass(frozen=True)
class YamlText:
    """A file's text and its documents; empty ones are left out."""

    file: str
    text: str
    events: tuple[yaml.Event, ...]
    documents: tuple[AnyNode, ...]


def read_yaml(text: str, file: str) -> YamlText:
    """Raises UnreadableYamlError with the line where it stops being YAML."""
    if len(text) > _MOST_CHARACTERS:
        raise UnreadableYamlError(f"more than {_MOST_CHARACTERS} characters", file=file)
    shift = 1 if text.startswith(_BOM) else 0
    try:
        events = tuple(yaml.parse(text[shift:], Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise UnreadableYamlError(f"this is no YAML: {error.problem}", file=file, line=line, hint=_TEMPLATE_HINT) from error
    except yaml.YAMLError as error:
        raise UnreadableYamlError(f"this is no YAML: {error}", file=file, hint=_TEMPLATE_HINT) from error
    builder = _Builder(events, shift, file)
    return YamlText(file, text, events, tuple(builder.documents()))


def same_meaning(before: yaml.Event, after: yaml.Event) -> bool:
    """Whether two events say the same, wherever they stand."""
    return _told(before) == _told(after)


def _told(event: yaml.Event) -> tuple[object, ...]:
    names = ("anchor", "tag", "implicit", "value", "style", "flow_style", "explicit", "version", "tags")
    return (type(event), *(getattr(event, name, None) or None for name in names))


_TEMPLATE_HINT = "edits go into YAML files; the values of a chart, not its templates"


class _Builder:
    def __init__(self, events: Sequence[yaml.Event], shift: int, file: str) -> None:
        self._events = events
        self._shift = shift
        self._file = file
        self._position = 0

    def documents(self) -> Iterator[AnyNode]:
        while self._position < len(self._events):
            event = self._events[self._position]
            if isinstance(event, (yaml.StreamStartEvent, yaml.StreamEndEvent, yaml.DocumentStartEvent, yaml.DocumentEndEvent)):
                self._position += 1
            else:
                yield self._node(0)

    def _node(self, depth: int) -> AnyNode:
        number, event = self._position, self._events[self._position]
        place = (number, _index(event.start_mark) + self._shift, _index(event.end_mark) + self._shift, line_of(event))
        if depth > _DEEPEST:
            raise UnreadableYamlError(f"nested more than {_DEEPEST} deep", file=self._file, line=place[3])
        self._position += 1
        match event:
            case yaml.ScalarEvent():
                decorated = event.anchor is not None or event.tag is not None
                return Scalar(*place, event.value, _style(event), decorated, _is_text(event))
            case yaml.AliasEvent():
                return Alias(*place)
            case yaml.SequenceStartEvent():
                items = list(self._until(yaml.SequenceEndEvent, depth))
                return ListNode(*place, items)
            case yaml.MappingStartEvent():
                inside = list(self._until(yaml.MappingEndEvent, depth))
                pairs = [(key, value) for at, (key, value) in enumerate(pairwise(inside)) if at % 2 == 0]
                return Mapping(*place, [(key, value) for key, value in pairs if isinstance(key, Scalar)], bool(event.flow_style))
            case _:
                raise UnreadableYamlError("this is no YAML", file=self._file, line=place[3])

    def _until(self, end: type[yaml.Event], depth: int) -> Iterator[AnyNode]:
        while not isinstance(self._events[self._position], end):
            yield self._node(depth + 1)
        self._position += 1


def _style(event: yaml.ScalarEvent) -> str:
    style = event.style
    return "" if style in (None, "") else str(style)


def _index(mark: object) -> int:
    return int(getattr(mark, "index", 0))


def line_of(event: yaml.Event) -> int:
    """The line, from 1 on, that an event begins on."""
    return int(getattr(event.start_mark, "line", 0)) + 1


_RESOLVER = yaml.resolver.Resolver()
_TEXT_TAG = "tag:yaml.org,2002:str"


def _is_text(event: yaml.ScalarEvent) -> bool:
    return _style(event) != "" or resolves_to_text(event.value)


def resolves_to_text(value: str) -> bool:
    """Whether a plain scalar is a text to a YAML 1.1 reader."""
    tag = _RESOLVER.resolve(yaml.ScalarNode, value, (True, False))  # type: ignore[no-untyped-call]
    return bool(tag == _TEXT_TAG)
