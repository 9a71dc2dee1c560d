"""Finds the manifest files below a path of a tree.

Links that lead out of the tree, in circles or nowhere are named. Files come in path order, directory by directory, as
kubectl and Argo CD walk.
"""

from typing import Generic

from delegate.engine.sources.errors import (
    LinkError,
    NoManifestsError,
    PathNotFoundError,
    SourceTooLargeError,
    SubmoduleError,
    UnreadableFileError,
)
from delegate.engine.sources.globs import Filter
from delegate.engine.sources.limits import SourceLimits
from delegate.engine.sources.trees import (
    CircleError,
    Entry,
    EntryKind,
    Found,
    Handle,
    InSubmoduleError,
    MissingError,
    OutsideError,
    Place,
    Tree,
    find_place,
    opened,
    split_path,
    text_of,
    top_of,
)


class Search(Generic[Handle]):
    """One search for the manifests of a source."""

    def __init__(self, tree: Tree[Handle], *, recurse: bool, chosen: Filter, limits: SourceLimits, where: str) -> None:
        self._tree = tree
        self._recurse = recurse
        self._chosen = chosen
        self._limits = limits
        self._where = where
        self._found: list[Found[Handle]] = []
        self._start: tuple[str, ...] = ()
        self._entered: list[tuple[str, ...]] = []
        self._directories = 0
        self.notices: list[str] = []

    async def find(self, path: str) -> list[Found[Handle]]:
        """The manifest files at `path` (a directory or one file), in path order.

        Raises PathNotFoundError, NoManifestsError, LinkError, SubmoduleError, UnreadableFileError, SourceTooLargeError.
        """
        parts = split_path(path)
        shown = text_of(parts) or "."
        place = await find_start(self._tree, path, self._where)
        kind = place.entry.kind
        if kind is EntryKind.FILE:
            return [Found(shown, place.entry.handle)]
        if kind is EntryKind.SUBMODULE:
            raise absent_submodule(shown, self._where)
        if kind is not EntryKind.DIRECTORY:
            raise UnreadableFileError(f"{self._where}: {shown} is neither a directory nor a file", file=shown)
        self._start = parts
        await self._walk(place, parts)
        if not self._found:
            words = "*.yaml, *.yml or *.json" + (" that is included" if self._chosen else "")
            hint = "check the path" if self._recurse else "directories below it are not read, because recurse is off"
            raise NoManifestsError(f"{self._where}: no manifests in {shown}: there is no {words}", hint=hint, file=shown)
        return self._found

    async def _walk(self, place: Place[Handle], shown: tuple[str, ...]) -> None:
        self._directories += 1
        if len(self._entered) > self._limits.directory_depth or self._directories > self._limits.files:
            words = f"directories nest deeper than {self._limits.directory_depth} levels, or are more than {self._limits.files}"
            raise SourceTooLargeError(f"{self._where}: {words}, at {text_of(shown)}", hint="choose a deeper path")
        self._entered.append(place.path)
        members = await self._tree.list_directory(place.entry.handle, text_of(shown))
        for name in sorted(members):
            await self._take(place, name, members[name], (*shown, name))
        self._entered.pop()

    async def _take(self, place: Place[Handle], name: str, entry: Entry[Handle], shown: tuple[str, ...]) -> None:
        path = text_of(shown)
        relative = text_of(shown[len(self._start) :])
        is_manifest = self._chosen.accepts_file(relative)
        match entry.kind:
            case EntryKind.FILE:
                if is_manifest:
                    self._add(path, entry.handle)
            case EntryKind.DIRECTORY:
                if self._recurse and name != ".git":
                    await self._walk(Place((*place.above, (name, place.entry)), entry), shown)
            case EntryKind.LINK:
                await self._follow(place, name, shown, is_manifest=is_manifest, excluded=self._chosen.excludes(relative))
            case EntryKind.SUBMODULE:
                if self._recurse and not self._chosen.excludes(relative):
                    entry = await opened(self._tree, entry, path)
                    if entry.kind is EntryKind.SUBMODULE:
                        raise absent_submodule(path, self._where)
                    await self._walk(Place((*place.above, (name, place.entry)), entry), shown)
            case EntryKind.OTHER:
                if is_manifest:
                    raise UnreadableFileError(f"{self._where}: {path} is no regular file", file=path)

    async def _follow(self, place: Place[Handle], name: str, shown: tuple[str, ...], *, is_manifest: bool, excluded: bool) -> None:
        if excluded:
            return
        path = text_of(shown)
        try:
            target = await find_place(self._tree, place, (name,))
        except OutsideError:
            raise LinkError(f"{self._where}: {path} is a link that leads out of the source", hint=_LINK_HINT, file=path) from None
        except CircleError:
            raise LinkError(f"{self._where}: {path} is a link that leads in circles", hint=_LINK_HINT, file=path) from None
        except MissingError:
            if is_manifest:
                raise LinkError(f"{self._where}: {path} is a link to nothing", hint=_LINK_HINT, file=path) from None
            self.notices.append(f"{path}: a link to nothing is skipped")
            return
        match target.entry.kind:
            case EntryKind.FILE if is_manifest:
                self._add(path, target.entry.handle)
            case EntryKind.DIRECTORY if self._recurse:
                if target.path in self._entered:
                    raise LinkError(f"{self._where}: {path} is a link that leads in circles", hint=_LINK_HINT, file=path)
                await self._walk(target, shown)
            case EntryKind.SUBMODULE if self._recurse:
                raise absent_submodule(path, self._where)
            case _:
                pass

    def _add(self, path: str, handle: Handle) -> None:
        if len(self._found) >= self._limits.files:
            raise SourceTooLargeError(f"{self._where}: more than {self._limits.files} files", hint="choose a deeper path, or exclude some")
        self._found.append(Found(path, handle))


async def find_start(tree: Tree[Handle], path: str, where: str) -> Place[Handle]:
    """The place that a source's path leads to. Raises PathNotFoundError, LinkError, SubmoduleError."""
    parts = split_path(path)
    shown = text_of(parts) or "."
    try:
        return await find_place(tree, top_of(tree), parts)
    except OutsideError:
        raise LinkError(f"{where}: {shown} leads out of the source", file=shown) from None
    except CircleError:
        raise LinkError(f"{where}: {shown} leads in circles", file=shown) from None
    except InSubmoduleError as error:
        raise absent_submodule(error.path, where) from None
    except MissingError:
        hint = "check the path; it is taken from the top of the source"
        raise PathNotFoundError(f"{where}: there is no {shown}", hint=hint, file=shown) from None


_LINK_HINT = "point it to a file inside the source, or leave it out with `exclude`"


def absent_submodule(path: str, where: str) -> SubmoduleError:
    hint = "say `submodules: true` of the source (or DELEGATE_GIT_SUBMODULES) to have it fetched, or leave it out with `exclude`"
    return SubmoduleError(f"{where}: {path} is a submodule, whose content is not here", hint=hint, file=path)
