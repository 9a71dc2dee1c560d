"""One writer a mirror, among the tasks of this process and among processes."""

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncIterator
from pathlib import Path

from delegate.engine.sources.errors import CacheDirectoryError

_POLL_SECONDS = 0.05


class MirrorLock:
    """An asyncio lock in front of an advisory file lock (flock).

    The file's descriptor is handed to the git processes that write: one that outlives us, because we were killed, keeps
    the lock until it has ended.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._within = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def held(self) -> AsyncIterator[int]:
        """Holds the lock and yields its descriptor. Waits for as long as the caller's own deadline lets it.

        Raises CacheDirectoryError where the lock's file can't be made.
        """
        async with self._within:
            descriptor = self._open()
            try:
                while not _try_lock(descriptor):  # noqa: ASYNC110 - flock tells nobody when it becomes free
                    await asyncio.sleep(_POLL_SECONDS)
                yield descriptor
            finally:
                os.close(descriptor)

    def _open(self) -> int:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            words = f"{self._path} can't be made: {os.strerror(error.errno or 0)}"
            raise CacheDirectoryError(words, hint="make the directory writable, or choose another one") from error


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
