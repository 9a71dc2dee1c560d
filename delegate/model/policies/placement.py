"""Namespaces that an Application may put objects into."""

import fnmatch
from collections.abc import Collection, Iterator

from delegate.model.policies.violations import Flaw
from delegate.model.resources import ResourceKey


def foreign_namespaces(key: ResourceKey, allowed: Collection[str], application: str) -> Iterator[Flaw]:
    """Objects outside of the allowed namespaces (globs; `{application}` stands for its name). A Namespace counts as one in itself."""
    namespace = key.name if key.kind == "Namespace" and not key.group else key.namespace
    patterns = [pattern.replace("{application}", application) for pattern in allowed]
    if not namespace or any(fnmatch.fnmatchcase(namespace, pattern) for pattern in patterns):
        return
    yield Flaw(
        f"the namespace {namespace!r} is not one of {', '.join(patterns)}",
        "metadata.namespace",
        "put it into an allowed namespace, or have the rule allow this one",
    )
