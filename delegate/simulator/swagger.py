"""The OpenAPI v2 document of all served kinds, as older clients read it and `kubectl explain --output plaintext-openapiv2`.

One document for everything, in JSON or in the protobuf form that client-go asks for (`gnostic`). What v2 can't say of custom kinds
(alternatives, nullable fields) is left out, as the real server does.
"""

from typing import Any

import msgspec

from delegate.model.resources import JsonObject
from delegate.simulator import gnostic, openapi, schemas
from delegate.simulator.kinds import Resource
from delegate.simulator.registry import Registry

PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_OLDER_PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
_PREFIX = "#/definitions/"


class Swagger:
    """Makes the document when it is first asked for, and anew when the served kinds change."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._seen: tuple[int, ...] = ()
        self._document: JsonObject = {}
        self._forms: dict[str, bytes] = {}

    def answer(self, accept: str) -> tuple[bytes, str]:
        """The document in a form that the client accepts, and the form's name."""
        registry = self._registry
        served = [item for group in registry.groups for version in registry.versions(group) for item in registry.served(group, version)]
        seen = tuple(map(id, served))
        if seen != self._seen:
            self._seen, self._document, self._forms = seen, document(served), {}
        wanted = PROTOBUF if PROTOBUF in accept or _OLDER_PROTOBUF in accept else "application/json"
        if wanted not in self._forms:
            self._forms[wanted] = gnostic.encode(self._document) if wanted == PROTOBUF else msgspec.json.encode(self._document)
        return self._forms[wanted], wanted


def document(resources: list[Resource]) -> JsonObject:
    """The document as JSON."""
    definitions: JsonObject = {}
    paths: JsonObject = {}
    for resource in resources:
        name = _define(definitions, resource)
        for path, methods in openapi.paths_of(resource).items():
            paths[path] = {method: _operation(resource, name, method) for method in methods}
    return {"swagger": "2.0", "info": {"title": "Kubernetes", "version": openapi.VERSION}, "paths": paths, "definitions": definitions}


def _operation(resource: Resource, name: str, method: str) -> JsonObject:
    parameters = [
        {"name": item, "in": "query", "type": "boolean" if item == "force" else "string", "uniqueItems": True}
        for item in openapi.parameters_of(method)
    ]
    return {
        "parameters": parameters,
        "responses": {"200": {"description": "OK", "schema": {"$ref": _PREFIX + name}}},
        **openapi.extensions_of(resource, method),
    }


def _define(found: JsonObject, resource: Resource) -> str:
    known = openapi.name_of(resource)
    if resource.definition is None:
        if known in schemas.definitions():
            _add(found, known)
        else:
            found.setdefault(known, {"type": "object"})
    else:
        _add(found, openapi.METADATA)
        found[known] = _translated(openapi.custom_schema(resource, _PREFIX), found)
    return known


def _add(found: JsonObject, name: str) -> None:
    """A built-in definition and all that it refers to."""
    if name not in found:
        found[name] = {}
        found[name] = _translated(schemas.definitions()[name], found)


def _translated(schema: Any, found: JsonObject) -> JsonObject:
    out: JsonObject = {}
    for key, value in schema.items():
        match key:
            case "$ref":
                name = str(value).removeprefix(schemas.REFERENCE).removeprefix(_PREFIX)
                _add(found, name)
                out[key] = _PREFIX + name
            case "type":
                out[key] = next((item for item in value if item != "null"), "string") if isinstance(value, list) else value
            case "properties":
                out[key] = {name: _translated(item, found) for name, item in value.items()}
            case "items" | "additionalProperties":
                out[key] = _translated(value, found) if isinstance(value, dict) else value
            case "enum":
                if len(value) > 1:  # kind and version are no choice
                    out[key] = value
            case _ if key in gnostic.SCHEMA or key.startswith("x-kubernetes-"):
                out[key] = value
            case _:
                pass
    if schema.get("format") == "int-or-string" or schema.get("x-kubernetes-int-or-string"):
        out["type"], out["format"] = "string", "int-or-string"
    elif "oneOf" in schema and "type" not in out:
        out["type"] = "string"
    return out
