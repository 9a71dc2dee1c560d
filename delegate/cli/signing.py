"""Keys that sign tasks, in files, and tasks signed with them."""

import datetime as dt
import os
from pathlib import Path

from delegate.foundation.errors import Category, DelegateError
from delegate.foundation.quantities import parse_duration
from delegate.model.tasks import Task


class KeyFileError(DelegateError):
    """A key's file that can't be read or made."""

    default_code = "input.key_file"
    category = Category.INPUT


def sign_with(task: Task, key_file: str, life: str) -> Task:
    """The task, signed where a key is given. Raises KeyFileError, SigningKeyError, UnreadablePemError."""
    if not key_file:
        return task
    from delegate.protocol.pki.keys import read_key  # noqa: PLC0415 - slow to import
    from delegate.protocol.signatures import sign_task  # noqa: PLC0415

    try:
        seconds = parse_duration(life)
    except ValueError as error:
        raise KeyFileError(f"--sign-for: {error}") from error
    try:
        pem = Path(key_file).read_bytes()
    except OSError as error:
        raise KeyFileError(
            f"the key can't be read: {error.strerror}", file=key_file, hint="make one: delegate task make-key FILE"
        ) from error
    return sign_task(task, read_key(pem), now=dt.datetime.now(dt.UTC), life=dt.timedelta(seconds=seconds))


def make_key_file(path: str) -> str:
    """Writes a new key; its public half. Raises KeyFileError where the file exists or can't be written."""
    from delegate.protocol.signatures import make_signing_key, write_public_key  # noqa: PLC0415 - slow to import

    key = make_signing_key()
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise KeyFileError("there is such a file already", file=path, hint="name one that is not there: no key is overwritten") from None
    except OSError as error:
        raise KeyFileError(f"the key can't be written: {error.strerror}", file=path) from error
    with os.fdopen(descriptor, "wb") as file:
        file.write(key.to_pem())
    return write_public_key(key)
