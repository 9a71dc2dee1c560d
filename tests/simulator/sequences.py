"""What controllers wrote, version by version, as values that can be compared."""

from typing import Any, NamedTuple

REVISION = "deployment.kubernetes.io/revision"
_RACY = ("terminatingReplicas",)
"""Counts whose place among the versions differs even within the recordings: when a pod's end is noticed depends on its kubelet."""


class Version(NamedTuple):
    """One version of an object: what it was asked for, what its controller saw, counted and concluded."""

    generation: int | None
    revision: str
    counts: tuple[tuple[str, int], ...]
    conditions: tuple[tuple[str, str, str], ...]
    marks: tuple[str, ...]


def version_of(body: Any) -> Version:
    status = body.get("status") or {}
    counts = {key: value for key, value in status.items() if isinstance(value, int) and key not in _RACY}
    counts |= {f"uncounted {key}": len(value) for key, value in (status.get("uncountedTerminatedPods") or {}).items()}
    conditions = [(item["type"], item["status"], item["reason"]) for item in status.get("conditions") or ()]
    marks = [key for key in ("startTime", "completionTime", "loadBalancer") if key in status]
    if status.get("phase"):
        marks.append(status["phase"])
    if status.get("currentRevision") and status["currentRevision"] == status["updateRevision"]:
        marks.append("one revision")
    return Version(
        generation=body["metadata"].get("generation"),
        revision=(body["metadata"].get("annotations") or {}).get(REVISION, ""),
        counts=tuple(sorted(counts.items())),
        conditions=tuple(conditions),
        marks=tuple(marks),
    )


def sequence_of(bodies: list[Any]) -> list[Version]:
    """The versions in order, without those that differ from the one before in nothing that is compared."""
    found: list[Version] = []
    for body in bodies:
        version = version_of(body)
        if not found or found[-1] != version:
            found.append(version)
    return found
