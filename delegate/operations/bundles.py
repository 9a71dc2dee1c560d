"""The support bundle: a tar file, readable by its owner alone, with what the doctor found and how the delegate is set.

It is made of values that are chosen one by one, never of whole files: no token, key or password, no task, no Secret of a cluster. What is
chosen goes through the redaction of logs all the same.
"""

import io
import os
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from delegate import __version__
from delegate.foundation.errors import Category, DelegateError
from delegate.foundation.redaction import redact
from delegate.foundation.settings.loading import Examined
from delegate.foundation.settings.programs import DelegateSettings
from delegate.operations.doctor.findings import Finding, exit_code

_PROBE_SECONDS = 3.0
_LARGEST_PROBE = 4 * 2**20
_SHOWN_VARIABLES = ("PATH", "HOME", "TZ", "LANG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")


class BundleUnwritableError(DelegateError):
    """The bundle can't be written where it was wanted."""

    default_code = "input.bundle"
    category = Category.INPUT


def write_bundle(target: Path, examined: Examined[DelegateSettings], findings: Sequence[Finding]) -> tuple[str, ...]:
    """Writes it whole, mode 0600; the names in it. Blocking. Raises BundleUnwritableError."""
    members = {
        "doctor.json": _json({"version": __version__, "exitCode": exit_code(findings), "findings": findings}),
        "settings.json": _json(list(examined.loaded.describe())),
        "machine.json": _json(_machine()),
        "state.txt": redact("\n".join(_list_state(examined.settings.identity.state_dir))).encode(),
        **_probes(examined.settings.probes.port),
    }
    try:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        os.fchmod(descriptor, 0o600)
        with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w") as archive:
            for name, body in members.items():
                entry = tarfile.TarInfo(f"delegate-bundle/{name}")
                entry.size, entry.mtime, entry.mode = len(body), int(time.time()), 0o600
                archive.addfile(entry, io.BytesIO(body))
    except OSError as error:
        raise BundleUnwritableError(f"{target} can't be written: {error.strerror}", hint="name another file", file=str(target)) from error
    return tuple(members)


def _json(document: object) -> bytes:
    encoded = msgspec.json.encode(document, enc_hook=str)
    return msgspec.json.format(redact(encoded.decode()).encode(), indent=2)


def _machine() -> Mapping[str, object]:
    return {
        "uid": os.geteuid(),
        "gid": os.getegid(),
        "groups": os.getgroups(),
        "uname": list(os.uname()),
        "environment": {name: os.environ[name] for name in _SHOWN_VARIABLES if name in os.environ},
        "variablesSet": sorted(os.environ),  # names alone: a value may be anything
    }


def _list_state(directory: Path) -> list[str]:
    """Names, sizes and modes, two levels deep; no content."""
    lines = []
    try:
        paths = sorted([directory, *directory.glob("*"), *directory.glob("*/*")])[:500]
    except OSError as error:
        return [f"{directory}: {error.strerror}"]
    for path in paths:
        try:
            facts = path.lstat()
        except OSError as error:
            lines.append(f"{path}: {error.strerror}")
            continue
        lines.append(f"{facts.st_mode & 0o7777:04o} {facts.st_uid}:{facts.st_gid} {facts.st_size:>10} {int(facts.st_mtime)} {path}")
    return lines


def _probes(port: int) -> dict[str, bytes]:
    """Health and metrics of the daemon that runs here, if one does."""
    found: dict[str, bytes] = {}
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for path in ("readyz", "metrics"):
        try:
            with opener.open(f"http://127.0.0.1:{port}/{path}", timeout=_PROBE_SECONDS) as answer:
                body = answer.read(_LARGEST_PROBE)
        except urllib.error.HTTPError as error:  # 503 comes with the reasons
            body = error.read(_LARGEST_PROBE)
        except (OSError, ValueError):
            continue
        found[f"{path}.txt"] = redact(body.decode(errors="replace")).encode()
    return found
