"""Kinds that CustomResourceDefinitions define: field types, pruning and defaults from structural schemas.

Conversion webhooks are not called: versions differ by name only.
"""

import copy
from typing import Any

import msgspec

from delegate.model.resources import JsonObject
from delegate.simulator import decoding, schemas
from delegate.simulator.formats import FORMATS
from delegate.simulator.kinds import Resource, Subresource
from delegate.simulator.schemas import ANY, FieldType
from delegate.simulator.statuses import shown

PRESERVE = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"
INT_OR_STRING = "x-kubernetes-int-or-string"


class Scale(msgspec.Struct, frozen=True):
    """Where a custom kind keeps what its scale subresource shows."""

    spec_path: tuple[str, ...]
    status_path: tuple[str, ...]
    selector_path: tuple[str, ...]


class Definition(msgspec.Struct, eq=False):
    """One version of a custom kind."""

    name: str
    schema: JsonObject
    has_status: bool
    scale: Scale | None
    selectable: tuple[str, ...]
    columns: tuple[JsonObject, ...]
    storage: bool


def _deprecation(group: str, version: JsonObject, kind: str) -> str:
    if not version.get("deprecated"):
        return ""
    text: str = version.get("deprecationWarning") or f"{group}/{version['name']} {kind} is deprecated"
    return text


def resources_of(crd: JsonObject) -> list[Resource]:
    """What a definition adds to the server, its served versions in order of preference."""
    spec, accepted = crd["spec"], crd["status"]["acceptedNames"]
    stored = next((version["name"] for version in spec["versions"] if version.get("storage")), "")
    found = []
    for version in sorted(spec["versions"], key=lambda item: priority(item["name"])):
        if not version.get("served"):
            continue
        definition = _definition(crd["metadata"]["name"], version)
        subresources = {}
        if definition.has_status:
            subresources["status"] = Subresource("status", accepted["kind"])
        if definition.scale:
            subresources["scale"] = Subresource("scale", "Scale", ("get", "patch", "update"), "autoscaling", "v1")
        found.append(
            Resource(
                group=spec["group"],
                version=version["name"],
                kind=accepted["kind"],
                plural=accepted["plural"],
                namespaced=spec["scope"] == "Namespaced",
                singular=accepted.get("singular", ""),
                short_names=tuple(accepted.get("shortNames", ())),
                categories=tuple(accepted.get("categories", ())),
                verbs=("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"),
                subresources=subresources,
                storage=(spec["group"], accepted["plural"]),
                storage_version=stored,
                definition=definition,
                list_kind=accepted.get("listKind", ""),
                type_=compile_root(definition.schema),
                deprecation=_deprecation(spec["group"], version, accepted["kind"]),
            )
        )
    return found


def priority(version: str) -> tuple[int, int, int, str]:
    """The order of versions in discovery: GA before beta before alpha, newest first, anything else after them by name."""
    digits = version.removeprefix("v")
    for stage, word in ((1, "beta"), (2, "alpha")):
        major, found, minor = digits.partition(word)
        if found and major.isdigit() and minor.isdigit():
            return stage, -int(major), -int(minor), ""
    return (0, -int(digits), 0, "") if digits.isdigit() and version.startswith("v") else (3, 0, 0, version)


def _definition(name: str, version: JsonObject) -> Definition:
    subresources = version.get("subresources") or {}
    scale = subresources.get("scale")
    return Definition(
        name=name,
        schema=(version.get("schema") or {}).get("openAPIV3Schema") or {"type": "object", PRESERVE: True},
        has_status="status" in subresources,
        scale=Scale(_dotted(scale["specReplicasPath"]), _dotted(scale["statusReplicasPath"]), _dotted(scale.get("labelSelectorPath", "")))
        if scale
        else None,
        selectable=tuple(item["jsonPath"].lstrip(".") for item in version.get("selectableFields") or ()),
        columns=tuple(version.get("additionalPrinterColumns") or ()),
        storage=bool(version.get("storage")),
    )


def _dotted(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split(".") if part)


def compile_root(schema: JsonObject) -> FieldType:
    made = compile_schema(schema)
    if made.kind == "any":
        made = FieldType("struct")
        made.open = True
    return _with_identity(made)


def _with_identity(made: FieldType) -> FieldType:
    made.fields = {**made.fields, "apiVersion": schemas.STRING, "kind": schemas.STRING, "metadata": schemas.object_meta()}
    return made


def compile_schema(schema: JsonObject) -> FieldType:
    """The field type of a structural schema."""
    if schema.get(INT_OR_STRING):
        return schemas.scalar("untyped", "int_or_string")
    preserve = bool(schema.get(PRESERVE))
    made: FieldType
    match schema.get("type"):
        case "string":
            return schemas.scalar("untyped") if schema.get("format") in FORMATS else schemas.STRING
        case "integer":
            return schemas.scalar("numeric", "int64")
        case "number":
            return schemas.scalar("numeric", "double")
        case "boolean":
            return schemas.scalar("boolean")
        case "array":
            return _compile_list(schema)
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            made = FieldType("map")
            made.element = compile_schema(schema["additionalProperties"])
        case "object" if _is_free(schema):
            made = FieldType("any")
            made.open = True
        case "object":
            made = FieldType("struct")
            made.fields = {key: compile_schema(below) for key, below in (schema.get("properties") or {}).items()}
            made.open = preserve
            made.element = ANY if preserve else None
        case _:
            return ANY
    made.atomic = schema.get("x-kubernetes-map-type") == "atomic"
    return _with_identity(made) if schema.get(EMBEDDED) and made.kind == "struct" else made


def _is_free(schema: JsonObject) -> bool:
    """Whether a map may have anything in it."""
    if "properties" in schema or schema.get(EMBEDDED):
        return False
    return bool(schema.get(PRESERVE)) or schema.get("additionalProperties") is True


def _compile_list(schema: JsonObject) -> FieldType:
    made = FieldType("list")
    items = schema.get("items") or {}
    made.element = compile_schema(items)
    relation = schema.get("x-kubernetes-list-type", "atomic")
    made.atomic, made.set = relation == "atomic", relation == "set"
    if relation == "map":
        made.keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
        below = items.get("properties") or {}
        made.key_defaults = {key: below[key]["default"] for key in made.keys if "default" in below.get(key, {})}
    return made


def prune(body: JsonObject, schema: JsonObject, unknown: list[str]) -> JsonObject:
    """The object without fields that its schema doesn't have; each is named in `unknown`."""
    pruned: JsonObject = _prune(body, schema, "", unknown, root=True)
    return pruned


def drop_nulls(value: Any, schema: JsonObject) -> Any:
    """Takes out, in place, the nulls of fields that may not be null and have no default."""
    if isinstance(value, dict):
        properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
        for key, item in list(value.items()):
            below = properties.get(key, additional)
            if not isinstance(below, dict):
                continue
            if item is None and key in properties and not below.get("nullable") and "default" not in below:
                del value[key]
            else:
                drop_nulls(item, below)
    elif isinstance(value, list):
        for item in value:
            drop_nulls(item, schema.get("items") or {})
    return value


def _prune(value: Any, schema: JsonObject, path: str, unknown: list[str], *, root: bool = False) -> Any:
    if isinstance(value, list):
        items = schema.get("items") or {}
        return [_prune(item, items, f"{path}[{index}]", unknown) for index, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    properties = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    identity = root or schema.get(EMBEDDED)
    out = {}
    for key, item in value.items():
        here = f"{path}.{key}" if path else key
        if identity and key in ("apiVersion", "kind", "metadata"):
            if root or item is not None:
                out[key] = item if root else _identity(key, item, here, unknown)
        elif key in properties:
            out[key] = _prune(item, properties[key], here, unknown)
        elif isinstance(additional, dict):
            out[key] = _prune(item, additional, here, unknown)
        elif schema.get(PRESERVE) or additional is True:
            out[key] = item
        else:
            unknown.append(here)
    return out


def _identity(key: str, value: Any, path: str, unknown: list[str]) -> Any:
    """Kind, version and metadata of an object inside another one. Raises `UndecodableError`."""
    if key != "metadata":
        if not isinstance(value, str):
            raise decoding.UndecodableError(f"{path}: Invalid value: {shown(value)}: must be a string")
        return value
    if not isinstance(value, dict):
        why = f"json: cannot unmarshal {decoding.json_type(value)} into Go value of type v1.ObjectMeta"
        raise decoding.UndecodableError(f"{path}: Invalid value: {shown(value)}: {why}")
    found: list[str] = []
    try:
        decoded = decoding.decode(value, schemas.object_meta(), found)
    except decoding.UndecodableError as error:
        raise decoding.UndecodableError(f"{path}: Invalid value: {shown(value)}: {error}") from None
    unknown += [f"{path}.{field}" for field in found]
    return decoded


def fill_defaults(value: Any, schema: JsonObject) -> Any:
    """Sets the defaults of a structural schema, in place."""
    if isinstance(value, dict):
        for key, below in (schema.get("properties") or {}).items():
            if key in value and value[key] is None and not below.get("nullable") and "default" in below:
                del value[key]
            if key not in value:
                if "default" not in below:
                    continue
                value[key] = copy.deepcopy(below["default"])
            fill_defaults(value[key], below)
        additional = schema.get("additionalProperties")
        if isinstance(additional, dict):
            for item in value.values():
                fill_defaults(item, additional)
    elif isinstance(value, list):
        for item in value:
            fill_defaults(item, schema.get("items") or {})
    return value
