"""Child processes, bounded in every way: time, output, environment, and what they leave behind.

Each child leads a session of its own. Its pipes are read all the time, so it never waits for us; a deadline or a
cancellation ends it and everything it started, politely first; nothing of it survives the call.
"""

import asyncio
import contextlib
import os
import secrets
import signal
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import msgspec

from delegate.engine.sources.errors import CommandNotFoundError, CommandOutputError, CommandTimeoutError
from delegate.engine.sources.outputs import BoundedOutput

_CHUNK_BYTES = 64 * 1024
_PIPE_GRACE_SECONDS = 2.0
"""How long pipes may stay open after the child has gone, before whoever holds them is ended."""
_KILL_SECONDS = 10.0
"""How long the kernel may take to end what was killed (a process in uninterruptible sleep doesn't end)."""
_MARKER = "DELEGATE_COMMAND_ID"
"""Marks every process of one command, so that those which left its session are found."""
_PASSED_ON = ("PATH", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "LD_PRELOAD", "NSS_WRAPPER_PASSWD", "NSS_WRAPPER_GROUP")
"""The last three give a user without a passwd entry one, see `foundation.passwd`."""


class Command(msgspec.Struct, frozen=True):
    """What to run. `environment` is all that the child sees; `descriptors` are open files that it inherits."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    directory: Path | None = None
    descriptors: tuple[int, ...] = ()
    grace_seconds: float = 5.0

    @property
    def program(self) -> str:
        return self.arguments[0]


class Completed(msgspec.Struct, frozen=True):
    """How a command ended. A negative `exit_code` is the signal that killed it."""

    exit_code: int
    stdout: bytes
    stderr: str
    seconds: float


def minimal_environment(outside: Mapping[str, str]) -> dict[str, str]:
    """What any child needs of our environment, and nothing else: above all, none of our tokens."""
    environment = {name: outside[name] for name in _PASSED_ON if outside.get(name)}
    environment.setdefault("PATH", os.defpath)
    return environment | {"LC_ALL": "C.UTF-8", "LANGUAGE": "C"}


class _Pipe(asyncio.ReadTransport):
    """A pipe that a child writes to and we read, through `reader`.

    asyncio's own pipes won't do: with them `Process.wait` returns when the last holder of a pipe has gone, not the child.
    Nor will `connect_read_pipe`: uvloop closes the descriptor, and then its number again, which may be another thread's
    file by then. So the descriptors are ours alone, and each is closed once.
    """

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._read_end, self.write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        self._open_ends = {self._read_end, self.write_end}
        self.reader = asyncio.StreamReader(limit=_CHUNK_BYTES)
        self.reader.set_transport(self)
        self.resume_reading()

    def pause_reading(self) -> None:
        if not self.is_closing():
            self._loop.remove_reader(self._read_end)

    def resume_reading(self) -> None:
        if not self.is_closing():
            self._loop.add_reader(self._read_end, self._read)

    def is_closing(self) -> bool:
        return self._read_end not in self._open_ends

    def close_write_end(self) -> None:
        """Once the child has its copy, so that its end is seen."""
        self._close(self.write_end)

    def close(self) -> None:
        """Closes both ends, however often it is called."""
        if not self.is_closing():
            self._loop.remove_reader(self._read_end)
            self.reader.feed_eof()
        for end in tuple(self._open_ends):
            self._close(end)

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            if chunk := os.read(self._read_end, _CHUNK_BYTES):
                self.reader.feed_data(chunk)
            else:
                self.close()

    def _close(self, end: int) -> None:
        if end in self._open_ends:
            self._open_ends.remove(end)
            os.close(end)


class Child:
    """A running command. Its standard error is collected all the time."""

    def __init__(
        self,
        command: Command,
        process: asyncio.subprocess.Process,
        *,
        marker: str,
        stdout: asyncio.StreamReader,
        stderr: asyncio.StreamReader | None,
        log: BoundedOutput,
    ) -> None:
        self._command = command
        self._process = process
        self._marker = marker
        self.stdout = stdout
        self.stderr = log
        self._stderr_reader = asyncio.ensure_future(_collect(stderr, log))

    @property
    def stdin(self) -> asyncio.StreamWriter:
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def pid(self) -> int:
        return self._process.pid

    async def write(self, data: bytes, *, last: bool = False) -> None:
        """Writes to the child's input; a child that has gone, or reads no more, is no fault here."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            if data:
                self.stdin.write(data)
                await self.stdin.drain()
            if last:
                self.stdin.close()

    async def wait(self, *readers: "asyncio.Future[bytes] | asyncio.Future[None]") -> int:
        """The exit code, once the child has ended and its pipes are read.

        `readers` are the tasks that read its standard output; a fault of theirs is raised at once. Pipes that somebody
        holds open after the child has gone are closed by ending whoever it is.
        """
        leaving = asyncio.ensure_future(self._process.wait())
        try:
            pending = {leaving, *readers}
            while leaving in pending:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        finally:
            leaving.cancel()
        _signal_group(self.pid, signal.SIGKILL)
        pipes = [self._stderr_reader, *readers]
        _, open_pipes = await asyncio.wait(pipes, timeout=_PIPE_GRACE_SECONDS)
        if open_pipes:
            await self._kill_strays()
            await asyncio.wait(pipes, timeout=_PIPE_GRACE_SECONDS)
        return leaving.result()

    async def end(self) -> None:
        """Ends the child and everything that it started: TERM, the grace, KILL. Returns when they are gone."""
        self.stdin.close()
        if self._process.returncode is None:
            _signal_group(self.pid, signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), self._command.grace_seconds)
        _signal_group(self.pid, signal.SIGKILL)
        await self._kill_strays()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), _KILL_SECONDS)
        await _drop(self._stderr_reader)

    async def _kill_strays(self) -> None:
        await asyncio.to_thread(_kill_marked, self._marker)


@contextlib.asynccontextmanager
async def start_command(command: Command, *, stderr: BoundedOutput | None = None, merged: bool = False) -> AsyncIterator[Child]:
    """Starts a command; whatever way the block is left, nothing of it runs on.

    `merged` sends its standard error along with its standard output. Raises CommandNotFoundError. Cancellation is passed
    on once the child has ended.
    """
    marker = secrets.token_hex(16)
    log = stderr if stderr is not None else BoundedOutput()
    with contextlib.closing(_Pipe()) as stdout, contextlib.closing(stdout if merged else _Pipe()) as errors:
        process = await _spawn(command, marker, stdout, errors)
        child = Child(command, process, marker=marker, stdout=stdout.reader, stderr=None if merged else errors.reader, log=log)
        try:
            yield child
        finally:
            await _see_through(asyncio.ensure_future(child.end()))


async def run_command(
    command: Command, *, timeout: float, stdin: bytes = b"", stdout_limit: int = 16 * 1024 * 1024, stderr: BoundedOutput | None = None
) -> Completed:
    """Runs a command to its end and returns all of its output.

    Raises CommandNotFoundError; CommandTimeoutError after `timeout` seconds; CommandOutputError where it prints more
    than `stdout_limit` bytes, because half an output is none. Pass `stderr` to keep it also when the call is cancelled.
    """
    started = time.monotonic()
    try:
        async with asyncio.timeout(timeout), start_command(command, stderr=stderr) as child:
            writing = asyncio.ensure_future(child.write(stdin, last=True))
            reading = asyncio.ensure_future(_read_all(child.stdout, stdout_limit, command))
            try:
                code = await child.wait(reading)
                if not reading.done():
                    raise CommandOutputError(f"{command.program} has ended, but somebody holds its output open")
            finally:
                await _drop(writing, reading)
    except TimeoutError as error:
        raise _timed_out(command, timeout) from error
    return Completed(code, reading.result(), child.stderr.text(), time.monotonic() - started)


async def run_logged(command: Command, *, timeout: float, log: BoundedOutput) -> int:
    """Runs a command whose output is for people: both of its streams go to `log`, which drops the middle.

    Returns the exit code. Raises CommandNotFoundError and CommandTimeoutError; `log` holds what was printed so far also
    then, and when the call is cancelled.
    """
    try:
        async with asyncio.timeout(timeout), start_command(command, merged=True) as child:
            await child.write(b"", last=True)
            reading = asyncio.ensure_future(_collect(child.stdout, log))
            try:
                code = await child.wait(reading)
            finally:
                await _drop(reading)
    except TimeoutError as error:
        raise _timed_out(command, timeout) from error
    return code


async def _spawn(command: Command, marker: str, stdout: _Pipe, stderr: _Pipe) -> asyncio.subprocess.Process:
    spawning = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *command.arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=stdout.write_end,
            stderr=stderr.write_end,
            env={**command.environment, _MARKER: marker},
            cwd=command.directory,
            start_new_session=True,
            pass_fds=command.descriptors,
        )
    )
    try:
        return await asyncio.shield(spawning)
    except asyncio.CancelledError:
        # The child may be half way into being: it is waited for, or nobody would end it.
        with contextlib.suppress(OSError):
            process = await spawning
            _signal_group(process.pid, signal.SIGKILL)
            await process.wait()
        raise
    except OSError as error:
        where = f" in {command.directory}" if command.directory and not command.directory.is_dir() else ""
        raise CommandNotFoundError(
            f"{command.program} can't be started{where}: {os.strerror(error.errno or 0)}",
            hint=f"install {command.program}, or add it to PATH",
        ) from error
    finally:
        stdout.close_write_end()
        stderr.close_write_end()


async def _collect(stream: asyncio.StreamReader | None, output: BoundedOutput) -> None:
    while stream is not None and (chunk := await stream.read(_CHUNK_BYTES)):
        output.feed(chunk)
    output.close()


async def _read_all(stream: asyncio.StreamReader, limit: int, command: Command) -> bytes:
    parts, size = [], 0
    while chunk := await stream.read(_CHUNK_BYTES):
        size += len(chunk)
        if size > limit:
            raise CommandOutputError(f"{command.program} printed more than {limit} bytes")
        parts.append(chunk)
    return b"".join(parts)


async def _drop(*tasks: "asyncio.Future[bytes] | asyncio.Future[None]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _see_through(cleanup: "asyncio.Future[None]") -> None:
    """Waits for a cleanup that must not be left half done; a cancellation that comes meanwhile is raised after it."""
    cancelled: asyncio.CancelledError | None = None
    while not cleanup.done():
        try:
            await asyncio.shield(cleanup)
        except asyncio.CancelledError as error:
            cancelled = error
    cleanup.result()
    if cancelled is not None:
        raise cancelled


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _kill_marked(marker: str) -> None:
    for pid in _marked(f"{_MARKER}={marker}".encode()):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _marked(marker: bytes) -> Iterator[int]:
    """The processes that carry the marker in their environment. Only Linux tells; elsewhere there are none."""
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdigit():
                with contextlib.suppress(OSError):
                    if marker in Path("/proc", name, "environ").read_bytes():
                        yield int(name)


def _timed_out(command: Command, timeout: float) -> CommandTimeoutError:
    return CommandTimeoutError(f"{command.program} took longer than {timeout:g} s and was ended")
