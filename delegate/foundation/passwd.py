"""A passwd entry for children of a user without one: a uid that a cluster has assigned.

OpenSSH refuses to work for such a user (`No user exists for uid 1000710000`), ssh-keygen too, when it checks signatures. nss_wrapper,
a library that is loaded before the system's own, answers from files that it is named: https://cwrap.org/nss_wrapper.html.
"""

import contextlib
import glob
import grp
import os
import pwd
from collections.abc import Mapping
from pathlib import Path

_LIBRARIES = (
    "/usr/lib/*/libnss_wrapper.so*",
    "/usr/lib64/libnss_wrapper.so*",
    "/usr/lib/libnss_wrapper.so*",
    "/usr/local/lib/libnss_wrapper.so*",
)
_LARGEST_BYTES = 2**20
INSTALL = "install libnss-wrapper (nss_wrapper on Fedora and Alpine), or give this uid an entry in /etc/passwd"


def has_entry() -> bool:
    """Whether this process's user has a passwd entry."""
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return True


def find_wrapper() -> str:
    """The path of nss_wrapper; empty where it is not installed."""
    return next((path for pattern in _LIBRARIES for path in sorted(glob.glob(pattern))), "")


def passwd_variables(environment: Mapping[str, str], directory: Path) -> dict[str, str]:
    """What children need in their environment to have a passwd entry; nothing where they have one, or where nobody could give it.

    The files lie in `directory`, which is made. Raises OSError.
    """
    if has_entry():
        return {}
    wrapper = find_wrapper()
    if not wrapper:
        return {}
    uid, gid = os.getuid(), os.getgid()
    users = f"delegate:x:{uid}:{gid}:delegate:{directory}:/bin/false\n"
    groups = "" if _has_group(gid) else f"delegate:x:{gid}:\n"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return {
        "LD_PRELOAD": " ".join(filter(None, (environment.get("LD_PRELOAD"), wrapper))),
        "NSS_WRAPPER_PASSWD": str(_write(directory / "passwd", _read(Path("/etc/passwd")) + users)),
        "NSS_WRAPPER_GROUP": str(_write(directory / "group", _read(Path("/etc/group")) + groups)),
    }


def _has_group(gid: int) -> bool:
    try:
        grp.getgrgid(gid)
    except KeyError:
        return False
    return True


def _read(path: Path) -> str:
    with contextlib.suppress(OSError), path.open(encoding="utf-8", errors="replace") as file:
        text = file.read(_LARGEST_BYTES)
        return text if not text or text.endswith("\n") else f"{text}\n"
    return ""


def _write(path: Path, text: str) -> Path:
    """In one switch: a child of another process may be reading it."""
    new = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(new, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    new.replace(path)
    return path
