"""The gate's one question: what do the policies have against what is about to be written?"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, ClassVar

from delegate.foundation.errors import Category, DelegateError
from delegate.foundation.expressions.errors import ExpressionError
from delegate.foundation.expressions.programs import Bindings, compile_expression
from delegate.foundation.secrets import HIDDEN
from delegate.model.policies.images import mutable_tags
from delegate.model.policies.placement import foreign_namespaces
from delegate.model.policies.pods import host_namespaces, missing_probes, missing_resources
from delegate.model.policies.rules import PolicySet, Rule, ShippedRule, fits, matches
from delegate.model.policies.secrets import plaintext_credentials, plaintext_secrets
from delegate.model.policies.violations import Flaw, Locate, Operation, PolicyAction, Setting, Subject, Violation
from delegate.model.resources import JsonObject

_CHECKS: Mapping[str, Callable[[JsonObject, Collection[str]], Iterator[Flaw]]] = {
    "mutable-tags": mutable_tags,
    "plaintext-secrets": lambda body, _: plaintext_secrets(body),
    "plaintext-credentials": lambda body, _: plaintext_credentials(body),
    "host-namespaces": lambda body, _: host_namespaces(body),
    "missing-probes": missing_probes,
    "missing-resources": missing_resources,
}
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class PolicyDeniedError(DelegateError):
    """A planned write that a rule denies. Nothing was touched."""

    default_code: ClassVar[str] = "policy.denied"
    category: ClassVar[Category] = Category.POLICY


def judge(policies: PolicySet, subjects: Iterable[Subject], setting: Setting, locate: Locate | None = None) -> tuple[Violation, ...]:
    """Every violation, in the order of the subjects, the shipped rules first; at the line of its field where `locate` tells it.

    Takes some milliseconds for a thousand objects with the shipped rules alone, some tenths of a second with rules in CEL.
    """
    rules = [rule for rule in policies.rules if rule.action is not PolicyAction.OFF]
    shipped = {name: rule for name, rule in policies.shipped.items() if rule.action is not PolicyAction.OFF}
    shipped = {name: rule for name, rule in shipped.items() if fits(setting.environment, rule.environments)}
    found: list[Violation] = []
    for subject in subjects:
        for name, held in shipped.items():
            found += [_violation(subject, setting, name, held, flaw, locate=locate) for flaw in _flaws(name, held, subject, setting)]
        found += _by_rules(rules, subject, setting)
    return tuple(found)


def denial_of(violation: Violation) -> PolicyDeniedError:
    """A violation as the error that refuses the task."""
    return PolicyDeniedError(
        f"policy {violation.rule}: {violation.object}: {violation.message}",
        hint=violation.hint,
        file=violation.file,
        line=violation.line,
        object=violation.object,
    )


def _flaws(name: str, rule: ShippedRule, subject: Subject, setting: Setting) -> Iterator[Flaw]:
    if subject.manifest is None:
        return iter(())
    if name == "allowed-namespaces":
        return foreign_namespaces(subject.key, rule.values, setting.application)
    return _CHECKS[name](subject.manifest.body, rule.values)


def _violation(
    subject: Subject, setting: Setting, name: str, rule: Rule | ShippedRule, flaw: Flaw, *, locate: Locate | None = None
) -> Violation:
    asked = name in setting.exempted
    exempt = asked and bool(rule.may_be_exempt) and fits(setting.application, rule.may_be_exempt)
    hint = flaw.hint
    if asked and not exempt:
        hint = "; ".join(part for part in (hint, "the rule does not let this Application exempt itself (mayBeExempt)") if part)
    place = subject.place_of(flaw.path, locate)
    return Violation(
        rule=name,
        action=PolicyAction.AUDIT if exempt else rule.action,
        message=flaw.message,
        hint=hint,
        object=str(subject.key),
        file=place.file,
        line=place.line or None,
        exempt=exempt,
    )


def _by_rules(rules: list[Rule], subject: Subject, setting: Setting) -> Iterator[Violation]:
    asked = [
        rule
        for rule in rules
        if matches(rule.match, subject.key, subject.operation, application=setting.application, environment=setting.environment)
    ]
    if not asked:
        return
    try:
        bindings = Bindings(_variables(subject, setting))
    except ExpressionError as error:
        for rule in asked:
            if rule.failure_policy == "Fail":
                yield _violation(subject, setting, rule.name, rule, Flaw(f"can't be decided: {error.message}", hint=rule.hint))
        return
    for rule in asked:
        message = _broken(rule, bindings, subject, setting)
        if message is not None:
            yield _violation(subject, setting, rule.name, rule, Flaw(message, hint=rule.hint))


def _broken(rule: Rule, bindings: Bindings, subject: Subject, setting: Setting) -> str | None:
    """What is said of a broken rule; None where it holds."""
    try:
        holds = compile_expression(rule.expression).evaluate(bindings)
    except ExpressionError as error:
        return f"can't be decided: {error.message}" if rule.failure_policy == "Fail" else None
    if holds is True:
        return None
    if holds is not False:
        return "can't be decided: the expression is neither true nor false" if rule.failure_policy == "Fail" else None
    return _message(rule, subject, setting)


def _message(rule: Rule, subject: Subject, setting: Setting) -> str:
    if rule.message_expression:
        try:
            # What a rule decides by may be secret; what it says is read by everybody.
            made = compile_expression(rule.message_expression).evaluate(_variables(subject, setting, hidden=True))
        except ExpressionError:
            made = None
        if isinstance(made, str) and made.strip():
            return made.strip()
    return rule.message or f"does not hold: {' '.join(rule.expression.split())}"


def _variables(subject: Subject, setting: Setting, *, hidden: bool = False) -> dict[str, Any]:
    def shown(body: JsonObject | None) -> JsonObject | None:
        return _hidden(body) if hidden and body is not None else body

    wanted = subject.manifest.body if subject.manifest and subject.operation is not Operation.DELETE else None
    return {
        "object": shown(wanted),
        "oldObject": shown(subject.old),
        "operation": subject.operation.value,
        "application": setting.application,
        "environment": setting.environment,
        "destination": {"namespace": setting.namespace},
    }


def _hidden(body: JsonObject) -> JsonObject:
    if body.get("kind") != "Secret":
        return body
    masked = {part: dict.fromkeys(body[part], HIDDEN) for part in ("data", "stringData") if isinstance(body.get(part), dict)}
    metadata = body.get("metadata") or {}
    annotations = {name: value for name, value in (metadata.get("annotations") or {}).items() if name != _LAST_APPLIED}
    return {**body, **masked, "metadata": {**metadata, "annotations": annotations}}
