"""What went wrong with a text, in words that say where and what to do."""

import json
import re
from typing import Any

import yaml
from yaml.events import Event
from yaml.reader import ReaderError

from delegate.engine.sources.errors import EncodingError, SyntaxFaultError

_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_MARKED_DOCUMENT = re.compile(rb"^(---[^\n]*\n)" + _BYTE_ORDER_MARK, re.MULTILINE)
"""Files that were put together from files with byte order marks."""
_WIDE_MARKS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16", b"\x00\x00\xfe\xff": "UTF-32"}
_CONFLICT = re.compile(rb"^(?:<{7}|>{7}) ", re.MULTILINE)
_GLUED = re.compile(rb"[^\s-]\s*-{3}\s*$|^\s+-{3}\s*$")
_GLUED_INSIDE = re.compile(rb"[^\s-]---|---[^\s-]")


def line_of(event: Event) -> int:
    return event.start_mark.line + 1 if event.start_mark is not None else 0


def check_encoding(data: bytes, file: str) -> bytes:
    """The bytes without UTF-8 byte order marks before documents, and with the last line ended.

    kubectl ends it too, which shows in block scalars. Raises EncodingError, with the offset of the first wrong byte.
    """
    for mark, name in _WIDE_MARKS.items():
        if data.startswith(mark):
            raise EncodingError(
                f"not UTF-8: byte 0x{data[0]:02x} at byte offset 0 (the file looks like {name})", hint="save the file as UTF-8", file=file
            )
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise EncodingError(
            f"not UTF-8: byte 0x{data[error.start]:02x} at byte offset {error.start} (line {line})",
            hint="save the file as UTF-8; if it is no text at all, leave it out",
            file=file,
            line=line,
        ) from error
    data = data.removeprefix(_BYTE_ORDER_MARK)
    if _BYTE_ORDER_MARK in data:
        data = _MARKED_DOCUMENT.sub(rb"\1", data)
    return data if data.endswith(b"\n") else data + b"\n"


def is_lfs_pointer(data: bytes) -> bool:
    return data.startswith(_LFS_POINTER)


def explain(error: yaml.YAMLError, data: bytes, file: str) -> SyntaxFaultError:
    """A libyaml error as a located fault. Never shows the text itself, which may hold secrets."""
    if isinstance(error, ReaderError):
        return _explain_character(error, data, file)
    mark: Any = getattr(error, "problem_mark", None)
    if mark is None:
        return SyntaxFaultError(f"not YAML: {error.__class__.__name__}", file=file)
    line, column = mark.line + 1, mark.column + 1
    text = _text_of_line(data, line)
    indentation = text[: len(text) - len(text.lstrip())]
    if b"\t" in indentation and column <= len(indentation) + 1:
        tab = indentation.index(b"\t") + 1
        return SyntaxFaultError(
            f"tab used for indentation (line {line}, column {tab})", hint="YAML indents with spaces", file=file, line=line
        )
    problem = getattr(error, "problem", None) or "not YAML"
    context: Any = getattr(error, "context_mark", None)
    words = f"{problem} (line {line}, column {column})"
    if getattr(error, "context", None) and context is not None:
        words += f" {error.context} that begins at line {context.line + 1}"  # type: ignore[attr-defined]  # checked above
    return SyntaxFaultError(words, hint=_hint(data, text, line, problem), file=file, line=line)


def explain_json(error: ValueError, file: str) -> SyntaxFaultError:
    """What keeps a text from being JSON."""
    if isinstance(error, json.JSONDecodeError):
        words = f"not JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        return SyntaxFaultError(words, file=file, line=error.lineno)
    return SyntaxFaultError(f"not JSON: {error}", file=file)


def glued_separator(data: bytes, line: int) -> int:
    """The line before `line` that ends in a document separator which isn't one, or 0."""
    before = line - 1
    while before > 0:
        text = _text_of_line(data, before)
        if text.strip():
            return before if _GLUED.search(text) else 0
        before -= 1
    return 0


def _hint(data: bytes, text: bytes, line: int, problem: str) -> str:
    if _CONFLICT.search(data):
        return "the file holds an unresolved merge conflict"
    if text.startswith(b"--- ") and "mapping values" in problem:
        return "put the document separator on a line of its own"
    if _GLUED_INSIDE.search(text):
        return f"looks like a document separator glued to other text in line {line}"
    glued = glued_separator(data, line)
    if glued:
        return f"looks like a document separator glued to the end of line {glued}"
    if b"{{" in text:
        return "looks like a template; render it first"
    if "mapping values are not allowed" in problem:
        return "quote the value if the colon belongs to it, or check the indentation"
    return ""


def _explain_character(error: ReaderError, data: bytes, file: str) -> SyntaxFaultError:
    offset = int(error.position)
    line = data.count(b"\n", 0, offset) + 1
    character = error.character if isinstance(error.character, int) else 0
    words = f"character U+{character:04X} is not allowed (line {line}, byte offset {offset})"
    hint = "if the file is no text, leave it out; inside a quoted string write it as an escape"
    return SyntaxFaultError(words, hint=hint, file=file, line=line)


def _text_of_line(data: bytes, line: int) -> bytes:
    """The text of a line. Only for faults: it looks from the beginning of the file."""
    position = 0
    for _ in range(line - 1):
        position = data.find(b"\n", position) + 1
        if not position:
            return b""
    end = data.find(b"\n", position)
    return data[position:] if end < 0 else data[position:end]
