"""ValidatingAdmissionPolicies: those whose expressions are known here are held to (KEP-3488)."""

from typing import Any

from delegate.foundation.expressions.errors import EvaluationError, InvalidExpressionError
from delegate.foundation.expressions.programs import Bindings, compile_expression
from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.admission.webhooks import GROUP, namespace_matches, rule_matches
from delegate.simulator.kinds import Resource
from delegate.simulator.registry import Registry, labels_of
from delegate.simulator.selectors import of_label_selector
from delegate.simulator.validation.rules import message_of

_CODES = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413, "Invalid": 422}


def check(registry: Registry, resource: Resource, operation: str, body: JsonObject, old: JsonObject | None) -> list[str]:
    """Raises what a policy denies; the warnings of those that only warn."""
    warnings: list[str] = []
    if resource.group == GROUP:
        return warnings
    policies = registry.store.table((GROUP, "validatingadmissionpolicies"))
    for stored in registry.store.table((GROUP, "validatingadmissionpolicybindings")).items():
        binding = stored.body["spec"]
        policy = policies.get("", binding.get("policyName", ""))
        if policy is None or not _matched(registry, resource, operation, body, policy.body["spec"].get("matchConstraints")):
            continue
        if binding.get("matchResources") and not _matched(registry, resource, operation, body, binding["matchResources"], bound=True):
            continue
        for params in _params(registry, policy.body["spec"], binding, body):
            variables = _variables(registry, resource, operation, body, old) | {"params": params}
            for reason, message in _failures(policy.body["spec"], variables):
                named = f"ValidatingAdmissionPolicy '{policy.name}' with binding '{stored.name}'"
                if "Deny" in (binding.get("validationActions") or ()):
                    raise _denied(resource, body, reason, f"{named} denied request: {message}")
                if "Warn" in (binding.get("validationActions") or ()):
                    warnings.append(f"Validation failed for {named}: {message}")
    return warnings


def _denied(resource: Resource, body: JsonObject, reason: str, why: str) -> statuses.StatusError:
    name = body["metadata"].get("name", "")
    details = statuses.details(name, resource.group, resource.plural, causes=[{"message": why}])
    message = f'{resource.qualified} "{name}" is forbidden: {why}'
    return statuses.StatusError(_CODES.get(reason, 422), message, reason=reason, details=details)


def _matched(
    registry: Registry, resource: Resource, operation: str, body: JsonObject, wanted: JsonObject | None, *, bound: bool = False
) -> bool:
    """Whether rules and selectors ask for an object; a binding without rules leaves that to its policy."""
    wanted = wanted or {}
    rules = wanted.get("resourceRules") or ()
    if not (bound and not rules) and not any(rule_matches(rule, resource, operation) for rule in rules):
        return False
    if any(rule_matches(rule, resource, operation) for rule in wanted.get("excludeResourceRules") or ()):
        return False
    if not of_label_selector(wanted.get("objectSelector") or {})(labels_of(body)):
        return False
    return namespace_matches(registry, resource, body, wanted.get("namespaceSelector") or {})


def _params(registry: Registry, policy: JsonObject, binding: JsonObject, body: JsonObject) -> list[Any]:
    """The parameter objects of a binding; one None where there are to be none."""
    kind, reference = policy.get("paramKind"), binding.get("paramRef")
    if kind is None or reference is None:
        return [None]
    group = kind.get("apiVersion", "").rpartition("/")[0]
    resource = registry.find_kind(group, kind.get("kind", ""))
    if resource is None:
        return []
    namespace = reference.get("namespace") or body["metadata"].get("namespace", "")
    if reference.get("name"):
        found = registry.get(resource, namespace if resource.namespaced else "", reference["name"])
        return [found.body] if found is not None else []
    selects = of_label_selector(reference.get("selector") or {})
    return [item.body for item in registry.items(resource, namespace if resource.namespaced else "") if selects(labels_of(item.body))]


def _variables(registry: Registry, resource: Resource, operation: str, body: JsonObject, old: JsonObject | None) -> dict[str, Any]:
    metadata = body["metadata"]
    namespace = metadata.get("namespace", "")
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    place = {"group": resource.group, "version": resource.version, "resource": resource.plural}
    held = registry.store.table(("", "namespaces")).get("", namespace) if namespace else None
    return {
        "object": body,
        "oldObject": old,
        "namespaceObject": held.body if held is not None else None,
        "request": {"operation": operation, "name": metadata.get("name", ""), "namespace": namespace, "kind": kind, "resource": place},
    }


def _failures(policy: JsonObject, variables: dict[str, Any]) -> list[tuple[str, str]]:
    """Reason and message of each validation that doesn't hold. Expressions that aren't known here are passed over."""
    failing = policy.get("failurePolicy", "Fail") == "Fail"
    named: dict[str, Any] = {}
    try:
        for item in policy.get("variables") or ():
            named[item["name"]] = compile_expression(item["expression"]).evaluate({**variables, "variables": named})
        bindings = Bindings({**variables, "variables": named})
        if not all(compile_expression(item["expression"]).evaluate(bindings) is True for item in policy.get("matchConditions") or ()):
            return []
    except InvalidExpressionError:
        return []
    except EvaluationError as error:
        return [("Invalid", str(error))] if failing else []
    found = []
    for item in policy.get("validations") or ():
        reason, text = item.get("reason", "Invalid"), item["expression"]
        try:
            if compile_expression(text).evaluate(bindings) is not True:
                found.append((reason, message_of(item, bindings) or f"failed expression: {text.strip()}"))
        except InvalidExpressionError:
            continue
        except EvaluationError as error:
            if failing:
                found.append((reason, f"expression '{text}' resulted in error: {error}"))
    return found
