"""Validation of custom resources by their structural schemas (kube-openapi `validate`)."""

from typing import Any

from delegate.model.resources import JsonObject
from delegate.simulator import formats, regexes, statuses
from delegate.simulator.customs import EMBEDDED, INT_OR_STRING
from delegate.simulator.statuses import Cause

_GO_KINDS: dict[type, str] = {int: "int64", float: "float64"}
_TYPES: dict[str, Any] = {"string": str, "boolean": bool, "array": list, "object": dict}


def validate(body: JsonObject, schema: JsonObject) -> list[Cause]:
    causes: list[Cause] = []
    _check(body, schema, "", causes, root=True)
    return causes


def check_value(value: Any, schema: JsonObject, path: str) -> list[Cause]:
    """What a schema has against a value at a path."""
    causes: list[Cause] = []
    _check(value, schema, path, causes)
    return causes


def _is(value: Any, kind: str) -> bool:
    if kind == "integer":
        return (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and value.is_integer())
    if kind == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, _TYPES[kind]) and not (kind != "boolean" and isinstance(value, bool))


def _type_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case int():
            return "integer"
        case float():
            return "number"
        case list():
            return "array"
        case _:
            return "object"


def _check(value: Any, schema: JsonObject, path: str, causes: list[Cause], *, root: bool = False) -> None:
    if value is None and schema.get("nullable"):
        return
    mistyped = _mistyped(value, schema, path)
    if mistyped is not None:
        causes += mistyped
        return
    _check_combinations(value, schema, path, causes)
    _check_choice(value, schema, path, causes)
    match value:
        case str():
            _check_string(value, schema, path, causes)
        case bool():
            pass
        case int() | float():
            _check_number(value, schema, path, causes)
        case list():
            _check_list(value, schema, path, causes)
        case dict():
            _check_map(value, schema, path, causes, root=root)
        case _:
            pass


def _mistyped(value: Any, schema: JsonObject, path: str) -> list[Cause] | None:
    """What is said of a value whose type settles it; None where the rest of the schema has a say."""
    kind = schema.get("type")
    if schema.get(INT_OR_STRING):
        return [] if _is(value, "integer") or isinstance(value, str) else [_wrong_type(path, value, "integer,string")]
    if kind == "string" and schema.get("format") in formats.FORMATS and not isinstance(value, str):
        # The server's library looks at the format only, and not at lists at all.
        if value is None:
            return [_wrong_type(path, value, kind)]
        return [] if isinstance(value, list) else [_wrong_format(path, _GO_KINDS.get(type(value), ""), schema["format"])]
    if kind in ("string", "boolean", "array", "object", "integer", "number") and not _is(value, kind):
        causes = [_wrong_type(path, value, kind)]
        _check_choice(value, schema, path, causes)
        return causes
    return None


def _check_choice(value: Any, schema: JsonObject, path: str, causes: list[Cause]) -> None:
    if "enum" in schema and value not in schema["enum"]:
        supported = sorted(item if isinstance(item, str) else statuses.shown(item) for item in schema["enum"])
        causes.append(statuses.unsupported(path, value, supported))


def _wrong_type(path: str, value: Any, wanted: str) -> Cause:
    got = _type_of(value)
    return statuses.cause("FieldValueTypeInvalid", path, f'{path} in body must be of type {wanted}: "{got}"', got)


def _wrong_format(path: str, value: str, form: str) -> Cause:
    return statuses.cause("FieldValueTypeInvalid", path, f'{path} in body must be of type {form}: "{value}"', value)


def _body(path: str, what: str) -> str:
    return f"{path} in body {what}"


def _check_string(value: str, schema: JsonObject, path: str, causes: list[Cause]) -> None:
    if "minLength" in schema and len(value) < schema["minLength"]:
        causes.append(statuses.invalid_value(path, value, _body(path, f"should be at least {schema['minLength']} chars long")))
        return
    if "maxLength" in schema and len(value) > schema["maxLength"]:
        causes.append(statuses.too_long(path, schema["maxLength"]))
        return
    form = schema.get("format", "")
    if form and not formats.fits(value, form):
        causes.append(_wrong_format(path, value, form))
    pattern = schema.get("pattern")
    if pattern:
        try:
            matched = regexes.finds(pattern, value)
        except regexes.InvalidPatternError:
            return
        if not matched:
            causes.append(statuses.invalid_value(path, value, _body(path, f"should match '{pattern}'")))


def _check_number(value: float, schema: JsonObject, path: str, causes: list[Cause]) -> None:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None:
        exclusive = schema.get("exclusiveMinimum")
        if value < low or (exclusive and value == low):
            words = "should be greater than" if exclusive else "should be greater than or equal to"
            causes.append(statuses.invalid_value(path, value, _body(path, f"{words} {low}")))
    if high is not None:
        exclusive = schema.get("exclusiveMaximum")
        if value > high or (exclusive and value == high):
            words = "should be less than" if exclusive else "should be less than or equal to"
            causes.append(statuses.invalid_value(path, value, _body(path, f"{words} {high}")))
    multiple = schema.get("multipleOf")
    if multiple and value % multiple:
        causes.append(statuses.invalid_value(path, value, _body(path, f"should be a multiple of {multiple}")))


def _check_list(value: list[Any], schema: JsonObject, path: str, causes: list[Cause]) -> None:
    if "minItems" in schema and len(value) < schema["minItems"]:
        causes.append(statuses.invalid_value(path, len(value), _body(path, f"should have at least {schema['minItems']} items")))
    if "maxItems" in schema and len(value) > schema["maxItems"]:
        message = f"Too many: {len(value)}: must have at most {schema['maxItems']} items"
        causes.append(Cause("FieldValueTooMany", message, path))
    items = schema.get("items") or {}
    for index, item in enumerate(value):
        _check(item, items, f"{path}[{index}]", causes)
    _check_unique(value, schema, path, causes)


def _check_unique(value: list[Any], schema: JsonObject, path: str, causes: list[Cause]) -> None:
    relation = schema.get("x-kubernetes-list-type")
    seen: list[Any] = []
    for index, item in enumerate(value):
        if relation == "set":
            key: Any = item
        elif relation == "map" and isinstance(item, dict):
            key = {name: item.get(name) for name in schema.get("x-kubernetes-list-map-keys") or ()}
        else:
            return
        if key in seen:
            causes.append(statuses.duplicate(f"{path}[{index}]", key))
        seen.append(key)


def _check_map(value: JsonObject, schema: JsonObject, path: str, causes: list[Cause], *, root: bool) -> None:
    properties = schema.get("properties") or {}
    prefix = f"{path}." if path else ""
    missing = {name for name in schema.get("required") or () if value.get(name) is None}
    missing -= {name for name in missing if name in value and (properties.get(name) or {}).get("nullable")}
    causes.extend(statuses.required(f"{prefix}{name}") for name in schema.get("required") or () if name in missing)
    if "minProperties" in schema and len(value) < schema["minProperties"]:
        what = _body(path, f"should have at least {schema['minProperties']} properties")
        causes.append(statuses.invalid_value(path, len(value), what))
    if "maxProperties" in schema and len(value) > schema["maxProperties"]:
        message = f"Too many: {len(value)}: must have at most {schema['maxProperties']} items"
        causes.append(Cause("FieldValueTooMany", message, path))
    additional = schema.get("additionalProperties")
    for key, item in value.items():
        if (root or schema.get(EMBEDDED)) and key in ("apiVersion", "kind", "metadata"):
            continue
        if key in missing:
            continue
        if key in properties:
            _check(item, properties[key], f"{prefix}{key}", causes)
        elif isinstance(additional, dict):
            _check(item, additional, f"{prefix}{key}", causes)


def _failures(value: Any, schema: JsonObject, path: str) -> list[Cause]:
    found: list[Cause] = []
    _check(value, schema, path, found)
    return found


def _combined(text: str) -> Cause:
    return statuses.invalid_value("<nil>", "", text)


def _check_combinations(value: Any, schema: JsonObject, path: str, causes: list[Cause]) -> None:
    """Where no alternative fits, what the first one has against the value is said too."""
    for part in schema.get("allOf") or ():
        _check(value, part, path, causes)
    if schema.get("anyOf"):
        tried = [_failures(value, part, path) for part in schema["anyOf"]]
        if all(tried):
            causes += [_combined(f'"{path}" must validate at least one schema (anyOf)'), *tried[0]]
    if schema.get("oneOf"):
        tried = [_failures(value, part, path) for part in schema["oneOf"]]
        valid = sum(not found for found in tried)
        text = f'"{path}" must validate one and only one schema (oneOf).'
        if not valid:
            causes += [_combined(f"{text} Found none valid"), *tried[0]]
        elif valid > 1:
            causes.append(_combined(f"{text} Found {valid} valid alternatives"))
    if schema.get("not") and not _failures(value, schema["not"], path):
        causes.append(_combined(f'"{path}" must not validate the schema (not)'))
