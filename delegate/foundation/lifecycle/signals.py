"""Signals of the operating system, turned into stop requests."""

import asyncio
import contextlib
import signal
from collections.abc import Iterator

import structlog

from delegate.foundation.lifecycle.stops import StopReason, StopRequests

log = structlog.get_logger(__name__)
_REASONS = {signal.SIGTERM: StopReason.SIGTERM, signal.SIGINT: StopReason.SIGINT}


@contextlib.contextmanager
def stop_on_signals(stops: StopRequests) -> Iterator[None]:
    """Has SIGTERM and SIGINT request a stop: the first drains, the second hurries. For the main thread's running loop."""
    loop = asyncio.get_running_loop()

    def receive(number: signal.Signals) -> None:
        log.info("stop.signal_received", signal=number.name, again=stops.requested)
        stops.request(_REASONS[number])

    for number in _REASONS:
        loop.add_signal_handler(number, receive, number)
    try:
        yield
    finally:
        for number in _REASONS:
            loop.remove_signal_handler(number)
