"""How an Application asks to be exempt from rules. Whether it is, the rules say."""

from collections.abc import Mapping

EXEMPTIONS_ANNOTATION = "delegate.gitops/policy-exemptions"
"""Names of rules, joined with commas, on the Application (or in a task document's `annotations`)."""


def exemptions_of(annotations: Mapping[str, str]) -> frozenset[str]:
    return frozenset(name.strip() for name in annotations.get(EXEMPTIONS_ANNOTATION, "").split(",") if name.strip())
