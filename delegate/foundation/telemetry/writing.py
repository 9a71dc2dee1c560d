"""Writes log lines from a thread of its own, so that a slow or stuck reader never holds up the event loop."""

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from typing import BinaryIO

_MOST_LINES = 10_000
_BATCH_LINES = 256


class LineWriter:
    """A bounded queue of lines and the thread that writes them.

    `write` never blocks and never raises; a line that finds the queue full is dropped and counted, and once there is
    room again `on_dropped(count)` makes the line that says so.
    """

    def __init__(self, stream: BinaryIO, *, most_lines: int = _MOST_LINES, on_dropped: Callable[[int], bytes] | None = None) -> None:
        self._stream = stream
        self._queue: queue.Queue[bytes | None] = queue.Queue(most_lines)
        self._on_dropped = on_dropped
        self._unreported = 0
        self._lost = threading.Lock()
        self._dropped = 0
        self._thread = threading.Thread(target=self._run, name="log-writer", daemon=True)
        self._thread.start()

    @property
    def dropped(self) -> int:
        """Lines dropped so far."""
        return self._dropped

    def write(self, line: bytes) -> None:
        """Queues a line (without its newline)."""
        try:
            self._queue.put_nowait(line)
        except queue.Full:
            self._count_lost(1)

    def close(self, timeout: float = 2.0) -> None:
        """Writes what is queued and ends the thread; gives up after `timeout` seconds if nobody reads."""
        give_up_at = time.monotonic() + timeout
        try:
            self._queue.put(None, timeout=timeout)
        except queue.Full:
            return
        self._thread.join(max(0.0, give_up_at - time.monotonic()))

    def _count_lost(self, lines: int) -> None:
        # Critical section: loggers of several threads, and the writer itself, count.
        with self._lost:
            self._dropped += lines
            self._unreported += lines

    def _run(self) -> None:
        ended = False
        while not ended:
            batch = [self._queue.get()]
            with contextlib.suppress(queue.Empty):
                while len(batch) < _BATCH_LINES:
                    batch.append(self._queue.get_nowait())
            lines = [line for line in batch if line is not None]
            ended = len(lines) < len(batch)
            with self._lost:
                unreported, self._unreported = self._unreported, 0
            if unreported and self._on_dropped is not None:
                lines.append(self._on_dropped(unreported))
            if lines:
                self._put_out(lines)

    def _put_out(self, lines: list[bytes]) -> None:
        try:
            self._stream.write(b"\n".join(lines) + b"\n")
            self._stream.flush()
        except (OSError, ValueError):  # a closed pipe or stream: there is nobody left to tell
            self._count_lost(len(lines))
