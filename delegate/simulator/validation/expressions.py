"""Whether the CEL of definitions and admission policies can be compiled, in the words of the server as far as the interpreter has them.

The interpreter has no types: but for fields that a schema doesn't have (`selections`), what doesn't fit is only found when a rule meets
an object.
"""

import re
from collections.abc import Collection

from delegate.foundation.expressions.errors import InvalidExpressionError, UnknownExpressionError
from delegate.foundation.expressions.programs import compile_expression
from delegate.foundation.expressions.scanning import place_of
from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.statuses import Cause
from delegate.simulator.validation import selections

RULES = "x-kubernetes-validations"
_OF_RULES = frozenset({"self", "oldSelf"})
_OF_POLICIES = frozenset({"object", "oldObject", "request", "params", "namespaceObject", "authorizer", "variables"})
_RULE_FIELDS = (
    ("Rule", "rule", ""),
    ("Message", "message", ""),
    ("MessageExpression", "messageExpression", ""),
    ("Reason", "reason", None),
    ("FieldPath", "fieldPath", ""),
    ("OptionalOldSelf", "optionalOldSelf", None),
)


def of_schema(schema: JsonObject, path: str, *, root: bool = False) -> list[Cause]:
    """The rules of a schema (not of those below it); `root` says that it is the whole object's."""
    causes: list[Cause] = []
    for index, rule in enumerate(schema.get(RULES) or ()):
        here = f"{path}.{RULES}[{index}]"
        shown = {name: rule.get(key, missing) for name, key, missing in _RULE_FIELDS}
        text = _typed_fault(rule.get("rule", ""), schema, root=root)
        if text:
            causes.append(statuses.invalid_value(f"{here}.rule", shown, text))
        text = _typed_fault(rule.get("messageExpression", ""), schema, root=root)
        if text:
            causes.append(statuses.invalid_value(f"{here}.messageExpression", shown, f"messageExpression {text}"))
    return causes


def of_policy(body: JsonObject) -> list[Cause]:
    """The expressions of an admission policy, in the server's order."""
    spec = body.get("spec") or {}
    causes: list[Cause] = []
    for key in ("matchConditions", "variables", "validations", "auditAnnotations"):
        for index, item in enumerate(spec.get(key) or ()):
            for field in ("expression", "messageExpression", "valueExpression"):
                text = _fault(item.get(field, ""), _OF_POLICIES)
                if text:
                    causes.append(statuses.invalid_value(f"spec.{key}[{index}].{field}", item[field], text))
    return causes


def _typed_fault(expression: str, schema: JsonObject, *, root: bool) -> str:
    text = _fault(expression, _OF_RULES)
    if text or not expression.strip():
        return text
    found = [_error(expression, *place_of(expression, at), words) for at, words in selections.faults(expression, schema, root=root)]
    return "compilation failed: " + "\n".join(found) if found else ""


def _fault(expression: str, variables: Collection[str]) -> str:
    """What is wrong with an expression; empty for a good one, and for what isn't known here."""
    if not expression.strip():
        return ""
    try:
        compiled = compile_expression(expression)
    except UnknownExpressionError:
        return ""
    except InvalidExpressionError as error:
        if not error.row:
            return f"compilation failed: {error.message}"
        words = error.message.removeprefix(f"line {error.row}, column {error.column}: ")
        return _shown(expression, error.row, error.column, f"Syntax error: {words}")
    for name in sorted(compiled.variables.difference(variables)):
        match = re.search(rf"(?<![\w.]){re.escape(name)}\b", expression)
        place = place_of(expression, match.start() if match else 0)
        return _shown(expression, *place, f"undeclared reference to '{name}' (in container '')")
    return ""


def _shown(expression: str, row: int, column: int, words: str) -> str:
    return f"compilation failed: {_error(expression, row, column, words)}"


def _error(expression: str, row: int, column: int, words: str) -> str:
    line = expression.splitlines()[row - 1] if row <= len(expression.splitlines()) else ""
    return f"ERROR: <input>:{row}:{column}: {words}\n | {line}\n | {'.' * (column - 1)}^"


TABLE = {("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): of_policy}
