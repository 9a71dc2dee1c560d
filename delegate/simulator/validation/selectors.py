"""Validation of label selectors, node selectors and what else chooses nodes for pods."""

from typing import Any

from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.naming import qualified
from delegate.simulator.statuses import Cause
from delegate.simulator.validation.metadata import validate_labels
from delegate.simulator.validation.values import chosen


def selector_causes(selector: Any, path: str) -> list[Cause]:
    """A label selector."""
    selector = selector or {}
    causes = validate_labels(selector.get("matchLabels"), f"{path}.matchLabels")
    for index, item in enumerate(selector.get("matchExpressions") or ()):
        here = f"{path}.matchExpressions[{index}]"
        operator, values = item.get("operator"), item.get("values")
        if operator in ("In", "NotIn"):
            if not values:
                causes.append(statuses.required(f"{here}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                causes.append(statuses.forbidden_value(f"{here}.values", text))
        else:
            causes.append(statuses.invalid_value(f"{here}.operator", operator or "", "not a valid selector operator"))
        causes += [statuses.invalid_value(f"{here}.key", item.get("key", ""), text) for text in qualified(item.get("key", ""))]
    return causes


def tolerations(given: Any, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, item in enumerate(given or ()):
        here = f"{path}[{index}]"
        key, operator = item.get("key", ""), item.get("operator", "")
        if key:
            causes += [statuses.invalid_value(f"{here}.key", key, text) for text in qualified(key)]
        elif operator != "Exists":
            text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            causes.append(statuses.invalid_value(f"{here}.operator", operator, text))
        if "tolerationSeconds" in item and item.get("effect") != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            causes.append(statuses.invalid_value(f"{here}.effect", item.get("effect", ""), text))
        if operator == "Exists" and item.get("value"):
            causes.append(statuses.invalid_value(f"{here}.operator", item, "value must be empty when `operator` is 'Exists'"))
        causes += chosen(f"{here}.operator", operator, ("Equal", "Exists"), optional=True)
        causes += chosen(f"{here}.effect", item.get("effect"), ("NoSchedule", "PreferNoSchedule", "NoExecute"), optional=True)
    return causes


def affinity(given: Any, path: str) -> list[Cause]:
    given = given or {}
    causes: list[Cause] = []
    required = (given.get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is not None:
        here = f"{path}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        terms = required.get("nodeSelectorTerms")
        if not terms:
            causes.append(statuses.required(here, "must have at least one node selector term"))
        for index, term in enumerate(terms or ()):
            causes += _expressions(term.get("matchExpressions"), f"{here}[{index}].matchExpressions")
    preferred = (given.get("nodeAffinity") or {}).get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    for index, item in enumerate(preferred):
        here = f"{path}.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
        if item.get("weight", 0) <= 0 or item["weight"] > 100:
            causes.append(statuses.invalid_value(f"{here}.weight", item.get("weight", 0), "must be in the range 1-100"))
        causes += _expressions((item.get("preference") or {}).get("matchExpressions"), f"{here}.preference.matchExpressions")
    for key in ("podAffinity", "podAntiAffinity"):
        causes += _pod_affinity(given.get(key) or {}, f"{path}.{key}")
    return causes


def _expressions(expressions: Any, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, item in enumerate(expressions or ()):
        here, values = f"{path}[{index}]", item.get("values")
        match item.get("operator"):
            case "In" | "NotIn":
                if not values:
                    causes.append(statuses.required(f"{here}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
            case "Exists" | "DoesNotExist":
                if values:
                    text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                    causes.append(statuses.forbidden_value(f"{here}.values", text))
            case "Gt" | "Lt":
                if len(values or ()) != 1:
                    text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                    causes.append(statuses.required(f"{here}.values", text))
            case operator:
                causes.append(statuses.invalid_value(f"{here}.operator", operator or "", "not a valid selector operator"))
        causes += [statuses.invalid_value(f"{here}.key", item.get("key", ""), text) for text in qualified(item.get("key", ""))]
    return causes


def _pod_affinity(given: JsonObject, path: str) -> list[Cause]:
    causes: list[Cause] = []
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    for index, term in enumerate(given.get(required) or ()):
        causes += _term(term, f"{path}.{required}[{index}]")
    for index, item in enumerate(given.get(preferred) or ()):
        here = f"{path}.{preferred}[{index}]"
        if item.get("weight", 0) <= 0 or item["weight"] > 100:
            causes.append(statuses.invalid_value(f"{here}.weight", item.get("weight", 0), "must be in the range 1-100"))
        causes += _term(item.get("podAffinityTerm") or {}, f"{here}.podAffinityTerm")
    return causes


def _term(term: JsonObject, path: str) -> list[Cause]:
    causes = selector_causes(term.get("labelSelector"), f"{path}.labelSelector") if term.get("labelSelector") is not None else []
    if term.get("namespaceSelector") is not None:
        causes += selector_causes(term["namespaceSelector"], f"{path}.namespaceSelector")
    key = term.get("topologyKey", "")
    if not key:
        causes.append(statuses.required(f"{path}.topologyKey", "can not be empty"))
    return causes + [statuses.invalid_value(f"{path}.topologyKey", key, text) for text in qualified(key)]


def spreading(given: Any, path: str) -> list[Cause]:
    """Topology spread constraints."""
    causes: list[Cause] = []
    for index, item in enumerate(given or ()):
        here = f"{path}[{index}]"
        if item.get("maxSkew", 0) <= 0:
            causes.append(statuses.invalid_value(f"{here}.maxSkew", item.get("maxSkew", 0), "must be greater than zero"))
        if not item.get("topologyKey"):
            causes.append(statuses.required(f"{here}.topologyKey", "can not be empty"))
        causes += chosen(f"{here}.whenUnsatisfiable", item.get("whenUnsatisfiable"), ("DoNotSchedule", "ScheduleAnyway"))
        if item.get("labelSelector") is not None:
            causes += selector_causes(item["labelSelector"], f"{here}.labelSelector")
    return causes
