"""`delegate simulator`: the simulated cluster alone, for trying things out and for other programs' tests."""

import os
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

import click

from delegate.cli.exits import ExitCode
from delegate.cli.extras import require_extra
from delegate.cli.loops import run_async
from delegate.cli.options import ALL_BUT_LOGS, with_settings
from delegate.foundation.errors import Category, DelegateError
from delegate.foundation.lifecycle.signals import stop_on_signals
from delegate.foundation.lifecycle.stops import StopRequests
from delegate.foundation.settings.loading import Loaded
from delegate.foundation.settings.programs import LocalSettings


class SimulatorStartError(DelegateError):
    default_code = "input.simulator"
    category = Category.INPUT


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="On 127.0.0.1; by default any free one.")
@click.option(
    "--kubeconfig-out", type=click.Path(path_type=Path, dir_okay=False), metavar="F", help="Writes the administrator's kubeconfig."
)
@click.option("--admin-token", metavar="T", help="Token of the administrator; by default a random one.")
@click.option("--limited-token", metavar="T", help="Token of a user who may do what role bindings give; by default a random one.")
@click.option(
    "--seed",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Applies the manifests below it before anybody is answered.",
)
@click.option(
    "--snapshot",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Goes on from what it holds; saved every few seconds, and at the end. Secrets are in it.",
)
@click.option(
    "--speed",
    type=click.FloatRange(0.1, 1000),
    default=1.0,
    metavar="N",
    help="How fast the cluster's time runs: 10 is ten times as fast.",
)
@click.option("--tls", is_flag=True, help="Serves https, with a certificate of its own that the kubeconfig trusts.")
@with_settings(LocalSettings, without=ALL_BUT_LOGS)
def simulator(
    *,
    port: int,
    kubeconfig_out: Path | None,
    admin_token: str | None,
    limited_token: str | None,
    seed: Path | None,
    snapshot: Path | None,
    speed: float,
    tls: bool,
    loaded: Loaded[LocalSettings],
) -> ExitCode:
    """A Kubernetes API server and its controllers in memory, until Ctrl-C or SIGTERM. What it holds is gone then, but for --snapshot.

    The first line of standard output has its address, once it answers.
    """
    del loaded
    require_extra("simulator", "kubernetes_validate")
    wanted = _Wanted(port, kubeconfig_out, admin_token, limited_token, seed, snapshot, speed, tls)
    return run_async(_simulate(wanted))


class _Wanted(NamedTuple):
    port: int
    kubeconfig_out: Path | None
    admin_token: str | None
    limited_token: str | None
    seed: Path | None
    snapshot: Path | None
    speed: float
    tls: bool


async def _simulate(wanted: _Wanted) -> ExitCode:
    from delegate.simulator.server import Simulator  # noqa: PLC0415 - needs the extra that was just looked for

    stops = StopRequests()
    with stop_on_signals(stops):
        async with AsyncExitStack() as exits:
            cluster = Simulator(
                wanted.port,
                admin_token=wanted.admin_token,
                limited_token=wanted.limited_token,
                speed=wanted.speed,
                tls=wanted.tls,
                seed=wanted.seed,
                snapshot=wanted.snapshot,
            )
            try:
                await exits.enter_async_context(cluster)
            except OSError as error:
                raise SimulatorStartError(
                    f"127.0.0.1:{wanted.port} can't be listened on: {error.strerror or error}",
                    hint="choose another port with --port, or 0 for any",
                ) from error
            path = wanted.kubeconfig_out
            if path is not None:
                _write_private(path, cluster.kubeconfig())
            click.echo(cluster.url)
            sys.stdout.flush()
            click.echo(f"kubeconfig: {path}" if path else "its kubeconfig is written with --kubeconfig-out FILE", err=True)
            await stops.wait()
    return ExitCode.DONE


def _write_private(path: Path, text: str) -> None:
    """Whole or not at all: whoever waits for the file finds it complete."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.touch(mode=0o600)
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise SimulatorStartError(f"{path} can't be written: {error.strerror}", hint="check --kubeconfig-out") from error
