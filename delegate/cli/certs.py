"""`delegate certs`: the certificate of the delegate on this machine."""

from typing import TYPE_CHECKING

import click

from delegate.cli.exits import ExitCode
from delegate.cli.loops import run_async
from delegate.cli.options import output_option, with_settings
from delegate.cli.outputs import Output, print_json
from delegate.foundation.quantities import format_duration
from delegate.foundation.settings.loading import Loaded
from delegate.foundation.settings.programs import DelegateSettings

if TYPE_CHECKING:
    from delegate.daemon.identity.showing import CertificateDetails, CertificateShown


@click.group()
def certs() -> None:
    """The certificate that the delegate on this machine shows its manager."""


@certs.command()
@with_settings(DelegateSettings, require=False)
@output_option
def show(loaded: Loaded[DelegateSettings], output: Output) -> ExitCode:
    """Shows the certificate in use. Reads the directory of certificates; changes nothing, also while the daemon runs.

    Exit codes: 0 it can be used, 1 there is none, it has ended, or what is there is damaged, 2 wrong usage or configuration.
    """
    from delegate.daemon.identity.showing import look  # noqa: PLC0415 - cryptography is loaded once it is needed

    identity = loaded.settings.identity
    shown = look(identity.cert_dir, identity.state_dir)
    if output is Output.JSON:
        print_json(shown)
    elif shown.certificate is None:
        click.echo(f"{shown.directory}: {shown.reason}")
        _print_damages(shown)
    else:
        _print(shown, shown.certificate)
    return ExitCode.DONE if shown.usable else ExitCode.FAILED


@certs.command()
@with_settings(DelegateSettings)
@output_option
def rotate(loaded: Loaded[DelegateSettings], output: Output) -> None:
    """Asks the manager for a new certificate now, tries it, and switches to it; a daemon that runs takes it over.

    Where the manager does not renew the old one (it ended, or was revoked), the delegate enrols again, with a token that
    --delegate-token-file or its settings name. Exit codes: 0 rotated, 1 not, and the old one is still in use, 2 wrong usage or
    configuration, also where there is no delegate in the state directory.
    """
    from delegate.daemon.identity.showing import look  # noqa: PLC0415
    from delegate.daemon.rotating import rotate_now  # noqa: PLC0415

    run_async(rotate_now(loaded.settings))
    identity = loaded.settings.identity
    shown = look(identity.cert_dir, identity.state_dir)
    if output is Output.JSON:
        print_json(shown)
    elif shown.certificate is not None:
        click.echo(f"rotated: the certificate {shown.certificate.serial} is in use, until {shown.certificate.ends_at}")


def _print(shown: "CertificateShown", certificate: "CertificateDetails") -> None:
    left = certificate.seconds_left
    until = f"{format_duration(round(left))} left" if left > 0 else f"{format_duration(round(-left))} ago"
    rows = [
        ("directory", f"{shown.directory}" + (", which somebody else writes" if shown.outside else f", generation {shown.generation}")),
        ("subject", certificate.subject),
        ("names", ", ".join(certificate.names) or "-"),
        ("issuer", certificate.issuer),
        ("serial", certificate.serial),
        ("fingerprint", certificate.fingerprint),
        ("key", certificate.key_fingerprint),
        ("begins", certificate.begins_at),
        ("renewed", f"from about {certificate.renewed_from} on" if not shown.outside else "by whoever writes it"),
        ("ends", f"{certificate.ends_at} ({until})"),
        ("health", certificate.health),
        ("authorities", ", ".join(f"{each.subject} {each.fingerprint[:16]} until {each.ends_at}" for each in shown.authorities) or "-"),
    ]
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        click.echo(f"{name.ljust(width)}  {value}")
    _print_damages(shown)
    if shown.reason:
        click.echo(shown.reason)


def _print_damages(shown: "CertificateShown") -> None:
    for each in shown.damages:
        click.echo(f"damaged: {each}")
