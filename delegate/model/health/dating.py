"""Since when an object is as it is, in the cluster's own times (RFC 3339); nothing is told where the cluster does not say."""

import msgspec

from delegate.model.health.conditions import TERMINATING, mapping, metadata_of, sequence, status_of
from delegate.model.health.verdicts import Health, HealthStatus
from delegate.model.resources import JsonObject


def dated(health: Health, obj: JsonObject) -> Health:
    """The same health with the time of what it was read from: its condition, the deletion, the creation where nothing happened yet."""
    if health.status is HealthStatus.HEALTHY or health.since is not msgspec.UNSET:
        return health
    since = _time_of(health, obj)
    return msgspec.structs.replace(health, since=since) if since else health


def _time_of(health: Health, obj: JsonObject) -> str:
    metadata = metadata_of(obj)
    if health.reason == TERMINATING:
        return str(metadata.get("deletionTimestamp") or "")
    for condition in sequence(status_of(obj), "conditions"):
        if isinstance(condition, dict) and health.reason and condition.get("reason") == health.reason:
            return str(condition.get("lastTransitionTime") or "")
    if health.reason in ("PodFailed", "Evicted"):
        return _last_end(obj)
    return "" if status_of(obj) else str(metadata.get("creationTimestamp") or "")


def _last_end(pod: JsonObject) -> str:
    ends = [
        str(mapping(mapping(container, "state"), "terminated").get("finishedAt") or "")
        for field in ("initContainerStatuses", "containerStatuses")
        for container in sequence(status_of(pod), field)
        if isinstance(container, dict)
    ]
    return max(ends, default="")
