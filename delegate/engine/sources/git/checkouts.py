"""A commit with all that a checkout of it would have: its submodules, each at the commit that the tree names, and what Git LFS keeps
elsewhere.

Nothing is fetched before it is read: a submodule when somebody enters it, an object of Git LFS when a file is read that points to it.
Each submodule is a mirror like any other repository, so that one which many Applications share is fetched once.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from delegate.engine.sources.commands import Command, run_command
from delegate.engine.sources.errors import CorruptRepositoryError, SourceTooLargeError, SubmoduleError
from delegate.engine.sources.git import submodules
from delegate.engine.sources.git.lfs import SETTINGS, LargeFiles, has_pointer
from delegate.engine.sources.git.objects import CommitTree
from delegate.engine.sources.git.urls import RepositoryUrl
from delegate.engine.sources.limits import SourceLimits
from delegate.engine.sources.loader.files import SourceFile
from delegate.engine.sources.trees import Entry, EntryKind, Found
from delegate.foundation.errors import DelegateError

_SETTINGS_SECONDS = 30.0


class Wanted(NamedTuple):
    """What is to be had beside the commit itself."""

    submodules: bool = False
    large_files: bool = False

    def __bool__(self) -> bool:
        return self.submodules or self.large_files


class Spot(NamedTuple):
    """Where something is: in which repository of the checkout, at which path of it, and its object's id."""

    module: int
    path: str
    name: str


class Module(NamedTuple):
    """One repository of a checkout. `depth` is how many others it is in; `large_files` is None where those are left alone."""

    url: RepositoryUrl
    tree: CommitTree
    environment: Mapping[str, str]
    depth: int
    large_files: LargeFiles | None


OpenModule = Callable[[RepositoryUrl, str, int], Awaitable[Module]]
"""Opens a repository at a commit; the number is its depth."""
Discard = Callable[[RepositoryUrl, CorruptRepositoryError], Awaitable[bool]]


class Checkout:
    """A tree of several repositories. `limits` bound all of them together."""

    def __init__(
        self, top: Module, *, wanted: Wanted, open_module: OpenModule, discard: Discard, allow_http: bool, limits: SourceLimits
    ) -> None:
        self._modules = [top]
        self._wanted = wanted
        self._open_module = open_module
        self._discard = discard
        self._allow_http = allow_http
        self._limits = limits
        self._opened: dict[Spot, Entry[Spot]] = {}
        self._settings: dict[tuple[int, str], Mapping[str, str]] = {}

    @property
    def root(self) -> Entry[Spot]:
        return self._root_of(0)

    async def list_directory(self, handle: Spot, shown: str) -> Mapping[str, Entry[Spot]]:
        module, path, name = handle
        try:
            members = await self._modules[module].tree.list_directory(name, shown)
        except CorruptRepositoryError as error:
            raise await self._discarded(module, error) from error
        prefix = f"{path}/" if path else ""
        return {member: Entry(entry.kind, Spot(module, prefix + member, entry.handle)) for member, entry in members.items()}

    async def read_link(self, handle: Spot, shown: str) -> str:
        return await self._modules[handle.module].tree.read_link(handle.name, shown)

    async def open_submodule(self, handle: Spot, shown: str) -> Entry[Spot] | None:
        """The submodule's own top, fetched where it isn't here; None where submodules are not wanted.

        Raises SubmoduleError, naming the submodule: its address is not to be fetched from, it nests too deep, there are too many.
        And the faults of reaching its repository, with its path in front.
        """
        if not self._wanted.submodules:
            return None
        if handle not in self._opened:
            url = await self._url_of(handle)
            try:
                module = await self._open_module(url, handle.name, self._modules[handle.module].depth + 1)
            except DelegateError as error:
                error.message = f"submodule {handle.path}: {error.message}"
                error.file = error.file or shown
                raise
            self._modules.append(module)
            self._opened[handle] = self._root_of(len(self._modules) - 1)
        return self._opened[handle]

    async def read_files(self, found: Sequence[Found[Spot]]) -> list[SourceFile]:
        """Raises SourceTooLargeError, and the faults of fetching what Git LFS keeps."""
        files: dict[int, SourceFile] = {}
        for module in {each.handle.module for each in found}:
            places = [index for index, each in enumerate(found) if each.handle.module == module]
            read = await self._read_of(module, [Found(found[index].path, found[index].handle.name) for index in places])
            files |= dict(zip(places, read, strict=True))
        if sum(len(file.data) for file in files.values()) > self._limits.total_bytes:
            raise SourceTooLargeError(f"more than {self._limits.total_bytes} bytes of manifests", hint="choose a deeper path")
        return [files[index] for index in range(len(found))]

    def fingerprint(self, found: Sequence[Found[Spot]]) -> str:
        """Of the objects at their paths; a submodule's commit has no part in it, and a pointer stands for what it points to."""
        kept = self._modules[0].tree.fingerprint([Found(each.path, each.handle.name) for each in found])
        return f"{kept} large files" if self._wanted.large_files else kept

    async def _read_of(self, module: int, found: Sequence[Found[str]]) -> list[SourceFile]:
        try:
            files = await self._modules[module].tree.read_files(found)
        except CorruptRepositoryError as error:
            raise await self._discarded(module, error) from error
        large_files = self._modules[module].large_files
        if large_files is None or not has_pointer(files):
            return files
        return await large_files.fill(files, await self._settings_of(module, SETTINGS))

    async def _url_of(self, handle: Spot) -> RepositoryUrl:
        module, path, _ = handle
        superproject = self._modules[module]
        if superproject.depth >= self._limits.submodule_depth:
            raise SubmoduleError(f"submodule {path}: submodules nest deeper than {self._limits.submodule_depth} levels", file=path)
        if len(self._modules) > self._limits.submodules:
            raise SubmoduleError(f"submodule {path}: more than {self._limits.submodules} submodules are read", hint="choose a deeper path")
        addresses = submodules.addresses_of(await self._settings_of(module, submodules.FILE))
        if not addresses.get(path):
            words = f"submodule {path}: {submodules.FILE} of {superproject.url.shown} doesn't say where it is"
            raise SubmoduleError(words, hint="`git submodule add` writes it there", file=path)
        return submodules.submodule_of(superproject.url, path, addresses[path], allow_http=self._allow_http)

    async def _settings_of(self, module: int, file: str) -> Mapping[str, str]:
        """The settings in a file at the top of a repository, in git's own format; none where there is no such file."""
        key = module, file
        if key not in self._settings:
            tree = self._modules[module].tree
            entry = (await tree.list_directory(tree.root.handle, file)).get(file)
            if entry is None or entry.kind is not EntryKind.FILE:
                return self._settings.setdefault(key, {})
            (read,) = await tree.read_files([Found(file, entry.handle)])
            self._settings[key] = await _read_settings(read, self._modules[module].environment)
        return self._settings[key]

    async def _discarded(self, module: int, error: CorruptRepositoryError) -> CorruptRepositoryError:
        """The mirror of a submodule is thrown away here; the top's own is for whoever opened it."""
        if module:
            await self._discard(self._modules[module].url, error)
        return error

    def _root_of(self, module: int) -> Entry[Spot]:
        kind, name = self._modules[module].tree.root
        return Entry(kind, Spot(module, "", name))


async def _read_settings(file: SourceFile, environment: Mapping[str, str]) -> Mapping[str, str]:
    """Read by git itself, without what they include. Names are `section.subsection.name`; of one that is there twice the last counts."""
    command = Command(("git", "config", "--no-includes", "--file=-", "--null", "--list"), environment, directory=Path("/"))
    completed = await run_command(command, timeout=_SETTINGS_SECONDS, stdin=file.data)
    if completed.exit_code != 0:
        raise SubmoduleError(f"{file.path} can't be read by git", hint="`git config --file` says more", file=file.path)
    lines = completed.stdout.decode(errors="replace").split("\0")
    return dict(line.split("\n", 1) for line in lines if "\n" in line)
