"""Why a running attempt has to stop, told from outside and heard at the next await."""

import asyncio
import enum

from delegate.model.results import Outcome


class StopVerdict(enum.StrEnum):
    CANCEL = "cancel"  # a person asked for it
    SUPERSEDED = "superseded"  # a newer task of the same application
    LOST = "lost"  # the lease is another's, or can't be confirmed
    DEADLINE = "deadline"
    INTERRUPTED = "interrupted"  # the delegate itself stops; the task goes to another attempt


GONE_ON_WITH = (StopVerdict.INTERRUPTED, StopVerdict.LOST)
"""After these another attempt goes on with the same operation, and with the hooks that it runs."""

_OUTCOMES = {
    StopVerdict.CANCEL: Outcome.CANCELLED,
    StopVerdict.SUPERSEDED: Outcome.SUPERSEDED,
    StopVerdict.LOST: Outcome.INTERRUPTED,
    StopVerdict.DEADLINE: Outcome.TIMED_OUT,
    StopVerdict.INTERRUPTED: Outcome.INTERRUPTED,
}


def outcome_of(verdict: StopVerdict) -> Outcome:
    """What an attempt that stopped for this reason reports."""
    return _OUTCOMES[verdict]


class StopSignal:
    """Raised once and never lowered: the first verdict is the one that counts. For one event loop."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.requested: StopVerdict | None = None
        self.reason = ""

    def request(self, verdict: StopVerdict, reason: str = "") -> None:
        if self.requested is None:
            self.requested, self.reason = verdict, reason
            self._event.set()

    async def wait(self) -> StopVerdict:
        """Returns when a stop is requested; the caller bounds the wait."""
        await self._event.wait()
        assert self.requested is not None
        return self.requested
