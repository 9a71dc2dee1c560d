"""Redriving as values: which letters may be sent round again, and how fast. Pure."""

import msgspec

MOST_REDRIVES = 3
"""How often what became of one task is sent round: a poisoned one stays where it is then."""
FASTEST_RATE = 1000.0
_BURST_SECONDS = 0.25
_ANSWERED = frozenset({"superseded", "conflict"})


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """All that decides about one letter. `task_state` is empty where the manager doesn't know the task any more."""

    reason: str
    generation: int
    has_document: bool
    task_state: str = ""


def why_not(letter: Candidate) -> str:
    """Why a letter is not sent round again, as one word; empty where it is."""
    if letter.reason in _ANSWERED:
        return "has_another_result"
    if letter.generation >= MOST_REDRIVES:
        return "redriven_too_often"
    if letter.task_state in ("queued", "running"):
        return "task_not_finished"
    if not letter.has_document:
        return "task_unknown"
    return ""


class Pace(msgspec.Struct, frozen=True):
    """How far a rate (letters a second) is used up: `used_until`, in the manager's time. What was missed is not made up for."""

    rate: float
    used_until: float

    def allows(self, now: float) -> int:
        """Letters that may go now."""
        return int((now - max(self.used_until, now - self._burst)) * self.rate + 1e-6)

    def after(self, count: int, now: float) -> "Pace":
        return msgspec.structs.replace(self, used_until=max(self.used_until, now - self._burst) + count / self.rate)

    @property
    def _burst(self) -> float:
        return max(_BURST_SECONDS, 1 / self.rate)
