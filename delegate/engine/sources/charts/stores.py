"""Fetched archives on disk, by their digest: a version that was fetched once is not fetched again."""

import asyncio
import contextlib
import hashlib
import os
from pathlib import Path

from delegate.engine.sources.errors import CacheDirectoryError

_MOST_FILES = 200


class ArchiveStore:
    """What is read is checked, so a file that was cut short or changed is none."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def get(self, digest: str) -> bytes | None:
        return await asyncio.to_thread(self._read, digest) if digest else None

    async def put(self, data: bytes) -> str:
        """Keeps an archive and returns its digest. Raises CacheDirectoryError."""
        try:
            return await asyncio.to_thread(self._write, data)
        except OSError as error:
            words = f"{self._directory} can't be written: {os.strerror(error.errno or 0)}"
            raise CacheDirectoryError(words, hint="make room, or make the state directory writable") from error

    def _read(self, digest: str) -> bytes | None:
        path = self._directory / f"{digest}.tgz"
        try:
            data = path.read_bytes()
            os.utime(path)
        except OSError:
            return None
        return data if hashlib.sha256(data).hexdigest() == digest else None

    def _write(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished = self._directory / f".{digest}.{os.getpid()}"
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        unfinished.replace(self._directory / f"{digest}.tgz")
        self._prune()
        return digest

    def _prune(self) -> None:
        """The oldest ones go; another process may be doing the same."""
        with contextlib.suppress(OSError):
            files = sorted(self._directory.glob("*.tgz"), key=lambda path: path.stat().st_mtime)
            for path in files[:-_MOST_FILES]:
                path.unlink(missing_ok=True)
