"""The health rules that come with the package, and how a file of operators joins them."""

import functools
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from delegate.foundation.rule_files import RuleFile
from delegate.model.health.custom import HealthRule, HealthRuleError, HealthRules, read_health_rules

_PACKAGE = "delegate.model.health.kinds"


@functools.cache
def shipped_rules() -> HealthRules:
    """Those of the package alone. Read on the first use, compiled kind by kind as they are met."""
    return HealthRules(_shipped())


def rules_with(path: Path | None) -> HealthRules:
    """The rules of a file before the shipped ones. Raises RuleFileError or HealthRuleError, with file and line."""
    if path is None:
        return shipped_rules()
    file = RuleFile(path)
    try:
        own = read_health_rules(file.document)
    except HealthRuleError as error:
        error.file, error.line = str(path), file.line_of(error.field)
        raise
    return HealthRules((*own, *shipped_rules().rules))


def _shipped() -> Iterator[HealthRule]:
    for entry in sorted(resources.files(_PACKAGE).iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".yaml"):
            with resources.as_file(entry) as path:
                yield from read_health_rules(RuleFile(path).document, trusted=True)
