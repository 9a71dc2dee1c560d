"""Where commands that people run keep their files (XDG Base Directory Specification 0.8): no root needed."""

import os
import pwd
import tempfile
from collections.abc import Mapping
from pathlib import Path


def state_directory(environment: Mapping[str, str]) -> Path:
    """`$XDG_STATE_HOME/delegate`."""
    return _base(environment, "XDG_STATE_HOME", ".local/state") / "delegate"


def cache_directory(environment: Mapping[str, str]) -> Path:
    """`$XDG_CACHE_HOME/delegate`."""
    return _base(environment, "XDG_CACHE_HOME", ".cache") / "delegate"


def configuration_directory(environment: Mapping[str, str]) -> Path:
    """`$XDG_CONFIG_HOME/delegate`."""
    return _base(environment, "XDG_CONFIG_HOME", ".config") / "delegate"


def _base(environment: Mapping[str, str], variable: str, under_home: str) -> Path:
    given = environment.get(variable, "")
    if given.startswith("/"):  # the specification has relative ones ignored
        return Path(given)
    return _home(environment) / under_home


def _home(environment: Mapping[str, str]) -> Path:
    home = environment.get("HOME", "")
    if not home:
        try:
            home = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:  # an arbitrary uid, as some clusters assign it, has no entry
            home = ""
    if home.startswith("/") and os.access(home, os.W_OK):
        return Path(home)
    try:
        return Path(tempfile.gettempdir()) / f"delegate-{os.getuid()}"
    except FileNotFoundError:  # nothing can be written to: what needs a place says so
        return Path(home if home.startswith("/") else "/")
