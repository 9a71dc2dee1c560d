"""Learning from a middlebox that closes quiet connections: ask for less time than it allows.

A long poll that is cut while nothing was to be said is no fault of anybody's: it is asked again at once. When two cuts came at
about the same age, the next polls are shorter than that age, so that the answer comes before the cut. A proxy that answers in the
manager's place after some time (504) cuts no less. Only what came before the manager's answer was due is a cut: afterwards it is
a manager that is away.
"""

LEAST_AGE_SECONDS = 1.0
"""A younger poll that breaks was hardly idle: that is a fault like any other."""
_SAME = 0.2
_BELOW = 0.75
_SHORTEST_SECONDS = 0.5


class IdleCuts:
    """The wait that polls of one lane ask for."""

    def __init__(self, *, least_age_seconds: float = LEAST_AGE_SECONDS) -> None:
        self._least_age = least_age_seconds
        self._last_age: float | None = None
        self._limit: float | None = None
        self.seen = 0

    def is_idle_cut(self, age_seconds: float | None, wait_seconds: float | None = None) -> bool:
        """Whether a poll of this age, that asked for this wait and broke before its answer began, was cut for being quiet."""
        if age_seconds is None or age_seconds < self._least_age:
            return False
        return wait_seconds is None or age_seconds <= wait_seconds

    def bound(self, wanted_seconds: float) -> float:
        """The wait to ask for: as wanted, or less where cuts taught so."""
        return wanted_seconds if self._limit is None else min(wanted_seconds, self._limit)

    def learn(self, age_seconds: float) -> float | None:
        """Takes one cut into account. The new limit in seconds where this one taught something, else None."""
        self.seen += 1
        last, self._last_age = self._last_age, age_seconds
        if last is None or abs(last - age_seconds) > _SAME * max(last, age_seconds):
            return None
        limit = max(_SHORTEST_SECONDS, _BELOW * min(last, age_seconds))
        if self._limit is not None and limit >= self._limit:
            return None
        self._limit, self._last_age = limit, None
        return limit
