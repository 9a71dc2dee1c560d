"""The files that rendering a kustomization takes: it, its bases, what they name, and nothing else of the repository.

Bases may stand anywhere in the repository; everything else has to be in or below the directory of the kustomization that
names it, as kustomize demands. Whatever can be told before kustomize runs is told with file and line.
"""

from collections.abc import Iterable
from typing import Generic, NamedTuple

from delegate.engine.sources.errors import KustomizationError, LinkError, OutsideSourceError, RemoteBaseError, SourceTooLargeError
from delegate.engine.sources.exporting import Export
from delegate.engine.sources.kustomize.documents import (
    NAMES,
    Kustomization,
    Reference,
    Role,
    has_scheme,
    looks_remote,
    read_kustomization,
    references_of,
    texts_of,
)
from delegate.engine.sources.limits import SourceLimits
from delegate.engine.sources.loader.files import SourceFile, refuse_pointers
from delegate.engine.sources.loader.plain import decode_documents
from delegate.engine.sources.searching import absent_submodule
from delegate.engine.sources.trees import (
    CircleError,
    EntryKind,
    Found,
    Handle,
    InSubmoduleError,
    MissingError,
    OutsideError,
    Place,
    Tree,
    find_place,
    text_of,
)
from delegate.foundation.errors import DelegateError

_REMOTE_HINT = "copy it into the repository, or make it a source of its own"
_LINK_HINT = "point it to something inside the repository"
_MOST_DIRECTORIES = 1000


class Root(NamedTuple):
    """The kustomization that is rendered: the directory where it really is, its file's name, what it says."""

    directory: tuple[str, ...]
    name: str
    kustomization: Kustomization


class Closure(Generic[Handle]):
    """One walk over a kustomization and all that it needs; `export` collects it, `kustomizations` are those it met."""

    def __init__(self, tree: Tree[Handle], limits: SourceLimits, where: str) -> None:
        self.export: Export[Handle] = Export(limits, where)
        self.kustomizations: list[Kustomization] = []
        self._tree = tree
        self._limits = limits
        self._where = where
        self._entered: set[tuple[str, ...]] = set()
        self._pending: list[tuple[Place[Handle], Kustomization]] = []

    async def collect(self, place: Place[Handle], name: str, also: Iterable[Reference] = ()) -> Root:
        """Walks from the kustomization `name` in the directory `place`. `also` are references that will be written into it.

        Raises KustomizationError, RemoteBaseError, LinkError, SubmoduleError, SourceTooLargeError, and the faults of
        kustomizations that can't be decoded.
        """
        self.export.add_links(place.links)
        root = await self._read(place, name)
        self._entered.add(place.path)
        await self._follow(place, root, [*references_of(root.body), *also])
        while self._pending:
            below, kustomization = self._pending.pop()
            await self._follow(below, kustomization, references_of(kustomization.body))
        return Root(place.path, name, root)

    async def exists(self, place: Place[Handle], text: str) -> bool:
        """Whether something stands at a path from a directory."""
        try:
            await find_place(self._tree, place, text.split("/"))
        except (MissingError, OutsideError, CircleError):
            return False
        return True

    async def _read(self, place: Place[Handle], name: str) -> Kustomization:
        members = await self._tree.list_directory(place.entry.handle, text_of(place.path))
        entry = members[name]
        path = (*place.path, name)
        if entry.kind is EntryKind.LINK:
            entry = (await self._find(place, (name,), text_of(path), Fault(text_of(path), 0))).entry
        if entry.kind is not EntryKind.FILE:
            raise KustomizationError(f"{self._where}: {text_of(path)} is no file", file=text_of(path))
        self.export.add_file(path, entry.handle)
        (file,) = await self._tree.read_files([Found(text_of(path), entry.handle)])
        refuse_pointers([file])
        kustomization = read_kustomization(SourceFile(text_of(path), file.data), self._limits)
        self.kustomizations.append(kustomization)
        return kustomization

    async def _follow(self, place: Place[Handle], kustomization: Kustomization, references: Iterable[Reference]) -> None:
        for reference in references:
            fault = Fault(kustomization.path, kustomization.line(reference.field))
            await self._take(place, reference, fault)

    async def _take(self, place: Place[Handle], reference: Reference, fault: "Fault") -> None:
        text, role = reference.text, reference.role
        if role is Role.PLUGIN and "\n" in text:
            await self._take_mentioned(place, SourceFile(fault.file, text.encode(errors="replace")))
            return
        if role is Role.FILE_OR_TEXT and ("\n" in text or not await self.exists(place, text)):
            return  # a patch as text; what is neither, kustomize refuses
        if has_scheme(text):
            raise fault.of(RemoteBaseError, f"{text} would be fetched, and a render reaches no network", _REMOTE_HINT)
        if text.startswith("/"):
            raise fault.of(KustomizationError, f"{text} is an absolute path", "write it relative to the kustomization")
        try:
            found = await self._find(place, text.split("/"), text, fault)
        except MissingError:
            raise self._missing(text, role, fault) from None
        if found.entry.kind is EntryKind.DIRECTORY and role not in (Role.FILE, Role.FILE_OR_TEXT):
            await self._enter(found, text, fault)
        elif found.entry.kind is EntryKind.FILE and role is not Role.DIRECTORY:
            await self._take_file(place, text, found, fault)
            if role is Role.PLUGIN:
                (file,) = await self._tree.read_files([Found(text, found.entry.handle)])
                await self._take_mentioned(place, file)
        elif found.entry.kind is EntryKind.SUBMODULE:
            raise absent_submodule(text_of(found.path), self._where)
        else:
            wanted = "a directory" if role is Role.DIRECTORY else "a file"
            raise fault.of(KustomizationError, f"{text} is not {wanted}", "")

    async def _enter(self, place: Place[Handle], text: str, fault: "Fault") -> None:
        self.export.add_links(place.links)
        if place.path in self._entered:
            return
        self._entered.add(place.path)
        if len(self._entered) > _MOST_DIRECTORIES:
            raise SourceTooLargeError(f"{self._where}: more than {_MOST_DIRECTORIES} kustomizations", file=fault.file)
        name = await find_kustomization(self._tree, place)
        if not name:
            hint = f"add one of {', '.join(NAMES)}, or list its files"
            raise fault.of(KustomizationError, f"{text} is a directory without a kustomization", hint)
        self._pending.append((place, await self._read(place, name)))

    async def _take_file(self, place: Place[Handle], text: str, found: Place[Handle], fault: "Fault") -> None:
        """A file goes where its name says, though it be a link: kustomize would refuse to follow that one."""
        *above, last = [part for part in text.split("/") if part not in ("", ".")]
        directory = await self._find(place, above, text, fault)
        if directory.path[: len(place.path)] != place.path or last == "..":
            words = f"{text} is not in or below the directory of the kustomization"
            raise fault.of(KustomizationError, words, "kustomize allows that for directories (bases, components) alone")
        self.export.add_file((*directory.path, last), found.entry.handle)

    async def _take_mentioned(self, place: Place[Handle], file: SourceFile) -> None:
        """The files that a plugin's configuration mentions. What can't be read here, kustomize will refuse."""
        try:
            documents = decode_documents(file, self._limits)
        except DelegateError:
            return
        for text in texts_of([document.body for document in documents]):
            if text.startswith("/") or ".." in text.split("/"):
                continue
            try:
                found = await find_place(self._tree, place, text.split("/"))
            except (MissingError, OutsideError, CircleError):
                continue
            if found.entry.kind is EntryKind.FILE:
                await self._take_file(place, text, found, Fault(file.path, 0))

    async def _find(self, place: Place[Handle], parts: Iterable[str], text: str, fault: "Fault") -> Place[Handle]:
        """Raises MissingError where there is nothing."""
        try:
            return await find_place(self._tree, place, list(parts))
        except InSubmoduleError as error:
            raise absent_submodule(error.path, self._where) from None
        except OutsideError:
            kind = OutsideSourceError if ".." in text.split("/") else LinkError
            raise fault.of(kind, f"{text} leads out of the repository", _LINK_HINT) from None
        except CircleError:
            raise fault.of(LinkError, f"{text} leads in circles", _LINK_HINT) from None

    def _missing(self, text: str, role: Role, fault: "Fault") -> DelegateError:
        if role in (Role.FILE_OR_DIRECTORY, Role.DIRECTORY) and looks_remote(text):
            return fault.of(RemoteBaseError, f"{text} would be fetched, and a render reaches no network", _REMOTE_HINT)
        return fault.of(KustomizationError, f"there is no {text}", "check the path; it is relative to the kustomization")


class Fault(NamedTuple):
    """Where something was written that can't be right."""

    file: str
    line: int

    def of(self, kind: type[DelegateError], words: str, hint: str) -> DelegateError:
        return kind(words, hint=hint, file=self.file, line=self.line or None)


async def find_kustomization(tree: Tree[Handle], place: Place[Handle]) -> str:
    """The name of the kustomization file in a directory, empty where there is none. Raises KustomizationError for several."""
    members = await tree.list_directory(place.entry.handle, text_of(place.path))
    names = [name for name in NAMES if name in members]
    if len(names) > 1:
        shown = text_of((*place.path, names[1]))
        raise KustomizationError(f"{' and '.join(names)} are in one directory", hint="keep one of them", file=shown)
    return names[0] if names else ""
