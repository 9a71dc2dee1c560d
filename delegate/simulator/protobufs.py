"""Request bodies in the protobuf form that kubectl's typed clients send, read into the JSON form; answers are always JSON.

The envelope is `runtime.Unknown` behind four magic bytes; what is inside is laid out as `wiretypes` says.
"""

import base64
import datetime as dt
from collections.abc import Iterator
from typing import Any

from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.wiretypes import Field, structs

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"
DEEPEST = 32
_SIGNED = 1 << 63


class _BrokenError(Exception):
    """Bytes that are no protobuf message."""


def decode(data: bytes) -> JsonObject:
    """The object of a request. Raises a 400 for broken bytes and a 415 for kinds that are not known in this form."""
    if not data.startswith(MAGIC):
        raise statuses.bad_request("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    try:
        parts = dict(_fields(data[len(MAGIC) :]))
        meta = dict(_fields(_bytes(parts.get(1, b""))))
        version, kind = _text(meta.get(1, b"")), _text(meta.get(2, b""))
        if kind not in structs():
            message = f"the body of the request was in an unknown format for {kind} - accepted media types include: application/json"
            raise statuses.StatusError(415, message, reason="UnsupportedMediaType", details={})
        body = _struct(_bytes(parts.get(2, b"")), kind, 0)
    except (_BrokenError, UnicodeDecodeError, IndexError, ValueError):
        raise statuses.bad_request("unable to decode the protobuf message") from None
    return {"apiVersion": version, "kind": kind, **body}


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Number and raw value of each field: an integer, or bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        match tag & 7:
            case 0:
                value, at = _varint(data, at)
                yield tag >> 3, value
            case 1:
                yield tag >> 3, data[at : at + 8]
                at += 8
            case 2:
                length, at = _varint(data, at)
                if at + length > len(data):
                    raise _BrokenError
                yield tag >> 3, data[at : at + length]
                at += length
            case 5:
                yield tag >> 3, data[at : at + 4]
                at += 4
            case _:
                raise _BrokenError


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise _BrokenError


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise _BrokenError
    return value


def _text(value: Any) -> str:
    return _bytes(value).decode()


def _struct(data: bytes, kind: str, depth: int) -> JsonObject:
    if depth > DEEPEST:
        raise _BrokenError
    by_number = {field.number: field for field in structs()[kind]}
    out: JsonObject = {}
    for number, raw in _fields(data):
        field = by_number.get(number)
        if field is not None:
            _put(out, field, raw, depth)
    return out


def _put(out: JsonObject, field: Field, raw: Any, depth: int) -> None:
    kind = field.type
    if kind.startswith("[]") and kind != "[]byte":
        out.setdefault(field.json, []).append(_value(raw, kind[2:], depth))
    elif kind.startswith("map[") or kind == "ResourceList":
        below = "Quantity" if kind == "ResourceList" else kind.partition("]")[2]
        entry = dict(_fields(_bytes(raw)))
        out.setdefault(field.json, {})[_text(entry.get(1, b""))] = _value(entry.get(2, b""), below, depth)
    elif kind.startswith("*"):
        value = _value(raw, kind[1:], depth)
        if value is not None:
            out[field.json] = value
    elif not field.json:
        out.update(_struct(_bytes(raw), kind, depth + 1))
    else:
        value = _value(raw, kind, depth)
        if value or value == {}:
            out[field.json] = value


def _value(raw: Any, kind: str, depth: int) -> Any:
    match kind:
        case "bool":
            return bool(raw)
        case "int32" | "int64":
            return raw - 2 * _SIGNED if raw >= _SIGNED else raw
        case "[]byte":
            return base64.b64encode(_bytes(raw)).decode()
        case "Quantity":
            return _text(dict(_fields(_bytes(raw))).get(1, b""))
        case "IntOrString":
            parts = dict(_fields(_bytes(raw)))
            return _text(parts.get(3, b"")) if parts.get(1) else _value(parts.get(2, 0), "int32", depth)
        case "Time":
            seconds = dict(_fields(_bytes(raw))).get(1, 0)
            return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if seconds else None
        case _:
            return _struct(_bytes(raw), kind, depth + 1) if kind in structs() else _text(raw)
