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
        root = f"/apis/{group}/{version}" if group else f"/api/{version}"
        if resource.namespaced:
            root += "/namespaces/{namespace}"
        paths[f"{root}/{resource.plural}"] = _operations(resource, name, ("get", "post", "delete"))
        paths[f"{root}/{resource.plural}/{{name}}"] = _operations(resource, name, ("get", "put", "patch", "delete"))
    info = {"title": "Kubernetes", "version": "v1.36.2"}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": found}}


_VERBS = {"get": "get", "post": "create", "put": "update", "patch": "patch", "delete": "delete"}


def _operations(resource: Resource, name: str, methods: tuple[str, ...]) -> JsonObject:
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    out: JsonObject = {}
    for method in methods:
        if _VERBS[method] not in resource.verbs and not (method == "get" and "list" in resource.verbs):
            continue
        parameters = [
            {"name": item, "in": "query", "schema": {"type": "boolean" if item == "force" else "string", "uniqueItems": True}}
            for item in _WRITE_PARAMETERS
            if method in ("post", "put", "patch")
        ]
        answer = {"description": "OK", "content": {"application/json": {"schema": {"$ref": _PREFIX + name}}}}
        out[method] = {
            "parameters": parameters,
            "responses": {"200": answer},
            "x-kubernetes-action": _VERBS[method],
            "x-kubernetes-group-version-kind": kind,
        }
    return out


def _add_schema(found: JsonObject, resource: Resource) -> str:
    if resource.definition is not None:
        reverse = ".".join(reversed(resource.group.split(".")))
        name = f"{reverse}.{resource.version}.{resource.kind}"
        metadata = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
        _add_definition(found, metadata)
        schema = json.loads(json.dumps(resource.definition.schema))
        properties = schema.setdefault("properties", {})
        properties |= {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"$ref": _PREFIX + metadata}}
        kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        found[name] = {**schema, "x-kubernetes-group-version-kind": [kind]}
        return name
    known = schemas.names_by_kind().get((resource.group, resource.version, resource.kind))
    if known is None:
        found.setdefault("unknown", {"type": "object"})
        return "unknown"
    _add_definition(found, known)
    return known


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
            out[key] = _PREFIX + name
        elif key == "type" and isinstance(value, list):
            out[key] = next((item for item in value if item != "null"), "string")
        elif key == "properties":
            out[key] = {name: _translated(item, found) for name, item in value.items()}
        elif key != "enum" or set(value) - {schema.get("default")}:
            out[key] = _translated(value, found)
    return out
