"""The OpenAPI 3.1 document, made from the operations that are served and the types that they read and write."""

import re
from collections.abc import Iterable

import msgspec

from delegate import __version__
from delegate.manager.api.calls import JSON, Access, Nothing, Operation
from delegate.manager.views import View
from delegate.model.resources import JsonObject
from delegate.protocol.messages import Answer
from delegate.protocol.problems import Problem
from delegate.protocol.routes import PROBLEM_TYPE, REQUEST_ID_HEADER

_REFERENCE = "#/components/schemas/{name}"
_PARAMETER = re.compile(r"{(\w+)}")
_SECURITY = {
    Access.ADMIN: "operator",
    Access.SESSION: "session",
    Access.RENEWAL: "session",
    Access.BOOTSTRAP: "delegateToken",
    Access.REFRESH: "refreshToken",
}
_SCHEMES = {
    "operator": "An operator's token with the scope admin.",
    "session": "The session token of a delegate; over TLS together with its certificate, once it has one.",
    "delegateToken": "A token that delegates enrol with: scope GITOPS or single task kinds; or a service account token of a known cluster.",
    "refreshToken": "The refresh token of a delegate.",
}
_REFUSALS = {
    400: "The request can't be read.",
    401: "No token, or none that is known and alive.",
    403: "The token does not allow this, or was revoked.",
    404: "There is no such thing.",
    408: "The body did not arrive in time.",
    409: "The state does not allow this.",
    413: "The body is too large.",
    415: "The body is of a type that is not read here.",
    422: "The request can be read but not meant.",
    426: "No protocol version in common.",
    500: "The manager failed.",
    503: "Not now; Retry-After says when.",
}


def describe_api(operations: Iterable[Operation]) -> JsonObject:
    """The document. Schemas of messages and views are closed in what they require, open for what newer versions add."""
    operations = tuple(operations)
    paths: dict[str, JsonObject] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _describe(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "delegate manager",
            "version": __version__,
            "summary": "Tasks, tokens and delegates for people and programs, and the protocol of delegates",
        },
        "paths": paths,
        "components": {
            "schemas": _components(operations),
            "securitySchemes": {name: {"type": "http", "scheme": "bearer", "description": words} for name, words in _SCHEMES.items()},
        },
    }


def _describe(operation: Operation) -> JsonObject:
    described: JsonObject = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [operation.tag],
        "parameters": [*_path_parameters(operation), *_query_parameters(operation), *_header_parameters(operation)],
        "responses": _responses(operation),
    }
    if operation.handler.__doc__:
        described["description"] = " ".join(operation.handler.__doc__.split())
    if operation.body is not Nothing:
        described["requestBody"] = _request_body(operation)
    if operation.access in _SECURITY:
        described["security"] = [{_SECURITY[operation.access]: []}]
    return described


def _path_parameters(operation: Operation) -> list[JsonObject]:
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in _PARAMETER.findall(operation.path)]


def _query_parameters(operation: Operation) -> list[JsonObject]:
    schema = _schema_of(operation.query)
    return [{"name": name, "in": "query", "required": False, "schema": each} for name, each in schema.get("properties", {}).items()]


def _header_parameters(operation: Operation) -> list[JsonObject]:
    described = [{"name": REQUEST_ID_HEADER, "in": "header", "required": False, "schema": {"type": "string", "maxLength": 128}}]
    if operation.idempotent:
        described.append({"name": "Idempotency-Key", "in": "header", "required": False, "schema": {"type": "string", "maxLength": 200}})
    return described


def _request_body(operation: Operation) -> JsonObject:
    schema: JsonObject = {"$ref": _REFERENCE.format(name=operation.body.__name__)}
    if not operation.raw_body:
        return {"required": True, "content": {JSON: {"schema": schema}}}
    application = {
        "type": "object",
        "description": "An Argo CD Application.",
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "properties": {"apiVersion": {"type": "string", "pattern": "^argoproj\\.io/"}, "kind": {"const": "Application"}},
    }
    either = {"anyOf": [schema, application]}
    return {"required": True, "content": {media_type: {"schema": either} for media_type in operation.raw_body}}


def _responses(operation: Operation) -> JsonObject:
    refusals = {500, 503, *operation.refusals}
    if operation.access is not Access.ANYBODY:
        refusals |= {401, 403}
    if operation.body is not Nothing:
        refusals |= {400, 408, 413, 415, 422}
    if operation.query is not Nothing:
        refusals.add(422)
    answer = {"$ref": _REFERENCE.format(name=operation.answer.__name__)} if _is_named(operation.answer) else {"type": "object"}
    described: JsonObject = {str(operation.status): {"description": "Done.", "content": {JSON: {"schema": answer}}}}
    problem = {PROBLEM_TYPE: {"schema": {"$ref": _REFERENCE.format(name="Problem")}}}
    for status in sorted(refusals):
        described[str(status)] = {"description": _REFUSALS[status], "content": problem}
    return described


def _is_named(of: type) -> bool:
    return issubclass(of, msgspec.Struct)


def _schema_of(of: type) -> JsonObject:
    _, components = msgspec.json.schema_components([of], ref_template=_REFERENCE)
    schema: JsonObject = components[of.__name__]
    return schema


def _components(operations: tuple[Operation, ...]) -> JsonObject:
    named: dict[str, type] = {"Problem": Problem}
    for operation in operations:
        for each in (operation.answer, operation.body):
            if _is_named(each) and each is not Nothing:
                named[each.__name__] = each
    _, components = msgspec.json.schema_components(named.values(), ref_template=_REFERENCE)
    ours: list[type] = [*_family(Answer), *_family(View), Problem]
    written = {each.__name__ for each in ours}
    for name, schema in components.items():
        if name in written and "properties" in schema:
            # What is written by us is always whole: every field that the type has is in the answer.
            schema["required"] = list(schema["properties"])
    return dict(sorted(components.items()))


def _family(of: type) -> list[type]:
    members = [of]
    derived: type
    for derived in of.__subclasses__():
        members += _family(derived)
    return members
