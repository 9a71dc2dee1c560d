"""Says once that a way is broken, with all that helps, and once that it works again; counts every fault."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from delegate.daemon.connection.errors import TransportError
from delegate.foundation.errors import DelegateError

log = structlog.get_logger(__name__)
CountFault = Callable[[str, str], None]
"""Told the lane and the reason of each fault; called from the lane's own thread."""


@dataclass
class _Outage:
    words: str
    since: float
    count: int = 1


class Faults:
    """The faults of one lane, by route."""

    def __init__(self, lane: str, count: CountFault = lambda lane, reason: None) -> None:
        self._lane = lane
        self._count = count
        self._outages: dict[str, _Outage] = {}
        self._lock = threading.Lock()

    @property
    def words(self) -> str:
        """What is broken now, for people; empty when all works. For any thread."""
        with self._lock:
            return "; ".join(sorted({outage.words for outage in self._outages.values()}))

    def is_failing(self, route: str) -> bool:
        return route in self._outages

    def failed(self, route: str, error: DelegateError, retry_seconds: float) -> None:
        self._count(self._lane, error.code.rpartition(".")[2])
        with self._lock:
            outage = self._outages.get(route)
            if outage is not None and outage.words == str(error):
                outage.count += 1
                return
            self._outages[route] = _Outage(str(error), time.monotonic() if outage is None else outage.since)
        facts = error.facts if isinstance(error, TransportError) else {}
        log.warning(
            "connection.failed",
            lane=self._lane,
            route=route,
            error=str(error),
            hint=error.hint,
            retry_in_seconds=round(retry_seconds, 2),
            **facts,
        )

    def cut(self, age_seconds: float) -> None:
        """A quiet connection was closed on us: counted, and no fault."""
        self._count(self._lane, "idle_cut")
        log.debug("connection.idle_cut", lane=self._lane, age_seconds=round(age_seconds, 2))

    def worked(self, route: str) -> None:
        if route not in self._outages:
            return
        with self._lock:
            outage = self._outages.pop(route)
        seconds = round(time.monotonic() - outage.since, 1)
        log.info("connection.restored", lane=self._lane, route=route, after_seconds=seconds)
