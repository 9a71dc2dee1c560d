"""YAML texts: values, lines and faults from the events of PyYAML's C parser (libyaml).

The library's own loaders resolve scalars differently from kubectl, keep the last of two equal keys, share the nodes of
anchors, and compose a whole document inside one call that holds the interpreter. Here each event is a step of its own,
and the value, the line of each node and every fault come out of one pass.
"""

import threading
from array import array
from collections.abc import Iterator
from typing import Any

import yaml
from yaml._yaml import CParser
from yaml.events import (
    AliasEvent,
    CollectionStartEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from delegate.engine.sources.errors import (
    DuplicateKeyError,
    KeyTypeError,
    ScalarError,
    SyntaxFaultError,
    TagError,
    TooLargeError,
)
from delegate.engine.sources.limits import SourceLimits
from delegate.engine.sources.loader import syntax
from delegate.engine.sources.loader.aliases import Anchors
from delegate.engine.sources.loader.documents import Document, Faults, Path, as_object, describe_path, too_deep
from delegate.engine.sources.loader.merging import MergedMapping
from delegate.engine.sources.loader.positions import YamlLines
from delegate.engine.sources.loader.scalars import LEADS, Scalar, UnrepresentableError, resolve_plain, resolve_tagged
from delegate.foundation.errors import DelegateError

_CORE = "tag:yaml.org,2002:"
_SCALAR_TAGS = ("int", "float", "bool", "null", "timestamp")
_ITEM = object()
"""Stands where a mapping's frame keeps its pending key: the frame is a list's."""
_MERGE = object()
"""The pending key is `<<`."""
_TYPE_WORDS = {bool: "a boolean", int: "an integer", float: "a number", type(None): "null"}


class Composer:
    """Composes the documents of one file. `notices` says what was decoded in a way that its author may not expect.

    The faults of a document that is no manifest are told only where `every_document` counts: such a one is mostly skipped.
    """

    def __init__(
        self, data: bytes, file: str, limits: SourceLimits, faults: Faults, notices: list[str], *, every_document: bool = False
    ) -> None:
        self._every_document = every_document
        self._data = data
        self._file = file
        self._limits = limits
        self._faults = faults
        self._notices = notices
        self._document_faults: list[DelegateError] = []
        self._number = 0
        self._mixed = False
        self._glued: object = None
        self._nodes = 0
        self._keys: dict[str, str] = {}
        self._anchors = Anchors(limits)
        self._parser: Any = CParser(data)

    def compose(self, stop: threading.Event) -> Iterator[Document]:
        """The documents that hold anything, in order. Raises the file's first fault of syntax or size."""
        try:
            while not stop.is_set():
                event: Event = self._parser.get_event()
                if type(event) is StreamEndEvent:
                    return
                if isinstance(event, DocumentStartEvent):
                    document = self._document(event)
                    if document is not None:
                        yield document
        except yaml.YAMLError as error:
            raise syntax.explain(error, self._data, self._file) from error
        finally:
            self._parser.dispose()

    def _document(self, start: DocumentStartEvent) -> Document | None:
        self._number += 1
        self._document_faults = []
        self._mixed = False
        self._glued = None
        self._anchors.clear()
        if start.version or start.tags:
            line = syntax.line_of(start)
            raise SyntaxFaultError(
                f"YAML directives are not read (line {line})", hint="remove the line that begins with %", file=self._file, line=line
            )
        lines: list[int] = []
        root: list[object] = []
        self._compose_node(root, lines)
        body = root[0] if root else None
        if body is None:
            return None
        mapping = as_object(body)
        # What is no manifest is skipped, so its faults are nobody's.
        if self._every_document or mapping is None or "apiVersion" in mapping or "kind" in mapping:
            self._faults.extend(self._document_faults)
        return Document(body, self._number, YamlLines(array("I", lines)), self._mixed)

    def _compose_node(self, root: list[object], lines: list[int]) -> None:  # noqa: PLR0912, PLR0915 - one loop for speed
        """Reads the events of one document.

        A frame is (container, pending key, its index in `lines`, its anchor, its merged members). The pending key is
        None where a mapping expects one, `_ITEM` in a list.
        """
        get_event = self._parser.get_event
        known_keys = self._keys
        add_line = lines.append
        limits = self._limits
        container: Any = root
        key: Any = _ITEM
        start, anchor = 0, None
        merged: MergedMapping | None = None
        stack: list[tuple[Any, Any, int, str | None, MergedMapping | None]] = []
        key_line = 0
        value: Any
        for _ in range(3 * (limits.nodes - self._nodes)):
            event = get_event()
            kind = type(event)
            if kind is ScalarEvent:
                text = event.value
                if key is None:
                    key_line = event.start_mark.line + 1
                    key = known_keys.get(text)
                    if key is None or event.tag is not None or event.anchor is not None:
                        key = self._key(event, stack, container)
                    if key in container and not (merged and merged.may_override(key)):
                        key = self._repeated_key(key, key_line, container, lines[start:], len(stack))
                    continue
                implicit = event.implicit
                if implicit[0] and event.tag is None:
                    value = text if text and text[0] not in LEADS else self._plain(event, stack, container, key)
                elif implicit[1]:
                    value = text
                else:
                    value = self._tagged(event, stack, container, key)
                if event.anchor is not None:
                    self._anchors.close(event.anchor, value)
                value_start = len(lines)
                add_line(event.start_mark.line + 1 if key is _ITEM else key_line)
            elif kind is MappingStartEvent or kind is SequenceStartEvent:
                if event.tag is not None:
                    self._collection_tag(event)
                line = event.start_mark.line + 1 if key is _ITEM else key_line
                if key is None:
                    raise self._complex_key(event, stack, container)
                if len(stack) > limits.depth:
                    raise too_deep(limits.depth, self._file, line)
                stack.append((container, key, start, anchor, merged))
                start, anchor, merged = len(lines), event.anchor, None
                if anchor is not None:
                    self._anchors.open(anchor)
                add_line(line)
                container, key = ({}, None) if kind is MappingStartEvent else ([], _ITEM)
                continue
            elif kind is MappingEndEvent or kind is SequenceEndEvent:
                if merged is not None:
                    merged.finish(lines, start)
                value, value_start = container, start
                if anchor is not None:
                    self._anchors.close(anchor, value)
                container, key, start, anchor, merged = stack.pop()
            elif kind is AliasEvent:
                line = event.start_mark.line + 1
                if key is None:
                    key_line = line
                    key = self._alias_key(event)
                    if key in container and not (merged and merged.may_override(key)):
                        key = self._repeated_key(key, key_line, container, lines[start:], len(stack))
                    continue
                value, count = self._alias(event, len(stack))
                value_start = len(lines)
                lines.extend([line if key is _ITEM else key_line] * count)
            elif kind is DocumentEndEvent:
                self._nodes += len(lines)
                if self._nodes > limits.nodes:
                    break
                return
            else:
                raise SyntaxFaultError(f"unexpected {kind.__name__}", file=self._file, line=syntax.line_of(event))
            if key is _ITEM:
                container.append(value)
                continue
            if key is _MERGE:
                merged = merged or MergedMapping(container, lines, start)
                del lines[value_start:]
                self._merge(merged, value, key_line)
            else:
                container[key] = value
                if merged is not None:
                    merged.take(key, lines, value_start)
            key = None
        raise TooLargeError(f"the file holds more than {limits.nodes} nodes", hint="split it into several files", file=self._file)

    def _key(self, event: ScalarEvent, stack: list[Any], container: object) -> object:
        """The key of a mapping, or `_MERGE`. A key that is no string is a fault, and stands as its text."""
        text, plain = event.value, event.implicit[0] and event.tag is None
        if (plain and text == "<<") or event.tag == _CORE + "merge":
            return _MERGE
        value: Scalar = text
        if plain:
            value = self._plain(event, stack, container, text)
        elif not event.implicit[1]:
            value = self._tagged(event, stack, container, text)
        if event.anchor is not None:
            self._anchors.close(event.anchor, value)
        if not isinstance(value, str):
            self._fault_key(f"{_TYPE_WORDS[type(value)]} (`{text}`); quote it", syntax.line_of(event), stack, container)
            return text
        if plain:
            self._keys[text] = text
        return value

    def _fault_key(self, words: str, line: int, stack: list[Any], container: object) -> None:
        where = describe_path(_path(stack, container))
        self._document_faults.append(
            KeyTypeError(
                f"{where}: mapping key is {words} (line {line}, document {self._number})",
                hint="keys of JSON are strings",
                file=self._file,
                line=line,
            )
        )

    def _complex_key(self, event: CollectionStartEvent, stack: list[Any], container: object) -> KeyTypeError:
        line = syntax.line_of(event)
        words = "a mapping" if isinstance(event, MappingStartEvent) else "a list"
        where = describe_path(_path(stack, container))
        hint = "if it is a template's placeholder, render it first; if it is a text, quote it"
        return KeyTypeError(
            f"{where}: mapping key is {words} (line {line}, document {self._number})", hint=hint, file=self._file, line=line
        )

    def _repeated_key(self, key: str, line: int, container: dict[str, object], lines: list[int], depth: int) -> str:
        """Tells of a key that its mapping already has, and returns another one to keep the value under."""
        if self._glued is not container:
            first = YamlLines(array("I", lines)).find(container, (key,))
            glued = syntax.glued_separator(self._data, line)
            self._glued = container if glued else None
            hint = (
                f"looks like a document separator glued to the end of line {glued}" if glued else "one of the two would be lost; keep one"
            )
            self._document_faults.append(
                DuplicateKeyError(
                    f"duplicate mapping key `{key}` (line {line}, first at line {first}) in document {self._number}",
                    hint=hint,
                    file=self._file,
                    line=line,
                )
            )
        self._mixed = self._mixed or depth == 1
        other = f"{key} (line {line})"
        while other in container:
            other += "'"
        return other

    def _plain(self, event: ScalarEvent, stack: list[Any], container: object, key: object) -> Scalar:
        try:
            return resolve_plain(event.value)
        except UnrepresentableError as error:
            self._fault_scalar(ScalarError, str(error), event, _path(stack, container, key))
            return event.value

    def _tagged(self, event: ScalarEvent, stack: list[Any], container: object, key: object) -> Scalar:
        tag, text = event.tag or "!", event.value
        name = tag.removeprefix(_CORE)
        if tag == "!" or (name == "str" and name != tag):
            return text
        if tag.startswith(_CORE) and name in _SCALAR_TAGS:
            try:
                return resolve_tagged(name, text)
            except UnrepresentableError as error:
                self._fault_scalar(ScalarError, str(error), event, _path(stack, container, key))
            except ValueError:
                self._fault_scalar(TagError, f"tag !!{name} on a value that is none", event, _path(stack, container, key))
            return text
        shown = f"!!{name}" if name != tag else tag
        hint = "put base64 text into binaryData or data as it is" if name == "binary" else ""
        self._fault_scalar(TagError, f"tag {shown} has no meaning in a manifest", event, _path(stack, container, key), hint)
        return text

    def _fault_scalar(self, kind: type[ScalarError | TagError], words: str, event: ScalarEvent, path: Path, hint: str = "") -> None:
        line = syntax.line_of(event)
        message = f"{describe_path(path)}: {words} (line {line}, document {self._number})"
        self._document_faults.append(kind(message, hint=hint, file=self._file, line=line))

    def _collection_tag(self, event: CollectionStartEvent) -> None:
        wanted = _CORE + ("map" if isinstance(event, MappingStartEvent) else "seq")
        if event.tag not in (wanted, "!"):
            line = syntax.line_of(event)
            shown = str(event.tag).replace(_CORE, "!!", 1)
            self._document_faults.append(
                TagError(
                    f"tag {shown} has no meaning in a manifest (line {line}, document {self._number})",
                    hint="remove the tag",
                    file=self._file,
                    line=line,
                )
            )

    def _alias(self, event: AliasEvent, depth: int) -> tuple[object, int]:
        line = syntax.line_of(event)
        name = str(event.anchor)
        try:
            return self._anchors.copy(name, depth)
        except KeyError:
            raise SyntaxFaultError(f"unknown anchor `{name}` (line {line})", file=self._file, line=line) from None
        except RecursionError:
            raise SyntaxFaultError(f"anchor `{name}` contains itself (line {line})", file=self._file, line=line) from None
        except OverflowError as error:
            hint = "write the repeated parts out, or generate the file"
            raise TooLargeError(f"alias expansion limit: {error} (line {line})", hint=hint, file=self._file, line=line) from None

    def _alias_key(self, event: AliasEvent) -> str:
        value, _ = self._alias(event, 0)
        if isinstance(value, str):
            return value
        line = syntax.line_of(event)
        raise KeyTypeError(f"mapping key is an alias of what is no string (line {line})", file=self._file, line=line)

    def _merge(self, merged: MergedMapping, value: object, line: int) -> None:
        members = value if isinstance(value, list) else [value]
        mappings = [member for member in members if isinstance(member, dict)]
        if len(mappings) != len(members):
            raise SyntaxFaultError(f"`<<` needs a mapping or a list of mappings (line {line})", file=self._file, line=line)
        for name in merged.merge(mappings, line):
            self._notices.append(
                f"{self._file}:{line}: `<<` replaces `{name}`, which stands before it, as kubectl reads it; put `<<` first to keep your own"
            )


def _path(stack: list[Any], container: object, key: object = None) -> Path:
    """The way to the node that is being read."""
    path: list[str | int] = []
    for outer, outer_key, *_ in stack[1:]:
        path.append(len(outer) if outer_key is _ITEM else "<<" if outer_key is _MERGE else outer_key)
    if key is _ITEM and isinstance(container, list):
        path.append(len(container))
    elif isinstance(key, str):
        path.append(key)
    return tuple(path)
