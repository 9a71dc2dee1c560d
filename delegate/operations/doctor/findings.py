"""What a check found, and what the program ends with."""

import enum
from collections.abc import Iterable

import msgspec

from delegate.foundation.errors import Category, DelegateError


class Status(enum.StrEnum):
    OK = "ok"
    WARNING = "warning"  # works, and somebody should know
    FAILED = "failed"
    SKIPPED = "skipped"  # there is nothing to check, or nothing to check it with


class Area(enum.StrEnum):
    """The class of a finding, and of the exit code."""

    SETTINGS = "settings"
    NETWORK = "network"  # name, TCP, proxy, TLS, what answers, idle cuts, clock
    IDENTITY = "identity"  # token, scope, registration, certificate
    CLUSTER = "cluster"  # reachability, permissions
    TOOLS = "tools"  # git, helm, kubectl
    STORAGE = "storage"  # directories, disk, S3
    MACHINE = "machine"  # user, cgroup, versions


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """`what` in words, `where` (an address, a path, an object), `hint`: what to do. `facts` are for programs."""

    check: str
    area: Area
    status: Status
    what: str
    where: str = ""
    hint: str = ""
    facts: dict[str, str | int | float | bool | list[str] | None] = {}
    seconds: float = 0.0


EXIT_CODES = {
    Area.SETTINGS: 2,
    Area.NETWORK: 10,
    Area.IDENTITY: 11,
    Area.CLUSTER: 12,
    Area.STORAGE: 13,
    Area.TOOLS: 14,
    Area.MACHINE: 15,
}
"""By what failed; where several did, the first of these. Else 0: warnings change nothing."""


def exit_code(findings: Iterable[Finding]) -> int:
    failed = {finding.area for finding in findings if finding.status is Status.FAILED}
    return next((code for area, code in EXIT_CODES.items() if area in failed), 0)


def finding_of(error: DelegateError, check: str, area: Area, where: str = "", status: Status = Status.FAILED) -> Finding:
    """What an error of a check says."""
    facts = dict(getattr(error, "facts", None) or {})
    own = Area.SETTINGS if error.category is Category.INPUT and error.code.startswith("input.setting") else area
    return Finding(
        check=check,
        area=own,
        status=status,
        what=str(error),
        where=where or error.file or error.object,
        hint=error.hint,
        facts={"code": error.code, **facts},
    )
