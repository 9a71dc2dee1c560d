"""How many tasks may run at once: limits that operators set, and what the running tasks leave of them. Pure.

A limit holds for an environment, for a cluster, or for a key that task documents name. Keys that nobody set a limit for have one of 1.
Rollbacks that name no key share one by their destination, with a limit of 3: where a dependency fails, everything looks bad at once.
What counts is what runs by the database, so that no crash of a manager or a delegate leaves a slot taken or takes one twice.
"""

import enum
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple


class LimitKind(enum.StrEnum):
    ENVIRONMENT = "environment"
    CLUSTER = "cluster"  # by uid
    KEY = "key"


class LimitKey(NamedTuple):
    kind: LimitKind
    name: str

    @property
    def lock(self) -> str:
        """What is locked while somebody decides by it."""
        return f"limit:{self.kind}/{self.name}"


class Place(NamedTuple):
    """All of a task that limits go by."""

    environment: str
    cluster_uid: str
    concurrency_key: str


_KEYS_ALONE = 1
_ROLLBACKS_AT_ONCE = 3
_ROLLBACKS = "rollbacks@"


def rollbacks_of(destination: str) -> str:
    """The key of rollbacks that name none."""
    return f"{_ROLLBACKS}{destination or 'in-cluster'}"


class Allowance:
    """What may still begin: `limits` that are set, less the tasks that run."""

    def __init__(self, limits: Mapping[LimitKey, int], running: Iterable[tuple[Place, int]]) -> None:
        self._limits = limits
        self._used: Counter[LimitKey] = Counter()
        for place, number in running:
            for key in self.keys_of(place):
                self._used[key] += number

    def keys_of(self, place: Place) -> list[LimitKey]:
        """The limits that a task is under."""
        keys = [
            key
            for key in (LimitKey(LimitKind.ENVIRONMENT, place.environment), LimitKey(LimitKind.CLUSTER, place.cluster_uid))
            if key in self._limits
        ]
        return [*keys, LimitKey(LimitKind.KEY, place.concurrency_key)] if place.concurrency_key else keys

    def most(self, key: LimitKey) -> int:
        shared = key.kind is LimitKind.KEY and key.name.startswith(_ROLLBACKS)
        return self._limits.get(key, _ROLLBACKS_AT_ONCE if shared else _KEYS_ALONE)

    def left(self, key: LimitKey) -> int:
        return max(0, self.most(key) - self._used[key])

    def used(self, key: LimitKey) -> int:
        return self._used[key]

    def full(self, place: Place) -> LimitKey | None:
        """The first limit that keeps such a task from beginning."""
        return next((key for key in self.keys_of(place) if not self.left(key)), None)

    @property
    def full_keys(self) -> list[str]:
        """The names of concurrency keys with nothing left, among those that are in use or limited."""
        known = {key for key in (*self._limits, *self._used) if key.kind is LimitKind.KEY}
        return [key.name for key in known if not self.left(key)]

    def take(self, place: Place) -> None:
        for key in self.keys_of(place):
            self._used[key] += 1
