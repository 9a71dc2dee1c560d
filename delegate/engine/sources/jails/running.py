"""Runs a renderer in a jail: a private directory that it may write to, its own program, the system's libraries, no more."""

import asyncio
import contextlib
import json
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from delegate.engine.sources.commands import Command, Completed, run_command
from delegate.engine.sources.errors import (
    CacheDirectoryError,
    CommandOutputError,
    CommandTimeoutError,
    JailError,
    RenderLimitError,
    RenderTimeoutError,
)
from delegate.engine.sources.jails import launcher
from delegate.engine.sources.jails.hatches import Serve, open_hatch
from delegate.engine.sources.limits import MEBIBYTE
from delegate.engine.sources.outputs import BoundedOutput

_SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/nix/store", "/dev/null")
"""What a program needs to start where it is not linked statically. Nobody's secrets are kept there."""
_STDERR_BYTES = 256 * 1024
_STALE_SECONDS = 24 * 3600.0
_OUT_OF_MEMORY = ("out of memory", "cannot allocate memory", "failed to create new OS thread", "failed to reserve", "cannot map pages")
_RUNTIME_SIGNAL = re.compile(r"^(?:SIGSEGV|SIGBUS|SIGABRT|SIGTRAP|fatal error|fatal): ", re.MULTILINE)
_SIGXCPU, _SIGXFSZ, _SIGKILL = 24, 25, 9


class RenderLimits(msgspec.Struct, frozen=True):
    """What one renderer may take. It is ended at its `seconds` or the caller's deadline, whichever comes first.

    `at_once` is how many run at the same time in one process, so `at_once` times `memory_bytes` is what all of them take.
    """

    memory_bytes: int = 512 * MEBIBYTE
    processor_seconds: int = 120
    seconds: float = 180.0
    output_bytes: int = 48 * MEBIBYTE
    file_bytes: int = 64 * MEBIBYTE
    at_once: int = 2


class Jail(msgspec.Struct, frozen=True):
    """A place to run in. `inside` is the directory that holds what is rendered, empty at first."""

    directory: Path
    limits: RenderLimits

    @property
    def inside(self) -> Path:
        return self.directory / "source"

    def home(self, name: str) -> Path:
        """A directory that a program takes for one of a user's own; it is empty."""
        return self.directory / "home" / name


@asynccontextmanager
async def open_jail(parent: Path, limits: RenderLimits) -> AsyncIterator[Jail]:
    """A fresh private directory below `parent`, which is gone afterwards. Raises CacheDirectoryError."""
    try:
        directory = await asyncio.to_thread(_make, parent)
    except OSError as error:
        words = f"{parent}: no directory can be made to render in: {error.strerror}"
        raise CacheDirectoryError(words, hint="make the state directory writable, or make room") from error
    try:
        yield Jail(directory, limits)
    finally:
        # A thread that is not waited for would outlive a cancelled caller, and so it should: nothing must stay.
        await asyncio.shield(asyncio.to_thread(shutil.rmtree, directory, True))


async def run_jailed(
    program: Path,
    arguments: Sequence[str],
    jail: Jail,
    *,
    timeout: float,
    environment: Mapping[str, str] | None = None,
    reads: Sequence[str] = (),
    serve: Serve | None = None,
) -> Completed:
    """Runs a program in a jail, its current directory `jail.inside`. How it ended is for the caller to judge.

    `reads` are further paths that it may read and execute. With `serve`, every connection that it makes, wherever to, ends at
    that (see `hatches`); without, it makes none.

    Raises RenderTimeoutError, RenderLimitError (memory, processor time, output), JailError, CommandNotFoundError.
    """
    limits = jail.limits
    settings = {
        "memory": limits.memory_bytes,
        "seconds": limits.processor_seconds,
        "file_bytes": limits.file_bytes,
        "reads": [*_SYSTEM, str(program), *reads],
        "writes": [str(jail.directory), "/dev/null"],
    }
    async with open_hatch(serve) as hatch:
        settings |= {} if hatch is None else {"hatch": hatch}
        completed = await _run((str(program), *arguments), jail, settings, timeout=timeout, environment=environment or {})
    _check_ending(program.name, completed, limits)
    return completed


async def _run(
    called: Sequence[str], jail: Jail, settings: Mapping[str, object], *, timeout: float, environment: Mapping[str, str]
) -> Completed:
    limits, hatch, name = jail.limits, settings.get("hatch"), Path(called[0]).name
    if not sys.executable:
        raise JailError("there is no interpreter to set up a jail with", hint="run from an installed interpreter")
    start = (sys.executable, "-I", "-S", "-B", str(Path(launcher.__file__)), json.dumps(settings), *called)
    command = Command(
        start,
        _environment(jail) | dict(environment),
        directory=jail.inside,
        grace_seconds=0.5,
        descriptors=(hatch,) if isinstance(hatch, int) else (),
    )
    seconds = min(timeout, limits.seconds)
    stderr = BoundedOutput(_STDERR_BYTES)
    try:
        return await run_command(command, timeout=seconds, stdout_limit=limits.output_bytes, stderr=stderr)
    except CommandTimeoutError as error:
        raise RenderTimeoutError(f"{name} took longer than {seconds:g} s and was ended") from error
    except CommandOutputError as error:
        raise RenderLimitError(f"{name} rendered more than {limits.output_bytes} bytes") from error


def _check_ending(name: str, completed: Completed, limits: RenderLimits) -> None:
    if completed.exit_code == launcher.EXIT_CODE and completed.stderr.startswith(launcher.MARKER):
        words = completed.stderr.removeprefix(launcher.MARKER).strip()
        raise JailError(f"{name} can't be shut in: {words}", hint="renderers run on Linux with seccomp, or not at all")
    if completed.exit_code == 0:
        return
    if any(words in completed.stderr for words in _OUT_OF_MEMORY) or _runtime_died(completed):
        raise RenderLimitError(f"{name} needs more than {limits.memory_bytes} bytes of memory")
    if -completed.exit_code in (_SIGXCPU, _SIGKILL):
        # The kernel kills at the hard limit of processor time, and also whom it chooses when memory runs out.
        raise RenderLimitError(f"{name} was ended by the system: more than {limits.processor_seconds} s of work, or too little memory")
    if -completed.exit_code == _SIGXFSZ:
        raise RenderLimitError(f"{name} writes a file of more than {limits.file_bytes} bytes")


def _runtime_died(completed: Completed) -> bool:
    """Whether it was a Go program's runtime that broke down, not the program: it doesn't check all of its own allocations.

    A program's own faults are panics of a goroutine with a number; 0 is the runtime's.
    """
    if -completed.exit_code in (signal.SIGSEGV, signal.SIGBUS):
        return True
    return _RUNTIME_SIGNAL.search(completed.stderr) is not None and "\ngoroutine 0 " in completed.stderr


def _environment(jail: Jail) -> dict[str, str]:
    return {
        "HOME": str(jail.home("user")),
        "TMPDIR": str(jail.home("tmp")),
        "PATH": "",
        "TZ": "UTC",
        "LC_ALL": "C.UTF-8",
        "GOMAXPROCS": "2",
        "GOTRACEBACK": "none",
        # Collects more eagerly as the limit comes near, which it would not know of.
        "GOMEMLIMIT": str(jail.limits.memory_bytes * 3 // 4),
    }


def _make(parent: Path) -> Path:
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _remove_stale(parent)
    directory = Path(tempfile.mkdtemp(dir=parent))
    for name in ("source", "home/user", "home/tmp"):
        (directory / name).mkdir(parents=True)
    return directory


def _remove_stale(parent: Path) -> None:
    """What processes left that were killed; others may be rendering beside us."""
    for old in parent.iterdir():
        with contextlib.suppress(FileNotFoundError):  # theirs is gone just now
            if time.time() - old.stat(follow_symlinks=False).st_mtime > _STALE_SECONDS:
                shutil.rmtree(old, ignore_errors=True)
