"""Programs that are killed, suspended, starved of disk and started again: one place each for a manager or a delegate."""

import asyncio
import contextlib
import resource
import signal
import sys
from pathlib import Path

from tests.process.harness import ROOT, clean_environment

CHILD = Path(__file__).with_name("child.py")
_PLENTY = resource.RLIM_INFINITY


class Life:
    """A program on a machine of its own: a state directory, a clock, a disk. `start` it as often as you like."""

    def __init__(self, name: str, role: str, directory: Path, environment: dict[str, str]) -> None:
        self.name = name
        self.starts = 0
        self._role = role
        self._environment = environment
        self._log = directory / f"{name}.log"
        self._clock = directory / f"{name}.clock"
        self._process: asyncio.subprocess.Process | None = None
        self._starting = asyncio.Lock()

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def exit_code(self) -> int | None:
        return None if self._process is None else self._process.returncode

    async def start(self) -> None:
        """Whoever calls it, and how many at once: there is one process."""
        async with self._starting:
            if not self.alive:
                await self._start()

    async def _start(self) -> None:
        self.starts += 1
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                str(CHILD),
                self._role,
                str(self._clock),
                cwd=ROOT,
                env={**clean_environment(), **self._environment},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=log,
            )

    def signal(self, number: signal.Signals) -> None:
        if self.alive and self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def kill(self) -> None:
        self.signal(signal.SIGKILL)
        if self._process is not None:
            await self._process.wait()

    async def end(self, within: float) -> None:
        """Asked politely, and not so politely after that."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        if self._process is not None:
            try:
                async with asyncio.timeout(within):
                    await self._process.wait()
            except TimeoutError:
                await self.kill()

    def set_clock(self, seconds: float) -> None:
        self._clock.write_text(str(seconds))

    def fill_disk(self, full: bool) -> None:
        """No file of this process can grow any more, as on a disk that is full; also not its log."""
        if self.alive and self._process is not None:
            limit = 1 if full else _PLENTY
            with contextlib.suppress(ProcessLookupError):  # it ended just now
                resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (limit, _PLENTY))

    def tail(self, lines: int = 15) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])
