"""Validation of CustomResourceDefinitions and of their structural schemas (KEP-1164 and apiextensions `validation`)."""

import re
from typing import Any

import msgspec

from delegate.model.resources import JsonObject
from delegate.simulator import regexes, statuses
from delegate.simulator.customs import EMBEDDED, INT_OR_STRING, PRESERVE
from delegate.simulator.naming import label_1035, subdomain
from delegate.simulator.statuses import Cause
from delegate.simulator.validation import customs, expressions
from delegate.simulator.validation.values import chosen, named

_EITHER = [{"type": "integer"}, {"type": "string"}]
_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_COLUMNS = ("boolean", "date", "integer", "number", "string")
LIST_TYPE, LIST_KEYS = "x-kubernetes-list-type", "x-kubernetes-list-map-keys"
APPROVAL = "api-approved.kubernetes.io"
_APPROVAL_TEXT = f'protected groups must have approval annotation "{APPROVAL}", see https://github.com/kubernetes/enhancements/pull/1111'
_SIMPLE_PATH = re.compile(r"\.[A-Za-z0-9_.\[\]'\"-]*")


def _definition(body: JsonObject) -> list[Cause]:
    spec, metadata = body["spec"], body["metadata"]
    names = spec.get("names") or {}
    group = spec.get("group", "")
    causes: list[Cause] = []
    if metadata.get("name") != f"{names.get('plural', '')}.{group}":
        causes.append(statuses.invalid_value("metadata.name", metadata.get("name", ""), 'must be spec.names.plural+"."+spec.group'))
    causes += _group(group)
    scope = spec.get("scope", "")
    causes += chosen("spec.scope", scope, ("Cluster", "Namespaced")) if scope else [statuses.required("spec.scope")]
    versions = spec.get("versions") or []
    shared, own = _taken_apart(versions)
    for index, version in enumerate(own):
        causes += _version(version, f"spec.versions[{index}]", typed="schema" in shared)
    causes += _versions(versions)
    if versions:
        causes += [
            statuses.invalid_value("spec.version", versions[0].get("name", ""), text) for text in label_1035(versions[0].get("name", ""))
        ]
    causes += _names(names)
    causes += _parts(shared, "spec", "validation")
    causes += _conversion(spec.get("conversion") or {})
    if spec.get("preserveUnknownFields"):
        text = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        causes.append(statuses.invalid_value("spec.preserveUnknownFields", True, text))
    if not (body.get("status") or {}).get("storedVersions"):
        causes.append(statuses.invalid_value("status.storedVersions", None, "must have at least one stored version"))
    if group.endswith((".k8s.io", ".kubernetes.io")) and not (metadata.get("annotations") or {}).get(APPROVAL):
        causes.append(statuses.required(f"metadata.annotations[{APPROVAL}]", _APPROVAL_TEXT))
    return causes


def _group(group: str) -> list[Cause]:
    if not group:
        return [statuses.required("spec.group")]
    if "." not in group:
        return [statuses.invalid_value("spec.group", group, "should be a domain with at least one dot")]
    return named("spec.group", group, subdomain)


def _versions(versions: list[Any]) -> list[Cause]:
    causes: list[Cause] = []
    names = [version.get("name", "") for version in versions]
    if len(set(names)) != len(names):
        causes.append(statuses.invalid_value("spec.versions", versions, "must contain unique version names"))
    if sum(bool(version.get("storage")) for version in versions) != 1:
        text = "must have exactly one version marked as storage version"
        causes.append(statuses.invalid_value("spec.versions", versions or None, text))
    return causes


def _names(names: JsonObject) -> list[Cause]:
    causes = [statuses.required(f"spec.names.{key}") for key in ("plural", "singular", "kind", "listKind") if not names.get(key)]
    causes += named("spec.names.plural", names.get("plural"), label_1035)
    causes += named("spec.names.singular", names.get("singular"), label_1035)
    for key in ("kind", "listKind"):
        value = names.get(key, "")
        wrong = label_1035(value.lower()) if value else []
        causes += [
            statuses.invalid_value(f"spec.names.{key}", value, f"may have mixed case, but should otherwise match: {text}") for text in wrong
        ]
    for key in ("shortNames", "categories"):
        for index, value in enumerate(names.get(key) or ()):
            causes += [statuses.invalid_value(f"spec.names.{key}[{index}]", value, text) for text in label_1035(value)]
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        causes.append(statuses.invalid_value("spec.names.listKind", names["listKind"], "kind and listKind may not be the same"))
    return causes


def _conversion(conversion: JsonObject) -> list[Cause]:
    causes = chosen("spec.conversion.strategy", conversion.get("strategy"), ("None", "Webhook"))
    if conversion.get("strategy") == "Webhook":
        webhook = conversion.get("webhook") or {}
        if "clientConfig" not in webhook:
            causes.append(statuses.required("spec.conversion.webhookClientConfig", "required when strategy is set to Webhook"))
        if not webhook.get("conversionReviewVersions"):
            causes.append(statuses.required("spec.conversion.conversionReviewVersions"))
    return causes


def _taken_apart(versions: list[Any]) -> tuple[JsonObject, list[JsonObject]]:
    """What all versions have alike, which the server keeps and names once, and what each has of its own."""
    shared: JsonObject = {}
    for key in ("schema", "subresources", "additionalPrinterColumns"):
        values = [version.get(key) for version in versions]
        if values and values[0] and all(value == values[0] for value in values):
            shared[key] = values[0]
    return shared, [{key: value for key, value in version.items() if key not in shared} for version in versions]


def _version(version: JsonObject, path: str, *, typed: bool) -> list[Cause]:
    """What a version has of its own; `typed` where its schema is everybody's."""
    causes = _parts(version, path, "schema")
    if not typed and not (version.get("schema") or {}).get("openAPIV3Schema"):
        causes.append(statuses.required(f"{path}.schema.openAPIV3Schema"))
    return causes + [statuses.invalid_value(f"{path}.name", version.get("name", ""), text) for text in label_1035(version.get("name", ""))]


def _parts(version: JsonObject, path: str, named: str) -> list[Cause]:
    """Schema, scale and columns, of one version or of all; `named` is what the schema's place is called there."""
    causes: list[Cause] = []
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema:
        here = f"{path}.{named}.openAPIV3Schema"
        causes += _root(schema, here) + _node(schema, here, root=True)
        causes = causes or _rules(schema, here, root=True)
    scale = (version.get("subresources") or {}).get("scale")
    if scale is not None:
        causes += _scale(scale, f"{path}.subresources.scale")
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        causes += _column(column, f"{path}.additionalPrinterColumns[{index}]")
    return causes


def _rules(schema: JsonObject, path: str, *, root: bool = False) -> list[Cause]:
    """Rules everywhere in a schema that is structural."""
    causes = expressions.of_schema(schema, path, root=root)
    for name, below in (schema.get("properties") or {}).items():
        causes += _rules(below, f"{path}.properties[{name}]")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            causes += _rules(schema[key], f"{path}.{key}")
    return causes


def _root(schema: JsonObject, path: str) -> list[Cause]:
    causes: list[Cause] = []
    if schema.get("nullable"):
        causes.append(statuses.forbidden_value(f"{path}.nullable", "nullable cannot be true at the root"))
    kind = schema.get("type", "")
    if not kind:
        causes.append(statuses.required(f"{path}.type", "must not be empty at the root"))
    elif kind != "object":
        causes.append(statuses.invalid_value(f"{path}.type", kind, "must be object at the root"))
    return causes


def _node(schema: JsonObject, path: str, *, root: bool = False, described: bool = True) -> list[Cause]:
    """One schema and those below it; `described` where its type has to be said (not inside `anyOf` and its like)."""
    causes: list[Cause] = []
    kind = schema.get("type", "")
    if described and not root and not kind and not (schema.get(INT_OR_STRING) or schema.get(PRESERVE)):
        causes.append(statuses.required(f"{path}.type", "must not be empty for specified object fields"))
    if not described and kind and not schema.get(INT_OR_STRING):
        causes.append(statuses.forbidden_value(f"{path}.type", "must be empty to be structural"))
    elif kind and kind not in _TYPES:
        causes.append(statuses.unsupported(f"{path}.type", kind, _TYPES))
    if "$ref" in schema:
        causes.append(statuses.forbidden_value(f"{path}.$ref", "$ref is not supported"))
    if schema.get(PRESERVE) is False:
        causes.append(statuses.invalid_value(f"{path}.{PRESERVE}", False, "must be true or undefined"))
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        causes.append(statuses.forbidden_value(f"{path}.uniqueItems", text))
    if "properties" in schema and "additionalProperties" in schema:
        text = "additionalProperties and properties are mutual exclusive"
        causes.append(statuses.forbidden_value(f"{path}.additionalProperties", text))
    if kind == "array" and "items" not in schema:
        causes.append(statuses.required(f"{path}.items", "must be specified"))
    causes += _pattern(schema, path) + _list(schema, path)
    if "default" in schema and not causes:
        for wrong in customs.check_value(schema["default"], schema, ""):  # its words name places inside of the default
            causes.append(msgspec.structs.replace(wrong, field=f"{path}.default.{wrong.field}".rstrip(".")))
    return causes + _below(schema, path, root=root, described=described)


def _below(schema: JsonObject, path: str, *, root: bool, described: bool) -> list[Cause]:
    causes: list[Cause] = []
    for name, below in (schema.get("properties") or {}).items():
        here = f"{path}.properties[{name}]"
        if name == "metadata" and (root or schema.get(EMBEDDED)):
            if below.keys() - {"type", "description", "properties"} or (below.get("properties") or {}).keys() - {"name", "generateName"}:
                text = "must not specify anything other than name and generateName, but metadata is implicitly specified"
                causes.append(statuses.forbidden_value(here, text))
            continue
        causes += _node(below, here, described=described)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            causes += _node(schema[key], f"{path}.{key}", described=described)
    for key in ("allOf", "anyOf", "oneOf"):
        if (key == "anyOf" and schema.get(key) == _EITHER) or (key == "allOf" and (schema.get(key) or [{}])[0] == {"anyOf": _EITHER}):
            continue
        for index, below in enumerate(schema.get(key) or ()):
            causes += _node(below, f"{path}.{key}[{index}]", described=False)
    if isinstance(schema.get("not"), dict):
        causes += _node(schema["not"], f"{path}.not", described=False)
    return causes


def _pattern(schema: JsonObject, path: str) -> list[Cause]:
    pattern = schema.get("pattern")
    if not pattern:
        return []
    try:
        regexes.check_pattern(pattern)
    except regexes.InvalidPatternError as error:
        text = f"must be a valid regular expression, but isn't: error parsing regexp: {error}: `{pattern}`"
        return [statuses.invalid_value(f"{path}.pattern", pattern, text)]
    return []


def _list(schema: JsonObject, path: str) -> list[Cause]:
    relation = schema.get(LIST_TYPE)
    if relation is None:
        return []
    causes: list[Cause] = []
    if schema.get("type") != "array":
        text = f"must be array if {LIST_TYPE} is specified"
        causes.append(statuses.invalid_value(f"{path}.type", schema.get("type", ""), text))
    causes += chosen(f"{path}.{LIST_TYPE}", relation, ("atomic", "map", "set"))
    if relation == "map":
        keys = schema.get(LIST_KEYS) or ()
        if not keys:
            causes.append(statuses.required(f"{path}.{LIST_KEYS}", f"must not be empty if {LIST_TYPE} is map"))
        items = schema.get("items")
        if not isinstance(items, dict):
            causes.append(statuses.required(f"{path}.items", f"must have a schema if {LIST_TYPE} is map"))
            return causes
        fields = items.get("properties") or {}
        for key in keys:
            if key not in fields:
                text = "entries must all be names of item properties"
                causes.append(statuses.invalid_value(f"{path}.{LIST_KEYS}", key, text))
            elif "default" not in fields[key] and key not in (items.get("required") or ()):
                text = f"this property is in {LIST_KEYS}, so it must have a default or be a required property"
                causes.append(statuses.required(f"{path}.items.properties[{key}].default", text))
    return causes


def _scale(scale: JsonObject, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for key, below in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        value = scale.get(key, "")
        if not value:
            causes.append(statuses.required(f"{path}.{key}"))
        elif not _SIMPLE_PATH.fullmatch(value):
            causes.append(statuses.invalid_value(f"{path}.{key}", value, "must be a simple json path starting with ."))
        elif not value.startswith(below):
            causes.append(statuses.invalid_value(f"{path}.{key}", value, f"should be a json path under {below[:-1]}"))
    return causes


def _column(column: JsonObject, path: str) -> list[Cause]:
    causes: list[Cause] = []
    if not column.get("name"):
        causes.append(statuses.required(f"{path}.name"))
    kind = column.get("type", "")
    if not kind:
        causes.append(statuses.required(f"{path}.type", f"must be one of {','.join(_COLUMNS)}"))
    elif kind not in _COLUMNS:
        causes.append(statuses.invalid_value(f"{path}.type", kind, f"must be one of {','.join(_COLUMNS)}"))
    place = column.get("jsonPath", "")
    if not place:
        causes.append(statuses.required(f"{path}.JSONPath"))
    elif not place.startswith("."):
        causes.append(statuses.invalid_value(f"{path}.JSONPath", place, "must be a simple json path starting with ."))
    return causes


TABLE = {("apiextensions.k8s.io", "CustomResourceDefinition"): _definition}
