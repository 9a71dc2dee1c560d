"""Progress of a running task for people, on standard error: redrawn in place on a terminal, plain lines elsewhere.

`Steps` gathers the events of an attempt into what can be shown; it draws nothing. The two views draw it.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import click

from delegate.model.resources import JsonObject

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

STEP_WORDS = {
    "resolve": "find the revision",
    "render": "read the manifests",
    "plan": "compare with the cluster",
    "apply": "apply",
    "wait": "wait until healthy",
    "prune": "prune",
    "steps": "go through the canary's steps",
    "verify": "verify",
    "revert": "take the commit back",
}
"""What the steps of a task are called for people, in their order."""
_SHOWN_PENDING = 5
_REFRESHES_PER_SECOND = 8
_LONGEST_WORDS = 200
_SETTLED = ("Healthy", "Suspended")


class Progress(Protocol):
    """What a running attempt is told to. `report` never blocks and never raises."""

    def report(self, event: str, data: JsonObject) -> None: ...

    def stopping(self) -> None:
        """A stop was requested; the attempt puts things in order."""
        ...


@dataclass
class Step:
    """One step of the attempt. `detail` is what is known of it so far; `open_since` is None while it isn't at work."""

    name: str
    detail: str = ""
    seconds: float = 0.0
    open_since: float | None = None

    @property
    def words(self) -> str:
        return STEP_WORDS.get(self.name, self.name)

    def seconds_at(self, now: float) -> float:
        """How long it has been at work, all its times together: waves go from applying to waiting and back."""
        return self.seconds if self.open_since is None else self.seconds + now - self.open_since

    def close(self, now: float) -> None:
        self.seconds, self.open_since = self.seconds_at(now), None


class Steps:
    """Events gathered: the steps so far, in order of their beginning, and what is waited for with the cluster's words."""

    def __init__(self) -> None:
        self.steps: dict[str, Step] = {}
        self.pending: dict[str, str] = {}
        self.stopping = False
        self._written = 0
        self._writes = 0
        self._pruned = 0
        self._prunes = 0

    def take(self, event: str, data: JsonObject, now: float) -> str:
        """Takes an event in. Answers a line about it for where nothing can be redrawn; empty if it's not worth one."""
        name, _, happened = event.rpartition(".")
        if happened == "started":
            return self._begin(name, now)
        match event:
            case "source.resolved":
                return self._tell("resolve", str(data.get("revision", ""))[:12])
            case "plan.made":
                return self._plan(data)
            case "object.written":
                self._written += 1
                self._begin("apply", now)
                self._tell("apply", f"{self._written} of {max(self._writes, self._written)}")
                return f"{data.get('action', 'written')} {data.get('object', '')}"
            case "object.pruned":
                self._pruned += 1
                self._tell("prune", f"{self._pruned} of {max(self._prunes, self._pruned)}")
                return f"pruned {data.get('object', '')}"
            case "object.health":
                return self._health(data)
            case "canary.moved":
                return self._tell("steps", str(data.get("words", "")))
            case "check.read":
                return f"{data.get('check', '')} {data.get('verdict', '')}: {data.get('reason', '')}"
            case _:
                return ""

    def end(self, now: float) -> None:
        """Nothing more comes."""
        for step in self.steps.values():
            step.close(now)

    def _begin(self, name: str, now: float) -> str:
        """Only one step is at work at a time."""
        step = self.steps.setdefault(name, Step(name))
        if step.open_since is not None:
            return ""
        self.end(now)
        self.pending.clear()
        step.open_since = now
        return step.words

    def _tell(self, name: str, words: str) -> str:
        if name in self.steps:
            self.steps[name].detail = words
        return words

    def _plan(self, data: JsonObject) -> str:
        self._writes, self._prunes = _count(data, "writes"), _count(data, "prunes")
        objects = _count(data, "objects")
        words = [f"{objects} object{'' if objects == 1 else 's'}", f"{self._writes} to write" if self._writes else "nothing to write"]
        if self._prunes:
            words.append(f"{self._prunes} to prune")
        return self._tell("plan", ", ".join(words))

    def _health(self, data: JsonObject) -> str:
        name, status = str(data.get("object", "")), str(data.get("status", ""))
        if status in _SETTLED:
            self.pending.pop(name, None)
            return f"{name} is {status}"
        why = str(data.get("message") or data.get("reason") or "")
        words = f"{status}: {why}" if why else status
        self.pending[name] = words if len(words) <= _LONGEST_WORDS else words[: _LONGEST_WORDS - 1] + "…"
        return f"{name} is {self.pending[name]}"


def _count(data: JsonObject, name: str) -> int:
    value = data.get(name, 0)
    return value if isinstance(value, int) else 0


class SilentProgress:
    """For programs: nothing is told."""

    def report(self, event: str, data: JsonObject) -> None:
        pass

    def stopping(self) -> None:
        pass


class LineProgress:
    """One line for each thing worth one, on standard error or output."""

    def __init__(self, *, err: bool = True) -> None:
        self._steps = Steps()
        self._err = err
        self._last = ""

    def report(self, event: str, data: JsonObject) -> None:
        line = self._steps.take(event, data, time.monotonic())
        if line and line != self._last:
            self._last = line
            click.echo(line, err=self._err)

    def stopping(self) -> None:
        click.echo("stopping; once more to hurry", err=self._err)


class LiveProgress:
    """The steps with a mark each, and below them what is waited for; gone when the command has its result to show."""

    def __init__(self, console: "Console") -> None:
        from rich.live import Live  # noqa: PLC0415 - only on a terminal
        from rich.spinner import Spinner  # noqa: PLC0415

        self._steps = Steps()
        self._spinner = Spinner("dots")
        self._live = Live(
            get_renderable=self._draw, console=console, refresh_per_second=_REFRESHES_PER_SECOND, transient=True, redirect_stdout=False
        )

    def __enter__(self) -> "LiveProgress":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._steps.end(time.monotonic())
        self._live.stop()

    def report(self, event: str, data: JsonObject) -> None:
        self._steps.take(event, data, time.monotonic())

    def stopping(self) -> None:
        self._steps.stopping = True

    def _draw(self) -> "RenderableType":
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        grid, now = Table.grid(padding=(0, 1)), time.monotonic()
        if not self._steps.steps:  # a drawing of no line can't be redrawn in place
            grid.add_row(self._spinner, "begin", "", "")
        for step in list(self._steps.steps.values()):
            mark = Text("✓", style="green") if step.open_since is None else self._spinner
            grid.add_row(mark, step.words, Text(step.detail, style="cyan"), Text(f"{step.seconds_at(now):.1f} s", style="dim"))
        pending = list(self._steps.pending.items())
        for name, words in pending[:_SHOWN_PENDING]:
            grid.add_row("", Text(f"  {name}"), Text(words, style="yellow"), "")
        if len(pending) > _SHOWN_PENDING:
            grid.add_row("", f"  and {len(pending) - _SHOWN_PENDING} more", "", "")
        if self._steps.stopping:
            grid.add_row("", Text("stopping; once more to hurry", style="yellow"), "", "")
        return grid


@contextmanager
def shown_progress(*, lines: bool, err: bool = True) -> Iterator[Progress]:
    """Progress as fits the stream: redrawn on a terminal, else as lines where those are wanted, else none."""
    stream = sys.stderr if err else sys.stdout
    if not stream.isatty() or os.environ.get("TERM") == "dumb":
        yield LineProgress(err=err) if lines else SilentProgress()
        return
    from rich.console import Console  # noqa: PLC0415 - only on a terminal

    with LiveProgress(Console(stderr=err)) as live:
        yield live
