"""What a write needs beyond its own verb: create for an apply that creates, and no granting of rights that one lacks."""

import itertools
from collections.abc import Iterator
from typing import Any

import msgspec

from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.authorization import MASTERS, RBAC, Attributes, Authorizer, User, attributes_of, refusal
from delegate.simulator.kinds import Resource
from delegate.simulator.requests import RequestInfo

_ROLES = {"Role": "roles", "ClusterRole": "clusterroles"}


class Permissions:
    """Of whoever sent one request."""

    def __init__(self, authorizer: Authorizer, user: User, info: RequestInfo) -> None:
        self._authorizer = authorizer
        self._user = user
        self._info = info

    def check_create(self, resource: Resource) -> None:
        """Raises a 403 for an apply of an object that doesn't exist by somebody who may patch, but not create."""
        info = msgspec.structs.replace(self._info, verb="create")
        if not self._authorizer.allows(self._user, attributes_of(info)):
            raise refusal(self._user, info, resource)

    def check_grant(self, resource: Resource, body: JsonObject, old: JsonObject | None) -> None:
        """Raises a 403 for a role with rules, or a binding to a role with rules, that the user doesn't have."""
        if resource.group != RBAC or MASTERS in self._user.groups:
            return
        namespace = body["metadata"].get("namespace", "")
        if resource.kind in _ROLES:
            if old is not None and old.get("rules") == body.get("rules"):
                return
            if self._may("escalate", resource.plural, namespace, ""):
                return
            self._check_rules(resource, body, body.get("rules") or (), namespace)
            return
        reference = body.get("roleRef") or {}
        if old is not None and (old.get("roleRef"), old.get("subjects")) == (reference, body.get("subjects")):
            return
        plural = _ROLES.get(reference.get("kind", ""), "")
        if not plural or self._may("bind", plural, namespace, reference.get("name", "")):
            return
        rules = self._authorizer.rules_of(reference, namespace)
        self._check_rules(resource, body, rules, namespace)

    def _may(self, verb: str, plural: str, namespace: str, name: str) -> bool:
        return self._authorizer.allows(self._user, Attributes(verb, RBAC, plural, "", namespace, name))

    def _check_rules(self, resource: Resource, body: JsonObject, rules: Any, namespace: str) -> None:
        missing = [rule for rule in rules if not self._holds(rule, namespace)]
        if not missing:
            return
        groups = " ".join(f'"{group}"' for group in self._user.groups)
        lines = "\n".join(_shown(rule) for rule in missing)
        why = f'user "{self._user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not currently held:\n{lines}'
        raise statuses.forbidden(resource.plural, resource.group, body["metadata"].get("name", ""), why)

    def _holds(self, rule: JsonObject, namespace: str) -> bool:
        return all(self._authorizer.allows(self._user, wanted) for wanted in _parts(rule, namespace))


def _parts(rule: JsonObject, namespace: str) -> Iterator[Attributes]:
    """Every single right that a rule gives. A star is held by a star alone."""
    for verb in rule.get("verbs") or ():
        for path in rule.get("nonResourceURLs") or ():
            yield Attributes(verb, path=path)
        places = itertools.product(rule.get("apiGroups") or (), rule.get("resources") or (), rule.get("resourceNames") or ("",))
        for group, resource, name in places:
            plural, _, subresource = resource.partition("/")
            yield Attributes(verb, group, plural, subresource, namespace, name)


def _shown(rule: JsonObject) -> str:
    names = {
        "apiGroups": "APIGroups",
        "resources": "Resources",
        "resourceNames": "ResourceNames",
        "nonResourceURLs": "NonResourceURLs",
        "verbs": "Verbs",
    }
    parts = (_list(title, rule[key]) for key, title in names.items() if rule.get(key))
    return "{" + ", ".join(parts) + "}"


def _list(title: str, values: list[str]) -> str:
    return f"{title}:[" + ", ".join(f'"{value}"' for value in values) + "]"
