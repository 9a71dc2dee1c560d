"""Keeps what is known of repositories up to date: read again when a file of the directory changes, never on a timer.

The directory holds, as Argo CD writes them, Secrets and ConfigMaps in YAML or JSON files; and a mounted Secret as a
directory of its own, each field a file in it. A directory that can't be read as a whole leaves what was known before.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path

import structlog

from delegate.engine.sources.access.entries import Access, Entry, Kind, find_entry, read_access, read_entry
from delegate.engine.sources.errors import AccessError
from delegate.engine.sources.limits import MEBIBYTE, SourceLimits
from delegate.engine.sources.loader.documents import as_object
from delegate.engine.sources.loader.files import SourceFile
from delegate.engine.sources.loader.plain import decode_documents
from delegate.foundation.errors import DelegateError
from delegate.foundation.redaction import KNOWN_SECRETS
from delegate.model.resources import JsonObject

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

ReadSecrets = Callable[[], Awaitable[Sequence[JsonObject]]]
"""Secrets and ConfigMaps from elsewhere, a cluster for instance, as they are now; cheap to call."""

_SUFFIXES = (".yaml", ".yml", ".json")
_MOST_FILES = 1000
_LIMITS = SourceLimits(file_bytes=MEBIBYTE)
_TEMPLATE_FILE = "secret-type"
_LINED = ("sshPrivateKey", "tlsClientCertData", "tlsClientCertKey", "githubAppPrivateKey")
"""Fields whose last line end counts."""
_Signature = tuple[tuple[str, int, int, int], ...]


class AccessBook:
    """Who we are to each repository. `entries` are there from the start, and weaker than what is read."""

    def __init__(self, directory: Path | None = None, *, entries: Sequence[Entry] = (), read_secrets: ReadSecrets | None = None) -> None:
        self._directory = directory
        self._given = tuple(entries)
        self._read_secrets = read_secrets
        self._signature: _Signature | None = None
        self._from_files = Access()
        self._lock = asyncio.Lock()
        for entry in self._given:
            _hide(entry)

    async def find(self, url: str, kinds: Iterable[Kind]) -> Entry | None:
        """The entry for an address, None where there is none. Raises AccessError where none could ever be read."""
        return find_entry([*(await self.current()).entries, *self._given], url, kinds)

    async def named(self, name: str) -> Entry | None:
        """The repository that a chart calls `@name`."""
        found = [*(await self.current()).entries, *self._given]
        return next((entry for entry in found if entry.name == name and not entry.is_template), None)

    async def current(self) -> Access:
        """Everything, as it is now."""
        access = await self._read_directory()
        if self._read_secrets is None:
            return access
        found = read_access((body, "Secret") for body in await self._read_secrets())
        for entry in found.entries:
            _hide(entry)
        return access.joined(found)

    async def _read_directory(self) -> Access:
        if self._directory is None:
            return self._from_files
        async with self._lock:
            signature = await asyncio.to_thread(_sign, self._directory)
            if signature == self._signature:
                return self._from_files
            try:
                self._from_files = await asyncio.to_thread(_read, self._directory)
            except DelegateError as error:
                if self._signature is None:
                    raise
                log.warning("repositories.unreadable", directory=str(self._directory), error=str(error))
            else:
                log.info("repositories.read", directory=str(self._directory), entries=len(self._from_files.entries))
            self._signature = signature
            return self._from_files


def _sign(directory: Path) -> _Signature:
    """Changes when any file does. Raises AccessError."""
    found = []
    try:
        for path in _files(directory):
            status = path.stat()
            found.append((str(path), status.st_mtime_ns, status.st_size, status.st_ino))
    except OSError as error:
        words = f"{directory} can't be read: {os.strerror(error.errno or 0)}"
        raise AccessError(words, hint="check DELEGATE_REPOSITORIES_DIR", file=str(directory)) from error
    return tuple(found)


def _files(directory: Path) -> list[Path]:
    """The files of a directory and of the directories in it; names with a dot in front are the kubelet's."""
    found = []
    for path in sorted(directory.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_dir():
            found += sorted(each for each in path.iterdir() if not each.name.startswith(".") and each.is_file())
        elif path.name.endswith(_SUFFIXES):
            found.append(path)
    if len(found) > _MOST_FILES:
        raise AccessError(f"{directory} holds more than {_MOST_FILES} files", file=str(directory))
    return found


def _read(directory: Path) -> Access:
    documents: list[tuple[JsonObject, str]] = []
    mounted: dict[Path, dict[str, str]] = {}
    for path in _files(directory):
        try:
            data = path.read_bytes()
        except OSError as error:
            raise AccessError(f"it can't be read: {os.strerror(error.errno or 0)}", file=str(path)) from error
        if path.parent != directory:
            mounted.setdefault(path.parent, {})[path.name] = data.decode(errors="replace")
            continue
        for document in decode_documents(SourceFile(str(path), data), _LIMITS):
            body = as_object(document.body) or {}
            items = body.get("items") if str(body.get("kind", "")).endswith("List") else None
            documents += [(each, str(path)) for each in (items if isinstance(items, list) else [body]) if isinstance(each, dict)]
    access = read_access(documents)
    access = access.joined(Access(tuple(_mounted_entry(path, fields) for path, fields in mounted.items() if "url" in fields)))
    for entry in access.entries:
        _hide(entry)
    return access


def _mounted_entry(directory: Path, fields: Mapping[str, str]) -> Entry:
    """A Secret that was mounted: labels are lost, so a file may say that it is a template."""
    kept = {
        name: text if name in ("sshPrivateKey", "tlsClientCertData", "tlsClientCertKey") else text.strip() for name, text in fields.items()
    }
    return read_entry(kept, str(directory), is_template=kept.get(_TEMPLATE_FILE) == "repo-creds")


def _hide(entry: Entry) -> None:
    for secret in entry.secrets:
        KNOWN_SECRETS.add(secret)
