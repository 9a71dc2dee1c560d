"""How the delegate is: from plain values that the parts keep, for probes, heartbeats and the watchdog. Asked from any thread."""

import threading
import time
from collections.abc import Callable

from delegate.foundation.lifecycle import LoopMonitor
from delegate.foundation.telemetry.probes import HealthReport
from delegate.foundation.telemetry.systemd import Notifier

LAG_LIMIT_SECONDS = 10.0
"""A main loop that is later than this is not ready for work."""


class Conditions:
    """`stall_limit`: seconds that the main loop may be stuck before only a restart is left to hope for."""

    def __init__(self, *, stall_limit: float) -> None:
        self.stall_limit = stall_limit
        self.monitor: LoopMonitor | None = None
        self.registered = False
        self.heartbeat_seconds = 10.0
        self.contact_at: float | None = None
        self.draining = ""
        self.outdated = ""
        self.failed_part = ""
        self.outbox_full: Callable[[], str] = lambda: ""
        self.spool_full: Callable[[], str] = lambda: ""
        self.link_faults: Callable[[], str] = lambda: ""
        self.certificate: Callable[[], str] = lambda: ""

    def touch(self) -> None:
        """The manager answered on the control lane."""
        self.contact_at = time.monotonic()

    @property
    def lag_seconds(self) -> float:
        return self.monitor.lag_seconds() if self.monitor is not None else 0.0

    @property
    def stalled(self) -> bool:
        return self.lag_seconds > self.stall_limit

    @property
    def link_fresh(self) -> bool:
        """Whether the manager answered within three heartbeats."""
        return self.contact_at is not None and time.monotonic() - self.contact_at <= 3 * self.heartbeat_seconds

    def report(self) -> HealthReport:
        unhealthy = []
        if self.stalled:
            unhealthy.append(f"the main loop has been stuck for {self.lag_seconds:.0f} s")
        if self.failed_part:
            unhealthy.append(f"{self.failed_part} failed too often and was given up")
        return HealthReport(unhealthy=tuple(unhealthy), unready=tuple(self._unready()), registered=self.registered)

    def _unready(self) -> list[str]:
        reasons = []
        faults = self.link_faults()
        if not self.registered:
            reasons.append("not registered with the manager" + (f": {faults}" if faults else ""))
        elif not self.link_fresh:
            reasons.append("the manager has not answered lately" + (f": {faults}" if faults else ""))
        if self.lag_seconds > LAG_LIMIT_SECONDS:
            reasons.append(f"the main loop is {self.lag_seconds:.0f} s late")
        others = (self.certificate(), self.outbox_full(), self.spool_full(), self.draining, self.outdated)
        return reasons + [reason for reason in others if reason]


class Watchdog:
    """Tells systemd that the process is alive for as long as its main loop is not given up: a thread, entered as a context."""

    def __init__(self, notifier: Notifier, conditions: Conditions) -> None:
        self._notifier = notifier
        self._conditions = conditions
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._feed, name="watchdog", daemon=True)

    def __enter__(self) -> "Watchdog":
        if self._notifier.watchdog_seconds is not None:
            self._thread.start()
        return self

    def __exit__(self, *exit_details: object) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _feed(self) -> None:
        assert self._notifier.watchdog_seconds is not None
        while not self._conditions.stalled:
            self._notifier.alive()
            if self._ended.wait(self._notifier.watchdog_seconds / 2):
                return
