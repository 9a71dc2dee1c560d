"""What child processes of commands (git, credential plugins) see of our environment."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from delegate.foundation.passwd import passwd_variables
from delegate.foundation.settings.proxies import ProxyRules
from delegate.foundation.settings.sections import Network


def child_environment(
    network: Network, environment: Mapping[str, str] = os.environ, *, bundle: Path | None = None, place: Path | None = None
) -> dict[str, str]:
    """Ours without the settings of this program, which may hold its tokens, and with the proxies and authorities that hold for it.

    A user without a passwd entry has one there: `place` is the directory for it, by default below the cache.

    `bundle` is the file in which the authorities of `SSL_CERT_FILE` stand beside the system's: programs that read the variable
    would trust nobody else. Without it they are written into one, at once.
    """
    kept = {name: value for name, value in environment.items() if not name.startswith("DELEGATE_")}
    return kept | ProxyRules.from_settings(network).environment() | _trust(network, environment, bundle) | _user(environment, place)


def _user(environment: Mapping[str, str], place: Path | None) -> dict[str, str]:
    from delegate.foundation.settings.directories import cache_directory  # noqa: PLC0415

    try:
        return passwd_variables(environment, place or cache_directory(environment) / "user")
    except OSError:  # what needs the entry says so
        return {}


def _trust(network: Network, environment: Mapping[str, str], bundle: Path | None) -> dict[str, str]:
    if network.ssl_cert_file is None:
        return {}
    if bundle is None:
        from delegate.foundation.authorities import is_system_bundle, write_bundle  # noqa: PLC0415 - most have no authorities of their own
        from delegate.foundation.settings.directories import cache_directory  # noqa: PLC0415

        try:
            if is_system_bundle(network.ssl_cert_file):
                bundle = network.ssl_cert_file
            else:
                bundle = cache_directory(environment) / "authorities.pem"
                write_bundle(bundle, network.ssl_cert_file)
        except OSError:  # no home, or none that can be written to: the private authorities alone are better than none
            bundle = network.ssl_cert_file
    named = str(bundle)
    return {"SSL_CERT_FILE": named} | {name: named for name in ("AWS_CA_BUNDLE",) if not environment.get(name)}


def provide_temporary_files(directory: Path) -> None:
    """Where no place for temporary files can be written to, ours and those of children lie in a directory of ours."""
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        place = directory / "tmp"
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            place.mkdir(mode=0o700, exist_ok=True)
        except OSError:
            return  # whoever needs the directory tries it too, and says what is wrong with it
        tempfile.tempdir = os.environ["TMPDIR"] = str(place)
