"""`delegate doctor`: is everything there that a delegate needs, and what to do where not."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from delegate.cli.environments import child_environment
from delegate.cli.loops import run_async
from delegate.cli.options import config_option, output_option, settings_flags
from delegate.cli.outputs import Output, UsageFaultError, print_json
from delegate.foundation.quantities import parse_duration
from delegate.foundation.redaction import redact
from delegate.foundation.settings.loading import Examined, examine
from delegate.foundation.settings.programs import DelegateSettings

if TYPE_CHECKING:
    from delegate.operations.doctor.findings import Finding
    from delegate.operations.doctor.permissions import Need

_MARKS = {"ok": "ok  ", "warning": "WARN", "failed": "FAIL", "skipped": "-   "}
_RENDER_SECONDS = 60.0


@click.command()
@click.option("--idle", default="10s", metavar="DURATION", show_default=True, help="How long a quiet call is tried; 0s: not at all.")
@click.option("--manifests", multiple=True, type=click.Path(exists=True), metavar="PATH", help="What is to be synced; may be repeated.")
@click.option("-n", "--namespace", "namespaces", multiple=True, metavar="NS", help="Where records of Applications are; may be repeated.")
@click.option(
    "--bundle", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Also writes what support needs (tar, no secrets)."
)
@settings_flags(DelegateSettings)
@config_option
@output_option
def doctor(
    *,
    idle: str,
    manifests: tuple[str, ...],
    namespaces: tuple[str, ...],
    bundle: Path | None,
    flags: dict[str, str],
    config: Path | None,
    output: Output,
) -> int:
    """Checks the way to the manager, proxy, TLS, clock, token, clusters and their permissions, Git, Helm, S3, disk, and names what fails.

    Needs no running daemon, and looks on where the configuration is broken. Exit codes: 0 nothing failed (warnings change nothing), 2 the
    configuration, 10 the network, 11 token or identity, 12 a cluster or a permission, 13 disk or bucket, 14 a program, 15 the machine;
    where several failed, the first of these.
    """
    from delegate.foundation.telemetry import logs  # noqa: PLC0415 - slow to import
    from delegate.operations.doctor.examining import Wishes, examine_delegate  # noqa: PLC0415
    from delegate.operations.doctor.findings import exit_code  # noqa: PLC0415

    try:
        idle_seconds = parse_duration(idle)
    except ValueError as error:
        raise UsageFaultError(f"--idle: {error}") from error
    examined = examine(DelegateSettings, flags=flags, config=config)
    environment = child_environment(examined.settings.network)
    with logs.configure(examined.settings.logging):

        async def work() -> "list[Finding]":
            wanted, repositories = await _needs(examined, manifests, namespaces[0] if namespaces else "default")
            wishes = Wishes(idle_seconds=min(idle_seconds, 55.0), wanted=wanted, namespaces=namespaces, repositories=sorted(repositories))
            return await examine_delegate(examined, environment, wishes)

        findings = run_async(work())
    code = exit_code(findings)
    if output is Output.JSON:
        _print_document(findings, code)
    else:
        _print_findings(findings)
    if bundle is not None:
        from delegate.operations.bundles import write_bundle  # noqa: PLC0415

        names = write_bundle(bundle, examined, findings)
        click.echo(f"{bundle}: {', '.join(names)}; secrets are left out, yet have a look before you send it", err=True)
    return code


def _print_document(findings: "Sequence[Finding]", code: int) -> None:
    import msgspec  # noqa: PLC0415

    document = redact(msgspec.json.encode({"findings": findings, "exitCode": code}).decode())
    print_json(msgspec.json.decode(document))


def _print_findings(findings: "Sequence[Finding]") -> None:
    for finding in findings:
        place = f" [{finding.where}]" if finding.where and finding.where not in finding.what else ""
        click.echo(redact(f"{_MARKS[finding.status.value]}  {finding.check}: {finding.what}{place}"))
        if finding.hint and finding.status.value != "ok":
            click.echo(redact(f"      {finding.hint}"))
    failed = sum(finding.status.value == "failed" for finding in findings)
    warned = sum(finding.status.value == "warning" for finding in findings)
    click.echo(f"{failed} failed, {warned} warnings, {len(findings)} findings")


async def _needs(examined: Examined[DelegateSettings], manifests: Sequence[str], namespace: str) -> "tuple[list[Need], set[str]]":
    """What the manifests of these paths need, and the repositories that Applications among them name; rendering them is as in
    `delegate render`."""
    repositories: set[str] = set()
    if not manifests:
        return [], repositories
    from delegate.cli.locations import source_of  # noqa: PLC0415
    from delegate.engine.sources.manifests import Sources  # noqa: PLC0415
    from delegate.engine.sources.settings import RenderSettings  # noqa: PLC0415
    from delegate.foundation.settings.directories import cache_directory  # noqa: PLC0415
    from delegate.operations.doctor.permissions import Need  # noqa: PLC0415
    from delegate.operations.doctor.sources import repositories_of  # noqa: PLC0415

    needs: list[Need] = []
    sources = Sources(
        cache_dir=cache_directory(os.environ),
        allow_local=True,
        rendering=RenderSettings.from_settings(examined.settings.sources),
        environment=child_environment(examined.settings.network),
    )
    try:
        for path in manifests:
            source = source_of(path, revision="", path="")
            rendered = await sources.render(source, await sources.resolve(source, timeout=_RENDER_SECONDS), timeout=_RENDER_SECONDS)
            repositories |= repositories_of(rendered.manifests)
            needs += {
                Need(path, manifest.namespace or namespace, manifest.group_kind.group, manifest.group_kind.kind)
                for manifest in rendered.manifests
            }
            needs += [Need(path, namespace, "", "ConfigMap"), Need(path, namespace, "coordination.k8s.io", "Lease")]
    finally:
        sources.close()
    return needs, repositories
