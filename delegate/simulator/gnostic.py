"""An OpenAPI v2 document in the protobuf form of gnostic's `openapiv2.Document`, which client-go reads.

A message is written as `{key of the JSON: (field number, how it is written)}`; what begins with `x-` goes into the vendor extensions,
as YAML (of which JSON is a part).
"""

import struct
from collections.abc import Callable
from typing import Any

import msgspec

Writer = Callable[[Any], bytes]
Layout = dict[str, tuple[int, Writer | list[Writer]]]
"""A writer in a list writes each item of a list as a field of its own."""


def encode(document: dict[str, Any]) -> bytes:
    return _message(_DOCUMENT, document)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _block(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _message(layout: Layout, value: dict[str, Any], extensions: int = 0) -> bytes:
    parts = []
    for key, item in value.items():
        if key in layout:
            number, write = layout[key]
            if isinstance(write, list):
                parts += [_field(number, write[0], each) for each in item]
            else:
                parts.append(_field(number, write, item))
        elif extensions and key.startswith("x-"):
            parts.append(_block(extensions, _named(key, _any(item))))
    return b"".join(parts)


def _field(number: int, write: Writer, value: Any) -> bytes:
    if write is _integer:
        return _varint(number << 3) + _varint(int(value))
    if write is _double:
        return _varint(number << 3 | 1) + struct.pack("<d", value)
    return _block(number, write(value))


def _named(name: str, data: bytes) -> bytes:
    return _block(1, name.encode()) + _block(2, data)


def _text(value: str) -> bytes:
    return value.encode()


def _integer(value: Any) -> bytes:
    return _varint(int(value))


def _double(value: float) -> bytes:
    return struct.pack("<d", value)


def _any(value: Any) -> bytes:
    return _block(2, msgspec.json.encode(value))


def _type(value: str) -> bytes:
    return _block(1, value.encode())


def _schema(value: dict[str, Any]) -> bytes:
    return _message(SCHEMA, value, 31)


def _items(value: dict[str, Any]) -> bytes:
    return _block(1, _schema(value))


def _additional(value: Any) -> bytes:
    return _field(2, _integer, value) if isinstance(value, bool) else _block(1, _schema(value))


def _named_schemas(value: dict[str, Any]) -> bytes:
    return b"".join(_block(1, _named(name, _schema(item))) for name, item in value.items())


def _paths(value: dict[str, Any]) -> bytes:
    return b"".join(_block(2, _named(name, _message(_PATH_ITEM, item))) for name, item in value.items())


def _operation(value: dict[str, Any]) -> bytes:
    return _message(_OPERATION, value, 13)


def _parameter(value: dict[str, Any]) -> bytes:
    """A query parameter inside of the three messages that tell it from other ones."""
    data = _message({"in": (2, _text), "name": (4, _text), "type": (6, _text), "uniqueItems": (20, _integer)}, value)
    return _block(1, _block(2, _block(3, data)))


def _responses(value: dict[str, Any]) -> bytes:
    return b"".join(_block(1, _named(code, _block(1, _message(_RESPONSE, item)))) for code, item in value.items())


def _response_schema(value: dict[str, Any]) -> bytes:
    return _block(1, _schema(value))


def _info(value: dict[str, Any]) -> bytes:
    return _message({"title": (1, _text), "version": (2, _text)}, value)


_DOCUMENT: Layout = {"swagger": (1, _text), "info": (2, _info), "paths": (8, _paths), "definitions": (9, _named_schemas)}
_PATH_ITEM: Layout = {name: (number, _operation) for name, number in (("get", 2), ("put", 3), ("post", 4), ("delete", 5), ("patch", 8))}
_OPERATION: Layout = {"parameters": (8, [_parameter]), "responses": (9, _responses)}
_RESPONSE: Layout = {"description": (1, _text), "schema": (2, _response_schema)}
SCHEMA: Layout = {
    "$ref": (1, _text),
    "format": (2, _text),
    "title": (3, _text),
    "description": (4, _text),
    "default": (5, _any),
    "multipleOf": (6, _double),
    "maximum": (7, _double),
    "exclusiveMaximum": (8, _integer),
    "minimum": (9, _double),
    "exclusiveMinimum": (10, _integer),
    "maxLength": (11, _integer),
    "minLength": (12, _integer),
    "pattern": (13, _text),
    "maxItems": (14, _integer),
    "minItems": (15, _integer),
    "uniqueItems": (16, _integer),
    "maxProperties": (17, _integer),
    "minProperties": (18, _integer),
    "required": (19, [_text]),
    "enum": (20, [_any]),
    "additionalProperties": (21, _additional),
    "type": (22, _type),
    "items": (23, _items),
    "properties": (25, _named_schemas),
}
"""What a schema of OpenAPI v2 may say."""
