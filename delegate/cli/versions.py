"""`delegate version`."""

import platform
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

import click

from delegate import __version__
from delegate.cli.options import output_option
from delegate.cli.outputs import Output, print_json
from delegate.protocol.versions import PROTOCOL_MAX, PROTOCOL_MIN

_PROGRAMS = {"helm": ("helm", "version", "--short"), "git": ("git", "--version")}
_SECONDS = 5.0


@click.command()
@output_option
def version(output: Output) -> None:
    """Versions of this program, the protocol, helm, git and Python."""
    with ThreadPoolExecutor(len(_PROGRAMS)) as pool:
        helm, git = pool.map(_ask, _PROGRAMS.values())
    found = {"delegate": __version__, "protocol": _protocol(), "helm": helm, "git": git, "python": platform.python_version()}
    if output is Output.JSON:
        print_json(found)
        return
    for name, words in found.items():
        click.echo(f"{name:<9} {words or 'not found'}")


def _protocol() -> str:
    return str(PROTOCOL_MAX) if PROTOCOL_MIN == PROTOCOL_MAX else f"{PROTOCOL_MIN}-{PROTOCOL_MAX}"


def _ask(command: tuple[str, ...]) -> str | None:
    """The version that a program says it has; None where it isn't there or doesn't say."""
    path = shutil.which(command[0])
    if path is None:
        return None
    try:
        answer = subprocess.run([path, *command[1:]], capture_output=True, timeout=_SECONDS, check=True, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.decode(errors="replace").strip().removeprefix("git version ").partition("\n")[0] or None
