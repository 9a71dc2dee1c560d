"""Child processes of a benchmark: started, heard, measured, and gone when it ends."""

import asyncio
import contextlib
import os
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from benchmarks.errors import ChildEndedError
from delegate.model.resources import JsonObject

_REMEMBERED_LINES = 40
_LONGEST_LINE = 2**20
_END_SECONDS = 15.0


class Usage(msgspec.Struct, frozen=True):
    """Of one process, as the kernel counts it: `cpu_seconds` of all its threads since its start."""

    rss_bytes: int
    cpu_seconds: float


class Child:
    """A process that tells of itself in JSON lines."""

    def __init__(self, process: asyncio.subprocess.Process, started_at: float, stream: asyncio.StreamReader, words: str) -> None:
        self.started_at = started_at
        self._process = process
        self._stream = stream
        self._words = words
        self._seen: deque[str] = deque(maxlen=_REMEMBERED_LINES)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def hear(self, event: str, *, within: float) -> tuple[JsonObject, float]:
        """The next line of that `event`, and when it came (monotonic). Lines before it are passed over. Raises ChildEndedError."""
        try:
            async with asyncio.timeout(within):
                while line := await self._stream.readline():
                    heard_at = time.monotonic()
                    self._seen.append(line.decode(errors="replace").rstrip())
                    with contextlib.suppress(msgspec.DecodeError):
                        body = msgspec.json.decode(line)
                        if isinstance(body, dict) and body.get("event") == event:
                            return body, heard_at
        except TimeoutError:
            raise ChildEndedError(f"{self._words} did not say {event} within {within:g} s:\n" + "\n".join(self._seen)) from None
        raise ChildEndedError(f"{self._words} ended before it said {event}:\n" + "\n".join(self._seen))

    @contextlib.asynccontextmanager
    async def drained(self) -> AsyncIterator[None]:
        """Reads on and forgets while inside, so that the process is never kept from writing."""
        reading = asyncio.create_task(self._forget())
        try:
            yield
        finally:
            reading.cancel()
            await asyncio.wait([reading])

    async def _forget(self) -> None:
        while await self._stream.read(65536):
            pass

    def usage(self) -> Usage:
        """Raises OSError where it has ended, and where the system has no /proc."""
        process = Path("/proc") / str(self.pid)
        # Fields 14 and 15 of proc_pid_stat(5), counted behind the name, which may hold spaces.
        fields = (process / "stat").read_text().rpartition(")")[2].split()
        ticks = int(fields[11]) + int(fields[12])
        pages = int((process / "statm").read_text().split()[1])
        return Usage(pages * os.sysconf("SC_PAGE_SIZE"), ticks / os.sysconf("SC_CLK_TCK"))


@contextlib.asynccontextmanager
async def running(
    arguments: Sequence[str], *, environment: Mapping[str, str] | None = None, hears: str = "stdout", log: Path | None = None
) -> AsyncIterator[Child]:
    """A Python child process (`python ARGUMENTS`). `hears` is the stream that its JSON lines come on; the other goes to `log`.

    At the end its standard input is closed, and it gets SIGTERM, and then SIGKILL.
    """
    with _appending(log) as other:
        started_at = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE if hears == "stdout" else other,
            stderr=asyncio.subprocess.PIPE if hears == "stderr" else other,
            env={**clean_environment(), **(environment or {})},
            limit=_LONGEST_LINE,
        )
    stream = process.stdout if hears == "stdout" else process.stderr
    assert stream is not None
    child = Child(process, started_at, stream, f"python {' '.join(arguments)}")
    try:
        yield child
    finally:
        await _end(process, child)


def _appending(log: Path | None) -> BinaryIO:
    return open(log or os.devnull, "ab")


async def _end(process: asyncio.subprocess.Process, child: Child) -> None:
    async with child.drained():
        try:
            async with asyncio.timeout(_END_SECONDS):
                with contextlib.suppress(ProcessLookupError):
                    process.terminate()
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


async def run(arguments: Sequence[str], *, within: float, environment: Mapping[str, str] | None = None) -> tuple[int, str, float]:
    """Any program to its end: exit code, what it wrote, seconds. Raises ChildEndedError when it takes longer than `within`."""
    began = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**clean_environment(), **(environment or {})},
    )
    try:
        async with asyncio.timeout(within):
            output, _ = await process.communicate()
    except TimeoutError:
        raise ChildEndedError(f"{arguments[0]} took longer than {within:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode or 0, output.decode(errors="replace"), time.monotonic() - began


def clean_environment() -> dict[str, str]:
    """Without settings of whoever runs the benchmark: they would be the child's too."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("DELEGATE_", "KUBE"))}
