"""The health rules of one process: those of a file, read again when it changes, before the shipped ones."""

from pathlib import Path

import structlog

from delegate.foundation.errors import DelegateError
from delegate.foundation.rule_files import fingerprint_of
from delegate.model.health.custom import HealthRules
from delegate.model.health.shipped import rules_with, shipped_rules

log = structlog.get_logger(__name__)


class HealthBook:
    """Call it for the rules as they are now.

    A file that can't be meant stops the start: raises RuleFileError or HealthRuleError, with file and line. One that breaks later is
    named in the log, and the rules from before stay: a wait that has begun is not failed for it.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._fingerprint = fingerprint_of(path) if path else None
        self._rules = rules_with(path) if path else None

    def __call__(self) -> HealthRules:
        if self._path is None:
            return shipped_rules()
        fingerprint = fingerprint_of(self._path)
        if fingerprint != self._fingerprint:
            self._fingerprint = fingerprint
            self._read(self._path)
        assert self._rules is not None
        return self._rules

    def _read(self, path: Path) -> None:
        try:
            self._rules = rules_with(path)
            log.info("health.rules_loaded", file=str(path), rules=len(self._rules.rules))
        except DelegateError as error:
            log.warning("health.rules_kept", file=str(path), line=error.line, error=error.message)
