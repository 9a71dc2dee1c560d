"""Results that are too large for the journal and for one call: each a file of its own beside the journals, named by its digest.

Everything here blocks; the outbox calls it in its thread. A file is whole when it has its name: it is written under a passing one,
flushed, and renamed.
"""

import contextlib
import hashlib
import secrets
import time
from collections.abc import Collection, Iterable
from pathlib import Path

import msgspec

from delegate.daemon.connection.journal_disk import JournalDisk
from delegate.daemon.directories import PRIVATE_DIRECTORY
from delegate.model.resources import JsonObject
from delegate.protocol.blobs import BlobReference

_UNFINISHED = ".writing"
_WRITE_BYTES = 2**18
_YOUNG_SECONDS = 600.0
"""A file of a process that has not yet written its journal is this young."""


class LargeResults:
    """Of one outbox directory."""

    def __init__(self, directory: Path, disk: JournalDisk) -> None:
        self._directory = directory / "large"
        self._disk = disk

    def keep(self, pieces: Iterable[bytes]) -> BlobReference:
        """Durable when it returns. Holds a part of it in memory at a time. Raises OSError, and then nothing is kept."""
        self._directory.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
        passing = self._directory / f"{secrets.token_hex(8)}{_UNFINISHED}"
        try:
            reference = self._write(passing, pieces)
            self._disk.replace(passing, self._directory / reference.sha256)
            self._disk.sync_directory(self._directory)
        except BaseException:
            with contextlib.suppress(OSError):
                passing.unlink(missing_ok=True)
            raise
        return reference

    def read(self, sha256: str, offset: int, size: int) -> bytes:
        """At most so many bytes from there on. Raises OSError."""
        with (self._directory / sha256).open("rb") as file:
            file.seek(offset)
            return file.read(size)

    def load(self, sha256: str) -> JsonObject | None:
        """The whole result; None where it is not what was written any more."""
        try:
            raw = (self._directory / sha256).read_bytes()
        except OSError:
            return None
        if hashlib.sha256(raw).hexdigest() != sha256:
            return None
        found: JsonObject = msgspec.json.decode(raw)
        return found

    def remove(self, sha256: str) -> None:
        """Where it can't be removed, the next start will."""
        with contextlib.suppress(OSError):
            self._disk.unlink(self._directory / sha256)

    def tidy(self, referenced: Collection[str]) -> None:
        """Removes what no journal names, unless it is so young that one is about to."""
        with contextlib.suppress(OSError):
            for path in self._directory.iterdir():
                if path.name not in referenced and time.time() - path.stat().st_mtime > _YOUNG_SECONDS:
                    path.unlink(missing_ok=True)

    def _write(self, path: Path, pieces: Iterable[bytes]) -> BlobReference:
        digest, size = hashlib.sha256(), 0
        descriptor = self._disk.create(path)
        try:
            waiting = bytearray()
            for piece in pieces:
                digest.update(piece)
                size += len(piece)
                waiting += piece
                if len(waiting) >= _WRITE_BYTES:
                    self._disk.write(descriptor, bytes(waiting))
                    waiting.clear()
            self._disk.write(descriptor, bytes(waiting))
            self._disk.flush(descriptor)
        finally:
            self._disk.close(descriptor)
        return BlobReference(sha256=digest.hexdigest(), size=size)
