"""Fetched files on disk, by the SHA-256 of what they hold: what was fetched once is not fetched again."""

import asyncio
import contextlib
import hashlib
import os
from pathlib import Path

from delegate.engine.sources.errors import CacheDirectoryError

_UNFINISHED = "."


class DigestStore:
    """The files used last. What is read is checked, so a file that was cut short or changed is none."""

    def __init__(self, directory: Path, *, most_files: int) -> None:
        self._directory = directory
        self._most = most_files

    async def get(self, digest: str) -> bytes | None:
        return await asyncio.to_thread(self._read, digest) if digest else None

    async def put(self, data: bytes) -> str:
        """Keeps a file and returns its digest. Raises CacheDirectoryError."""
        try:
            return await asyncio.to_thread(self._write, data)
        except OSError as error:
            words = f"{self._directory} can't be written: {os.strerror(error.errno or 0)}"
            raise CacheDirectoryError(words, hint="make room, or make the state directory writable") from error

    def _read(self, digest: str) -> bytes | None:
        path = self._directory / digest
        try:
            data = path.read_bytes()
            os.utime(path)
        except OSError:
            return None
        return data if hashlib.sha256(data).hexdigest() == digest else None

    def _write(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished = self._directory / f"{_UNFINISHED}{digest}.{os.getpid()}"
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        unfinished.replace(self._directory / digest)
        self._prune()
        return digest

    def _prune(self) -> None:
        """The oldest ones go; another process may be doing the same."""
        with contextlib.suppress(OSError):
            files = [path for path in self._directory.iterdir() if not path.name.startswith(_UNFINISHED)]
            for path in sorted(files, key=lambda path: path.stat().st_mtime)[: -self._most]:
                path.unlink(missing_ok=True)
