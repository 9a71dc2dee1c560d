"""What a canary stands at until somebody says that it goes on: a pause of its steps, or a hold."""

import datetime as dt
from collections.abc import Sequence

import msgspec

from delegate.model.rollouts.journals import Journal
from delegate.model.rollouts.states import Phase
from delegate.model.rollouts.steps import Step


class Pause(msgspec.Struct, frozen=True):
    """`number` counts the pauses and holds of a release: whoever says that one is over says which.

    `since` and `until` are RFC 3339, `until` empty where it lasts until somebody says so; `reason` says why it is held.
    """

    number: int
    step: int
    since: str
    until: str = ""
    held: bool = False
    reason: str = ""


def pause_of(journal: Journal, steps: Sequence[Step]) -> Pause | None:
    """None while it is on its way."""
    if journal.phase is Phase.HELD:
        return Pause(journal.gate, journal.step, journal.since, held=True, reason=journal.reason)
    if journal.phase is not Phase.STEPPING or not journal.since or journal.step >= len(steps):
        return None
    pause = steps[journal.step].pause
    seconds = pause.seconds if pause is not None else None
    until = dt.datetime.fromisoformat(journal.since) + dt.timedelta(seconds=seconds) if seconds is not None else None
    return Pause(journal.gate, journal.step, journal.since, until.isoformat() if until is not None else "")
