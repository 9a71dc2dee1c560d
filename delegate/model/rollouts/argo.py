"""Argo's Rollout as a canary drives it: where it pauses until somebody says so, where it stands, and whether it has failed.

Its own steps shift the load; our steps are done at its pauses that have no end of their own, one at each, in order.
"""

from collections.abc import Sequence

import msgspec

from delegate.model.resources import JsonObject
from delegate.model.rollouts.errors import UpdateRuleError
from delegate.model.rollouts.steps import Step

_BLUE_GREEN = -1
_AT_PAUSE = ("CanaryPauseStep", "BlueGreenPause")


class Stop(msgspec.Struct, frozen=True):
    """A pause without end: the index of its step (-1 before a blue/green switch), and the weight in force there."""

    index: int
    weight: float


def stops_of(spec: JsonObject) -> tuple[Stop, ...]:
    strategy = spec.get("strategy") or {}
    blue_green = strategy.get("blueGreen")
    if blue_green is not None:
        endless = blue_green.get("autoPromotionEnabled") is False  # then its controller heeds no autoPromotionSeconds
        return (Stop(_BLUE_GREEN, 0.0),) if endless else ()
    found, weight = [], 0.0
    for index, step in enumerate((strategy.get("canary") or {}).get("steps") or ()):
        weight = float(step.get("setWeight", weight))
        if "pause" in step and (step["pause"] or {}).get("duration") is None:
            found.append(Stop(index, weight))
    return tuple(found)


def at_stops(steps: Sequence[Step], stops: Sequence[Stop]) -> tuple[Step, ...]:
    """Our steps, before each of them the way to the stop at which it is done."""
    weights = [stop.weight for stop in stops]
    weights += [0.0] * (len(steps) - len(weights))
    return tuple(each for weight, step in zip(weights, steps, strict=False) for each in (Step(set_weight=weight), step))


def check_rollout(body: JsonObject, steps: Sequence[Step]) -> None:
    """Whether it can be driven by these steps. Raises UpdateRuleError."""
    name, spec = str((body.get("metadata") or {}).get("name") or ""), body.get("spec") or {}
    stops = stops_of(spec)
    if spec.get("workloadRef") or not spec.get("template"):
        raise UpdateRuleError(f"Rollout {name} takes its pods from another workload (workloadRef)", hint="give it a template of its own")
    if len(stops) != len(steps):
        raise UpdateRuleError(
            f"Rollout {name} pauses without an end {len(stops)} times, and there are {len(steps)} steps: each pause is for one of them",
            hint="name as many verify and pause steps as it has such pauses, in their order",
        )
    if spec.get("paused"):
        raise UpdateRuleError(f"Rollout {name} is paused by hand", hint="unpause it")
    if not is_settled(body) and not is_aborted(body):
        raise UpdateRuleError(f"Rollout {name} is in the middle of an update", hint="let it end, or abort it")


def is_observed(body: JsonObject) -> bool:
    """Its status says so in a string."""
    seen = str((body.get("status") or {}).get("observedGeneration") or "")
    return seen.isdigit() and int(seen) >= int((body.get("metadata") or {}).get("generation") or 0)


def is_settled(body: JsonObject) -> bool:
    """Healthy, and its newest version is the stable one."""
    status = body.get("status") or {}
    newest = status.get("currentPodHash")
    return is_observed(body) and status.get("phase") == "Healthy" and bool(newest) and newest == status.get("stableRS")


def is_aborted(body: JsonObject) -> bool:
    return is_observed(body) and bool((body.get("status") or {}).get("abort"))


def is_at(body: JsonObject, stop: Stop) -> bool:
    status = body.get("status") or {}
    paused = any(each.get("reason") in _AT_PAUSE for each in status.get("pauseConditions") or ())
    return is_observed(body) and paused and (stop.index == _BLUE_GREEN or status.get("currentStepIndex") == stop.index)


def failure_of(body: JsonObject) -> str:
    """Why it goes no further by itself, in its own words; empty where it does."""
    status = body.get("status") or {}
    if not is_observed(body):
        return ""
    told = f": {status['message']}" if status.get("message") else ""
    if status.get("abort"):
        return f"the Rollout was aborted{told}"
    for condition in status.get("pauseConditions") or ():
        if str(condition.get("reason")).startswith("Inconclusive"):
            return f"its own analysis is inconclusive{told}"
    return ""


def degraded(body: JsonObject) -> str:
    """Its words where it says that it is degraded: that may be of an attempt before, and pass."""
    status = body.get("status") or {}
    return str(status.get("message") or "Degraded") if is_observed(body) and status.get("phase") == "Degraded" else ""
