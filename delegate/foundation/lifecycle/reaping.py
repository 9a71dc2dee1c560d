"""Orphans of tasks: a process that is the first of its container is given every child that lost its parent, and has to see it off.

`git` and `helm` start helpers that start others; what they leave behind becomes a zombie until somebody asks how it ended. Asking for
just any child (`waitpid(-1)`) would take the exit codes of our own from whoever waits for them. So only what was a zombie for two looks
is asked for, one by one: our own are asked for within a turn of the event loop, which lies between the looks.
"""

import asyncio
import contextlib
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

import structlog

log = structlog.get_logger(__name__)
_LOOK_SECONDS = 0.5
_PR_GET_CHILD_SUBREAPER = 37
_ZOMBIE = b"Z"


def adopts_orphans() -> bool:
    """Whether orphans become children of this process: it is the first of its container, or a subreaper. Linux alone tells."""
    if os.getpid() == 1:
        return True
    answer = ctypes.c_int(0)
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(answer), 0, 0, 0) == 0:
            return bool(answer.value)
    return False


class Reaper:
    """`run` it in the loop that starts the children, for as long as the process lives; elsewhere than in a container it does nothing."""

    def __init__(self, *, look_seconds: float = _LOOK_SECONDS) -> None:
        self._look_seconds = look_seconds
        self._seen: set[tuple[int, str]] = set()
        self.reaped = 0

    async def run(self) -> None:
        if not adopts_orphans():
            await asyncio.Event().wait()
        while True:
            await asyncio.sleep(self._look_seconds)
            self.look()

    def look(self) -> None:
        """Sees off what was a zombie at the last look too."""
        zombies = set(_zombies())
        for pid, _ in zombies & self._seen:
            with contextlib.suppress(ChildProcessError):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    self.reaped += 1
                    log.debug("orphan.reaped", pid=pid, status=status)
        self._seen = zombies


def _zombies() -> Iterator[tuple[int, str]]:
    """Children of this process that have ended and were not asked for, each with the time of its start: numbers are used again."""
    for pid in _children():
        with contextlib.suppress(OSError, ValueError):
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()
            if fields[0] == _ZOMBIE:
                yield pid, fields[19].decode()


def _children() -> set[int]:
    """Of every thread of this process."""
    found: set[int] = set()
    with contextlib.suppress(OSError):
        for thread in os.listdir("/proc/self/task"):
            with contextlib.suppress(OSError):
                found.update(map(int, Path(f"/proc/self/task/{thread}/children").read_bytes().split()))
    return found
