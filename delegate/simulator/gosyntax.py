"""Faults of JSON texts in the words of Go's `encoding/json`, as far as Python's decoder tells."""

import json

_LITERALS = ("true", "false", "null")
_PLACES = {
    "Expecting value": "looking for beginning of value",
    "Expecting property name": "looking for beginning of object key string",
    "Expecting ':'": "after object key",
    "Expecting ','": "after object key:value pair",
    "Extra data": "after top-level value",
}


def syntax_error(error: ValueError | RecursionError) -> str:
    if not isinstance(error, json.JSONDecodeError):
        return "exceeded max depth" if isinstance(error, RecursionError) else "invalid UTF-8"
    rest = error.doc[error.pos :].lstrip(" \t\r\n")
    if not rest or error.msg.startswith("Unterminated"):
        return "unexpected end of JSON input"
    where = next((place for start, place in _PLACES.items() if error.msg.startswith(start)), "looking for beginning of value")
    if where == _PLACES["Expecting value"]:
        return _in_literal(rest) or f"invalid character {_quoted(rest[0])} {where}"
    return f"invalid character {_quoted(rest[0])} {where}"


def _in_literal(rest: str) -> str:
    """A word that begins as one of JSON's does."""
    word = next((word for word in _LITERALS if word[0] == rest[0]), "")
    if not word:
        return ""
    for at, wanted in enumerate(word):
        if at >= len(rest):
            return "unexpected end of JSON input"
        if rest[at] != wanted:
            return f"invalid character {_quoted(rest[at])} in literal {word} (expecting {_quoted(wanted)})"
    return ""


def _quoted(char: str) -> str:
    """A character as Go's `quoteChar` writes it."""
    if char == "'":
        return r"'\''"
    if char == '"':
        return "'\"'"
    return f"'{char}'" if char.isprintable() else f"'\\x{ord(char):02x}'"
