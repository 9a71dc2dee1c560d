"""Watches an event loop from another thread: how late it runs, and what holds it up.

The loop ticks; the thread compares when the last tick was with when the next one was due. So the lag is seen while the
loop is stuck, which nothing inside the loop can do.
"""

import asyncio
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import TracebackType

import structlog

log = structlog.get_logger(__name__)


class LoopMonitor:
    """The lag of the loop it is entered in. A context manager; `lag_seconds` and `stalled` may be asked from any thread.

    A lag of `report_after` seconds is logged once a stall with the stack of what runs, and again with its length when it is
    over; `on_stall(stack)` is called from the watching thread.
    """

    def __init__(
        self,
        *,
        interval: float = 0.25,
        report_after: float = 1.0,
        on_stall: Callable[[str], None] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._interval = interval
        self._report_after = report_after
        self._on_stall = on_stall
        self._monotonic = monotonic
        self._due = monotonic() + interval
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="loop-monitor", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread = 0
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> "LoopMonitor":
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._tick()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ended.set()
        if self._timer is not None:
            self._timer.cancel()
        self._thread.join()

    def lag_seconds(self) -> float:
        """How late the loop is right now; 0 while it keeps up."""
        return max(0.0, self._monotonic() - self._due)

    def stalled(self, limit: float) -> bool:
        """Whether the loop has been stuck for longer than `limit` seconds."""
        return self.lag_seconds() > limit

    def _tick(self) -> None:
        assert self._loop is not None
        self._due = self._monotonic() + self._interval
        self._timer = self._loop.call_later(self._interval, self._tick)

    def _watch(self) -> None:
        worst = 0.0
        while not self._ended.wait(self._interval):
            lag = self.lag_seconds()
            if lag >= self._report_after and not worst:
                self._report(lag)
            if lag >= self._report_after:
                worst = max(worst, lag)
            elif worst:
                log.warning("loop.recovered", lag_seconds=round(worst, 3))
                worst = 0.0

    def _report(self, lag: float) -> None:
        frame = sys._current_frames().get(self._loop_thread)
        stack = "".join(traceback.format_stack(frame)) if frame is not None else ""
        log.warning("loop.stalled", lag_seconds=round(lag, 3), stack=stack)
        if self._on_stall is not None:
            self._on_stall(stack)
