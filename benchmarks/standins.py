"""The other ends that benchmarks start as processes of their own: `python -m benchmarks.standins NAME ARGUMENT`.

Each says `{"event": "ready", ...}` on standard output once it is there, and ends with SIGTERM or with its standard input, so
that none outlives the benchmark. `simulator` and `manager` are the project's own, `secured` is a manager that speaks TLS by itself;
`posts` is the raw limit of the queue; `delegate` is a delegate whose tasks do nothing, `fleet` several of them in one process; `waiting`
is an HTTP client that made one call and has nothing to do.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from delegate.cli.loops import loop_factory
from delegate.foundation.lifecycle.garbage import settle_garbage
from delegate.foundation.lifecycle.signals import stop_on_signals
from delegate.foundation.lifecycle.stops import StopReason, StopRequests

TIMED = "timed-"
"""Applications by such a name have the delegate say when their task began."""


def say(event: str, **fields: object) -> None:
    sys.stdout.write(msgspec.json.encode({"event": event, **fields}).decode() + "\n")
    sys.stdout.flush()


def _write_private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")


async def simulator(kubeconfig: str, stops: StopRequests) -> None:
    """A simulated cluster; its kubeconfig is written to the file given."""
    from delegate.simulator.server import Simulator  # noqa: PLC0415 - each child loads its own libraries only

    async with Simulator(tls=True) as running:  # kubectl sends no token in the clear
        _write_private(Path(kubeconfig), running.kubeconfig())
        say("ready", url=running.url)
        await stops.wait()


async def manager(state_dir: str, stops: StopRequests) -> None:
    """A manager on SQLite in the directory given."""
    from delegate.foundation.settings.sections import LogFormat, Logging, LogLevel  # noqa: PLC0415
    from delegate.foundation.telemetry import logs  # noqa: PLC0415
    from delegate.manager.service import Manager  # noqa: PLC0415

    with logs.configure(Logging(level=LogLevel.INFO, format=LogFormat.JSON)):
        async with Manager(state_dir=Path(state_dir)) as running:
            settle_garbage()
            say("ready", url=running.url)
            await stops.wait()


async def secured(state_dir: str, stops: StopRequests) -> None:
    """A manager on SQLite in the directory given, with TLS of its own authority and frequent heartbeats."""
    from delegate.foundation.settings.sections import LogFormat, Logging, LogLevel  # noqa: PLC0415
    from delegate.foundation.telemetry import logs  # noqa: PLC0415
    from delegate.manager.service import Manager  # noqa: PLC0415
    from delegate.manager.settings import Rhythm  # noqa: PLC0415

    with logs.configure(Logging(level=LogLevel.WARNING, format=LogFormat.JSON)):
        async with Manager(state_dir=Path(state_dir), tls_self=True, rhythm=Rhythm(heartbeat_seconds=0.5)) as running:
            say("ready", url=running.url)
            await stops.wait()


async def fleet(directory: str, stops: StopRequests) -> None:
    """Delegates by the environment's settings."""
    from benchmarks.fleets import run_fleet  # noqa: PLC0415
    from delegate.foundation.settings.sections import LogFormat, Logging, LogLevel  # noqa: PLC0415
    from delegate.foundation.telemetry import logs  # noqa: PLC0415

    def began(application: str) -> None:
        if application.startswith(TIMED):
            say("began", application=application, at=time.monotonic())

    with logs.configure(Logging(level=LogLevel.WARNING, format=LogFormat.JSON)):
        await run_fleet(Path(directory), stops, lambda event, status: say(event, **msgspec.to_builtins(status)), began)


async def delegate(state_dir: str, stops: StopRequests) -> None:
    """A delegate by the environment's settings; only its engine is none."""
    from benchmarks.idling import IdleEngine  # noqa: PLC0415
    from delegate.daemon.service import Daemon  # noqa: PLC0415
    from delegate.foundation.settings.loading import load  # noqa: PLC0415
    from delegate.foundation.settings.programs import DelegateSettings  # noqa: PLC0415
    from delegate.foundation.telemetry import logs  # noqa: PLC0415

    settings = load(DelegateSettings, flags={"state_dir": state_dir}).settings

    def began(application: str) -> None:
        if application.startswith(TIMED):
            say("began", application=application, at=time.monotonic())

    with logs.configure(settings.logging):
        daemon = Daemon(settings, lambda metrics: IdleEngine(began), stops)
        registered = asyncio.create_task(_tell_registered(daemon.registered))
        settle_garbage()
        await daemon.run()
        registered.cancel()


async def _tell_registered(registered: asyncio.Event) -> None:
    await registered.wait()
    say("ready")


async def crowd(_: str, stops: StopRequests) -> None:
    """The light delegates that the environment describes."""
    from benchmarks.crowds import run_crowd  # noqa: PLC0415
    from delegate.foundation.settings.sections import LogFormat, Logging, LogLevel  # noqa: PLC0415
    from delegate.foundation.telemetry import logs  # noqa: PLC0415

    with logs.configure(Logging(level=LogLevel.ERROR, format=LogFormat.JSON)):  # thousands that tell of one outage are no measurement
        await run_crowd(stops, say)


async def posts(database: str, stops: StopRequests) -> None:
    """Bodies by POST, answered when they are on disk."""
    from benchmarks.posting import serving  # noqa: PLC0415

    async with serving(database) as url:
        say("ready", url=url)
        await stops.wait()


async def waiting(url: str, stops: StopRequests) -> None:
    """The least that a client of this kind is: one call, and then nothing."""
    import aiohttp  # noqa: PLC0415

    async with aiohttp.ClientSession() as session:
        async with session.get(url) as response:
            await response.read()
        say("ready", status=response.status)
        await stops.wait()


CHILDREN: dict[str, Callable[[str, StopRequests], Awaitable[None]]] = {
    each.__name__: each for each in (simulator, manager, secured, delegate, fleet, crowd, posts, waiting)
}


async def _live(name: str, argument: str) -> None:
    stops = StopRequests()
    with stop_on_signals(stops):
        orphaned = asyncio.create_task(_stop_with_input(stops))
        try:
            await CHILDREN[name](argument, stops)
        finally:
            orphaned.cancel()


async def _stop_with_input(stops: StopRequests) -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.read(1024):
        pass
    stops.request(StopReason.DONE, "whoever started it is gone", hurry=True)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_live(*sys.argv[1:]))
