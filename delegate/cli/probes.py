"""`delegate probe`: asks the daemon on this machine how it is, for images without a shell."""

import http.client
from pathlib import Path

import click
import msgspec

from delegate.cli.exits import ExitCode
from delegate.cli.options import config_option, output_option, settings_flags
from delegate.cli.outputs import Output, print_json
from delegate.foundation.errors import Category, DelegateError
from delegate.foundation.settings.loading import load
from delegate.foundation.settings.programs import ProbeSettings
from delegate.foundation.settings.sections import Probes

_SECONDS = 5.0
_LARGEST_ANSWER = 2**20
_EVERY_INTERFACE = ("", "0.0.0.0", "::")  # noqa: S104 - compared with, not bound to


class ProbeUnansweredError(DelegateError):
    """Nobody, or somebody else, answered on the daemon's port."""

    default_code = "probe.unanswered"
    category = Category.DEPENDENCY


@click.command()
@click.argument("endpoint", type=click.Choice(["healthz", "readyz", "livez"]))
@settings_flags(ProbeSettings)
@config_option
@output_option
def probe(endpoint: str, flags: dict[str, str], config: Path | None, output: Output) -> ExitCode:
    """Asks the daemon on this machine how it is: 0 if it is well, 1 if not."""
    settings = load(ProbeSettings, flags=flags, config=config).settings
    status, body = _ask(settings.probes, f"/{endpoint}")
    if output is Output.JSON:
        print_json(body)
    else:
        click.echo(str(body.get("status", "")))
        reasons = body.get("reasons")
        for reason in reasons if isinstance(reasons, list) else ():
            click.echo(str(reason))
    return ExitCode.DONE if status == 200 else ExitCode.FAILED


def _ask(probes: Probes, path: str) -> tuple[int, dict[str, object]]:
    hosts = ("127.0.0.1", "::1") if probes.host in _EVERY_INTERFACE else (probes.host,)
    fault: OSError | None = None
    for host in hosts:
        connection = http.client.HTTPConnection(host, probes.port, timeout=_SECONDS)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            body = msgspec.json.decode(answer.read(_LARGEST_ANSWER), type=dict[str, object])
        except OSError as error:
            fault = fault or error
            continue
        except (http.client.HTTPException, msgspec.DecodeError) as error:
            raise ProbeUnansweredError(
                f"what answers on port {probes.port} is not the delegate", hint="check DELEGATE_HTTP_PORT"
            ) from error
        finally:
            connection.close()
        return answer.status, body
    raise ProbeUnansweredError(
        f"nothing answers on {hosts[0]}:{probes.port}: {fault}",
        hint="check that `delegate run` is running and that DELEGATE_HTTP_PORT is the same here",
    ) from fault
