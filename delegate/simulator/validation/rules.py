"""The `x-kubernetes-validations` of custom kinds, as far as their expressions are known here (KEP-2876).

Expressions that aren't known (`delegate.foundation.expressions` says which) are passed over.
"""

from typing import Any

from delegate.foundation.expressions.errors import EvaluationError, InvalidExpressionError
from delegate.foundation.expressions.programs import Bindings, compile_expression
from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.statuses import Cause

RULES = "x-kubernetes-validations"
_BLOCKING = ("FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid")
_UNCHECKED = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"
_MISSING: Any = object()


def validate(body: JsonObject, old: JsonObject | None, schema: JsonObject, causes: list[Cause]) -> list[Cause]:
    """What rules have against an object; none is evaluated where the schema has something against it that could break them."""
    if not _has_rules(schema):
        return []
    if any(cause.reason in _BLOCKING for cause in causes):
        return [statuses.invalid_value("<nil>", None, _UNCHECKED)]
    return _check(body, old if old is not None else _MISSING, schema, "")


def _has_rules(schema: Any) -> bool:
    if isinstance(schema, dict):
        return RULES in schema or any(_has_rules(below) for below in schema.values())
    return isinstance(schema, list) and any(_has_rules(below) for below in schema)


def _check(value: Any, old: Any, schema: JsonObject, path: str) -> list[Cause]:
    causes: list[Cause] = []
    if value is None:
        return causes
    for rule in schema.get(RULES) or ():
        causes += _rule(rule, value, old, schema, path)
    if isinstance(value, dict):
        prefix, before = f"{path}." if path else "", old if isinstance(old, dict) else {}
        properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
        for key, item in value.items():
            below = properties.get(key, additional)
            if isinstance(below, dict):
                here = f"{prefix}{key}" if key in properties else f"{path}[{key}]"
                causes += _check(item, before.get(key, _MISSING), below, here)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index, item in enumerate(value):
            causes += _check(item, _counterpart(item, old, schema), schema["items"], f"{path}[{index}]")
    return causes


def _counterpart(item: Any, old: Any, schema: JsonObject) -> Any:
    """What an item of a keyed list was before; items of other lists have no before."""
    keys = schema.get("x-kubernetes-list-map-keys") if schema.get("x-kubernetes-list-type") == "map" else None
    if not keys or not isinstance(old, list) or not isinstance(item, dict):
        return _MISSING
    same = (held for held in old if isinstance(held, dict) and all(held.get(key) == item.get(key) for key in keys))
    return next(same, _MISSING)


def _rule(rule: JsonObject, value: Any, old: Any, schema: JsonObject, path: str) -> list[Cause]:
    text = rule.get("rule", "")
    if "oldSelf" in text and old is _MISSING:
        return []
    try:
        bindings = Bindings({"self": value, "oldSelf": None if old is _MISSING else old})
        holds = compile_expression(text).evaluate(bindings)
    except InvalidExpressionError:
        return []
    except EvaluationError as error:
        return [statuses.invalid_value(path, value, f"rule evaluation error: {error}: evaluating rule: {text}")]
    if holds is True:
        return []
    where = path + rule["fieldPath"] if rule.get("fieldPath") else path
    message = message_of(rule, bindings) or f"failed rule: {text.strip()}"
    return [_cause(rule, where.lstrip("."), _shown(value), message)]


def message_of(rule: JsonObject, bindings: Bindings) -> str:
    """What a rule says for itself, by an expression or as it stands; empty where it says nothing."""
    if rule.get("messageExpression"):
        try:
            made = compile_expression(rule["messageExpression"]).evaluate(bindings)
        except (InvalidExpressionError, EvaluationError):
            made = None
        if isinstance(made, str) and made.strip():
            return made
    message: str = rule.get("message") or ""
    return message


def _shown(value: Any) -> Any:
    """A value as messages show it; maps and lists not at all."""
    return None if isinstance(value, dict | list) else value


def _cause(rule: JsonObject, path: str, shown: Any, message: str) -> Cause:
    match rule.get("reason", "FieldValueInvalid"):
        case "FieldValueRequired":
            return statuses.required(path, message)
        case "FieldValueForbidden":
            return statuses.forbidden_value(path, message)
        case "FieldValueDuplicate":
            return statuses.cause("FieldValueDuplicate", path, message, shown if shown is not None else "")
        case _:
            if shown is None:
                return statuses.cause("FieldValueInvalid", path, message)
            return statuses.invalid_value(path, shown, message)
