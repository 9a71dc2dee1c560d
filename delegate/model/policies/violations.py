"""What the rules are asked, and what they answer."""

import enum
from collections.abc import Callable

import msgspec

from delegate.model.resources import JsonObject, Manifest, Origin, ResourceKey

Locate = Callable[[Manifest, str], Origin]
"""Where a field of a manifest was written, by its path; `Rendered.locate` is one."""


class PolicyAction(enum.StrEnum):
    """`deny` refuses the sync, `warn` says so in its result, `audit` only records it, `off` does not look."""

    DENY = "deny"
    WARN = "warn"
    AUDIT = "audit"
    OFF = "off"


class Operation(enum.StrEnum):
    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


class Subject(msgspec.Struct, frozen=True):
    """One planned write: the object as it will be sent, and as it is in the cluster where that is known and asked for."""

    key: ResourceKey
    operation: Operation
    manifest: Manifest | None = None
    old: JsonObject | None = None

    def place_of(self, field: str, locate: Locate | None) -> Origin:
        """Where a field such as `spec.replicas` was written; where the object was, if nobody knows better."""
        if self.manifest is None:
            return Origin()
        return locate(self.manifest, field) if locate is not None and field else self.manifest.origin


class Setting(msgspec.Struct, frozen=True):
    """Where the writes are to happen. `exempted` are the rules that the Application asks to be exempt from."""

    application: str = ""
    environment: str = ""
    namespace: str = ""
    exempted: frozenset[str] = frozenset()


class Flaw(msgspec.Struct, frozen=True):
    """What a shipped rule has against an object: `path` is the way to the field (`spec.containers[0].image`)."""

    message: str
    path: str = ""
    hint: str = ""


class Violation(msgspec.Struct, frozen=True):
    """A rule that an object breaks, and what comes of it. `exempt`: it would count, but the Application is exempt from the rule.

    `line` is that of the field, where whoever asks knows it; else the object's.
    """

    rule: str
    action: PolicyAction
    message: str
    hint: str
    object: str
    file: str = ""
    line: int | None = None
    exempt: bool = False

    def __str__(self) -> str:
        """`apps/dev/web.yaml:3: apps/Deployment web/web: mutable-tags: ...`."""
        place = f"{self.file}:{self.line}" if self.file and self.line else self.file
        return ": ".join(part for part in (place, self.object, self.rule, self.message) if part)
