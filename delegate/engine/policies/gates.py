"""The gate of one delegate."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
import structlog

from delegate.foundation.errors import DelegateError
from delegate.foundation.rule_files import RuleFile, fingerprint_of
from delegate.model.policies.judging import denial_of, judge
from delegate.model.policies.rules import PolicyFileError, PolicySet, ShippedRule, fits, read_policies
from delegate.model.policies.violations import Locate, PolicyAction, Setting, Subject, Violation

log = structlog.get_logger(__name__)
_NAMED_AT_MOST = 5


class Verdict(msgspec.Struct, frozen=True):
    """`denials` refuse the task; `warnings` are for whoever reads its result."""

    denials: tuple[DelegateError, ...] = ()
    warnings: tuple[str, ...] = ()


class Gate:
    """Policies from a file, or as they are shipped. A file is read again when it changes.

    One that can't be read or meant refuses every task until it can: raises RuleFileError or PolicyFileError, with file and line.
    """

    def __init__(self, path: Path | None = None) -> None:
        """Reads the file once, so that a process doesn't start on one that can't be meant."""
        self._path = path
        self._fingerprint = fingerprint_of(path) if path else None
        self._policies = load_policies(path) if path else PolicySet()

    @property
    def reads_old_objects(self) -> bool:
        """Whether some rule asks for the objects as they are in the cluster."""
        return self._policies.reads_old_objects

    def shipped_rule(self, name: str, environment: str) -> ShippedRule | None:
        """How a shipped rule is held to in an environment; None where it isn't. For what is written elsewhere than in a cluster."""
        rule = self._policies.shipped.get(name)
        if rule is None or rule.action is PolicyAction.OFF or not fits(environment, rule.environments):
            return None
        return rule

    async def refresh(self) -> None:
        """Reads the file again where it was replaced. Call before anything else is asked for a task."""
        if self._path is None:
            return
        fingerprint = await asyncio.to_thread(fingerprint_of, self._path)
        if fingerprint is None or fingerprint != self._fingerprint:
            self._policies = await asyncio.to_thread(load_policies, self._path)
            self._fingerprint = fingerprint
            log.info("policies.loaded", file=str(self._path), rules=len(self._policies.rules))

    async def judge(self, subjects: Sequence[Subject], setting: Setting, locate: Locate | None = None) -> Verdict:
        """What the policies say of planned writes. `locate` tells where a field was written."""
        # Some thousand objects and rules in CEL take some hundred milliseconds: not on the loop.
        violations = await asyncio.to_thread(judge, self._policies, subjects, setting, locate)
        _record(violations, setting)
        return Verdict(
            tuple(denial_of(each) for each in violations if each.action is PolicyAction.DENY),
            tuple(_words(each) for each in violations if each.action is PolicyAction.WARN or each.exempt),
        )


def load_policies(path: Path) -> PolicySet:
    """Raises RuleFileError or PolicyFileError, with file and line."""
    file = RuleFile(path)
    try:
        return read_policies(file.document)
    except PolicyFileError as error:
        error.file, error.line = str(path), file.line_of(error.field)
        raise


def _words(violation: Violation) -> str:
    verb = "exempt from policy" if violation.exempt else "policy"
    place = f"{violation.file}:{violation.line}: " if violation.file and violation.line else ""
    hint = f" ({violation.hint})" if violation.hint else ""
    return f"{place}{violation.object}: {verb} {violation.rule}: {violation.message}{hint}"


def _record(violations: Sequence[Violation], setting: Setting) -> None:
    """One line for each rule, however many objects break it."""
    counts = Counter((each.rule, each.action, each.exempt) for each in violations)
    for (rule, action, exempt), count in counts.items():
        objects = [each.object for each in violations if (each.rule, each.action, each.exempt) == (rule, action, exempt)]
        log.info(
            "policy.violated",
            rule=rule,
            action=action.value,
            exempt=exempt,
            count=count,
            objects=objects[:_NAMED_AT_MOST],
            environment=setting.environment,
        )
