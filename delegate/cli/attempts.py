"""Runs one task here and now, without a manager: the same engine as the daemon's, with what a person's machine has.

The first Ctrl-C (or SIGTERM) stops the attempt in order: it says what was done and what was not. The second one hurries.
"""

import asyncio
import uuid
from dataclasses import dataclass

from delegate.cli.contexts import ChosenCluster
from delegate.cli.environments import child_environment, provide_temporary_files
from delegate.cli.exits import CommandFailedError, ExitCode
from delegate.cli.loops import run_async
from delegate.cli.outputs import CommandInterruptedError
from delegate.cli.progress import Progress
from delegate.engine.clusters.registry import ClusterSettings
from delegate.engine.sources.settings import RenderSettings
from delegate.engine.tasks.building import Engine, build_engine
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.stopping import StopSignal, StopVerdict
from delegate.foundation.lifecycle.retrying import Retrying
from delegate.foundation.lifecycle.signals import stop_on_signals
from delegate.foundation.lifecycle.stops import StopReason, StopRequests
from delegate.foundation.settings.programs import LocalSettings
from delegate.foundation.settings.proxies import ProxyRules
from delegate.model.results import TaskResult
from delegate.model.tasks import Task

_CUT_SHORT = CommandInterruptedError(
    "interrupted twice: what the first stop would have put in order is left as it is",
    hint="run the same command again: it finds what was done and settles the rest",
)
_SIGNAL_WORDS = {StopReason.SIGINT: "Ctrl-C", StopReason.SIGTERM: "SIGTERM"}


@dataclass(frozen=True)
class Identity:
    """What the attempt is called: new for each run."""

    task_id: str
    attempt_id: str


def new_identity() -> Identity:
    return Identity(f"local-{uuid.uuid4()}", f"local-{uuid.uuid4()}")


def run_attempt(task: Task, identity: Identity, *, settings: LocalSettings, cluster: ChosenCluster, progress: Progress) -> TaskResult:
    """The result of one attempt. Raises CommandFailedError, to end with 3, only where a second Ctrl-C cut it short."""
    return run_async(_attempt(task, identity, settings, cluster, progress))


async def _attempt(task: Task, identity: Identity, settings: LocalSettings, cluster: ChosenCluster, progress: Progress) -> TaskResult:
    engine = _engine(settings, cluster)
    stops, signal = StopRequests(), StopSignal()
    context = AttemptContext(
        task_id=identity.task_id,
        attempt_id=identity.attempt_id,
        deadline=asyncio.get_running_loop().time() + task.timeout_seconds,
        stop=signal,
        report=progress.report,
    )
    with stop_on_signals(stops):
        run = asyncio.create_task(engine.run(task, context))
        listening = asyncio.create_task(_pass_on(stops, signal, run, progress))
        try:
            return await run
        except asyncio.CancelledError:
            if not stops.requested:
                raise
            raise CommandFailedError(_CUT_SHORT, ExitCode.INTERRUPTED) from None
        finally:
            listening.cancel()
            await asyncio.wait([listening])
            await engine.close()


async def _pass_on(stops: StopRequests, signal: StopSignal, run: "asyncio.Task[TaskResult]", progress: Progress) -> None:
    request = await stops.wait()
    progress.stopping()
    signal.request(StopVerdict.INTERRUPTED, _SIGNAL_WORDS.get(request.reason, request.reason.value))
    await stops.wait_until_hurried()
    run.cancel()


def _engine(settings: LocalSettings, cluster: ChosenCluster) -> Engine:
    rules = ProxyRules.from_settings(settings.network)
    retrying = Retrying.from_settings(settings.retry)
    provide_temporary_files(settings.workspace.cache_dir)
    return build_engine(
        cache_dir=settings.workspace.cache_dir,
        clusters=ClusterSettings(
            kubeconfig=cluster.kubeconfig,
            context=cluster.context,
            directory=settings.workspace.state_dir / "keys",
            secrets_dir=settings.sources.repositories_dir,
            secrets_namespace=settings.sources.repositories_namespace,
            policy=retrying,
        ),
        retrying=retrying,
        allow_local=True,
        rendering=RenderSettings.from_settings(settings.sources),
        environment=child_environment(settings.network, place=settings.workspace.cache_dir / "user"),
        proxy_for=rules.address_for,
        policies=settings.rules.policies,
        health_rules=settings.rules.health,
        providers=settings.evidence.providers,
    )
