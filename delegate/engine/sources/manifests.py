"""Sources in, manifests out: which commit a source means, and the objects that it holds there.

`Sources` is made once a process. Resolving asks the repository; rendering reads a commit from the mirror (fetching it
first where it isn't there yet), decodes in threads of its own, and keeps what it decoded by the content of the files, so
that a commit which changes nothing below a path costs no decoding.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import msgspec
import structlog

from delegate.engine.sources.directories import LocalTree, roots_for, split_local
from delegate.engine.sources.errors import (
    CorruptRepositoryError,
    GitTimeoutError,
    LocalSourceError,
    OutsideSourceError,
    PathNotFoundError,
    RevisionNotFoundError,
    SourceError,
    SourceTimeoutError,
    TransferError,
)
from delegate.engine.sources.git import references
from delegate.engine.sources.git.mirrors import Mirror
from delegate.engine.sources.git.objects import CommitTree, open_objects
from delegate.engine.sources.git.settings import GitSettings
from delegate.engine.sources.git.urls import RepositoryUrl, parse_url
from delegate.engine.sources.limits import SourceLimits
from delegate.engine.sources.loader.documents import Lines
from delegate.engine.sources.loader.positions import parse_pointer
from delegate.engine.sources.rendering import detect_type, render_directory, render_request
from delegate.engine.sources.settings import RenderSettings
from delegate.engine.sources.targets import Target
from delegate.engine.sources.variables import variables_of
from delegate.engine.sources.workshops import Product, Request, Workshop
from delegate.model.resources import Manifest, Origin
from delegate.model.sources import Source, SourceType

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_MOST_MIRRORS = 1000


class ResolvedRevision(msgspec.Struct, frozen=True):
    """What a source means right now. `repo_url` shows no credentials and is empty for a directory of this machine.

    `revision` is a commit id, never that of a tag object; empty for a directory, whose content is hashed when it is read.
    `ref` is the full name of the ref that led to it, empty for an id.
    """

    repo_url: str = ""
    revision: str = ""
    ref: str = ""


@dataclass(frozen=True)
class Rendered:
    """The objects of a source, in file and document order, as they were written.

    `revision` is the commit id, or `sha256:...` of a local source's content. `content` is the same wherever the files
    read are the same, whatever the commit.
    """

    revision: str
    manifests: tuple[Manifest, ...] = field(repr=False)
    notices: tuple[str, ...] = ()
    content: str = ""
    lines: tuple[Lines, ...] = field(default=(), repr=False)

    def locate(self, manifest: Manifest, pointer: str) -> Origin:
        """The place of a field: of its key, or of the nearest ancestor that was written.

        `pointer` is a JSON pointer (`/spec/replicas`) or a field path of the API server
        (`spec.containers[0].image`, `.spec.containers[name="web"]`). The manifest may have been changed since it was
        rendered, as long as it kept its origin.
        """
        same_place = self._by_origin.get(manifest.origin, ())
        named = [index for index in same_place if self.manifests[index].name == manifest.name]
        for index in named or same_place[:1]:
            if index < len(self.lines):
                written = self.manifests[index].body
                line = self.lines[index].find(written, parse_pointer(pointer, written))
                return Origin(manifest.origin.file, line or manifest.origin.line, manifest.origin.document)
        return manifest.origin

    @cached_property
    def _by_origin(self) -> dict[Origin, list[int]]:
        indexes: dict[Origin, list[int]] = {}
        for index, manifest in enumerate(self.manifests):
            indexes.setdefault(manifest.origin, []).append(index)
        return indexes


class Sources:
    """Every source that this process reads.

    `cache_dir` holds the mirrors. `allow_local` lets sources be paths of this machine: for commands that people run.
    `environment` is ours, of which children see next to nothing.
    """

    def __init__(
        self,
        *,
        cache_dir: Path,
        allow_local: bool = False,
        settings: GitSettings | None = None,
        rendering: RenderSettings | None = None,
        limits: SourceLimits | None = None,
        environment: Mapping[str, str],
    ) -> None:
        self._cache_dir = cache_dir
        self._allow_local = allow_local
        self._settings = settings or GitSettings()
        self._limits = limits or SourceLimits()
        self._environment = environment
        self._mirrors: OrderedDict[RepositoryUrl, Mirror] = OrderedDict()
        self._workshop = Workshop(cache_dir / "renders", rendering or RenderSettings(), self._limits, environment)

    def close(self) -> None:
        """Ends the loader's threads once they are idle."""
        self._workshop.close()

    async def resolve(self, source: Source, *, timeout: float) -> ResolvedRevision:
        """The commit that a source means: one listing of the repository, none for a full id that the mirror holds.

        Raises RevisionNotFoundError, AmbiguousRevisionError, the faults of reaching a repository (see errors),
        LocalSourceError, PathNotFoundError, and GitTimeoutError after `timeout` seconds.
        """
        if source.chart:
            raise SourceError("charts of repositories are not rendered by this version")
        if not source.repo_url:
            await asyncio.to_thread(split_local, self._local_path(source))
            return ResolvedRevision()
        url = self._parse(source)
        try:
            async with asyncio.timeout(timeout):
                resolved = await self._resolve(self._mirror(url), source.target_revision or "HEAD")
        except TimeoutError as error:
            raise _too_slow(url, f"resolving {source.target_revision!r}", timeout) from error
        return ResolvedRevision(url.shown, resolved.commit, resolved.ref)

    async def render(self, source: Source, revision: ResolvedRevision, *, timeout: float, target: Target | None = None) -> Rendered:
        """The objects of a source at a resolved revision, for a target.

        Raises everything that is wrong with the files in one ErrorGroup, or the one fault that there is; NoManifestsError,
        PathNotFoundError, LinkError, SubmoduleError, SourceTooLargeError, RenderError; the faults of reaching a repository;
        and a timeout error after `timeout` seconds.
        """
        target = target or Target()
        if not source.repo_url:
            try:
                async with asyncio.timeout(timeout):
                    return await self._render_local(source, target)
            except TimeoutError as error:
                raise SourceTimeoutError(f"{source.path}: reading it took longer than {timeout:g} s") from error
        url = self._parse(source)
        try:
            async with asyncio.timeout(timeout):
                return await self._render_commit(source, revision, self._mirror(url), target)
        except TimeoutError as error:
            raise _too_slow(url, f"reading {revision.revision[:12]}", timeout) from error

    async def _resolve(self, mirror: Mirror, revision: str) -> references.Resolved:
        where = mirror.url.shown
        if references.is_full_id(revision):
            await self._ensure(mirror, revision.lower())
            return references.Resolved(await mirror.find_commit(revision.lower()) or revision.lower())
        listed = await mirror.list_references()
        if not references.is_short_id(revision):
            return references.resolve_name(listed, revision, where)
        await mirror.fetch_everything()
        commits = await mirror.find_commits(revision.lower())
        if len(commits) == 1:
            return references.Resolved(commits[0])
        hint = references.hint_for_id(listed, revision)
        if commits:
            shown = ", ".join(commit[:16] for commit in commits[:5])
            raise RevisionNotFoundError(f"{where}: {revision!r} begins {len(commits)} commit ids: {shown}", hint=hint or "write more of it")
        raise RevisionNotFoundError(f"{where}: no commit's id begins with {revision!r}", hint=hint or "write the whole id")

    async def _ensure(self, mirror: Mirror, commit: str, ref: str = "") -> Path:
        """Sees to it that a commit can be read, and says from which git directory."""
        if await mirror.has_commit(commit):
            return mirror.path
        log.debug("git.fetching", repository=mirror.url.shown, commit=commit, ref=ref)
        try:
            await mirror.fetch_commit(commit, ref)
        except (TransferError, CorruptRepositoryError):
            # A partial clone on this machine can't be copied, but what a render needs of it may be there.
            in_place = await mirror.find_in_place(commit)
            if in_place is None:
                raise
            return in_place
        return mirror.path

    async def _render_commit(self, source: Source, revision: ResolvedRevision, mirror: Mirror, target: Target) -> Rendered:
        directory = await self._ensure(mirror, revision.revision, revision.ref)
        try:
            return await self._read_commit(source, revision, mirror, directory, target)
        except CorruptRepositoryError as error:
            if directory != mirror.path:
                raise
            log.warning("git.mirror_corrupt", repository=mirror.url.shown, error=error.message)
            await mirror.discard()
        directory = await self._ensure(mirror, revision.revision, revision.ref)
        return await self._read_commit(source, revision, mirror, directory, target)

    async def _read_commit(self, source: Source, revision: ResolvedRevision, mirror: Mirror, directory: Path, target: Target) -> Rendered:
        where = f"{mirror.url.shown} at {revision.revision[:12]}"
        async with open_objects(directory, mirror.environment, self._limits, where) as reader:
            tree = await CommitTree.of_commit(reader, revision.revision, self._limits, where)
            request = Request(tree, source, where, _variables(source, revision.revision, target), target)
            product = await render_request(request, self._workshop)
        return _rendered(product, revision.revision)

    async def _render_local(self, source: Source, target: Target) -> Rendered:
        path = self._local_path(source)
        directory, below = await asyncio.to_thread(split_local, path)
        variables = _variables(source, "", target)
        request = Request(LocalTree(directory, self._limits), msgspec.structs.replace(source, path=below), str(path), variables, target)
        if await detect_type(request) is SourceType.DIRECTORY:
            product = await render_directory(request, self._workshop, shown=path.name if below != "." else "")
            return _rendered(product, f"sha256:{product.content}")
        roots = await asyncio.to_thread(roots_for, directory.resolve())
        for root in roots:
            inside = str(directory.resolve().relative_to(root))
            request = Request(LocalTree(root, self._limits), msgspec.structs.replace(source, path=inside), str(path), variables, target)
            try:
                product = await render_request(request, self._workshop)
            except OutsideSourceError:
                if root == roots[-1]:
                    raise
            else:
                return _rendered(product, f"sha256:{product.content}")
        raise AssertionError("there is a root at least")

    def _parse(self, source: Source) -> RepositoryUrl:
        return parse_url(source.repo_url, allow_local=self._allow_local, allow_http=self._settings.allow_http)

    def _mirror(self, url: RepositoryUrl) -> Mirror:
        mirror = self._mirrors.get(url)
        if mirror is None:
            mirror = Mirror(url, cache_dir=self._cache_dir, settings=self._settings, limits=self._limits, outside=self._environment)
            self._mirrors[url] = mirror
            if len(self._mirrors) > _MOST_MIRRORS:
                self._mirrors.popitem(last=False)
        self._mirrors.move_to_end(url)
        return mirror

    def _local_path(self, source: Source) -> Path:
        if not self._allow_local:
            raise LocalSourceError("a source without repoURL is a path of this machine, which only local commands read", hint="set repoURL")
        path = Path(source.path)
        if not path.is_absolute():
            raise PathNotFoundError(f"{source.path} is not an absolute path", file=source.path)
        return path


def _variables(source: Source, revision: str, target: Target) -> dict[str, str]:
    return variables_of(source, application=target.application, namespace=target.namespace, revision=revision)


def _rendered(product: Product, revision: str) -> Rendered:
    loaded = product.loaded
    return Rendered(revision, loaded.manifests, (*product.notices, *loaded.notices), product.content, loaded.lines)


def _too_slow(url: RepositoryUrl, what: str, timeout: float) -> GitTimeoutError:
    return GitTimeoutError(
        f"{url.shown}: {what} took longer than {timeout:g} s", hint=f"check the way to {url.host or 'it'}, or give it more time"
    )
