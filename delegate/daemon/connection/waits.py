"""How long to wait before the next try of a call that failed.

A manager that is gone (restarted, moved) costs nothing to be asked again, but when it is back everybody who waits for it comes at once.
So it says how many seconds they shall take for that, by how many they are: few come back within a second, a thousand over ten.
Whoever is there and refuses is left alone longer.
"""

import random
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


class Waits:
    """The waits of one loop: each between nothing and a ceiling that doubles up to `longest`, with full jitter also at the cap.

    `come_back` says over how many seconds everybody shall come back; no longer wait is made for a manager that is gone.
    """

    def __init__(self, first: float, longest: float, come_back: Callable[[], float], dice: Callable[[], float] = _dice.random) -> None:
        self._first = self._ceiling = first
        self._longest = longest
        self._come_back = come_back
        self._dice = dice

    def after(self, error: TransportError | RefusalError) -> float:
        """Seconds until the next try."""
        cap = min(self._longest, self._come_back()) if is_gone(error) else self._longest
        wait = self._dice() * min(self._ceiling, cap)
        self._ceiling = min(2 * self._ceiling, self._longest)
        return wait

    def reset(self) -> None:
        """It worked."""
        self._ceiling = self._first
