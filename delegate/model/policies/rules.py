"""The form of a policy file.

    shipped:
      mutable-tags: {action: deny, environments: [prod], mayBeExempt: ["legacy-*"]}
      allowed-namespaces: {action: deny, values: ["{application}", "shared-*"]}
      missing-probes: {action: off}
    rules:
      - name: two-replicas
        action: warn
        match: {kinds: [apps/Deployment], environments: [prod]}
        expression: object.spec.replicas >= 2
        messageExpression: "'has ' + string(object.spec.replicas) + ' replicas'"
        hint: a node that is drained would take it down

What a file doesn't name is as shipped.
"""

import difflib
import fnmatch
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, ClassVar

import msgspec

from delegate.foundation.errors import Category, DelegateError
from delegate.foundation.expressions.errors import InvalidExpressionError
from delegate.foundation.expressions.programs import compile_expression
from delegate.model.policies.images import MUTABLE_TAGS
from delegate.model.policies.violations import Operation, PolicyAction
from delegate.model.resources import JsonObject, ResourceKey

VARIABLES = ("object", "oldObject", "operation", "application", "environment", "destination")
PRODUCTION = ("prod", "production")


class PolicyFileError(DelegateError):
    """A policy file that can't be meant. `field` is the way to the field for who knows on which line it stands."""

    default_code: ClassVar[str] = "input.policy_file"
    category: ClassVar[Category] = Category.INPUT

    def __init__(self, message: str, *, field: str = "", hint: str = "") -> None:
        super().__init__(f"{field}: {message}" if field else message, hint=hint)
        self.field = field


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    pass


class Match(_Strict, frozen=True):
    """Which writes a rule is about; an empty list matches all. Everything but `operations` takes globs.

    `kinds` are written as objects are named: `Service`, `apps/Deployment`, `*.istio.io/*`.
    """

    kinds: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    applications: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()
    operations: tuple[Operation, ...] = (Operation.CREATE, Operation.UPDATE)


class Rule(_Strict, frozen=True):
    """A rule in CEL: `expression` is true where all is well. It sees `object` and `oldObject` (null where there is none).

    An expression that can't be evaluated counts as broken unless `failurePolicy` is `Ignore`: no answer is no yes.
    """

    name: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$")]
    expression: str
    action: PolicyAction = PolicyAction.DENY
    match: Match = Match()
    message: str = ""
    message_expression: str = ""
    hint: str = ""
    failure_policy: Annotated[str, msgspec.Meta(pattern="^(Fail|Ignore)$")] = "Fail"
    may_be_exempt: tuple[str, ...] = ()


class ShippedRule(_Strict, frozen=True):
    """How a shipped rule is held to. `environments`: globs, empty for all. `values`: what the rule takes, see docs/policies.md.

    `may_be_exempt` are the Applications (globs) that may exempt themselves by annotation.
    """

    action: PolicyAction
    environments: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    may_be_exempt: tuple[str, ...] = ()


class _ShippedChange(_Strict, frozen=True):
    action: PolicyAction | None = None
    environments: tuple[str, ...] | None = None
    values: tuple[str, ...] | None = None
    may_be_exempt: tuple[str, ...] | None = None


class _PolicyFile(_Strict, frozen=True):
    shipped: dict[str, _ShippedChange] = {}
    rules: tuple[Rule, ...] = ()


SHIPPED: Mapping[str, ShippedRule] = {
    "mutable-tags": ShippedRule(PolicyAction.DENY, PRODUCTION, MUTABLE_TAGS),
    "plaintext-secrets": ShippedRule(PolicyAction.WARN),
    "plaintext-credentials": ShippedRule(PolicyAction.WARN),
    "host-namespaces": ShippedRule(PolicyAction.WARN),
    "missing-probes": ShippedRule(PolicyAction.AUDIT, (), ("readinessProbe",)),
    "missing-resources": ShippedRule(PolicyAction.AUDIT, (), ("requests.cpu", "requests.memory", "limits.memory")),
    "allowed-namespaces": ShippedRule(PolicyAction.OFF, (), ("{application}",)),
}
"""The shipped rules, and how they are held to where no file says otherwise."""


class PolicySet(msgspec.Struct, frozen=True):
    shipped: Mapping[str, ShippedRule] = msgspec.field(default_factory=lambda: SHIPPED)
    rules: tuple[Rule, ...] = ()

    @property
    def reads_old_objects(self) -> bool:
        """Whether some rule asks for the object as it is in the cluster."""
        return any("oldObject" in _names(rule) for rule in self.rules if rule.action is not PolicyAction.OFF)


def read_policies(document: object) -> PolicySet:
    """The policies that a decoded file asks for. Raises PolicyFileError that names the field, and the nearest known name."""
    if document is None:
        return PolicySet()
    if not isinstance(document, dict):
        raise PolicyFileError("a policy file is a mapping with `shipped` and `rules`")
    written = _convert(document)
    shipped = dict(SHIPPED)
    for name, change in written.shipped.items():
        if name not in SHIPPED:
            raise PolicyFileError("no such shipped rule", field=f"shipped.{name}", hint=_nearest(name, SHIPPED))
        given = {field: value for field in change.__struct_fields__ if (value := getattr(change, field)) is not None}
        shipped[name] = msgspec.structs.replace(SHIPPED[name], **given)
    seen = set(SHIPPED)
    for index, rule in enumerate(written.rules):
        if rule.name in seen:
            raise PolicyFileError(f"the name {rule.name!r} is taken", field=f"rules[{index}].name", hint="exemptions go by the name")
        seen.add(rule.name)
        _check(rule, index)
    return PolicySet(shipped, written.rules)


def matches(match: Match, key: ResourceKey, operation: Operation, *, application: str, environment: str) -> bool:
    return (
        (not match.operations or operation in match.operations)
        and fits(str(key.group_kind), match.kinds)
        and fits(key.namespace, match.namespaces)
        and fits(key.name, match.names)
        and fits(application, match.applications)
        and fits(environment, match.environments)
    )


def fits(name: str, patterns: Iterable[str]) -> bool:
    """Whether a name is meant by any of the globs; no globs mean every name."""
    patterns = tuple(patterns)
    return not patterns or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _names(rule: Rule) -> frozenset[str]:
    compiled = compile_expression(rule.expression)
    return compiled.variables | (compile_expression(rule.message_expression).variables if rule.message_expression else frozenset())


def _check(rule: Rule, index: int) -> None:
    for field, text in (("expression", rule.expression), ("messageExpression", rule.message_expression)):
        if not text and field == "messageExpression":
            continue
        try:
            compile_expression(text, variables=VARIABLES)
        except InvalidExpressionError as error:
            raise PolicyFileError(error.message, field=f"rules[{index}].{field}", hint=error.hint) from error


def _convert(document: JsonObject) -> _PolicyFile:
    for field, hint in _unknown_fields(document):
        raise PolicyFileError("no such field", field=field, hint=hint)
    try:
        return msgspec.convert(_with_off(document), _PolicyFile)
    except msgspec.ValidationError as error:
        words, _, place = str(error).partition(" - at `$")
        raise PolicyFileError(words, field=place.rstrip("`").lstrip(".").replace("[...]", "[]")) from error


def _with_off(document: JsonObject) -> JsonObject:
    """The document with `action: off` as it was meant: YAML reads that as false."""
    shipped, rules = document.get("shipped"), document.get("rules")

    def meant(item: object) -> object:
        return {**item, "action": PolicyAction.OFF} if isinstance(item, dict) and item.get("action") is False else item

    changed: JsonObject = {}
    if isinstance(shipped, dict):
        changed["shipped"] = {name: meant(item) for name, item in shipped.items()}
    if isinstance(rules, list):
        changed["rules"] = [meant(item) for item in rules]
    return {**document, **changed}


def _unknown_fields(document: JsonObject) -> Iterator[tuple[str, str]]:
    """The first level and the rules: msgspec names an unknown field, but neither its index nor the nearest one."""
    yield from _unknown(document, _PolicyFile, "")
    shipped, rules = document.get("shipped"), document.get("rules")
    for name, change in shipped.items() if isinstance(shipped, dict) else ():
        yield from _unknown(change, _ShippedChange, f"shipped.{name}.")
    for index, rule in enumerate(rules if isinstance(rules, list) else ()):
        yield from _unknown(rule, Rule, f"rules[{index}].")
        if isinstance(rule, dict):
            yield from _unknown(rule.get("match"), Match, f"rules[{index}].match.")


def _unknown(value: object, kind: type[msgspec.Struct], above: str) -> Iterator[tuple[str, str]]:
    known = [field.encode_name for field in msgspec.structs.fields(kind)]
    for name in value if isinstance(value, dict) else ():
        if name not in known:
            yield f"{above}{name}", _nearest(str(name), known)


def _nearest(name: str, known: Iterable[str]) -> str:
    known = list(known)
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {nearest[0]}?" if nearest else f"known are {', '.join(known)}"
