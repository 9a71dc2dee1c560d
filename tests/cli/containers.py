"""The program as in a container: as a user that nobody knows, and on a file system that is read-only."""

import sys
from collections.abc import Mapping
from pathlib import Path

from tests.daemon.networks.servers import program

UID = 1000710000
_SCRIPT = """set -e
if [ -n "$HIDDEN" ]; then  # the interpreter is below a home that the user may not enter
  mount --bind "$HIDDEN" "$PLACE/python"
  mount -t tmpfs -o mode=755 none /root
  mkdir -p "$HIDDEN"
  mount --bind "$PLACE/python" "$HIDDEN"
fi
mount --bind "$PLACE/writable" "$PLACE/writable"
if [ -n "$READ_ONLY" ]; then mount -o remount,bind,ro /; fi
exec setpriv --reuid="$USER_ID" --regid=0 --clear-groups env -i PATH=/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1 "$@"
"""


def container(place: Path, *, read_only: bool) -> dict[str, str]:
    """What the script that makes one is told."""
    base = Path(sys.base_prefix)
    hidden = "/" + "/".join(base.parts[1:3]) if base.parts[1:2] == ("root",) else ""
    told = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PLACE": str(place), "HIDDEN": hidden, "USER_ID": str(UID)}
    return told | ({"READ_ONLY": "1"} if read_only else {})


def inside(variables: Mapping[str, str], *arguments: str) -> list[str]:
    """The program in such a container."""
    given = [f"{name}={value}" for name, value in variables.items()]
    command = [program("unshare", "util-linux"), "--mount", "sh", "-c", _SCRIPT, "sh", *given]
    return [*command, sys.executable, "-m", "delegate", *arguments]
