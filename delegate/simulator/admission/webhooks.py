"""Webhook configurations: matched as the real server matches them; one whose Service is missing can't be reached and fails."""

from typing import Any

from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.kinds import Resource
from delegate.simulator.registry import Registry, labels_of
from delegate.simulator.selectors import of_label_selector

GROUP = "admissionregistration.k8s.io"


def check(registry: Registry, resource: Resource, operation: str, body: JsonObject, *, mutating: bool) -> None:
    """Raises the 500 of an unreachable webhook that must not be passed over."""
    plural = "mutatingwebhookconfigurations" if mutating else "validatingwebhookconfigurations"
    if resource.group == GROUP:
        return
    for stored in registry.store.table((GROUP, plural)).items():
        for webhook in stored.body.get("webhooks") or ():
            if webhook.get("failurePolicy") == "Fail" and matches(registry, resource, operation, body, webhook):
                _reach(registry, webhook)


def matches(registry: Registry, resource: Resource, operation: str, body: JsonObject, webhook: JsonObject) -> bool:
    """Whether rules and selectors ask for an object."""
    if not any(rule_matches(rule, resource, operation) for rule in webhook.get("rules") or ()):
        return False
    if not of_label_selector(webhook.get("objectSelector") or {})(labels_of(body)):
        return False
    return namespace_matches(registry, resource, body, webhook.get("namespaceSelector") or {})


def namespace_matches(registry: Registry, resource: Resource, body: JsonObject, selector: JsonObject) -> bool:
    if resource.kind == "Namespace" and not resource.group:
        return of_label_selector(selector)(labels_of(body))
    namespace = body["metadata"].get("namespace", "")
    if not namespace:
        return True
    found = registry.store.table(("", "namespaces")).get("", namespace)
    return of_label_selector(selector)(labels_of(found.body) if found is not None else {})


def rule_matches(rule: JsonObject, resource: Resource, operation: str) -> bool:
    def has(key: str, value: str) -> bool:
        listed: Any = rule.get(key) or ()
        return "*" in listed or value in listed

    scope = rule.get("scope", "*")
    return (
        has("operations", operation)
        and has("apiGroups", resource.group)
        and has("apiVersions", resource.version)
        and (has("resources", resource.plural) or "*/*" in (rule.get("resources") or ()))
        and (scope == "*" or (scope == "Namespaced") is resource.namespaced)
    )


def _reach(registry: Registry, webhook: JsonObject) -> None:
    service = (webhook.get("clientConfig") or {}).get("service")
    if service is None or registry.store.table(("", "services")).get(service["namespace"], service["name"]) is not None:
        return
    place = f"{service['name']}.{service['namespace']}.svc:{service.get('port', 443)}"
    url = f"https://{place}{service.get('path', '')}?timeout={webhook.get('timeoutSeconds', 10)}s"
    text = f'failed calling webhook "{webhook["name"]}": failed to call webhook: Post "{url}": service "{service["name"]}" not found'
    details = {"causes": [{"message": text}]}
    raise statuses.StatusError(500, f"Internal error occurred: {text}", reason="InternalError", details=details)
