"""The bodies of requests: read in the form that they were sent in, with the fields that they name twice.

What is no object is refused in the words of Go's decoders (apiserver `negotiation` and `handlers`).
"""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import yaml

from delegate.model.resources import JsonObject
from delegate.simulator import protobufs, statuses
from delegate.simulator.decoding import json_type
from delegate.simulator.gosyntax import syntax_error

JSON, YAML = "application/json", "application/yaml"
_FORMS = (JSON, YAML, protobufs.MEDIA_TYPE)
_UNKNOWN_FORM = f"the body of the request was in an unknown format - accepted media types include: {', '.join(_FORMS)}"
_IDENTITY = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
_SHOWN_BYTES = 30


class Pairs(list[tuple[str, Any]]):
    """A JSON object as it was written: every member, those with the same name too."""


class Body(msgspec.Struct, frozen=True):
    """What was sent. `pairs` (of JSON) and `lines` (of YAML) are there where a field is named twice; `data` is for messages."""

    value: Any
    data: bytes = b""
    pairs: Any = None
    lines: tuple[str, ...] = ()


class _RepeatedError(Exception):
    """A name that comes twice in one object."""


def read(data: bytes, media_type: str, kind: str) -> Body:
    """The body of a write that is to have an object of a kind. Raises a 400 or a 415."""
    if media_type == protobufs.MEDIA_TYPE:
        return Body(protobufs.decode(data), data)
    if media_type == YAML:
        value, lines = read_yaml(data)
        text = msgspec.json.encode(value)
        _check_identity(value, kind, text)
        return Body(value, text, lines=lines)
    if media_type != JSON:
        raise statuses.StatusError(415, _UNKNOWN_FORM, reason="UnsupportedMediaType")
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        raise unrecognized(kind, f"couldn't get version/kind; json parse error: {fault_of(data)}", data) from None
    _check_identity(value, kind, data)
    pairs = pairs_of(data)
    return Body(merged(pairs) if pairs is not None else value, data, pairs)


def read_options(data: bytes, media_type: str) -> Any:
    """The body of a deletion."""
    if media_type == protobufs.MEDIA_TYPE:
        return protobufs.decode(data)
    if media_type == YAML:
        return read_yaml(data)[0]
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        raise statuses.bad_request(f"couldn't get version/kind; json parse error: {fault_of(data)}") from None
    if not isinstance(value, dict | None):
        raise statuses.bad_request(f"couldn't get version/kind; json parse error: {_unfit(value)}")
    return value


def read_configuration(data: bytes) -> Body:
    """The body of an apply: YAML, and so JSON as well, of which only the first document counts."""
    value: Any
    lines: tuple[str, ...] = ()
    try:
        value = msgspec.json.decode(data)
        if repeats(data):
            lines = read_yaml(data)[1]
    except (msgspec.DecodeError, RecursionError):
        value, lines = read_yaml(data)
    if not isinstance(value, dict | None):
        got = json_type(value)
        why = f"json: cannot unmarshal {got} into Go value of type map[string]interface {{}}"
        raise statuses.bad_request(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {why}")
    return Body(value, data, lines=lines)


def read_yaml(data: bytes) -> tuple[Any, tuple[str, ...]]:
    """The first document, and what is said of its keys that come twice."""
    try:
        loader = YamlLoader(data)
        try:
            value = loader.get_data() if loader.check_data() else None  # type: ignore[no-untyped-call]
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = max(mark.line if mark is not None else 1, 1)
        raise statuses.bad_request(f"error decoding YAML: error converting YAML to JSON: yaml: line {line}: {error.problem}") from None
    except yaml.reader.ReaderError as error:
        raise statuses.bad_request(f"error decoding YAML: error converting YAML to JSON: yaml: {error.reason}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise statuses.bad_request(f"error decoding YAML: error converting YAML to JSON: {error}") from None
    return value, tuple(f"line {line}: key {json.dumps(key)} already set in map" for line, key in sorted(loader.repeated))


class YamlLoader(yaml.CSafeLoader):
    """YAML as it converts to JSON: no timestamps, no binary. Keys that come twice in one map are noted with their line."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.repeated: list[tuple[int, str]] = []

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    self.repeated.append((key.start_mark.line + 1, key.value))
                seen.add(key.value)
        return super().construct_mapping(node, deep)


YamlLoader.yaml_implicit_resolvers = {
    key: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for key, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def repeats(data: bytes) -> bool:
    """Whether a JSON text names a member twice in one object."""
    try:
        json.loads(data, object_pairs_hook=_unique)
    except _RepeatedError:
        return True
    return False


def _unique(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) != len(pairs):
        raise _RepeatedError


def pairs_of(data: bytes) -> Any:
    """A JSON text with its objects as `Pairs` where one of them names a member twice; else None."""
    return json.loads(data, object_pairs_hook=Pairs) if repeats(data) else None


def merged(value: Any) -> Any:
    """What Go's typed decoder makes of a text with such members: objects are put together, of other values the last one counts."""
    if isinstance(value, Pairs):
        out: JsonObject = {}
        for key, item in value:
            made, held = merged(item), out.get(key)
            out[key] = _joined(held, made) if isinstance(held, dict) and isinstance(made, dict) else made
        return out
    return [merged(item) for item in value] if isinstance(value, list) else value


def _joined(left: JsonObject, right: JsonObject) -> JsonObject:
    out = dict(left)
    for key, item in right.items():
        held = out.get(key)
        out[key] = _joined(held, item) if isinstance(held, dict) and isinstance(item, dict) else item
    return out


def last(value: Any) -> Any:
    """What Go's untyped decoder makes of it: the last one counts."""
    if isinstance(value, Pairs):
        return {key: last(item) for key, item in value}
    return [last(item) for item in value] if isinstance(value, list) else value


def remarks(pairs: Any, unknown: list[str], prefix: str = "") -> list[str]:
    """What fieldValidation has to say of a text, in its order; nothing is said of what is in a field that isn't known."""
    told = dict.fromkeys(_told(pairs, "", frozenset(unknown)))
    return [f'{prefix}{what} field "{path}"' for what, path in told]


def _told(value: Any, path: str, unknown: frozenset[str]) -> Iterator[tuple[str, str]]:
    if isinstance(value, Pairs):
        seen: set[str] = set()
        for key, item in value:
            here = f"{path}.{key}" if path else key
            if here in unknown:
                yield "unknown", here
                continue
            if key in seen:
                yield "duplicate", here
            seen.add(key)
            yield from _told(item, here, unknown)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _told(item, f"{path}[{index}]", unknown)


def unrecognized(kind: str, why: str, data: bytes) -> statuses.StatusError:
    return statuses.bad_request(f"the object provided is unrecognized (must be of type {kind}): {why} ({_summary(data)})")


def _summary(data: bytes) -> str:
    if not data:
        return "<empty>"
    more = " ..." if len(data) > _SHOWN_BYTES else ""
    start = data[:_SHOWN_BYTES]
    return (start.decode(errors="replace") if data.startswith(b"{") else start.hex()) + more


def _check_identity(value: Any, kind: str, data: bytes) -> None:
    """Kind and version are read before anything else is."""
    if value is None:
        return
    if not isinstance(value, dict):
        raise unrecognized(kind, f"couldn't get version/kind; json parse error: {_unfit(value)}", data)
    for key in ("apiVersion", "kind"):
        if not isinstance(value.get(key), str | None):
            why = f"json: cannot unmarshal {json_type(value[key])} into Go struct field .{key} of type string"
            raise unrecognized(kind, f"couldn't get version/kind; json parse error: {why}", data)


def _unfit(value: Any) -> str:
    return f"json: cannot unmarshal {json_type(value)} into Go value of type {_IDENTITY}"


def fault_of(data: bytes) -> str:
    """Why a text is no JSON."""
    try:
        json.loads(data)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        return syntax_error(error)
    return "invalid character"
