"""The files of one commit, by path: what may be edited there, and what a path leads to.

Nothing is ever checked out: contents come from the mirror's objects, so that no link, filter, attribute or hook of a commit has a say.
"""

import posixpath
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from delegate.engine.sources.errors import SourceTooLargeError
from delegate.engine.sources.git.mirrors import Mirror
from delegate.engine.sources.git.objects import open_objects
from delegate.engine.sources.limits import SourceLimits
from delegate.model.updates.errors import EditedFileError

_LINK, _SUBMODULE, _FILES = "120000", "160000", ("100644", "100755")
_MOST_LINKS = 40
_NAMES = ("Kustomization",)
_ENDINGS = (".yaml", ".yml")
_HINT = "name the file itself, below the top of the repository"


class Entry(NamedTuple):
    mode: str
    id: str


class CommitFiles:
    """The files of a commit that the mirror holds."""

    def __init__(self, mirror: Mirror, commit: str, entries: Mapping[str, Entry], limits: SourceLimits) -> None:
        self.commit = commit
        self.entries = entries
        self._mirror = mirror
        self._limits = limits
        self._directories = {path[:end] for path in entries for end in _slashes(path)}

    async def resolve(self, path: str) -> str:
        """The path that a path leads to, links followed inside of the repository.

        Raises EditedFileError for a link that leads out of it or in circles, a submodule, and what is not there.
        """
        pending, reached = [part for part in posixpath.normpath(path).split("/") if part not in ("", ".")], ""
        for _ in range(_MOST_LINKS):
            while pending:
                candidate = f"{reached}/{pending[0]}" if reached else pending[0]
                entry = self.entries.get(candidate)
                if entry is None and candidate not in self._directories:
                    raise EditedFileError("the file is not in the repository", file=path, hint="check spec.branch and the path")
                pending = pending[1:]
                if entry is not None and entry.mode == _SUBMODULE:
                    raise EditedFileError("this is in a submodule", file=path, hint="name the submodule's own repository")
                if entry is not None and entry.mode == _LINK:
                    pending = [*await self._target(reached, entry, path), *pending]
                    reached = ""
                    break
                reached = candidate
            else:
                return reached
        raise EditedFileError("its symbolic links lead in circles", file=path, hint=_HINT)

    async def read(self, paths: Sequence[str]) -> dict[str, bytes]:
        """The contents of regular files. Raises EditedFileError, SourceTooLargeError."""
        for path in paths:
            if path not in self.entries or self.entries[path].mode not in _FILES:
                raise EditedFileError("this is no file", file=path, hint=_HINT)
        contents = await self._blobs([self.entries[path].id for path in paths])
        return dict(zip(paths, contents, strict=True))

    def below(self, directory: str) -> list[str]:
        """The YAML files below a directory, or that one file. Raises EditedFileError, SourceTooLargeError."""
        prefix = f"{directory}/" if directory else ""
        found = [
            path
            for path, entry in self.entries.items()
            if entry.mode in _FILES
            and (path.startswith(prefix) or path == directory)
            and (path.endswith(_ENDINGS) or path.rpartition("/")[2] in _NAMES)
        ]
        if len(found) > self._limits.files:
            words = f"{directory or 'the repository'} holds more than {self._limits.files} YAML files"
            raise SourceTooLargeError(words, hint="name the directory by spec.path")
        return sorted(found)

    async def _target(self, directory: str, entry: Entry, path: str) -> list[str]:
        (target,) = await self._blobs([entry.id])
        words = target.decode(errors="replace")
        joined = posixpath.normpath(posixpath.join(directory, words))
        if words.startswith("/") or joined.partition("/")[0] == "..":
            raise EditedFileError("a symbolic link on its way leads out of the repository", file=path, hint=_HINT)
        return [part for part in joined.split("/") if part != "."]

    async def _blobs(self, names: Sequence[str]) -> list[bytes]:
        contents: list[bytes] = []
        total = 0
        async with open_objects(self._mirror.path, self._mirror.environment, f"{self._mirror.url.shown} at {self.commit[:12]}") as reader:
            for start in range(0, len(names), 64):
                part = await reader.read_blobs(names[start : start + 64], self._limits.file_bytes)
                total += sum(map(len, part))
                if total > self._limits.total_bytes:
                    words = f"more than {self._limits.total_bytes} bytes of YAML"
                    raise SourceTooLargeError(words, hint="name the directory by spec.path")
                contents += part
        return contents


def read_entries(listing: bytes) -> dict[str, Entry]:
    """What `git ls-tree -r -z` prints: `<mode> <type> <id>\\t<path>`."""
    entries: dict[str, Entry] = {}
    for line in listing.decode(errors="surrogateescape").split("\0"):
        head, tab, path = line.partition("\t")
        if tab:
            mode, _, name = head.split(" ")
            entries[path] = Entry(mode, name)
    return entries


def _slashes(path: str) -> list[int]:
    return [position for position, character in enumerate(path) if character == "/"]
