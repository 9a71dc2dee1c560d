"""Walks a JSON text that is known to be sound, to say where something in it stands.

The fast decoder of `json_documents` tells no positions; this one is far slower and runs only when a place is asked for.
"""

import json
import re
from collections.abc import Iterator
from json.decoder import scanstring  # type: ignore[attr-defined]  # typeshed leaves it out
from typing import NamedTuple

from delegate.engine.sources.loader.documents import Path

_SPACE = re.compile(r"[ \t\n\r,:]*")
_LITERAL = re.compile(r"[-+.\w]+")


class JsonNode(NamedTuple):
    """A node of the text, or a key that its object already has (then `first_line` is that of the first one).

    `lexeme` is a literal as written, a decoded string, or the opening bracket.
    """

    document: int
    path: Path
    line: int
    lexeme: str
    quoted: bool
    first_line: int = 0


class _Frame:
    __slots__ = ("index", "key", "line", "seen")

    def __init__(self, is_object: bool) -> None:
        self.seen: dict[str, int] | None = {} if is_object else None
        self.key: str | None = None
        self.index = -1
        self.line = 0


def scan(text: str, offset: int = 0, line: int = 1) -> Iterator[JsonNode]:
    """Every node from `offset` on, which stands in `line`, in written order. A member of an object stands at the line of its key."""
    frames: list[_Frame] = []
    document, position, counted = 0, offset, offset
    while True:
        position = _skip(text, position)
        if position >= len(text):
            return
        line += text.count("\n", counted, position)
        counted = position
        if text[position] in "}]":
            frames.pop()
            _complete(frames)
            position += 1
            continue
        lexeme, position, quoted = _lexeme(text, position)
        frame = frames[-1] if frames else None
        if frame is None:
            document += 1
        elif frame.seen is not None and frame.key is None:
            if lexeme in frame.seen:
                yield JsonNode(document, (*_path(frames[:-1]), lexeme), line, lexeme, True, frame.seen[lexeme])
            frame.seen.setdefault(lexeme, line)
            frame.key, frame.line = lexeme, line
            continue
        else:
            frame.index += 1
        yield JsonNode(document, _path(frames), frame.line if frame and frame.key is not None else line, lexeme, quoted)
        if lexeme in ("{", "[") and not quoted:
            frames.append(_Frame(lexeme == "{"))
        else:
            _complete(frames)


def find_line(text: str, offset: int, line: int, path: Path) -> int:
    """The line of the node at `path` of the value at `offset`, or of the node's nearest ancestor."""
    found = line
    for node in scan(text, offset, line):
        if node.document > 1:
            break
        if not node.first_line and path[: len(node.path)] == node.path:
            found = node.line
            if len(node.path) == len(path):
                break
    return found


def lines_before_key(text: str, offset: int) -> int:
    """How many lines below the brace at `offset` its first key stands."""
    return text.count("\n", offset, _skip(text, offset + 1))


def find_items(text: str, offset: int, line: int) -> Iterator[tuple[int, int]]:
    """Where the members of the array `items` of the object at `offset` begin, by offset and line.

    The values in between are skipped by the C decoder, because a list may hold thousands of objects.
    """
    skip_value = json.JSONDecoder().raw_decode
    position = _skip(text, offset + 1)
    while text[position] == '"':
        key, position = scanstring(text, position + 1, True)
        position = _skip(text, position)
        if key == "items":
            break
        position = _skip(text, skip_value(text, position)[1])
    if text[position] != "[":
        return
    counted = offset
    position = _skip(text, position + 1)
    while text[position] != "]":
        line += text.count("\n", counted, position)
        counted = position
        yield position, line
        position = _skip(text, skip_value(text, position)[1])


def _skip(text: str, position: int) -> int:
    space = _SPACE.match(text, position)
    return space.end() if space else position


def _lexeme(text: str, position: int) -> tuple[str, int, bool]:
    character = text[position]
    if character == '"':
        string, end = scanstring(text, position + 1, True)
        return string, end, True
    literal = None if character in "{[" else _LITERAL.match(text, position)
    return (literal[0], literal.end(), False) if literal else (character, position + 1, False)


def _complete(frames: list[_Frame]) -> None:
    if frames:
        frames[-1].key = None


def _path(frames: list[_Frame]) -> Path:
    return tuple(frame.index if frame.key is None else frame.key for frame in frames)
