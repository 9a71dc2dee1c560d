"""A certificate that somebody else writes: cert-manager's mounted Secret, Vault agent, a sidecar. Files `tls.crt`, `tls.key` and `ca.crt`.

Found by polling, because no event crosses every kind of mount. What is there is used only when it is whole: key and certificate belong
together, the chain holds, the dates fit. Until then the last good pair stays, and the files are looked at again.
"""

import datetime as dt
import errno
import os
from dataclasses import dataclass
from pathlib import Path

from delegate.daemon.identity.errors import CertificateDamagedError
from delegate.protocol.pki.bundles import Bundle, check_chain, read_bundle
from delegate.protocol.pki.errors import PkiError
from delegate.protocol.pki.pairs import Material, check_dates, read_pair

CHAIN_FILE, KEY_FILE, AUTHORITIES_FILE = "tls.crt", "tls.key", "ca.crt"
ADOPTED_DIRECTORY = "adopted-certs"
"""Where in the state directory the last good pair is kept."""
_KUBERNETES_LINK = "..data"  # a mounted Secret is replaced by switching this link
_MAX_FILE_BYTES = 2**20
Stamp = tuple[tuple[int, int, int] | None, ...]
"""Of each file what changes when it is replaced or rewritten: inode, size, time."""


@dataclass(frozen=True)
class Look:
    """What was found: a pair that is whole, and the stamp of the files that it is from."""

    stamp: Stamp
    material: Material


class OutsideDirectory:
    """A directory that somebody else may write certificates into. Blocking."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def is_in_use(self) -> bool:
        """Whether somebody does: one of the two files is there, however broken."""
        return any(os.path.lexists(self.directory / name) for name in (CHAIN_FILE, KEY_FILE))

    def stamp(self) -> Stamp:
        """Changes when one of the files does."""
        base = self._base()
        return tuple(_stamp(base / name) for name in (CHAIN_FILE, KEY_FILE, AUTHORITIES_FILE))

    def look(self, now: dt.datetime) -> Look:
        """The pair that is there. Raises CertificateDamagedError where there is none that can be used now."""
        base = self._base()
        before = self.stamp()
        try:
            material = _read_material(base)
            _check(material, now)
        except (OSError, PkiError) as error:
            words = f"{error.strerror}: {error.filename}" if isinstance(error, OSError) else str(error)
            hint = error.hint if isinstance(error, PkiError) else "let the delegate's user read the files"
            raise CertificateDamagedError(
                f"the certificate in {self.directory} is not used: {words}", hint=hint, file=str(self.directory)
            ) from error
        if self.stamp() != before:
            raise CertificateDamagedError(f"the certificate in {self.directory} is being replaced", file=str(self.directory))
        return Look(before, material)

    def _base(self) -> Path:
        """Where the files of one moment are. In a mounted Secret they change together, behind one link."""
        try:
            return self.directory / os.readlink(self.directory / _KUBERNETES_LINK)
        except OSError:
            return self.directory


def _read_material(base: Path) -> Material:
    authorities = base / AUTHORITIES_FILE
    bundle = read_bundle(_read(authorities)) if authorities.exists() else Bundle()
    chain = _read(base / CHAIN_FILE)
    return Material(read_pair(_read(base / KEY_FILE), chain), bundle)


def _check(material: Material, now: dt.datetime) -> None:
    check_dates(material.certificate, now)
    chain = material.pair.chain
    if len(chain) > 1:
        check_chain(chain, Bundle(chain[-1:]))


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_ino, facts.st_size, facts.st_mtime_ns


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(_MAX_FILE_BYTES + 1)
    if len(data) > _MAX_FILE_BYTES:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return data
