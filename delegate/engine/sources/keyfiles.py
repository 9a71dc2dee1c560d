"""Secrets that a program can only take from a file: written for its eyes alone, and gone again."""

import asyncio
import contextlib
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

from delegate.engine.sources.errors import CacheDirectoryError


@contextlib.contextmanager
def private_file(text: str) -> Iterator[str]:
    """The name of a file with mode 0600 that holds a text. Blocks."""
    descriptor, name = tempfile.mkstemp()
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        yield name
    finally:
        os.unlink(name)


@contextlib.asynccontextmanager
async def private_files(parent: Path, texts: Mapping[str, str]) -> AsyncIterator[Mapping[str, Path]]:
    """Files with mode 0600 in a directory of their own below `parent`, by name; none where there are no texts.

    Raises CacheDirectoryError.
    """
    if not texts:
        yield {}
        return
    try:
        directory = await asyncio.to_thread(_write, parent, texts)
    except OSError as error:
        words = f"{parent}: credentials can't be written for the moment that they are used: {os.strerror(error.errno or 0)}"
        raise CacheDirectoryError(words, hint="make the state directory writable") from error
    try:
        yield {name: directory / name for name in texts}
    finally:
        await asyncio.shield(asyncio.to_thread(shutil.rmtree, directory, True))


def _write(parent: Path, texts: Mapping[str, str]) -> Path:
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(dir=parent))
    for name, text in texts.items():
        descriptor = os.open(directory / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text if text.endswith("\n") else text + "\n")
    return directory
