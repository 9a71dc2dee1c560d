"""The directory that must not lose anything: made private, tried before it is relied on, and written durably."""

import contextlib
import errno
import os
import secrets
from pathlib import Path

from delegate.foundation.errors import Category, DelegateError

PRIVATE_DIRECTORY = 0o700
PRIVATE_FILE = 0o600


class StateDirectoryError(DelegateError):
    """The directory can't be used; the message names it, the hint the remedy."""

    default_code = "input.state_directory"
    category = Category.INPUT


def prepare_directory(directory: Path) -> None:
    """Makes the directory where it is missing and proves, by writing, that it keeps files. Raises StateDirectoryError."""
    probe = directory / f".probe-{secrets.token_hex(4)}"
    try:
        directory.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
        descriptor = os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, PRIVATE_FILE)
        try:
            write_all(descriptor, bytes(4096))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise explain_fault(directory, error) from error
    finally:
        with contextlib.suppress(OSError):
            probe.unlink(missing_ok=True)


def explain_fault(
    directory: Path, error: OSError, *, called: str = "state directory", variable: str = "DELEGATE_STATE_DIR"
) -> StateDirectoryError:
    """What stands in the way of keeping files here, and what to do about it; `variable` is where the directory is set."""
    reason = error.strerror or str(error)
    let_write = f"let the user with uid {os.getuid()} write there, or set {variable} to a directory it owns"
    remedies = {
        errno.EROFS: f"mount it writable, or set {variable} to a directory that is",
        errno.EACCES: let_write,
        errno.EPERM: let_write,
        errno.ENOSPC: f"free some space there, or set {variable} to a volume that has some",
        errno.EDQUOT: f"raise the quota, or set {variable} to a volume that has room",
        errno.ENOTDIR: f"a file stands where a directory is needed; set {variable} to a directory",
        errno.EEXIST: f"a file stands where a directory is needed; set {variable} to a directory",
    }
    hint = remedies.get(error.errno or 0, f"set {variable} to a directory that can be written and keeps its files")
    return StateDirectoryError(f"the {called} {directory} can't be written: {reason}", hint=hint, file=str(directory))


def write_all(descriptor: int, data: bytes) -> None:
    """Writes every byte; a short write goes on where it stopped."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def replace_file(path: Path, data: bytes) -> None:
    """The file holds either its old content or all of the new one, also after a power cut. Raises OSError."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, PRIVATE_FILE)
        try:
            write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Makes names that were added to or taken from the directory durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
