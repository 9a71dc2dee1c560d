"""`delegate demo`: tells the demo's story to people."""

from collections.abc import Iterator
from contextlib import contextmanager

import click

from delegate.cli.exits import ExitCode
from delegate.cli.extras import require_extra
from delegate.cli.loops import run_async
from delegate.cli.options import ALL_BUT_LOGS, with_settings
from delegate.cli.outputs import Output
from delegate.cli.progress import STEP_WORDS, shown_progress
from delegate.cli.results import echo, show_result
from delegate.demo.narration import OnEvent
from delegate.foundation.lifecycle.signals import stop_on_signals
from delegate.foundation.lifecycle.stops import StopRequests
from delegate.foundation.settings.loading import Loaded
from delegate.foundation.settings.programs import LocalSettings
from delegate.model.results import TaskResult


class SpokenNarrator:
    """On standard output; steps are redrawn on a terminal."""

    def __init__(self) -> None:
        self._chapters = 0

    def chapter(self, title: str) -> None:
        self._chapters += 1
        echo("")
        echo(click.style(f"{self._chapters}. {title}", bold=True))

    def say(self, words: str) -> None:
        echo(f"   {words}")

    @contextmanager
    def watching(self) -> Iterator[OnEvent]:
        with shown_progress(lines=True, err=False) as progress:
            yield progress.report

    def result(self, result: TaskResult) -> None:
        steps = (f"{words} {result.seconds[name]:.2f} s" for name, words in STEP_WORDS.items() if name in result.seconds)
        self.say(f"The delegate's steps: {', '.join(steps)}")
        show_result(result, Output.TEXT)

    def verified(self, words: str) -> None:
        echo(f"   {click.style('✓', fg='green')} {words}")


@click.command()
@click.option("--once", is_flag=True, help="Ends by itself: with 0 when all of it worked.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="Of the manager's page; by default any free one.")
@with_settings(LocalSettings, without=ALL_BUT_LOGS)
def demo(*, once: bool, port: int, loaded: Loaded[LocalSettings]) -> ExitCode:
    """The whole story on this machine: a manager, a delegate, a simulated cluster and a Git repository.

    Nothing but Python and Git is needed, and nothing is left behind. Each step is looked up in the cluster; the first one
    that isn't as told ends the demo with 1. Without --once the manager's page stays up until Ctrl-C.
    """
    del loaded
    require_extra("manager", "sqlalchemy", "alembic", "jinja2")
    require_extra("simulator", "kubernetes_validate")
    return run_async(_demo(once=once, port=port))


async def _demo(*, once: bool, port: int) -> ExitCode:
    from delegate.demo import stages, stories  # noqa: PLC0415 - needs the extras that were just looked for

    narrator = SpokenNarrator()
    echo("Starting a manager, a simulated cluster, a Git repository and a delegate ...")
    async with stages.set_stage(port=port) as stage:
        await stories.tell(stage, narrator)
        if not once:
            narrator.chapter("Have a look around")
            narrator.say(f"The manager's page, logged in once within ten minutes: {stage.manager.login_url()}")
            narrator.say(f"Later at {stage.manager.url} with the operator's token {stage.manager.admin_token}")
            narrator.say("Ctrl-C ends the demo.")
            await _until_somebody_ends_it()
        await stories.farewell(stage, narrator)
    echo("")
    echo("All of it worked.")
    return ExitCode.DONE


async def _until_somebody_ends_it() -> None:
    stops = StopRequests()
    with stop_on_signals(stops):
        await stops.wait()
