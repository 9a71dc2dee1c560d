"""OpenAPI v3 documents, one for each group and version, for clients that validate, explain and diff by them."""

import hashlib
import json
from typing import Any

import msgspec

from delegate.model.resources import JsonObject
from delegate.simulator import schemas
from delegate.simulator.kinds import Resource
from delegate.simulator.registry import Registry

_PREFIX = "#/components/schemas/"
VERSION = "v1.36.2"
METADATA = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_VERBS = {"get": "get", "post": "create", "put": "update", "patch": "patch", "delete": "delete"}
_WRITE_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation", "force")


class Documents:
    """Makes documents when they are first asked for; those of definitions are made anew when they change."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._made: dict[tuple[str, str], tuple[tuple[int, ...], bytes]] = {}

    def index(self) -> JsonObject:
        """The list of documents, with a hash of each in its address."""
        paths = {}
        for group in self._registry.groups:
            for version in self._registry.versions(group):
                place = f"apis/{group}/{version}" if group else f"api/{version}"
                seed = "".join(f"{item.plural}{item.kind}{id(item.definition)}" for item in self._registry.served(group, version))
                digest = hashlib.sha256(seed.encode()).hexdigest().upper()
                paths[place] = {"serverRelativeURL": f"/openapi/v3/{place}?hash={digest}"}
        return {"paths": paths}

    def document(self, group: str, version: str) -> bytes | None:
        """The document of a group and version, None where it isn't served."""
        resources = self._registry.served(group, version)
        if not resources:
            return None
        seen = tuple(id(item) for item in resources)
        held = self._made.get((group, version))
        if held is None or held[0] != seen:
            held = self._made[group, version] = (seen, msgspec.json.encode(_document(group, version, resources)))
        return held[1]


def _document(group: str, version: str, resources: list[Resource]) -> JsonObject:
    found: JsonObject = {}
    paths: JsonObject = {}
    for resource in resources:
        name = _add_schema(found, resource)
        for path, methods in paths_of(resource).items():
            paths[path] = {method: _operation(resource, name, method) for method in methods}
    info = {"title": "Kubernetes", "version": VERSION}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": found}}


def paths_of(resource: Resource) -> dict[str, list[str]]:
    """The paths of a resource, with the HTTP methods that they take."""
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    if resource.namespaced:
        root += "/namespaces/{namespace}"
    found = {
        f"{root}/{resource.plural}": ("get", "post", "delete"),
        f"{root}/{resource.plural}/{{name}}": ("get", "put", "patch", "delete"),
    }
    return {path: [item for item in methods if _is_served(resource, item)] for path, methods in found.items()}


def _is_served(resource: Resource, method: str) -> bool:
    return _VERBS[method] in resource.verbs or (method == "get" and "list" in resource.verbs)


def parameters_of(method: str) -> tuple[str, ...]:
    """The options that a method takes; clients look whether `fieldValidation` and `dryRun` are among them."""
    return _WRITE_PARAMETERS if method in ("post", "put", "patch") else ()


def extensions_of(resource: Resource, method: str) -> JsonObject:
    """What an operation says of the kind that it works on."""
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    return {"x-kubernetes-action": _VERBS[method], "x-kubernetes-group-version-kind": kind}


def _operation(resource: Resource, name: str, method: str) -> JsonObject:
    parameters = [
        {"name": item, "in": "query", "schema": {"type": "boolean" if item == "force" else "string", "uniqueItems": True}}
        for item in parameters_of(method)
    ]
    answer = {"description": "OK", "content": {"application/json": {"schema": {"$ref": _PREFIX + name}}}}
    return {"parameters": parameters, "responses": {"200": answer}, **extensions_of(resource, method)}


def name_of(resource: Resource) -> str:
    """What the schema of a kind is called."""
    if resource.definition is not None:
        return f"{'.'.join(reversed(resource.group.split('.')))}.{resource.version}.{resource.kind}"
    return schemas.names_by_kind().get((resource.group, resource.version, resource.kind), "unknown")


def custom_schema(resource: Resource, prefix: str) -> JsonObject:
    """The schema of a defined kind, with what every object has."""
    assert resource.definition is not None
    schema: JsonObject = json.loads(json.dumps(resource.definition.schema))
    properties = schema.setdefault("properties", {})
    properties |= {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"$ref": prefix + METADATA}}
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    return {**schema, "x-kubernetes-group-version-kind": [kind]}


def _add_schema(found: JsonObject, resource: Resource) -> str:
    name = name_of(resource)
    if resource.definition is not None:
        _add_definition(found, METADATA)
        found[name] = custom_schema(resource, _PREFIX)
    elif name in schemas.definitions():
        _add_definition(found, name)
    else:
        found.setdefault(name, {"type": "object"})
    return name


def _add_definition(found: JsonObject, name: str) -> None:
    """A built-in definition and all that it refers to."""
    if name not in found:
        found[name] = {}
        found[name] = _translated(schemas.definitions()[name], found)


def _translated(schema: Any, found: JsonObject) -> Any:
    """One schema in the dialect of OpenAPI 3.0: one type, references to components."""
    if isinstance(schema, list):
        return [_translated(item, found) for item in schema]
    if not isinstance(schema, dict):
        return schema
    out: JsonObject = {}
    for key, value in schema.items():
        if key == "$ref":
            name = str(value).removeprefix(schemas.REFERENCE)
            _add_definition(found, name)
            reference = {"$ref": _PREFIX + name}
            out |= reference if len(schema) == 1 else {"allOf": [reference]}  # beside a reference nothing else counts
        elif key == "type" and isinstance(value, list):
            out[key] = next((item for item in value if item != "null"), "string")
        elif key == "properties":
            out[key] = {name: _translated(item, found) for name, item in value.items()}
        elif key != "enum" or len(value) > 1:
            out[key] = _translated(value, found)
    return out
