"""PersistentVolumeClaim and PersistentVolume."""

from collections.abc import Iterable

from delegate.model.health.conditions import Circumstances, mapping, metadata_of, spec_of, status_of
from delegate.model.health.verdicts import HEALTHY, Health, HealthStatus, degraded, progressing
from delegate.model.resources import JsonObject

_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_LATE = "WaitForFirstConsumer"


def assess_claim(obj: JsonObject, circumstances: Circumstances) -> Health:
    """Done when bound, or when it can only be bound once a pod uses it: whoever waited for that would wait for ever."""
    phase = status_of(obj).get("phase")
    if phase == "Bound":
        return HEALTHY
    if phase == "Lost":
        return degraded("ClaimLost", "the volume that it was bound to is gone")
    if phase in ("Pending", None, ""):
        if circumstances.waits_for_consumer:
            return Health(HealthStatus.HEALTHY, _LATE, "is bound once a pod uses it")
        return progressing("ClaimPending", "is not bound to a volume yet")
    return Health(HealthStatus.UNKNOWN, "PhaseUnknown", f"phase {phase}")


def assess_volume(obj: JsonObject, _circumstances: Circumstances) -> Health:
    status = status_of(obj)
    phase = status.get("phase")
    if phase == "Failed":
        return degraded(str(status.get("reason") or "VolumeFailed"), str(status.get("message") or ""))
    return progressing("VolumePending") if phase == "Pending" else HEALTHY


def waits_for_consumer(claim: JsonObject, *, storage_classes: Iterable[JsonObject] = (), events: Iterable[JsonObject] = ()) -> bool:
    """Whether a claim binds only once a pod uses it: by its StorageClass, or by an event that says so.

    Either is enough, for whoever may not list the other.
    """
    name = metadata_of(claim).get("name")
    for event in events:
        about = mapping(event, "involvedObject")
        if event.get("reason") == _LATE and about.get("kind") == "PersistentVolumeClaim" and about.get("name") == name:
            return True
    wanted = spec_of(claim).get("storageClassName")
    for storage_class in storage_classes:
        metadata = metadata_of(storage_class)
        is_default = mapping(metadata, "annotations").get(_DEFAULT_CLASS) == "true"
        if (metadata.get("name") == wanted if wanted is not None else is_default) and storage_class.get("volumeBindingMode") == _LATE:
            return True
    return False
