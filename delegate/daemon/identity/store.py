"""The identity in the state directory: which instance this is, and what the manager knows it as.

One file, readable by its owner alone, replaced whole. The instance outlives processes and tokens: enrolling again with it gives
the same delegate. Each start of a process counts up, so that the manager can tell a restart from a copy.
"""

import contextlib
import fcntl
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec

from delegate.daemon.directories import PRIVATE_FILE, StateDirectoryError, explain_fault, replace_file
from delegate.foundation.secrets import Secret

_FILE = "identity.json"
_LOCK = ".identity.lock"


class Identity(msgspec.Struct, frozen=True):
    """`delegate_id` is empty until the manager knows this instance; then `refresh_token` is what proves it.

    `token_mark` tells the delegate token that it enrolled with last from others; empty where that was none, or is not known.
    """

    instance: str
    delegate_id: str = ""
    refresh_token: Secret = Secret("")
    boot_count: int = 0
    token_mark: str = ""

    @property
    def enrolled(self) -> bool:
        return bool(self.delegate_id and self.refresh_token)


class _Stored(msgspec.Struct, frozen=True, rename="camel"):
    instance: str
    delegate_id: str = ""
    refresh_token: str = ""
    boot_count: int = 0
    token_mark: str = ""


class IdentityStore:
    """Reads and writes the identity of one state directory. Safe against a second process with the same directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory / _FILE

    def begin(self, instance: str = "") -> Identity:
        """The identity of a starting process, counted up; made where there is none. Raises StateDirectoryError.

        `instance` names a new one (a pod's uid); an identity that is there already is kept.
        """
        try:
            with self._locked():
                stored = self._read() or _Stored(instance or str(uuid.uuid4()))
                stored = msgspec.structs.replace(stored, boot_count=stored.boot_count + 1)
                self._write(stored)
        except OSError as error:
            raise explain_fault(self._directory, error) from error
        return _shown(stored)

    def enrol(self, delegate_id: str, refresh_token: Secret, token_mark: str = "") -> Identity:
        """Keeps what the manager made of this instance. Raises StateDirectoryError."""
        try:
            with self._locked():
                stored = self._read()
                assert stored is not None, "begin() comes first"
                stored = msgspec.structs.replace(
                    stored, delegate_id=delegate_id, refresh_token=refresh_token.reveal(), token_mark=token_mark
                )
                self._write(stored)
        except OSError as error:
            raise explain_fault(self._directory, error) from error
        return _shown(stored)

    def owner(self) -> int:
        """The uid of the delegate whose identity it is; this process's where there is none."""
        try:
            return self._path.stat().st_uid
        except OSError:
            return os.geteuid()

    def look(self) -> Identity | None:
        """The identity as it is now; None where there is none. Changes nothing. Raises StateDirectoryError."""
        try:
            stored = self._read()
        except OSError as error:
            raise StateDirectoryError(
                f"{self._path} can't be read: {error.strerror}", hint="run this as the delegate's user", file=str(self._path)
            ) from error
        return None if stored is None else _shown(stored)

    def _read(self) -> _Stored | None:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_Stored)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise StateDirectoryError(
                f"{self._path} holds no identity: {error}",
                hint=f"restore the file, or remove it to enrol anew with DELEGATE_TOKEN (results kept in {self._directory} stay)",
                file=str(self._path),
            ) from error

    def _write(self, stored: _Stored) -> None:
        replace_file(self._path, msgspec.json.encode(stored))

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        descriptor = os.open(self._directory / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, PRIVATE_FILE)
        try:
            with contextlib.suppress(OSError):  # a file system without locks has no second process to fear either
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _shown(stored: _Stored) -> Identity:
    return Identity(stored.instance, stored.delegate_id, Secret(stored.refresh_token), stored.boot_count, stored.token_mark)
