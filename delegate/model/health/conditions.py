"""What every rule reads of an object, and the rule for kinds that have none of their own.

The order is kstatus's: deletion, generation, Reconciling, Stalled, the kind's own rule, Ready. A condition that was written
for an older generation (its own observedGeneration says so) stands for nothing.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from delegate.model.health.verdicts import HEALTHY, Health, degraded, progressing
from delegate.model.resources import JsonObject


class Circumstances(msgspec.Struct, frozen=True):
    """What the caller knows beside the object itself.

    `generation` is the one that our own write was answered with: an older view of the object counts as nothing. None means
    that nobody waits for a write; then what a controller found before may speak too.
    `settled`: so long after the write (`settle_seconds`) that silence or a complaint of the controller is an answer.
    `has_status`: its definition has a status subresource, so a controller is expected to write one.
    `waits_for_consumer`: a claim that binds only once a pod uses it.
    `needs_address`: whether a Service of type LoadBalancer or an Ingress is done only with an address; None: by kind.
    """

    generation: int | None = None
    settled: bool = False
    has_status: bool = False
    waits_for_consumer: bool = False
    needs_address: bool | None = None


TERMINATING = "Terminating"
Rule = Callable[[JsonObject, Circumstances], Health]


class Condition(msgspec.Struct, frozen=True):
    type: str
    status: str
    reason: str
    message: str
    is_current: bool
    since: str = ""

    @property
    def is_true(self) -> bool:
        return self.status == "True" and self.is_current

    @property
    def is_false(self) -> bool:
        return self.status == "False" and self.is_current


def metadata_of(obj: JsonObject) -> JsonObject:
    return mapping(obj, "metadata")


def spec_of(obj: JsonObject) -> JsonObject:
    return mapping(obj, "spec")


def status_of(obj: JsonObject) -> JsonObject:
    return mapping(obj, "status")


def mapping(parent: JsonObject, name: str) -> JsonObject:
    value = parent.get(name)
    return value if isinstance(value, dict) else {}


def sequence(parent: JsonObject, name: str) -> list[Any]:
    value = parent.get(name)
    return value if isinstance(value, list) else []


def integer(parent: JsonObject, name: str, default: int = 0) -> int:
    """A number, also where a controller writes it as text (Argo Rollouts do with observedGeneration)."""
    value = parent.get(name)
    if isinstance(value, bool):
        return default
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, str) and value.isdecimal() else default


def conditions_of(obj: JsonObject) -> Iterator[Condition]:
    generation = integer(metadata_of(obj), "generation")
    for each in sequence(status_of(obj), "conditions"):
        if isinstance(each, dict):
            observed = integer(each, "observedGeneration", generation)
            yield Condition(
                type=str(each.get("type") or ""),
                status=str(each.get("status") or ""),
                reason=str(each.get("reason") or ""),
                message=str(each.get("message") or ""),
                is_current=observed >= generation,
                since=str(each.get("lastTransitionTime") or ""),
            )


def condition_of(obj: JsonObject, type_: str) -> Condition | None:
    return next((condition for condition in conditions_of(obj) if condition.type == type_), None)


def is_observed(obj: JsonObject) -> bool:
    """Whether the controller has seen the object as it is; never before it has written an observedGeneration."""
    return integer(status_of(obj), "observedGeneration") >= max(1, integer(metadata_of(obj), "generation"))


def assess_lifecycle(obj: JsonObject, circumstances: Circumstances) -> Health | None:
    """What holds for any kind before its own rule: deletion, generation, Reconciling, Stalled. None: ask the rule."""
    metadata, status = metadata_of(obj), status_of(obj)
    if metadata.get("deletionTimestamp"):
        finalizers = ", ".join(str(each) for each in sequence(metadata, "finalizers"))
        return progressing(TERMINATING, f"waits for finalizers: {finalizers}" if finalizers else "is being deleted")
    generation = integer(metadata, "generation")
    if circumstances.generation is not None and generation < circumstances.generation:
        return progressing("OldGeneration", f"generation {circumstances.generation} is not in view yet, only {generation}")
    observed = integer(status, "observedGeneration", generation)
    if observed < generation:
        return progressing("GenerationNotObserved", f"its controller has seen generation {observed} of {generation}")
    for condition in conditions_of(obj):
        if condition.type == "Reconciling" and condition.is_true:
            return progressing(condition.reason or "Reconciling", condition.message)
        if condition.type == "Stalled" and condition.is_true:
            return degraded(condition.reason or "Stalled", condition.message)
    return None


def assess_conditions(obj: JsonObject, circumstances: Circumstances) -> Health:
    """The rule for any other kind: its Ready condition, where it has one."""
    ready = condition_of(obj, "Ready")
    if ready is None:
        if circumstances.has_status and not circumstances.settled and not status_of(obj):
            return progressing("NoStatusYet", "its controller has not written a status yet")
        return HEALTHY
    if ready.is_true:
        return HEALTHY
    if not ready.is_current:
        return progressing("GenerationNotObserved", "its Ready condition is about an older generation")
    return progressing(ready.reason or "NotReady", ready.message)


def assess_done(_obj: JsonObject, _circumstances: Circumstances) -> Health:
    """The rule for kinds that are done by existing."""
    return HEALTHY
