"""Real child processes: delegates and managers that are signalled, killed, and started again."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import delegate
from delegate.manager.settings import Rhythm
from tests.daemon.harness import QUICK_RHYTHM, Operator, running_manager
from tests.daemon.waiting import eventually

ROOT = Path(delegate.__file__).parent.parent
CHILD = Path(__file__).with_name("child.py")


@dataclass
class Child:
    """A process with its standard error in a file."""

    process: asyncio.subprocess.Process
    errors: Path

    def text(self) -> str:
        return self.errors.read_text(errors="replace")

    def logs(self, event: str = "") -> list[dict[str, Any]]:
        """The log lines, those of one event where it is named."""
        lines = [json.loads(line) for line in self.text().splitlines() if line.startswith("{") and line.endswith("}")]
        return [line for line in lines if not event or line["event"] == event]

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def logged(self, event: str, *, within: float = 20.0) -> dict[str, Any]:
        """The first line of this event, once it is there."""
        await eventually(lambda: self.logs(event) or self.process.returncode is not None, within=within)
        found = self.logs(event)
        assert found, f"ended with {self.process.returncode} before {event}:\n{self.text()}"
        return found[0]

    async def ended(self, *, within: float = 30.0) -> int:
        """The exit code."""
        async with asyncio.timeout(within):
            return await self.process.wait()

    async def kill(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()


def clean_environment() -> dict[str, str]:
    """Without what is meant for whoever runs the tests."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("DELEGATE_", "NOTIFY_", "WATCHDOG_"))}
    return {**inherited, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}


@asynccontextmanager
async def started(errors: Path, *arguments: str, **environment: str) -> AsyncIterator[Child]:
    """Python with these arguments; killed at the end if it still runs."""
    with errors.open("ab") as file:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *arguments,
            cwd=ROOT,
            env={**clean_environment(), **environment},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=file,
        )
    child = Child(process, errors)
    try:
        yield child
    finally:
        await child.kill()


def delegate_variables(url: str, token: str, state: Path, **variables: str) -> dict[str, str]:
    return {
        "DELEGATE_MANAGER_URL": url,
        "DELEGATE_TOKEN": token,
        "DELEGATE_STATE_DIR": str(state),
        "DELEGATE_DLQ_DIR": str(state / "dead-letters"),
        "DELEGATE_HTTP_PORT": "0",
        "DELEGATE_HTTP_HOST": "127.0.0.1",
        "DELEGATE_DRAIN_TIMEOUT": "5s",
        **variables,
    }


@asynccontextmanager
async def child_delegate(directory: Path, url: str, token: str, *, name: str = "first", **variables: str) -> AsyncIterator[Child]:
    """A daemon with the work of `child.py`, registered. `directory/NAME` is its state, `directory/effects` what its tasks did."""
    environment = delegate_variables(url, token, directory / name, EFFECTS_FILE=str(directory / "effects"), **variables)
    async with started(directory / f"{name}.log", str(CHILD), "run", **environment) as child:
        opened = len(child.logs("session.opened"))
        await eventually(lambda: len(child.logs("session.opened")) > opened or child.process.returncode is not None, within=20.0)
        assert child.process.returncode is None, child.text()
        yield child


@asynccontextmanager
async def managed_delegate(directory: Path, *, rhythm: Rhythm = QUICK_RHYTHM, **variables: str) -> AsyncIterator[tuple[Operator, Child]]:
    """A manager in this process and a registered daemon in a child of it."""
    async with running_manager(directory, rhythm=rhythm) as operator:
        token = await operator.token()
        async with child_delegate(directory, operator.manager.url, token, **variables) as child:
            yield operator, child


@asynccontextmanager
async def plain_delegate(directory: Path, *arguments: str, **variables: str) -> AsyncIterator[Child]:
    """`python -m delegate run`, as people start it."""
    async with started(directory / "delegate.log", "-m", "delegate", "run", *arguments, **variables) as child:
        yield child


def effects(directory: Path, word: str = "") -> list[str]:
    """What the tasks did: the lines that begin with a word."""
    path = directory / "effects"
    lines = path.read_text().splitlines() if path.exists() else []
    return [line for line in lines if line.startswith(word)]
