"""Access reviews and token reviews: answered, never stored."""

from collections.abc import Callable

import msgspec

from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.authorization import MASTERS, Attributes, Authorizer, User
from delegate.simulator.kinds import Resource

_EVERYONES_RULES: list[JsonObject] = [
    {"verbs": ["create"], "apiGroups": ["authorization.k8s.io"], "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]},
    {"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"]},
]
_EVERYONES_PATHS: list[JsonObject] = [
    {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"]},
    {"verbs": ["get"], "nonResourceURLs": ["/.well-known", "/.well-known/*"]},
    {
        "verbs": ["get"],
        "nonResourceURLs": [
            "/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz", "/version", "/version/",
        ],
    },
]  # fmt: skip


class Asker(msgspec.Struct, frozen=True):
    """Who sent a review, and as which field manager."""

    user: User
    manager: str


def answer(resource: Resource, body: JsonObject, asker: Asker, authorizer: Authorizer, user_of: Callable[[str], User | None]) -> JsonObject:
    """The review with its status; raises a 422 where it asks for nothing."""
    user, now = asker.user, authorizer.now()
    spec = body.get("spec") or {}
    made: JsonObject = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": {}}
    match resource.kind:
        case "SelfSubjectReview":
            shown: JsonObject = {"username": user.name}
            if user.uid:
                shown["uid"] = user.uid
            return {**made, "metadata": {"creationTimestamp": now}, "status": {"userInfo": {**shown, "groups": list(user.groups)}}}
        case "SelfSubjectRulesReview":
            return {**made, "spec": {}, "status": _rules(spec, user, authorizer)}
        case "TokenReview":
            return {**made, "spec": {}, "status": _token(user_of(spec.get("token", "")))}
        case "SelfSubjectAccessReview":
            subject = user
        case _:
            subject = User(spec.get("user", ""), tuple(spec.get("groups") or ()), spec.get("uid", ""))
    if not spec.get("resourceAttributes") and not spec.get("nonResourceAttributes"):
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        cause = statuses.invalid_value("spec.resourceAttributes", None, text)
        raise statuses.invalid(resource.kind, resource.group, "", [cause])
    fields: JsonObject = {f"f:{key}": {} for key in sorted(spec.get("resourceAttributes") or ())}
    owned = {"f:spec": {"f:resourceAttributes": {".": {}, **fields}}} if fields else {"f:spec": {}}
    entry = {"manager": asker.manager, "operation": "Update", "apiVersion": resource.api_version, "time": now, "fieldsType": "FieldsV1"}
    made["metadata"] = {"managedFields": [{**entry, "fieldsV1": owned}]}
    return {**made, "spec": spec, "status": {"allowed": authorizer.allows(subject, _wanted(spec))}}


def _wanted(spec: JsonObject) -> Attributes:
    paths = spec.get("nonResourceAttributes")
    if paths:
        return Attributes(paths.get("verb", ""), path=paths.get("path", ""))
    found = spec.get("resourceAttributes") or {}
    return Attributes(
        found.get("verb", ""),
        found.get("group", ""),
        found.get("resource", ""),
        found.get("subresource", ""),
        found.get("namespace", ""),
        found.get("name", ""),
    )


def _rules(spec: JsonObject, user: User, authorizer: Authorizer) -> JsonObject:
    found: list[JsonObject] = []
    paths: list[JsonObject] = []
    if MASTERS in user.groups:
        found.append({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]})
        paths.append({"verbs": ["*"], "nonResourceURLs": ["*"]})
    for rule in authorizer.rules(user, spec.get("namespace", "")):
        (paths if rule.get("nonResourceURLs") else found).append(rule)
    return {
        "resourceRules": [*found, *_EVERYONES_RULES],
        "nonResourceRules": [*paths, *_EVERYONES_PATHS],
        "incomplete": False,
    }


def _token(user: User | None) -> JsonObject:
    if user is None:
        return {"user": {}, "error": "[invalid bearer token]"}
    shown = {"username": user.name, "uid": user.uid, "groups": list(user.groups)}
    return {"authenticated": True, "user": shown}
