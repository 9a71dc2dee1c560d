"""Field types of the built-in kinds, compiled lazily from the OpenAPI definitions that kubernetes-validate carries.

A `FieldType` says what server-side apply and decoding have to know of a field: scalar, struct, map or list; whether a list is
keyed, a set or atomic; how strategic merge treats it. What no schema says (Go zero values, key defaults) is in `zeroes`.
"""

import functools
from importlib import resources
from typing import Any, Literal

import msgspec

from delegate.simulator import zeroes

VERSION = "v1.36.0-local"
REFERENCE = "#/$defs/"

Form = Literal["plain", "quantity", "int_or_string", "time", "micro_time", "bytes", "int32", "int64", "double"]


class FieldType:
    """One type. `kind`: scalar (`scalar` says which), struct (fixed `fields`), map (`element`), list (`element`), or any (untyped)."""

    __slots__ = (
        "always",
        "atomic",
        "element",
        "fields",
        "form",
        "keeps_zero",
        "key_defaults",
        "keys",
        "kind",
        "name",
        "open",
        "patches",
        "scalar",
        "set",
    )

    def __init__(self, kind: Literal["scalar", "struct", "map", "list", "any"]) -> None:
        self.kind = kind
        self.name = ""
        self.scalar: Literal["numeric", "string", "boolean", "untyped"] = "untyped"
        self.form: Form = "plain"
        self.atomic = False
        self.set = False
        self.open = False
        self.keys: tuple[str, ...] = ()
        self.key_defaults: dict[str, Any] = {}
        self.fields: dict[str, FieldType] = {}
        self.element: FieldType | None = None
        self.patches: dict[str, tuple[str, str]] = {}
        self.always: dict[str, Any] = {}
        self.keeps_zero: frozenset[str] = frozenset()

    def child(self, key: str) -> "FieldType | None":
        return self.fields.get(key) or self.element


ANY = FieldType("any")
ANY.open = True
FREE = FieldType("any")
FREE.open = FREE.atomic = True
"""What the definitions leave open: owned as a whole."""


def scalar(kind: Literal["numeric", "string", "boolean", "untyped"], form: Form = "plain") -> FieldType:
    made = FieldType("scalar")
    made.scalar = kind
    made.form = form
    return made


STRING = scalar("string")
NAMED: dict[str, FieldType] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": scalar("untyped", "quantity"),
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": scalar("untyped", "int_or_string"),
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": scalar("untyped", "time"),
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": scalar("untyped", "micro_time"),
    "io.k8s.apimachinery.pkg.runtime.RawExtension": FREE,
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": FREE,
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON": FREE,
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray": FREE,
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool": FREE,
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray": FREE,
}


@functools.cache
def definitions() -> dict[str, Any]:
    """The OpenAPI definitions by name."""
    place = resources.files("kubernetes_validate") / "kubernetes-json-schema" / VERSION / "_definitions.json"
    found: dict[str, Any] = msgspec.json.decode(place.read_bytes())["$defs"]
    return found


@functools.cache
def names_by_kind() -> dict[tuple[str, str, str], str]:
    """Definition names by group, version and kind."""
    found = {}
    for name, schema in definitions().items():
        for named in schema.get("x-kubernetes-group-version-kind", ()):
            found[named["group"], named["version"], named["kind"]] = name
    return found


@functools.cache
def of_kind(group: str, version: str, kind: str) -> FieldType | None:
    """The type of a built-in kind, or None where no definition has it."""
    name = names_by_kind().get((group, version, kind))
    return of_definition(name) if name else None


@functools.cache
def of_definition(name: str) -> FieldType:
    made = NAMED.get(name)
    if made is None:
        made = NAMED[name] = FieldType("struct")
        _fill(made, name, definitions()[name])
    return made


def object_meta() -> FieldType:
    return of_definition("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")


def _fill(made: FieldType, name: str, schema: dict[str, Any]) -> None:
    short = name.rpartition(".")[2]
    if "properties" not in schema:
        compiled = _compile(schema)
        for slot in FieldType.__slots__:
            setattr(made, slot, getattr(compiled, slot))
        made.name = short
        return
    made.name = short
    made.atomic = schema.get("x-kubernetes-map-type") == "atomic"
    for key, below in schema["properties"].items():
        made.fields[key] = _field(below)
        strategy, merge_key = below.get("x-kubernetes-patch-strategy", ""), below.get("x-kubernetes-patch-merge-key", "")
        if strategy:
            made.patches[key] = (strategy, merge_key)
    made.always = dict(zeroes.always_written(name))
    for key in ("metadata", "spec", "status"):
        below_type = made.fields.get(key)
        if below_type is not None and below_type.kind == "struct" and (key == "metadata" or "x-kubernetes-group-version-kind" in schema):
            made.always.setdefault(key, {})
    made.keeps_zero = zeroes.kept_when_zero(short)


def _field(schema: dict[str, Any]) -> FieldType:
    compiled = _compile(schema)
    if "x-kubernetes-map-type" in schema and "$ref" in schema:
        changed = FieldType(compiled.kind)
        for slot in FieldType.__slots__:
            setattr(changed, slot, getattr(compiled, slot))
        changed.atomic = schema["x-kubernetes-map-type"] == "atomic"
        return changed
    return compiled


def _compile(schema: dict[str, Any]) -> FieldType:
    if "$ref" in schema:
        return of_definition(schema["$ref"].removeprefix(REFERENCE))
    types = schema.get("type")
    kind = next((item for item in types if item != "null"), None) if isinstance(types, list) else types
    match kind:
        case "string":
            form: Form = "bytes" if schema.get("format") == "byte" else "plain"
            return scalar("string", form) if form != "plain" else STRING
        case "integer":
            return scalar("numeric", "int64" if schema.get("format") == "int64" else "int32")
        case "number":
            return scalar("numeric", "double")
        case "boolean":
            return scalar("boolean")
        case "array":
            return _list(schema)
        case "object" if "additionalProperties" in schema:
            made = FieldType("map")
            made.element = _compile(schema["additionalProperties"])
            made.atomic = schema.get("x-kubernetes-map-type") == "atomic"
            return made
    return FREE


def _list(schema: dict[str, Any]) -> FieldType:
    made = FieldType("list")
    made.element = _compile(schema["items"])
    relation = schema.get("x-kubernetes-list-type", "atomic")
    made.atomic = relation == "atomic"
    made.set = relation == "set"
    made.keys = tuple(schema.get("x-kubernetes-list-map-keys", ())) if relation == "map" else ()
    if made.keys:
        made.key_defaults = _key_defaults(schema["items"].get("$ref", "").removeprefix(REFERENCE), made.keys)
    return made


def _key_defaults(name: str, keys: tuple[str, ...]) -> dict[str, Any]:
    """What a missing key counts as: a required one is a Go field without a pointer, which the server's schemas default to its zero."""
    found = dict(zeroes.KEY_DEFAULTS.get(name.rpartition(".")[2], {}))
    schema = definitions().get(name, {})
    for key in keys:
        if key in schema.get("required", ()):
            found.setdefault(key, 0 if schema["properties"][key].get("type") == "integer" else "")
    return found
