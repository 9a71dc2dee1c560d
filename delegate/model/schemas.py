"""Checks a custom resource against its definition in the same set, before the cluster knows the kind.

The server can't dry-run such a resource, and a fault in it should not come up when its definition has been written
already. This judges what can be told for sure (types, required and unknown fields, enums, bounds, combined schemas), with
the definition's defaults filled in, and leaves the rest to the server: rules in CEL, formats, and patterns, which Go
matches in linear time and Python does not.
"""

import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from delegate.model.errors import ManifestError, SchemaMismatchError, located
from delegate.model.resources import GroupKind, JsonObject, Manifest, ResourceType

CUSTOM_RESOURCE_DEFINITION = GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")
MOST_FAULTS = 20
_IMPLICIT = frozenset({"apiVersion", "kind", "metadata"})
_PRESERVES = "x-kubernetes-preserve-unknown-fields"


def definitions_by_kind(manifests: Iterable[Manifest]) -> dict[GroupKind, Manifest]:
    """The definitions of a set by the kinds that they bring. A malformed one brings none: the server will name its fault."""
    definitions = {}
    for manifest in manifests:
        spec = manifest.body.get("spec")
        if manifest.group_kind != CUSTOM_RESOURCE_DEFINITION or not isinstance(spec, dict) or not isinstance(spec.get("names"), dict):
            continue
        group, kind = spec.get("group"), spec["names"].get("kind")
        if group and kind and spec.get("scope") in ("Namespaced", "Cluster"):
            definitions[GroupKind(str(group), str(kind))] = manifest
    return definitions


def served_types(definition: Manifest) -> tuple[ResourceType, ...]:
    """How the cluster serves a definition's kind once it is established, one for each served version. Nothing for a malformed one."""
    if not definitions_by_kind((definition,)):
        return ()
    spec = definition.body["spec"]
    names, versions = spec["names"], [each for each in spec.get("versions") or () if isinstance(each, dict)]
    return tuple(
        ResourceType(
            group=str(spec["group"]),
            version=str(version.get("name")),
            kind=str(names["kind"]),
            plural=str(names.get("plural") or ""),
            namespaced=spec["scope"] == "Namespaced",
            subresources=frozenset(version.get("subresources") or ()),
        )
        for version in versions
        if version.get("served", True) and names.get("plural")
    )


def check_custom_resource(manifest: Manifest, definition: Manifest) -> tuple[ManifestError, ...]:
    """The faults of a custom resource by the definition that brings its kind, each with its place; at most `MOST_FAULTS`."""
    spec = definition.body.get("spec") or {}
    versions = [each for each in spec.get("versions") or () if isinstance(each, dict) and each.get("served", True)]
    version = next((each for each in versions if each.get("name") == manifest.version), None)
    if not versions:
        return ()  # the definition itself is at fault, and the server will say so
    if version is None:
        served = ", ".join(str(each.get("name")) for each in versions)
        fault = f"{definition.name} ({definition.origin}) serves no version {manifest.version}"
        return (located(SchemaMismatchError, manifest, fault, f"it serves {served}"),)
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if not isinstance(schema, dict):
        return ()
    errors = []
    for path, words in _top_faults(manifest.body, schema):
        errors.append(located(SchemaMismatchError, manifest, f"{path}: {words}", f"its schema is in {definition.origin}"))
        if len(errors) == MOST_FAULTS:
            break
    return tuple(errors)


_Fault = tuple[str, str]


def _top_faults(body: JsonObject, schema: Mapping[str, Any]) -> Iterator[_Fault]:
    """The faults of a whole object: the three fields that every one has and its status are not the schema's business."""
    left_out = _IMPLICIT | {"status"}
    rest = {name: value for name, value in body.items() if name not in left_out}
    required = [name for name in schema.get("required") or () if name not in left_out]
    yield from _faults(_with_defaults(rest, schema), {**schema, "type": "object", "required": required}, "")


def _with_defaults(value: Any, schema: Any) -> Any:
    """A value as the server fills it in: defaults added, nulls dropped where the schema has no place for them."""
    if not isinstance(schema, dict):
        return value
    if isinstance(value, list):
        return [_with_defaults(item, schema.get("items")) for item in value]
    if not isinstance(value, dict):
        return value
    properties: Mapping[str, Any] = schema.get("properties") or {}
    filled = {name: each for name, each in value.items() if each is not None or name not in properties or _is_nullable(properties[name])}
    for name, inner in properties.items():
        if name not in filled and isinstance(inner, dict) and "default" in inner:
            filled[name] = copy.deepcopy(inner["default"])
    others = schema.get("additionalProperties")
    return {name: _with_defaults(each, properties.get(name, others)) for name, each in filled.items()}


def _is_nullable(schema: Any) -> bool:
    return isinstance(schema, dict) and bool(schema.get("nullable"))


def _faults(value: Any, schema: Any, path: str, *, is_part: bool = False) -> Iterator[_Fault]:
    """`is_part`: the schema is one of several that are combined; it need not name every field."""
    if not isinstance(schema, dict) or (value is None and schema.get("nullable")):
        return
    mismatch = _type_fault(value, schema)
    if mismatch:
        yield path or ".", mismatch
        return
    yield from ((path or ".", words) for words in _value_faults(value, schema))
    if isinstance(value, dict):
        yield from _object_faults(value, schema, path, is_part=is_part)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _faults(item, schema.get("items"), f"{path}[{index}]", is_part=is_part)
    yield from _combined_faults(value, schema, path)


def _type_fault(value: Any, schema: Mapping[str, Any]) -> str:
    wanted = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        fits = isinstance(value, int | str) and not isinstance(value, bool)
        return "" if fits else f"expected an integer or a string, got {_type_name(value)}"
    fits = {
        "object": lambda: isinstance(value, dict),
        "array": lambda: isinstance(value, list),
        "string": lambda: isinstance(value, str),
        "boolean": lambda: isinstance(value, bool),
        "integer": lambda: not isinstance(value, bool) and isinstance(value, int | float) and value == int(value),
        "number": lambda: not isinstance(value, bool) and isinstance(value, int | float),
    }.get(str(wanted), lambda: True)()
    return "" if fits else f"expected {wanted}, got {_type_name(value)}"


def _type_name(value: Any) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
    return names[type(value)]


def _object_faults(value: JsonObject, schema: Mapping[str, Any], path: str, *, is_part: bool) -> Iterator[_Fault]:
    properties = schema.get("properties") or {}
    others = schema.get("additionalProperties")
    place = f"{path}." if path else ""
    yield from ((f"{place}{name}", "required and missing") for name in schema.get("required") or () if name not in value)
    embedded = _IMPLICIT if schema.get("x-kubernetes-embedded-resource") else frozenset[str]()
    # What the server does with fields of an object for which nothing is declared, it alone can say.
    is_closed = not is_part and bool(properties) and others in (None, False) and not schema.get(_PRESERVES)
    for name, each in value.items():
        if name in properties:
            yield from _faults(each, properties[name], f"{place}{name}", is_part=is_part)
        elif isinstance(others, dict):
            yield from _faults(each, others, f"{place}{name}", is_part=is_part)
        elif is_closed and name not in embedded:
            yield f"{place}{name}", "field not declared in schema"


def _value_faults(value: Any, schema: Mapping[str, Any]) -> Iterator[str]:
    allowed = schema.get("enum")
    if isinstance(allowed, list) and value not in allowed:
        yield f"not one of {', '.join(str(each) for each in allowed)}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield from _number_faults(value, schema)
    elif isinstance(value, str):
        yield from _size_faults(len(value), schema, "Length", "characters")
    elif isinstance(value, list):
        yield from _size_faults(len(value), schema, "Items", "items")
    elif isinstance(value, dict):
        yield from _size_faults(len(value), schema, "Properties", "fields")


def _number_faults(value: float, schema: Mapping[str, Any]) -> Iterator[str]:
    least, most = schema.get("minimum"), schema.get("maximum")
    if isinstance(least, int | float) and (value < least or (value == least and schema.get("exclusiveMinimum") is True)):
        yield f"below the minimum of {least}"
    if isinstance(most, int | float) and (value > most or (value == most and schema.get("exclusiveMaximum") is True)):
        yield f"above the maximum of {most}"


def _size_faults(size: int, schema: Mapping[str, Any], what: str, unit: str) -> Iterator[str]:
    least, most = schema.get(f"min{what}"), schema.get(f"max{what}")
    if isinstance(least, int) and size < least:
        yield f"has {size} {unit}, at least {least} are required"
    if isinstance(most, int) and size > most:
        yield f"has {size} {unit}, at most {most} are allowed"


def _combined_faults(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[_Fault]:
    for each in schema.get("allOf") or ():
        yield from _faults(value, each, path, is_part=True)
    choices = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(choices, list):
        fitting = sum(not any(_faults(value, choice, path, is_part=True)) for choice in choices)
        if not fitting:
            yield path or ".", "fits none of the alternatives of its schema"
        elif fitting > 1 and not schema.get("anyOf"):
            yield path or ".", "fits more than one of the alternatives of its schema"
    forbidden = schema.get("not")
    if isinstance(forbidden, dict) and not any(_faults(value, forbidden, path, is_part=True)):
        yield path or ".", "is of a form that its schema forbids"
