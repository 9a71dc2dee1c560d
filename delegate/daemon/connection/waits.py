"""How long to wait before the next try of a call that failed.

A manager that is gone (restarted, moved) costs nothing to be asked again, but when it is back everybody who waits for it comes at once.
So it says how many seconds they shall take for that, by how many they are: few come back within a second, a thousand over ten.
The loops of one delegate draw one time together: each for itself, the first of them would come far sooner than the mean, and so would
everybody. Whoever is there and refuses is left alone longer.
"""

import random
import threading
import time
from collections.abc import Callable

from delegate.daemon.connection.errors import RefusalError, TransportError

UNTOLD_SECONDS = 10.0
"""Of managers that don't say in how long their delegates shall come back."""
_GONE = frozenset({"connection.unreachable", "connection.cut", "connection.proxy"})
_GONE_BEHIND_OTHERS = frozenset({502, 503, 504})
_dice = random.Random()  # noqa: S311 - it spreads load, and guards nothing


def is_gone(error: TransportError | RefusalError) -> bool:
    """Whether nobody is there to be asked, as far as can be told: not one who is there and can't, or won't."""
    if not isinstance(error, TransportError) or error.retry_after is not None:
        return False
    return error.code in _GONE or error.facts.get("status") in _GONE_BEHIND_OTHERS


class ReconnectSchedule:
    """When one delegate tries again to reach a manager that is gone. For any thread.

    `seconds`: over how many everybody shall come back, as the manager said last.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.seconds = UNTOLD_SECONDS
        self._now = now
        self._next_try = 0.0
        self._lock = threading.Lock()

    def join(self, wait: float) -> float:
        """Seconds until the next try of all loops: it is in `wait` seconds, unless another loop has drawn one that is still to come."""
        with self._lock:
            now = self._now()
            if self._next_try <= now:
                self._next_try = now + wait
            return self._next_try - now


class Waits:
    """The waits of one loop: each between nothing and a ceiling that doubles up to `longest`, with full jitter also at the cap.

    No wait for a manager that is gone is longer than `schedule` says, and the loops that share it wait together.
    """

    def __init__(self, first: float, longest: float, schedule: ReconnectSchedule, dice: Callable[[], float] = _dice.random) -> None:
        self._first = self._ceiling = first
        self._longest = longest
        self._schedule = schedule
        self._dice = dice

    def after(self, error: TransportError | RefusalError) -> float:
        """Seconds until the next try."""
        drawn, ceiling = self._dice(), self._ceiling
        self._ceiling = min(2 * self._ceiling, self._longest)
        if is_gone(error):
            return self._schedule.join(drawn * min(ceiling, self._longest, self._schedule.seconds))
        return drawn * ceiling

    def reset(self) -> None:
        """It worked."""
        self._ceiling = self._first
