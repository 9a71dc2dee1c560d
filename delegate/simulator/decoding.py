"""Objects of built-in kinds as the server's Go types would decode and write them.

Nulls and empty optional fields go, fields that are always written come, quantities become canonical, unknown fields are dropped and
named. The result shares nothing mutable with the argument but untyped parts.
"""

import base64
import re
from typing import Any

from delegate.model.resources import JsonObject
from delegate.simulator import gonames, quantities, times
from delegate.simulator.schemas import ANY, FieldType
from delegate.simulator.statuses import StatusError, bad_request

_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_INTEGERS = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}


class UndecodableError(Exception):
    """A value that the server can't read. The text is its decoder's; `converted` is how its converter (apply, strategic merge) says it."""

    def __init__(self, why: str, converted: str = "") -> None:
        super().__init__(why)
        self.converted = converted or why


class _WrongTypeError(Exception):
    """A value that doesn't go into its field."""

    def __init__(self, value: Any, wanted: str, converted: str = "", *, got: str = "") -> None:
        super().__init__()
        self.got = got or json_type(value)
        self.wanted = wanted
        self.converted = converted or _unconvertible(value, wanted)
        self.struct = ""
        self.trail: list[str] = []

    def undecodable(self) -> UndecodableError:
        path = ".".join(reversed(self.trail))
        field = f"Go struct field {self.struct}.{path}" if self.struct else "Go value"
        return UndecodableError(f"json: cannot unmarshal {self.got} into {field} of type {self.wanted}", self.converted)


class _TooLargeError(_WrongTypeError):
    """An integer beyond its field's range."""


def decode(body: JsonObject, type_: FieldType, unknown: list[str]) -> JsonObject:
    """The object as the server holds it; unknown fields are added to `unknown`. Raises `UndecodableError`."""
    try:
        decoded: JsonObject = _struct(body, type_, "", unknown)
    except _WrongTypeError as wrong:
        raise wrong.undecodable() from None
    return decoded


def convert(body: JsonObject, type_: FieldType, unknown: list[str]) -> JsonObject:
    """The same for the result of an apply or a strategic merge, whose integers Go cuts to their width where they are too large."""
    try:
        decoded: JsonObject = _struct(body, type_, "", unknown)
    except _TooLargeError:
        unknown.clear()
        return convert(_cut(body, type_), type_, unknown)
    except _WrongTypeError as wrong:
        raise wrong.undecodable() from None
    return decoded


def _cut(value: Any, type_: FieldType) -> Any:
    """The value with every integer cut to the width of its field."""
    if isinstance(value, dict):
        return {key: _cut(item, type_.child(key) or ANY) for key, item in value.items()}
    if isinstance(value, list):
        return [_cut(item, type_.element or ANY) for item in value]
    bits = {"int32": 32, "int64": 64}.get(type_.form)
    if bits is None or type(value) is not int:
        return value
    rest = value % 2**bits
    return rest - 2**bits if rest >= 2 ** (bits - 1) else rest


def refused(body: JsonObject, version: str, why: str) -> StatusError:
    kind = body.get("kind", "")
    return bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {why}')


def zero(type_: FieldType) -> JsonObject:
    """What an empty struct of a type is written as."""
    return _struct({}, type_, "", [])


def _struct(value: Any, type_: FieldType, path: str, unknown: list[str]) -> JsonObject:
    if type(value) is not dict:
        raise _WrongTypeError(value, _go_type(type_))
    out: JsonObject = {}
    fields, always, keeps = type_.fields, type_.always, type_.keeps_zero
    for key, given in value.items():
        below = fields.get(key)
        if below is None:
            unknown.append(f"{path}.{key}" if path else key)
            continue
        if given is None:
            continue
        try:
            item = _field(given, below, f"{path}.{key}" if path else key, unknown)
        except _WrongTypeError as wrong:
            wrong.trail.append(gonames.named(type_.name, key))
            if not wrong.struct:
                wrong.struct, wrong.wanted = type_.name, gonames.type_of(type_.name, key, wrong.wanted)
            raise
        if item or key in keeps or (below.kind == "scalar" and key in always) or below.kind in ("struct", "any"):
            out[key] = item
    for key, empty in always.items():
        if key not in out:
            below = fields.get(key)
            out[key] = _struct({}, below, "", []) if empty == {} and below is not None and below.kind == "struct" else empty
    return out


def _field(value: Any, type_: FieldType, path: str, unknown: list[str]) -> Any:
    kind = type_.kind
    if kind == "scalar":
        return _scalar(value, type_)
    if kind == "struct":
        return _struct(value, type_, path, unknown)
    return value if kind == "any" else _container(value, type_, path, unknown)


def _container(value: Any, type_: FieldType, path: str, unknown: list[str]) -> Any:
    element = type_.element or ANY
    kind = element.kind
    if type_.kind == "list":
        if type(value) is not list:
            raise _WrongTypeError(value, _go_type(type_))
        if kind == "struct":
            return [_struct(item if item is not None else {}, element, f"{path}[{i}]", unknown) for i, item in enumerate(value)]
        if kind == "scalar":
            return [_scalar(item, element) if item is not None else "" for item in value]
        if kind == "any":
            return value
        return [_container(item, element, f"{path}[{i}]", unknown) for i, item in enumerate(value)]
    if type(value) is not dict:
        raise _WrongTypeError(value, "v1.ResourceList" if element.form == "quantity" else _go_type(type_))
    if kind == "scalar":
        empty = 0 if element.scalar == "numeric" else "0" if element.form == "quantity" else ""
        return {key: _scalar(item, element) if item is not None else empty for key, item in value.items()}
    if kind == "any":
        return value
    if kind == "struct":
        return {key: _struct(item if item is not None else {}, element, f"{path}.{key}", unknown) for key, item in value.items()}
    return {key: _container(item, element, f"{path}.{key}", unknown) for key, item in value.items() if item is not None}


def _scalar(value: Any, type_: FieldType) -> Any:
    kind = type_.scalar
    if kind == "string":
        if type(value) is not str:
            if type_.form == "bytes" and type(value) is list:
                raise _WrongTypeError(value[0] if value else value, "uint8")
            raise _WrongTypeError(value, _go_type(type_))
        return _bytes(value) if type_.form == "bytes" else value
    if kind == "boolean":
        if type(value) is not bool:
            raise _WrongTypeError(value, "bool")
        return value
    return _number(value, type_.form) if kind == "numeric" else _formed(value, type_.form)


def _formed(value: Any, form: str) -> Any:
    """Values whose Go types read themselves."""
    match form:
        case "quantity":
            if isinstance(value, bool) or not isinstance(value, str | int | float):
                raise UndecodableError(quantities.PATTERN)
            try:
                return quantities.canonical(str(value))
            except ValueError as error:
                raise UndecodableError(str(error)) from None
        case "int_or_string":
            if isinstance(value, bool | float) or not isinstance(value, int | str):
                got = f"number {value}" if type(value) is float else json_type(value)
                raise _WrongTypeError(value, "int32", f"json: cannot unmarshal {got} into Go value of type int32", got=got)
        case "time" | "micro_time":
            if type(value) is not str:
                text = f"json: cannot unmarshal {json_type(value)} into Go value of type string"
                raise _WrongTypeError(value, "string", text)
            try:
                return times.canonical(value, micro=form == "micro_time")
            except ValueError as error:
                raise UndecodableError(str(error)) from None
        case _:
            pass
    return value


def _bytes(text: str) -> str:
    """Bytes as base64, written again as Go would write them."""
    if not _BASE64.fullmatch(text):
        wrong = _first_byte_no_base64(text)
        if wrong is not None:
            why = f"illegal base64 data at input byte {wrong}"
            raise UndecodableError(why, f"error decoding from json: {why}")
    return base64.b64encode(base64.b64decode(text)).decode()


def _first_byte_no_base64(text: str) -> int | None:
    """Where a text stops being base64, as Go's decoder counts; None where all of it is."""
    filled = 0
    for at, char in enumerate(text):
        if char in "\r\n":
            continue
        if char == "=":
            return _wrong_padding(text, at, filled)
        if not (char.isascii() and (char.isalnum() or char in "+/")):
            return at
        filled = (filled + 1) % 4
    return len(text) - filled if filled else None


def _wrong_padding(text: str, at: int, filled: int) -> int | None:
    if filled < 2:
        return at
    rest = text[at + 1 :].lstrip("\r\n")
    if filled == 2:
        if not rest:
            return len(text)
        if rest[0] != "=":
            return len(text) - len(rest) - 1
        rest = rest[1:].lstrip("\r\n")
    return len(text) - len(rest) if rest else None


def _number(value: Any, form: str) -> Any:
    if form == "double":
        if type(value) is int or type(value) is float:
            return value
        raise _WrongTypeError(value, "float64")
    if type(value) is float and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    if type(value) is not int:
        if type(value) is float:
            raise _WrongTypeError(value, form, f"cannot convert float64 to {form}", got=f"number {value}")
        raise _WrongTypeError(value, form)
    low, high = _INTEGERS.get(form, _INTEGERS["int64"])
    if not low <= value <= high:
        raise _TooLargeError(value, form, got=f"number {value}")
    return value


def json_type(value: Any) -> str:
    """What Go's decoder calls a value."""
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case int() | float():
            return "number"
        case list():
            return "array"
        case _:
            return "object"


_KINDS = {bool: "bool", str: "string", int: "int64", float: "float64", list: "slice", dict: "map"}


def _unconvertible(value: Any, wanted: str) -> str:
    """How Go's converter says that a value can't become what is wanted."""
    kind = _KINDS.get(type(value), "nil")
    if wanted.startswith("[]"):
        return f"cannot restore slice from {kind}"
    if wanted.startswith("map[") or wanted == "v1.ResourceList":
        return f"cannot restore map from {kind}"
    if wanted.startswith("v1."):
        return f"cannot restore struct from: {kind}"
    if (kind, wanted) in (("int64", "string"), ("float64", "int32"), ("float64", "int64")):
        return f"cannot convert {kind} to {wanted}"
    return f"unrecognized type: {wanted}"


def _go_type(type_: FieldType) -> str:
    package = "v1."
    match type_.kind:
        case "struct":
            return f"{package}{type_.name}"
        case "list":
            return f"[]{_go_type(type_.element or ANY)}"
        case "map":
            return f"map[string]{_go_type(type_.element or ANY)}"
        case "scalar":
            if type_.scalar == "numeric":
                return type_.form if type_.form != "double" else "float64"
            return "[]uint8" if type_.form == "bytes" else "bool" if type_.scalar == "boolean" else "string"
        case "any":
            return "interface {}"
