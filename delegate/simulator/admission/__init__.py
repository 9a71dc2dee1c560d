"""Built-in admission, in the real server's order: mutation, then validation, then quota.

Webhooks are not called: one whose Service doesn't exist fails as it does on a real cluster, any other is passed over. Of validating
admission policies those expressions count that `delegate.foundation.expressions` knows; mutating ones are not looked at.
"""

from delegate.model.resources import JsonObject
from delegate.simulator.admission import limits, plugins, podsecurity, policies, quotas, webhooks
from delegate.simulator.kinds import Resource
from delegate.simulator.registry import Registry


def admit_create(registry: Registry, resource: Resource, namespace: str, body: JsonObject) -> None:
    """Fills in what plug-ins fill in, in place; raises what the namespace's life cycle refuses."""
    if resource.namespaced:
        plugins.check_namespace(registry, resource, namespace, body)
    limits.fill_in(registry, resource, namespace, body)
    plugins.fill_in(registry, resource, body)
    webhooks.check(registry, resource, "CREATE", body, mutating=True)


def admit_update(registry: Registry, resource: Resource, body: JsonObject) -> None:
    webhooks.check(registry, resource, "UPDATE", body, mutating=True)


def validate(registry: Registry, resource: Resource, operation: str, body: JsonObject, old: JsonObject | None = None) -> list[str]:
    """Raises what plug-ins refuse of a valid object; the warnings of those that only warn."""
    namespace = body["metadata"].get("namespace", "")
    if operation == "CREATE":
        limits.check(registry, resource, namespace, body)
    warnings = podsecurity.check(registry, resource, namespace, body) if resource.group in ("", "apps", "batch") else []
    warnings += policies.check(registry, resource, operation, body, old)
    webhooks.check(registry, resource, operation, body, mutating=False)
    if operation == "CREATE":
        quotas.check(registry, resource, namespace, body)
    return warnings


used = quotas.used
