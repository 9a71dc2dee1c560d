"""Who may do what: users by token, and the roles and bindings that are objects (RBAC).

The administrator is in `system:masters`, as on a real cluster; everyone else has what bindings give them, and what every
authenticated user has (access reviews, discovery, health).
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.kinds import Resource
from delegate.simulator.registry import Registry
from delegate.simulator.requests import RequestInfo

MASTERS = "system:masters"
RBAC = "rbac.authorization.k8s.io"
_OPEN_PATHS = ("/healthz", "/livez", "/readyz", "/version", "/version/")
_DISCOVERY_PATHS = ("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", "/.well-known", "/.well-known/*")
_REVIEWS = {("authorization.k8s.io", "selfsubjectaccessreviews"), ("authorization.k8s.io", "selfsubjectrulesreviews")}
_REVIEWS |= {("authentication.k8s.io", "selfsubjectreviews")}


class User(msgspec.Struct, frozen=True):
    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""


ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


def administrator(name: str = "admin") -> User:
    return User(name, (MASTERS, "system:authenticated"), name)


def plain_user(name: str, *groups: str) -> User:
    return User(name, (*groups, "system:authenticated"), name)


class Attributes(msgspec.Struct, frozen=True):
    """What is to be decided."""

    verb: str
    group: str = ""
    plural: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def resource(self) -> str:
        return f"{self.plural}/{self.subresource}" if self.subresource else self.plural


def attributes_of(info: RequestInfo) -> Attributes:
    if not info.is_resource:
        return Attributes(info.verb, path=info.path)
    namespace = info.namespace if info.plural != "namespaces" else info.name
    return Attributes(info.verb, info.group, info.plural, info.subresource, namespace, info.name or info.selected)


class Authorizer:
    """Decides by the bindings in the store."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def now(self) -> str:
        return self._registry.now()

    def allows(self, user: User, wanted: Attributes) -> bool:
        if MASTERS in user.groups:
            return True
        if wanted.path:
            return self._allows_path(user, wanted)
        if (wanted.group, wanted.plural) in _REVIEWS and wanted.verb == "create" and "system:authenticated" in user.groups:
            return True
        return any(_rule_allows(rule, wanted) for rule in self.rules(user, wanted.namespace))

    def _allows_path(self, user: User, wanted: Attributes) -> bool:
        if wanted.verb not in ("get", "head"):
            return False
        if wanted.path in _OPEN_PATHS or wanted.path.startswith(("/livez/", "/readyz/", "/healthz/")):
            return True
        if "system:authenticated" in user.groups and any(_path_matches(pattern, wanted.path) for pattern in _DISCOVERY_PATHS):
            return True
        return any(
            _in(wanted.verb, rule.get("verbs"))
            and any(_path_matches(pattern, wanted.path) for pattern in rule.get("nonResourceURLs") or ())
            for rule in self.rules(user, "")
        )

    def rules(self, user: User, namespace: str) -> Iterator[JsonObject]:
        """The rules that bindings give a user, cluster-wide and in a namespace."""
        tables = self._registry.store
        for stored in tables.table((RBAC, "clusterrolebindings")).items():
            if _is_subject(user, stored.body, ""):
                yield from self._role("ClusterRole", stored.body["roleRef"].get("name", ""), "")
        if namespace:
            for stored in tables.table((RBAC, "rolebindings")).items(namespace):
                if _is_subject(user, stored.body, namespace):
                    role = stored.body["roleRef"]
                    yield from self._role(role.get("kind", ""), role.get("name", ""), namespace)

    def rules_of(self, reference: JsonObject, namespace: str) -> list[JsonObject]:
        """The rules of the role that a binding in a namespace refers to; none where there is no such role."""
        return list(self._role(reference.get("kind", ""), reference.get("name", ""), namespace))

    def _role(self, kind: str, name: str, namespace: str) -> Iterator[JsonObject]:
        plural, place = ("roles", namespace) if kind == "Role" else ("clusterroles", "")
        found = self._registry.store.table((RBAC, plural)).get(place, name)
        if found is not None:
            yield from found.body.get("rules") or ()


def _is_subject(user: User, binding: JsonObject, namespace: str) -> bool:
    for subject in binding.get("subjects") or ():
        match subject.get("kind"):
            case "User" if subject.get("name") == user.name:
                return True
            case "Group" if subject.get("name") in user.groups:
                return True
            case "ServiceAccount":
                place = subject.get("namespace") or namespace
                if user.name == f"system:serviceaccount:{place}:{subject.get('name')}":
                    return True
            case _:
                pass
    return False


def _in(value: str, allowed: Any) -> bool:
    return "*" in (allowed or ()) or value in (allowed or ())


def _path_matches(pattern: str, path: str) -> bool:
    return pattern in (path, "*") or (pattern.endswith("*") and path.startswith(pattern[:-1]))


def _rule_allows(rule: JsonObject, wanted: Attributes) -> bool:
    if not _in(wanted.verb, rule.get("verbs")) or not _in(wanted.group, rule.get("apiGroups")):
        return False
    resources = rule.get("resources") or ()
    if not (_in(wanted.resource, resources) or (wanted.subresource and f"*/{wanted.subresource}" in resources)):
        return False
    names = rule.get("resourceNames")
    return not names or wanted.name in names


def refusal(user: User, info: RequestInfo, resource: Resource | None) -> statuses.StatusError:
    """The 403 in the server's words."""
    if not info.is_resource:
        why = f'User "{user.name}" cannot {info.verb} path "{info.path}"'
        return statuses.StatusError(403, f"forbidden: {why}", reason="Forbidden", details={})
    plural = f"{info.plural}/{info.subresource}" if info.subresource else info.plural
    where = f' in the namespace "{info.namespace}"' if info.namespace and info.plural != "namespaces" else " at the cluster scope"
    if info.plural == "namespaces" and info.name:
        where = f' in the namespace "{info.name}"'
    why = f'User "{user.name}" cannot {info.verb} resource "{plural}" in API group "{info.group}"{where}'
    return statuses.forbidden(info.plural, info.group, info.name, why)
