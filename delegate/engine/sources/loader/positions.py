"""Where the nodes of a decoded document were written, and how people and servers name a node.

The lines of a YAML document are one integer a node, in the order of the decoded value; a JSON text is scanned again
when somebody asks, which is seldom.
"""

import re
import zlib
from array import array
from collections.abc import Iterator

from delegate.engine.sources.loader import json_scanning
from delegate.engine.sources.loader.documents import Path, children, count_nodes
from delegate.model.pointers import steps_of
from delegate.model.resources import JsonObject

_FIELD_STEP = re.compile(r"\.?([^.\[\]]+)|\[([^\[\]]*)\]")
_SELECTOR = re.compile(r"([^=]+)=\"?([^\"]*)\"?")


class YamlLines:
    """One line a node, in preorder of the value."""

    __slots__ = ("table",)

    def __init__(self, table: "array[int]") -> None:
        self.table = table

    def first(self, body: object) -> int:
        return self.table[1 if isinstance(body, dict) and len(self.table) > 1 else 0]

    def find(self, body: object, path: Path) -> int:
        node, position = body, 0
        for step in path:
            ahead = position + 1
            for key, child in children(node):
                if key == step:
                    node, position = child, ahead
                    break
                ahead += count_nodes(child)
            else:
                break
        return self.table[position] if position < len(self.table) else 0

    def items(self, body: JsonObject) -> Iterator["YamlLines"]:
        position = 1
        for key, member in body.items():
            if key == "items":
                break
            position += count_nodes(member)
        position += 1
        for item in body["items"] or ():
            count = count_nodes(item)
            yield YamlLines(self.table[position : position + count])
            position += count

    def with_fields_in_front(self, count: int) -> "YamlLines":
        return YamlLines(array("I", [self.table[0]] * (count + 1)) + self.table[1:])


class JsonText:
    """The text of a JSON file. It is kept compressed once the file has been read, and not at all if it is one line."""

    __slots__ = ("_packed", "_text", "lines")

    def __init__(self, text: str) -> None:
        self.lines = text.rstrip().count("\n") + 1
        self._text = text
        self._packed = b""

    def pack(self) -> None:
        if self._text and self.lines > 1:
            self._packed = zlib.compress(self._text.encode(), 1)
        self._text = ""

    def unpack(self) -> str:
        return self._text or zlib.decompress(self._packed).decode()


class JsonLines:
    """A value in a JSON text: at which character and line it begins."""

    __slots__ = ("line", "offset", "text")

    def __init__(self, text: JsonText, offset: int, line: int) -> None:
        self.text = text
        self.offset = offset
        self.line = line

    def first(self, body: object) -> int:
        if self.text.lines == 1 or not isinstance(body, dict) or not body:
            return self.line
        return self.line + json_scanning.lines_before_key(self.text.unpack(), self.offset)

    def find(self, body: object, path: Path) -> int:
        del body
        return self.line if self.text.lines == 1 else json_scanning.find_line(self.text.unpack(), self.offset, self.line, path)

    def items(self, body: JsonObject) -> Iterator["JsonLines"]:
        items = body["items"] or ()
        if self.text.lines == 1:
            yield from (self for _ in items)
            return
        for offset, line in json_scanning.find_items(self.text.unpack(), self.offset, self.line):
            yield JsonLines(self.text, offset, line)

    def with_fields_in_front(self, count: int) -> "JsonLines":
        del count
        return self


def parse_pointer(pointer: str, body: object) -> Path:
    """The path that a JSON pointer (RFC 6901) or a field path of the API server means in `body`.

    `/spec/containers/0/image`, `spec.containers[0].image` and `.spec.containers[name="web"].image` name the same node.
    A step that `body` doesn't have ends the path there.
    """
    if pointer.startswith("/"):
        steps = steps_of(pointer)
    else:
        steps = [match[1] if match[1] is not None else match[2] for match in _FIELD_STEP.finditer(pointer)]
    path: list[str | int] = []
    node = body
    for step in steps:
        found = _member(node, step)
        if found is None:
            break
        path.append(found)
        node = node[found]  # type: ignore[index]  # `_member` found it there
    return tuple(path)


def _member(node: object, step: str) -> str | int | None:
    if isinstance(node, dict):
        bare = step.strip("\"'")
        return step if step in node else bare if bare in node else None
    if not isinstance(node, list):
        return None
    if step.isascii() and step.isdigit():
        return int(step) if len(step) < 10 and int(step) < len(node) else None
    wanted = dict(pair for part in step.split(",") if (match := _SELECTOR.fullmatch(part)) and (pair := (match[1], match[2])))
    for index, item in enumerate(node):
        if wanted and isinstance(item, dict) and all(str(item.get(key)) == value for key, value in wanted.items()):
            return index
    return None
