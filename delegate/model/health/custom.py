"""Health rules in CEL, by kind: those that are shipped as data, and those of operators.

    rules:
      - kinds: [example.org/Database]
        degraded: has(conditions.Ready) && conditions.Ready.status == 'False'
        healthy: object.status.phase == 'Running'

Asked in the order degraded, suspended, progressing, healthy, the first that is true is the answer; Progressing where none is. A
question without an answer (a field that isn't there) is not true: no data is no success.
"""

import difflib
import fnmatch
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar

import msgspec

from delegate.foundation.errors import Category, DelegateError
from delegate.foundation.expressions.errors import ExpressionError, InvalidExpressionError
from delegate.foundation.expressions.programs import Bindings, compile_expression
from delegate.model.health.conditions import Circumstances, conditions_of, status_of
from delegate.model.health.verdicts import Health, HealthStatus
from delegate.model.resources import GroupKind, JsonObject

VARIABLES = ("object", "conditions", "settled")
_QUESTIONS = (
    ("degraded", HealthStatus.DEGRADED),
    ("suspended", HealthStatus.SUSPENDED),
    ("progressing", HealthStatus.PROGRESSING),
    ("healthy", HealthStatus.HEALTHY),
)


class HealthRuleError(DelegateError):
    """Health rules that can't be meant. `field` is the way to the field for who knows on which line it stands."""

    default_code: ClassVar[str] = "input.health_rules"
    category: ClassVar[Category] = Category.INPUT

    def __init__(self, message: str, *, field: str = "", hint: str = "") -> None:
        super().__init__(f"{field}: {message}" if field else message, hint=hint)
        self.field = field


class HealthRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`kinds`: `group/Kind`, `Kind` for the core group; globs. The questions are true or false, `reason` and `message` text."""

    kinds: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    degraded: str = ""
    suspended: str = ""
    progressing: str = ""
    healthy: str = "true"
    reason: str = ""
    message: str = ""


class HealthRules:
    """Rules by kind; the first of the list that means a kind holds for it."""

    def __init__(self, rules: Iterable[HealthRule] = ()) -> None:
        self.rules = tuple(rules)
        self._known: dict[GroupKind, HealthRule | None] = {}

    def rule_of(self, group_kind: GroupKind) -> HealthRule | None:
        if group_kind not in self._known:
            name = str(group_kind)
            found = (rule for rule in self.rules if any(fnmatch.fnmatchcase(name, pattern) for pattern in rule.kinds))
            self._known[group_kind] = next(found, None)
        return self._known[group_kind]


def read_health_rules(document: object, *, trusted: bool = False) -> tuple[HealthRule, ...]:
    """The rules of a decoded file. Raises HealthRuleError with the field and the nearest known one.

    Every expression is compiled, so that a fault is found now; not those of a `trusted` file, which costs the time of the kinds alone
    that are met.
    """
    if document is None:
        return ()
    if not isinstance(document, dict) or document.keys() - {"rules"}:
        raise HealthRuleError("a file of health rules is a mapping with `rules`")
    listed = document.get("rules")
    for index, item in enumerate(listed if isinstance(listed, list) else ()):
        _refuse_unknown(item, index)
    try:
        rules = msgspec.convert(listed, tuple[HealthRule, ...])
    except msgspec.ValidationError as error:
        words, _, place = str(error).partition(" - at `$")
        raise HealthRuleError(words, field=f"rules{place.rstrip('`')}") from error
    for index, rule in enumerate(() if trusted else rules):
        _compile(rule, index)
    return rules


def assess_by_rule(rule: HealthRule, obj: JsonObject, circumstances: Circumstances) -> Health:
    """The health that a rule finds, with the words of its Ready condition where it has none of its own."""
    if circumstances.has_status and not circumstances.settled and not status_of(obj) and rule.healthy != "true":
        return Health(HealthStatus.PROGRESSING, "NoStatusYet", "its controller has not written a status yet")
    try:
        bindings = Bindings(_variables(obj, circumstances))
    except ExpressionError as error:
        return Health(HealthStatus.UNKNOWN, "TooLargeToAssess", error.message)
    status = next((status for name, status in _QUESTIONS if _holds(getattr(rule, name), bindings)), HealthStatus.PROGRESSING)
    if status is HealthStatus.HEALTHY:
        return Health(status)
    ready = next((condition for condition in conditions_of(obj) if condition.type == "Ready" and condition.is_current), None)
    reason = _text(rule.reason, bindings) if rule.reason else (ready.reason if ready else "")
    message = _text(rule.message, bindings) if rule.message else (ready.message if ready else "")
    return Health(status, reason or _plain_reason(status, obj), message)


def _plain_reason(status: HealthStatus, obj: JsonObject) -> str:
    return "NoStatusYet" if status is HealthStatus.PROGRESSING and not status_of(obj) else status.value


def _variables(obj: JsonObject, circumstances: Circumstances) -> Mapping[str, Any]:
    metadata = {name: value for name, value in (obj.get("metadata") or {}).items() if name != "managedFields"}
    current = {
        condition.type: {"status": condition.status, "reason": condition.reason, "message": condition.message}
        for condition in conditions_of(obj)
        if condition.is_current
    }
    return {"object": {**obj, "metadata": metadata}, "conditions": current, "settled": circumstances.settled}


def _holds(text: str, bindings: Bindings) -> bool:
    if not text:
        return False
    try:
        return compile_expression(text).evaluate(bindings) is True
    except ExpressionError:
        return False


def _text(text: str, bindings: Bindings) -> str:
    try:
        found = compile_expression(text).evaluate(bindings)
    except ExpressionError:
        return ""
    return found if isinstance(found, str) else ""


def _compile(rule: HealthRule, index: int) -> None:
    for field in (*(name for name, _ in _QUESTIONS), "reason", "message"):
        text = getattr(rule, field)
        if not text:
            continue
        try:
            compile_expression(text, variables=VARIABLES)
        except InvalidExpressionError as error:
            raise HealthRuleError(error.message, field=f"rules[{index}].{field}", hint=error.hint) from error


def _refuse_unknown(item: object, index: int) -> None:
    known = HealthRule.__struct_fields__
    for name in item if isinstance(item, dict) else ():
        if name not in known:
            nearest = difflib.get_close_matches(str(name), known, n=1, cutoff=0.5)
            hint = f"did you mean {nearest[0]}?" if nearest else f"known are {', '.join(known)}"
            raise HealthRuleError("no such field", field=f"rules[{index}].{name}", hint=hint)
