"""What a running attempt pauses at, as its delegate says in heartbeats: kept with the attempt, in the manager's own time."""

import msgspec

from delegate.manager.clocks import to_rfc3339
from delegate.manager.views import PauseView
from delegate.protocol.control import HeldAttempt

_LONGEST_REASON = 500


class KeptPause(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """`since` and `until` are seconds of the manager's clock; `until` None: until somebody says so."""

    number: int
    step: int
    since: float
    until: float | None = None
    held: bool = False
    reason: str = ""


def keep_pause(held: HeldAttempt, now: float) -> str:
    """As a column takes it; empty for an attempt that is on its way."""
    pause = held.pause
    if pause is None:
        return ""
    until = now + max(0.0, pause.left_seconds) if pause.left_seconds is not None else None
    kept = KeptPause(pause.number, pause.step, now - max(0.0, pause.ago_seconds), until, pause.held, pause.reason[:_LONGEST_REASON])
    return msgspec.json.encode(kept).decode()


def read_pause(kept: str | None) -> KeptPause | None:
    return msgspec.json.decode(kept, type=KeptPause) if kept else None


def show_pause(pause: KeptPause | None) -> PauseView | None:
    if pause is None:
        return None
    since, until = to_rfc3339(pause.since), to_rfc3339(pause.until)
    return PauseView(number=pause.number, step=pause.step, since=since, until=until, held=pause.held, reason=pause.reason)
