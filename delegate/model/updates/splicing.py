"""Replaces places of a text, and proves that nothing else changed: neither a byte outside of them, nor what the file says.

The proof reads the new text and compares its events with those of the old one, where only the replaced scalars may differ.
"""

from collections.abc import Sequence
from typing import NamedTuple

import yaml

from delegate.model.updates.errors import UnfaithfulEditError, UnreadableYamlError
from delegate.model.updates.scalars import Value, value_text, write_scalar
from delegate.model.updates.texts import Scalar, YamlText, line_of, read_yaml, same_meaning


class Replacement(NamedTuple):
    """A scalar that gets another value. `path` is for people."""

    scalar: Scalar
    value: Value
    path: str


class Insertion(NamedTuple):
    """A member of a block mapping that gets a line of its own below the line of `after`, as far in as `key`."""

    key: Scalar
    after: Scalar
    name: str
    value: str
    path: str


class Renaming(NamedTuple):
    """A member that gets another name and another value, such as `digest:` that becomes `newTag:`."""

    key: Scalar
    scalar: Scalar
    name: str
    value: str
    path: str


Splice = Replacement | Insertion | Renaming


class Touched(NamedTuple):
    """What changed at one place, for results and messages."""

    file: str
    line: int
    path: str
    before: str | None
    after: str | None


class Spliced(NamedTuple):
    text: str
    touched: tuple[Touched, ...]


def splice(source: YamlText, splices: Sequence[Splice]) -> Spliced:
    """The text with every splice that changes something. Raises UnfaithfulEditError where that would say anything else.

    Two splices of one place have to agree.
    """
    pieces: dict[tuple[int, int], str] = {}
    expected: dict[int, tuple[str, ...]] = {}
    touched: dict[int, Touched] = {}
    for each in splices:
        if isinstance(each, Replacement) and _says(each.scalar, each.value):
            continue
        for start, end, text in _pieces(source.text, each):
            if pieces.setdefault((start, end), text) != text:
                raise UnfaithfulEditError(f"{each.path} would get two values", file=source.file, hint="name it once")
        number, values, told = _expectation(source.file, each)
        expected[number], touched[number] = values, told
    text = source.text
    for (start, end), piece in sorted(pieces.items(), reverse=True):
        text = text[:start] + piece + text[end:]
    _prove(source, text, expected)
    return Spliced(text, tuple(touched[number] for number in sorted(touched)))


def _says(scalar: Scalar, value: Value) -> bool:
    """Whether a scalar has the value already, and the type."""
    if isinstance(value, str):
        return scalar.value == value and scalar.is_text
    if value is None:
        return scalar.style == "" and scalar.value in ("", "null", "~", "Null", "NULL")
    return scalar.value == value_text(value)


def _pieces(text: str, each: Splice) -> list[tuple[int, int, str]]:
    match each:
        case Replacement(scalar, value):
            return [(scalar.start, scalar.end, _spaced(text, scalar) + write_scalar(value, scalar))]
        case Renaming(key, scalar, name, value):
            return [(key.start, key.end, name), (scalar.start, scalar.end, _spaced(text, scalar) + write_scalar(value, scalar))]
        case Insertion(key, after, name, value):
            line_start = text.rfind("\n", 0, key.start) + 1
            indent = "".join(character if character == "\t" else " " for character in text[line_start : key.start])
            line_end = text.find("\n", after.end)
            ending = "\r\n" if line_end > 0 and text[line_end - 1] == "\r" else "\n"
            if line_end < 0:
                return [(len(text), len(text), f"{ending}{indent}{name}: {write_scalar(value)}")]
            return [(line_end + 1, line_end + 1, f"{indent}{name}: {write_scalar(value)}{ending}")]


def _spaced(text: str, scalar: Scalar) -> str:
    """A value that is left out stands right behind its colon."""
    return " " if scalar.start == scalar.end and text[scalar.start - 1 : scalar.start] not in (" ", "\n", "") else ""


def _expectation(file: str, each: Splice) -> tuple[int, tuple[str, ...], Touched]:
    match each:
        case Replacement(scalar, value, path):
            after = value_text(value)
            return scalar.event, (after,), Touched(file, scalar.line, path, scalar.value, after)
        case Renaming(key, scalar, name, value, path):
            return key.event, (name, value), Touched(file, key.line, path, scalar.value, value)
        case Insertion(_, after_, name, value, path):
            told = Touched(file, after_.line + 1, path, None, value)
            return after_.event, (after_.value, name, value), told


def _prove(source: YamlText, text: str, expected: dict[int, tuple[str, ...]]) -> None:
    try:
        events = read_yaml(text, source.file).events
    except UnreadableYamlError as error:
        raise _unfaithful(source, error.line) from error
    position = 0
    skipped = -1
    for number, event in enumerate(source.events):
        if number == skipped:
            continue
        values = expected.get(number)
        if values is None:
            if position >= len(events) or not same_meaning(event, events[position]):
                raise _unfaithful(source, line_of(event))
            position += 1
            continue
        got = events[position : position + len(values)]
        said = tuple(each.value for each in got if isinstance(each, yaml.ScalarEvent))
        if said != values:
            raise _unfaithful(source, line_of(event))
        position += len(values)
        skipped = number + 1 if len(values) == 2 else -1
    if position != len(events):
        raise _unfaithful(source, None)


def _unfaithful(source: YamlText, line: int | None) -> UnfaithfulEditError:
    words = "the edit would change more than its own place"
    return UnfaithfulEditError(words, file=source.file, line=line, hint="write this place in a plainer form, or edit it by hand")
