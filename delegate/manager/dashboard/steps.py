"""What an attempt did, from the events that it reported: the steps in order, how long each took, and the events in words."""

import datetime as dt
from collections.abc import Iterable

import msgspec

from delegate.manager.views import EventView
from delegate.model.resources import JsonObject

_WORDS = {
    "resolve": "Find the revision",
    "render": "Read the manifests",
    "plan": "Compare with the cluster",
    "apply": "Apply",
    "wait": "Wait until healthy",
    "prune": "Prune",
}


class Step(msgspec.Struct, frozen=True):
    """`seconds` is None while it is at work, or where nobody said when it ended."""

    name: str
    started_at: str
    seconds: float | None


class EventLine(msgspec.Struct, frozen=True):
    at: str
    attempt_id: str
    words: str
    detail: str


def gather_steps(events: Iterable[EventView], ended_at: str) -> list[Step]:
    """The steps of the latest attempt. One step is at work at a time: the next one's start ends it."""
    listed = list(events)
    latest = listed[-1].attempt_id if listed else ""
    starts = [each for each in listed if each.attempt_id == latest and each.event.endswith(".started")]
    if not starts:
        return []
    ends = [each.at for each in starts[1:]] + [ended_at]
    return [Step(_name(start.event), start.at, _seconds(start.at, end)) for start, end in zip(starts, ends, strict=True)]


def _name(event: str) -> str:
    step = event.rpartition(".")[0]
    return _WORDS.get(step, step)


def _seconds(start: str, end: str) -> float | None:
    if not end:
        return None
    return max(0.0, (dt.datetime.fromisoformat(end) - dt.datetime.fromisoformat(start)).total_seconds())


def describe_events(events: Iterable[EventView]) -> list[EventLine]:
    """Every event but the starts of steps, which the steps show."""
    return [EventLine(each.at, each.attempt_id, each.event, _detail(each.data)) for each in events if not each.event.endswith(".started")]


def _detail(data: JsonObject) -> str:
    return ", ".join(f"{name} {value}" for name, value in data.items() if isinstance(value, str | int | float) and value != "")
