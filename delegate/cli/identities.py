"""`delegate manager cluster-keys|certificates|authorities`: whom a manager believes, and whom it does not any more."""

from pathlib import Path

import click
import msgspec

from delegate.cli.calls import call_manager
from delegate.cli.options import output_option, with_settings
from delegate.cli.outputs import Output, UsageFaultError, print_json, print_table
from delegate.foundation.quantities import parse_duration
from delegate.foundation.settings.kinds import parse_labels
from delegate.foundation.settings.loading import Loaded
from delegate.foundation.settings.programs import OperatorSettings
from delegate.manager.credential_views import (
    AuthorityList,
)
from delegate.manager.selectors import show_labels
from delegate.model.resources import JsonObject

_LARGEST_KEYS = 256 * 2**10
DEFAULT_ISSUER = "https://kubernetes.default.svc.cluster.local"
"""Of clusters whose administrator chose no other."""


@click.group(name="cluster-keys")
def cluster_keys() -> None:
    """Clusters whose service accounts may enrol delegates, by the keys that sign their tokens."""


@cluster_keys.command()
@click.argument("cluster")
@click.option(
    "--keys", required=True, type=click.Path(path_type=Path, allow_dash=True), help="`kubectl get --raw /openid/v1/jwks`; - reads."
)
@click.option("--issuer", default=DEFAULT_ISSUER, show_default=True, help="`iss` of its tokens.")
@click.option("--service-account", "accounts", multiple=True, metavar="NAMESPACE/NAME", help="Who may enrol. [default: delegate/delegate]")
@click.option("--audience", default="", help="`aud` of its tokens. [default: delegate-manager]")
@click.option("--scope", default="GITOPS", show_default=True, help="Of the delegates that enrol so, as of a token.")
@click.option("--labels", default="", metavar="KEY=VALUE,...", help="Stamped on every delegate that enrols so.")
@with_settings(OperatorSettings)
@output_option
def register(
    *,
    cluster: str,
    keys: Path,
    issuer: str,
    accounts: tuple[str, ...],
    audience: str,
    scope: str,
    labels: str,
    loaded: Loaded[OperatorSettings],
    output: Output,
) -> None:
    """Trusts service account tokens that these keys have signed, or replaces what is registered.

    Before a cluster changes its keys, register the old and the next ones together.
    """
    wanted: JsonObject = {"issuer": issuer, "keys": _read_keys(keys), "scope": scope, "labels": _labels(labels)}
    wanted |= {"serviceAccounts": list(accounts)} if accounts else {}
    wanted |= {"audience": audience} if audience else {}
    registered = call_manager(loaded.settings, lambda client: client.register_cluster_keys(cluster, wanted))
    if output is Output.JSON:
        print_json(registered)
    else:
        click.echo(f"{', '.join(registered.service_accounts)} of cluster {registered.cluster} may enrol with tokens of {registered.issuer}")


def _read_keys(path: Path) -> JsonObject:
    try:
        with click.open_file(str(path), "rb") as file:
            text = file.read(_LARGEST_KEYS + 1)
        found = msgspec.json.decode(text, type=dict[str, object])
    except OSError as error:
        raise UsageFaultError(f"--keys: {path} can't be read: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageFaultError(
            f"--keys: {path} is no JSON Web Key Set: {error}", hint="kubectl get --raw /openid/v1/jwks > keys.json"
        ) from error
    return found


def _labels(text: str) -> dict[str, str]:
    try:
        return parse_labels(text)
    except ValueError as error:
        raise UsageFaultError(f"--labels: {error}") from error


@cluster_keys.command(name="list")
@with_settings(OperatorSettings)
@output_option
def list_cluster_keys(loaded: Loaded[OperatorSettings], output: Output) -> None:
    """Lists the clusters whose service accounts may enrol."""
    listed = call_manager(loaded.settings, lambda client: client.list_cluster_keys())
    if output is Output.JSON:
        print_json(listed)
        return
    if not listed.items:
        click.echo("no cluster's keys are registered, so delegates enrol with tokens of `delegate token create` alone")
        return
    rows: list[tuple[str, ...]] = [
        (
            each.cluster,
            ",".join(each.service_accounts),
            ",".join(each.scopes),
            show_labels(each.labels) or "-",
            str(each.uses),
            ",".join(each.key_ids) or "-",
            each.issuer,
        )
        for each in listed.items
    ]
    print_table(("CLUSTER", "SERVICE ACCOUNTS", "SCOPE", "LABELS", "USES", "KEYS", "ISSUER"), rows)


@cluster_keys.command()
@click.argument("cluster")
@with_settings(OperatorSettings)
@output_option
def forget(cluster: str, loaded: Loaded[OperatorSettings], output: Output) -> None:
    """Ends the trust in a cluster's keys, and for good the delegates that enrolled by it."""
    forgotten = call_manager(loaded.settings, lambda client: client.forget_cluster_keys(cluster))
    if output is Output.JSON:
        print_json(forgotten)
    else:
        click.echo(f"service accounts of cluster {forgotten.cluster} may not enrol any more, and the delegates that did are revoked")


@click.group()
def certificates() -> None:
    """Certificates of delegates."""


@certificates.command(name="list")
@click.option("--delegate", "delegate_id", default="", metavar="ID", help="Those of one delegate.")
@with_settings(OperatorSettings)
@output_option
def list_certificates(delegate_id: str, loaded: Loaded[OperatorSettings], output: Output) -> None:
    """Lists certificates of delegates, the newest first."""
    listed = call_manager(loaded.settings, lambda client: client.list_certificates(delegate_id))
    if output is Output.JSON:
        print_json(listed)
        return
    rows: list[tuple[str, ...]] = [
        (each.serial, each.state, each.delegate, each.ends_at, each.first_used_at or "-", each.key_fingerprint) for each in listed.items
    ]
    print_table(("SERIAL", "STATE", "DELEGATE", "ENDS", "FIRST USED", "KEY"), rows)


@certificates.command()
@click.option("--serial", default="", metavar="HEX", help="The certificate with this serial number.")
@click.option("--key", default="", metavar="SHA256", help="Every certificate for this key, also those to come.")
@click.option("--certificate", default="", metavar="SHA256", help="The certificate with this fingerprint.")
@click.option("--reason", default="", help="Why; it is told to whoever shows one.")
@with_settings(OperatorSettings)
@output_option
def revoke(*, serial: str, key: str, certificate: str, reason: str, loaded: Loaded[OperatorSettings], output: Output) -> None:
    """Revokes certificates by exactly one of serial, key and fingerprint: for good, and open calls that came with one are cut.

    The delegate itself may enrol again; `delegate delegates revoke` cuts that off too.
    """
    named = {name: value for name, value in (("serial", serial), ("key", key), ("certificate", certificate)) if value}
    if len(named) != 1:
        raise UsageFaultError("name exactly one of --serial, --key and --certificate")
    revoked = call_manager(loaded.settings, lambda client: client.revoke_certificates({**named, "reason": reason}))
    if output is Output.JSON:
        print_json(revoked)
    else:
        click.echo(f"{revoked.kind} {revoked.value} is revoked")


@certificates.command()
@with_settings(OperatorSettings)
@output_option
def revocations(loaded: Loaded[OperatorSettings], output: Output) -> None:
    """Lists what was revoked, the newest first."""
    listed = call_manager(loaded.settings, lambda client: client.list_revocations())
    if output is Output.JSON:
        print_json(listed)
        return
    rows: list[tuple[str, ...]] = [(each.kind, each.value, each.revoked_at, each.revoked_by, each.reason or "-") for each in listed.items]
    print_table(("BY", "VALUE", "AT", "WHO", "REASON"), rows)


@click.group()
def authorities() -> None:
    """The authorities that sign certificates of delegates, and that these believe."""


@authorities.command(name="list")
@with_settings(OperatorSettings)
@output_option
def list_authorities(loaded: Loaded[OperatorSettings], output: Output) -> None:
    """Lists the authorities: the one that signs, those that will, those that did."""
    _print_authorities(call_manager(loaded.settings, lambda client: client.list_authorities()), output)


@authorities.command()
@click.option("--signs-after", default="48h", show_default=True, metavar="DURATION", help="Time for every delegate to renew once before.")
@with_settings(OperatorSettings)
@output_option
def announce(signs_after: str, loaded: Loaded[OperatorSettings], output: Output) -> None:
    """Makes the next authority: delegates are told of it with their next renewal, and it signs only later."""
    try:
        parse_duration(signs_after)
    except ValueError as error:
        raise UsageFaultError(f"--signs-after: {error}") from error
    _print_authorities(call_manager(loaded.settings, lambda client: client.announce_authority(signs_after)), output)


def _print_authorities(listed: AuthorityList, output: Output) -> None:
    if output is Output.JSON:
        print_json(listed)
        return
    rows: list[tuple[str, ...]] = [(each.state, each.signs_from or "-", each.ends_at, each.fingerprint) for each in listed.items]
    print_table(("STATE", "SIGNS FROM", "ENDS", "SHA256"), rows)
