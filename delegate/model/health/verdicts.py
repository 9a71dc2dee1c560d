"""What a health rule answers, and how several answers become one."""

import enum
from collections.abc import Iterable

import msgspec


class HealthStatus(enum.StrEnum):
    HEALTHY = "Healthy"
    PROGRESSING = "Progressing"
    DEGRADED = "Degraded"
    SUSPENDED = "Suspended"
    MISSING = "Missing"
    UNKNOWN = "Unknown"


class Subject(msgspec.Struct, frozen=True, omit_defaults=True):
    """What below an object its health is about: a pod, a container of it, the image of that."""

    pod: str = ""
    container: str = ""
    image: str = ""


class Health(msgspec.Struct, frozen=True):
    """One object's health: a machine-readable `reason` (CamelCase, as conditions have it) and the words behind it.

    `since` is the cluster's own time (RFC 3339) from when on it is so, `subject` what below the object it is about; both are left out
    where they aren't known.
    """

    status: HealthStatus
    reason: str = ""
    message: str = ""
    since: str | msgspec.UnsetType = msgspec.UNSET
    subject: Subject | msgspec.UnsetType = msgspec.UNSET


HEALTHY = Health(HealthStatus.HEALTHY)


def progressing(reason: str, message: str = "") -> Health:
    return Health(HealthStatus.PROGRESSING, reason, message)


def degraded(reason: str, message: str = "") -> Health:
    return Health(HealthStatus.DEGRADED, reason, message)


def suspended(reason: str, message: str = "") -> Health:
    return Health(HealthStatus.SUSPENDED, reason, message)


_FROM_BEST_TO_WORST = (
    HealthStatus.HEALTHY,
    HealthStatus.SUSPENDED,
    HealthStatus.PROGRESSING,
    HealthStatus.MISSING,
    HealthStatus.DEGRADED,
    HealthStatus.UNKNOWN,
)


def worst_of(statuses: Iterable[HealthStatus]) -> HealthStatus:
    """The health of an Application: that of its worst object; Healthy where there is none."""
    return max(statuses, key=_FROM_BEST_TO_WORST.index, default=HealthStatus.HEALTHY)
