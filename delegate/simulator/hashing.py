"""The hashes in the names of ReplicaSets and ControllerRevisions, computed as the real controllers compute them.

A ReplicaSet's is of a dump of its template's Go struct (spew's `%#v`), a ControllerRevision's of its JSON; both FNV, spelled in the
alphabet of generated names.
"""

import json
import struct
from typing import Any

from delegate.simulator import quantities
from delegate.simulator.wiretypes import structs

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_OFFSET, _PRIME, _MASK = 0x811C9DC5, 0x01000193, 0xFFFFFFFF
_INTEGERS = ("int32", "int64")
_PLAIN = ("string", "bool", *_INTEGERS)
_ELSEWHERE = {
    "Quantity": "resource.Quantity",
    "IntOrString": "intstr.IntOrString",
    "types.UID": "types.UID",
}
_FORMATS = (("Ki", "BinarySI"), ("Mi", "BinarySI"), ("Gi", "BinarySI"), ("Ti", "BinarySI"), ("Pi", "BinarySI"), ("Ei", "BinarySI"))


class UnknownStructError(Exception):
    """A value whose Go type is not in the table."""


def spelled(number: int) -> str:
    return "".join(ALPHABET[ord(digit) % len(ALPHABET)] for digit in str(number))


def template_hash(template: Any, collisions: int | None = None) -> str:
    """The hash of a pod template. Where its Go types aren't known, one of its JSON, which is as good but not the same."""
    try:
        data = _dump(template, "PodTemplateSpec", typed=True).encode()
    except UnknownStructError:
        data = json.dumps(template, sort_keys=True).encode()
    if collisions is not None:
        data += struct.pack("<II", collisions & _MASK, 0)
    value = _OFFSET
    for byte in data:
        value = ((value ^ byte) * _PRIME) & _MASK
    return spelled(value)


def revision_hash(data: Any, collisions: int = 0) -> str:
    """The hash of a ControllerRevision's data."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for char, code in (("&", "\\u0026"), ("<", "\\u003c"), (">", "\\u003e")):
        text = text.replace(char, code)
    value = _OFFSET
    for byte in f"{text}{collisions}".encode():
        value = ((value * _PRIME) & _MASK) ^ byte
    return spelled(value)


def _named(kind: str) -> str:
    """A Go type as its String method gives it."""
    for prefix in ("*", "[]", "map[string]"):
        if kind.startswith(prefix):
            return prefix + _named(kind[len(prefix) :])
    if kind in _PLAIN:
        return kind
    return _ELSEWHERE.get(kind) or f"v1.{kind}"


def _dump(value: Any, kind: str, *, typed: bool) -> str:
    """One value; `typed` says whether its type is written before it."""
    if kind.startswith("*"):
        return f"({_named(kind)})" + ("<nil>" if value is None else _dump(value, kind[1:], typed=False))
    return (f"({_named(kind)})" if typed else "") + _bare(value, kind)


def _bare(value: Any, kind: str) -> str:
    if kind.startswith("[]"):
        if value is None:
            return "<nil>"
        return "[" + " ".join(_dump(item, kind[2:], typed=False) for item in value) + "]"
    if kind.startswith("map["):
        if value is None:
            return "<nil>"
        return "map[" + " ".join(f"{key}:{_dump(value[key], kind.partition(']')[2], typed=False)}" for key in sorted(value)) + "]"
    match kind:
        case "ResourceList":
            return _bare(value, "map[string]Quantity")
        case "bool":
            return "true" if value else "false"
        case "int32" | "int64":
            return str(value or 0)
        case "Time":
            return "{Time:(time.Time){wall:(uint64)0 ext:(int64)0 loc:(*time.Location)<nil>}}"
        case "Quantity":
            return _quantity(value or "0")
        case "IntOrString":
            return _int_or_string(value)
        case _:
            return _struct(value, kind)


def _struct(value: Any, kind: str) -> str:
    fields = structs().get(kind)
    if fields is None:
        if isinstance(value, dict | list):
            raise UnknownStructError(kind)
        return str(value or "")
    held = value or {}
    parts = [f"{field.go}:{_dump(held.get(field.json) if field.json else held, field.type, typed=True)}" for field in fields]
    return "{" + " ".join(parts) + "}"


def _int_or_string(value: Any) -> str:
    if isinstance(value, str):
        return f"{{Type:(intstr.Type)1 IntVal:(int32)0 StrVal:(string){value}}}"
    return f"{{Type:(intstr.Type)0 IntVal:(int32){value or 0} StrVal:(string)}}"


def _quantity(text: str) -> str:
    """A quantity as it is parsed: an integer and a power of ten, or a product of 1024s."""
    form = next((name for suffix, name in _FORMATS if text.endswith(suffix)), "DecimalSI")
    value = quantities.parse(text)
    scale = 0
    if value.denominator != 1:
        for scale in (-3, -6, -9):
            if (value * 10**-scale).denominator == 1:
                break
        value *= 10**-scale
    elif form == "DecimalSI":
        exponent = {"k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}.get(text[-1:], 0)
        value, scale = value / 10**exponent, exponent
    amount = f"(resource.int64Amount){{value:(int64){int(value)} scale:(resource.Scale){scale}}}"
    return f"{{i:{amount} d:(resource.infDecAmount){{Dec:(*inf.Dec)<nil>}} s:(string) Format:(resource.Format){form}}}"
