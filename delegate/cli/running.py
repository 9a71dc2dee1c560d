"""`delegate run`: the daemon."""

import asyncio
from typing import TYPE_CHECKING

import click

from delegate.cli.environments import child_environment, provide_temporary_files
from delegate.cli.exits import ExitCode, exit_code_of_stop, faults_end_with
from delegate.cli.loops import loop_factory
from delegate.cli.options import with_settings
from delegate.foundation.settings.loading import Loaded
from delegate.foundation.settings.programs import DelegateSettings

if TYPE_CHECKING:
    from delegate.daemon.service import Engine
    from delegate.foundation.telemetry.metrics import DelegateMetrics


@click.command()
@click.option("--exit-on-outdated", is_flag=True, help="Ends with 6 when the manager speaks no protocol version of this delegate's.")
@faults_end_with(ExitCode.USAGE)
@with_settings(DelegateSettings)
def run(loaded: Loaded[DelegateSettings], exit_on_outdated: bool) -> ExitCode:
    """The daemon: takes tasks from a manager and does them.

    SIGTERM drains: running tasks finish within --drain-timeout, a second one interrupts them. Exit codes: 0 drained,
    2 configuration, 3 stopped with work interrupted, 4 revoked, 5 superseded by a process with the same state directory,
    6 outdated, 7 a part failed five times in five minutes (the last line names it).
    """
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_run(loaded.settings, exit_on_outdated))


async def _run(settings: DelegateSettings, exit_on_outdated: bool) -> ExitCode:
    import structlog  # noqa: PLC0415 - the daemon's libraries are loaded once its settings are known to be good

    from delegate.daemon.service import Daemon, DaemonRules, pod_uid  # noqa: PLC0415
    from delegate.foundation.lifecycle import StopRequests, stop_on_signals  # noqa: PLC0415
    from delegate.foundation.lifecycle.garbage import calm_garbage  # noqa: PLC0415
    from delegate.foundation.telemetry.systemd import Notifier  # noqa: PLC0415

    stops = StopRequests()
    with stop_on_signals(stops):
        daemon = Daemon(
            settings,
            lambda metrics: _build_engine(settings, metrics),
            stops,
            rules=DaemonRules(exit_on_outdated=exit_on_outdated),
            notifier=Notifier.from_environment(),
            instance=pod_uid(),
        )
        calm_garbage()
        ending = await daemon.run()
    decisive = stops.decisive
    code = exit_code_of_stop(decisive, interrupted=ending.interrupted)
    reason = {"reason": decisive.reason.value, "detail": decisive.detail} if decisive is not None else {}
    part = {"part": ending.failed_part} if ending.failed_part else {}
    structlog.get_logger(__name__).info("daemon.stopped", exit_code=int(code), **reason, **part)
    return code


def _build_engine(settings: DelegateSettings, metrics: "DelegateMetrics") -> "Engine":
    from delegate.engine.clusters.registry import ClusterSettings  # noqa: PLC0415
    from delegate.engine.sources.settings import RenderSettings  # noqa: PLC0415
    from delegate.engine.tasks.building import build_engine  # noqa: PLC0415
    from delegate.foundation.authorities import child_bundle  # noqa: PLC0415
    from delegate.foundation.lifecycle import Retrying  # noqa: PLC0415
    from delegate.foundation.settings.proxies import ProxyRules  # noqa: PLC0415

    state = settings.identity.state_dir
    provide_temporary_files(state)
    proxies = ProxyRules.from_settings(settings.network)
    retrying = Retrying.from_settings(settings.retry)
    return build_engine(
        cache_dir=state / "cache",
        clusters=ClusterSettings(
            kubeconfig=str(settings.cluster.kubeconfig or ""),
            directory=state / "clusters",
            secrets_dir=settings.sources.repositories_dir,
            secrets_namespace=settings.sources.repositories_namespace,
            policy=retrying,
        ),
        retrying=retrying,
        rendering=RenderSettings.from_settings(settings.sources),
        environment=child_environment(settings.network, bundle=child_bundle(state, settings.network.ssl_cert_file), place=state / "user"),
        on_request=metrics.record_api_request,
        on_source_fault=metrics.record_source_error,
        proxy_for=proxies.address_for,
        policies=settings.rules.policies,
        health_rules=settings.rules.health,
        providers=settings.evidence.providers,
    )
