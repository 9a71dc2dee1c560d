"""How far this machine's clock is from the manager's, learned from the time in each answer.

Tokens and leases don't depend on it; certificates and people do. The manager's answers carry its time. Between what this clock said when
it was asked and what it says now lies the moment in which the manager looked at its own, and nobody knows where: a long poll takes its
time, and an answer may wait here while this process is stopped. So what is known is only changed where an answer contradicts it.
"""

import datetime as dt
import threading

import structlog

from delegate.foundation.clocks import SYSTEM_CLOCK, Clock

log = structlog.get_logger(__name__)
_TELLING_SECONDS = 60.0
_LISTENED_SECONDS = 0.5


class ClockSkew:
    """For any thread."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._told = False
        self._estimate = 0.0
        self.ahead_seconds: float | None = None
        """By how much this clock is ahead of the manager's, None before the first answer. Less than half a second is none."""

    @property
    def known_seconds(self) -> float:
        return self.ahead_seconds or 0.0

    def hear(self, server_time: str, asked_at: dt.datetime) -> None:
        """An answer of this moment said this time; `asked_at` by this clock."""
        try:
            theirs = dt.datetime.fromisoformat(server_time)
        except ValueError:
            return
        if theirs.tzinfo is None:
            return
        bounds = (asked_at - theirs).total_seconds(), (self._clock.now() - theirs).total_seconds()
        with self._lock:
            ahead = self._estimate = min(max(self._estimate, min(bounds)), max(bounds))
            self.ahead_seconds = ahead if abs(ahead) >= _LISTENED_SECONDS else 0.0
            skewed = abs(ahead) >= _TELLING_SECONDS
            changed, self._told = skewed != self._told, skewed
        if changed and skewed:
            log.warning(
                "clock.skewed",
                ahead_seconds=round(ahead, 1),
                hint="this machine's clock and the manager's differ: set it right (NTP); nothing here waits for that",
            )
        elif changed:
            log.info("clock.right_again")
