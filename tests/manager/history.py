"""An independent checker of what happened to tasks.

It knows nothing of the manager's code: only the promises, and a list of events. The events come from what delegates and
operators saw themselves (`Recorder`), or from the manager's own history (`from_audit`). The promises:

1. A task has one final state, and nothing happens to it afterwards.
2. The fence of a task grows with every hand-out.
3. No hand-out while another attempt of the task, or of another task of the same application and cluster, has authority.
4. A result is accepted only from the latest hand-out of its task, and once.
5. A final state has a reason: an accepted result of that outcome, a wish of somebody, the time, or too many lost delegates.
6. Nothing is lost: in the end, every task that was submitted is final.
7. Tasks of one application and cluster begin in the order of their priority, then of their submission.
8. Of the tasks under one limit no more have authority at once than it allows.

An attempt has authority from its hand-out until it ends, or until its lease has run out without a renewal. After that it may
get it back (`renewed`) only while nobody else got the task or the application.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

ENDINGS = frozenset({"released", "unseen", "expired", "lost", "interrupted"})
"""Events after which an attempt has no authority any more."""
WISHES = {"cancelled": "cancel", "superseded": "superseded", "timed_out": "deadline"}


@dataclass(frozen=True)
class Event:
    """`kind`: submitted, handed_out, renewed, stop_requested, result_accepted, finished, or one of ENDINGS."""

    at: float
    kind: str
    task: str
    attempt: str = ""
    fence: int = 0
    key: str = ""
    rank: float = 0.0
    lease: float = math.inf
    outcome: str = ""
    actor: str = ""
    limits: tuple[str, ...] = ()


@dataclass
class _Attempt:
    task: str
    key: str
    fence: int
    until: float
    ended: bool = False

    def has_authority(self, now: float) -> bool:
        return not self.ended and now < self.until


@dataclass
class _Task:
    key: str
    rank: tuple[float, int]
    attempts: list[str] = field(default_factory=list)
    final: str = ""
    outcomes: set[str] = field(default_factory=set)
    wishes: set[str] = field(default_factory=set)
    losses: int = 0
    begun: bool = False
    limits: tuple[str, ...] = ()


class Checker:
    """Reads events in order and collects what contradicts the promises.

    `most_losses` is how many lost attempts end a task. `in_order` is for histories that hold every hand-out at its time: who
    gets an answer late, after it was lost on the way, sees them in another order. `limits`: how many tasks under each may run.
    """

    def __init__(self, *, most_losses: int = 6, in_order: bool = True, limits: Mapping[str, int] | None = None) -> None:
        self._in_order = in_order
        self._limits = limits or {}
        self.violations: list[str] = []
        self._most_losses = most_losses
        self._tasks: dict[str, _Task] = {}
        self._attempts: dict[str, _Attempt] = {}

    def read(self, events: Iterable[Event]) -> "Checker":
        for event in events:
            if event.kind != "submitted" and event.task not in self._tasks:
                self._violate(event, "of a task that was never submitted")
                continue
            if event.kind != "submitted" and self._tasks[event.task].final and event.kind != "expired":
                self._violate(event, f"after the task was {self._tasks[event.task].final}")
                continue
            getattr(self, f"_{event.kind}" if event.kind not in ENDINGS else "_ending")(event)
        return self

    def expect_all_final(self) -> "Checker":
        """At the end of a run in which everybody had the time to finish."""
        for task_id, task in self._tasks.items():
            if not task.final:
                self.violations.append(f"task {task_id} is lost: it never became final")
        return self

    def _violate(self, event: Event, words: str) -> None:
        self.violations.append(f"at {event.at:.3f} {event.kind} of task {event.task} attempt {event.attempt or '-'}: {words}")

    def _submitted(self, event: Event) -> None:
        if event.task in self._tasks:
            self._violate(event, "twice")
            return
        self._tasks[event.task] = _Task(event.key, (event.rank, len(self._tasks)), limits=event.limits)

    def _handed_out(self, event: Event) -> None:
        task = self._tasks[event.task]
        fences = [self._attempts[attempt].fence for attempt in task.attempts]
        if event.attempt in self._attempts:
            self._violate(event, "the attempt was handed out before")
            return
        if fences and event.fence <= max(fences):
            self._violate(event, f"fence {event.fence} after {max(fences)}")
        self._check_alone(event, task.key)
        self._check_limits(event, task)
        if not task.begun and self._in_order:
            self._check_order(event, task)
        task.begun = True
        task.attempts.append(event.attempt)
        self._attempts[event.attempt] = _Attempt(event.task, task.key, event.fence, event.at + event.lease)

    def _check_alone(self, event: Event, key: str) -> None:
        for other_id, other in self._attempts.items():
            if other_id != event.attempt and other.key == key and other.has_authority(event.at):
                what = "another attempt" if other.task == event.task else f"task {other.task}"
                self._violate(event, f"while {what} ({other_id}) has authority for {key}")

    def _check_limits(self, event: Event, task: _Task) -> None:
        for limit in set(task.limits) & self._limits.keys():
            others = [
                other_id
                for other_id, other in self._attempts.items()
                if other_id != event.attempt and limit in self._tasks[other.task].limits and other.has_authority(event.at)
            ]
            if len(others) >= self._limits[limit]:
                self._violate(event, f"while {', '.join(others)} use all of {limit} ({self._limits[limit]})")

    def _check_order(self, event: Event, task: _Task) -> None:
        for other_id, other in self._tasks.items():
            if other.key == task.key and not other.begun and not other.final and other.rank < task.rank:
                self._violate(event, f"before task {other_id}, which comes first in {task.key}")

    def _renewed(self, event: Event) -> None:
        attempt = self._attempts.get(event.attempt)
        if attempt is None:
            self._violate(event, "of an attempt that was never handed out")
            return
        if self._tasks[event.task].attempts[-1] != event.attempt:
            self._violate(event, "though the task was handed out again")
        if not attempt.has_authority(event.at):
            self._check_alone(event, attempt.key)
            self._check_limits(event, self._tasks[event.task])
        attempt.ended = False
        attempt.until = event.at + event.lease

    def _ending(self, event: Event) -> None:
        attempt = self._attempts.get(event.attempt)
        if attempt is None:
            self._violate(event, "of an attempt that was never handed out")
            return
        if event.kind in ("expired", "lost"):
            self._tasks[event.task].losses += 1
        attempt.ended = True

    def _stop_requested(self, event: Event) -> None:
        self._tasks[event.task].wishes.add(event.outcome)

    def _result_accepted(self, event: Event) -> None:
        task = self._tasks[event.task]
        attempt = self._attempts.get(event.attempt)
        if attempt is None:
            self._violate(event, "of an attempt that was never handed out")
            return
        if task.attempts[-1] != event.attempt:
            self._violate(event, f"from a stale attempt; the latest is {task.attempts[-1]}")
        if not attempt.has_authority(event.at):
            self._check_alone(event, attempt.key)
        attempt.ended = True
        task.outcomes.add(event.outcome)

    def _finished(self, event: Event) -> None:
        task = self._tasks[event.task]
        task.final = event.outcome
        explained = event.outcome in task.outcomes or WISHES.get(event.outcome) in task.wishes
        if not explained and event.outcome == "failed":
            explained = task.losses >= self._most_losses
        if not explained and event.outcome in ("cancelled", "superseded", "timed_out", "refused"):
            explained = not any(self._attempts[attempt].has_authority(event.at) for attempt in task.attempts)  # it was queued
        if not explained:
            self._violate(event, f"as {event.outcome}, which nobody reported or wished")
        for attempt_id in task.attempts:
            self._attempts[attempt_id].ended = True


def from_audit(rows: Sequence[Mapping[str, Any]]) -> list[Event]:
    """The manager's history in the words of this checker. Ends of leases are told there, so leases need no clock."""
    events: list[Event] = []
    for row in rows:
        detail = row["detail"]
        match row["operation"]:
            case "submitted":
                key = f"{detail['application']}@{detail['cluster']}"
                limits = (f"environment/{detail.get('environment', '')}", f"key/{detail.get('concurrencyKey', '')}")
                events.append(_event(row, "submitted", key=key, rank=detail.get("rank", 0.0), limits=limits))
            case "handed_out":
                events.append(_event(row, "handed_out", fence=detail["fence"]))
            case "revived":
                events.append(_event(row, "renewed"))
            case "stop_requested":
                events.append(_event(row, "stop_requested", outcome=detail["verdict"]))
            case "result_accepted" | "finished":
                events.append(_event(row, row["operation"], outcome=detail["outcome"]))
            case "released" | "unseen" | "expired" | "lost":
                events.append(_event(row, row["operation"]))
            case _:
                pass  # confirmed, requeued, refused: they say nothing about authority
    return events


def _event(row: Mapping[str, Any], kind: str, **more: Any) -> Event:
    return Event(row["at"], kind, row["task_id"], row["attempt_id"], actor=row["actor"], **more)
