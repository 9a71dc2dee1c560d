"""Sources in, manifests out: which revision a source means, and the objects that it holds there.

`Sources` is made once a process. Resolving asks the repository; rendering reads a commit from the mirror (fetching it
first where it isn't there yet) or a chart from its repository, renders where that is needed, decodes in threads of its own,
and keeps what came out by the content of the files that were read, so that a commit which changes none of them costs
neither rendering nor decoding.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from delegate.engine.sources.access.books import AccessBook
from delegate.engine.sources.charts.indexes import ChartVersion
from delegate.engine.sources.charts.repositories import ChartRepositories, address_of, is_chart_source
from delegate.engine.sources.directories import LocalTree, roots_for, split_local
from delegate.engine.sources.errors import (
    CorruptRepositoryError,
    FetchTimeoutError,
    GitTimeoutError,
    LocalSourceError,
    OutsideSourceError,
    PathNotFoundError,
    SourceTimeoutError,
    metric_kind,
)
from delegate.engine.sources.git.checkouts import Wanted
from delegate.engine.sources.git.logins import Logins
from delegate.engine.sources.git.repositories import GitRepositories
from delegate.engine.sources.git.settings import GitSettings
from delegate.engine.sources.git.urls import RepositoryUrl
from delegate.engine.sources.limits import SourceLimits
from delegate.engine.sources.rendering import detect_type, render_directory, render_request
from delegate.engine.sources.renders import Rendered, ResolvedRevision, merged, rendered_from
from delegate.engine.sources.settings import RenderSettings
from delegate.engine.sources.targets import Target
from delegate.engine.sources.trees import Tree
from delegate.engine.sources.variables import variables_of
from delegate.engine.sources.workshops import Lent, Product, Request, Workshop
from delegate.foundation.errors import DelegateError, flatten
from delegate.foundation.secrets import hide_credentials
from delegate.model.sources import Source, SourceType

_UNSIGNED = "the project {0} wants signatures: those are checked of commits and tags in Git, and not of charts from a repository"


OnFault = Callable[[str], None]
"""Told of each fault: `git`, `helm`, `kustomize` or `decode`."""


class _Opened(NamedTuple):
    """A source's tree at one revision, and where in it the source is."""

    tree: Tree[Any]
    source: Source
    where: str
    notices: tuple[str, ...] = ()


class Sources:
    """Every source that this process reads.

    `cache_dir` holds the mirrors, fetched charts, and what renderers see for a moment. `allow_local` lets sources be paths of
    this machine: for commands that people run. `environment` is ours, of which children see next to nothing. `book` says who
    we are to repositories; by default that is read from the settings' directory.
    """

    def __init__(
        self,
        *,
        cache_dir: Path,
        allow_local: bool = False,
        settings: GitSettings | None = None,
        rendering: RenderSettings | None = None,
        limits: SourceLimits | None = None,
        book: AccessBook | None = None,
        environment: Mapping[str, str],
        on_fault: OnFault | None = None,
    ) -> None:
        rendering, limits = rendering or RenderSettings(), limits or SourceLimits()
        book = book or AccessBook(rendering.repositories_dir)
        logins = Logins(settings or GitSettings(), book, environment)
        self._allow_local = allow_local
        self._submodules = rendering.git_submodules
        self._on_fault = on_fault
        self._limits = limits
        self._git = GitRepositories(cache_dir=cache_dir, logins=logins, limits=limits, allow_local=allow_local, environment=environment)
        self._charts = ChartRepositories(cache_dir=cache_dir, book=book, limits=limits, environment=environment)
        self._workshop = Workshop(cache_dir / "renders", rendering, limits, environment)

    def close(self) -> None:
        """Ends the loader's threads once they are idle."""
        self._workshop.close()

    @property
    def repositories(self) -> GitRepositories:
        """The Git repositories among them, for who writes into one."""
        return self._git

    async def resolve(self, source: Source, *, timeout: float) -> ResolvedRevision:
        """The commit or version that a source means: one listing of the repository, none for a full id that is here.

        Raises RevisionNotFoundError, AmbiguousRevisionError, ChartNotFoundError, the faults of reaching a repository (see
        errors), LocalSourceError, PathNotFoundError, and a timeout error after `timeout` seconds.
        """
        if not source.repo_url:
            await asyncio.to_thread(split_local, self._local_path(source))
            return ResolvedRevision()
        revision = source.target_revision or "HEAD"
        try:
            async with self._counted(source), asyncio.timeout(timeout):
                if is_chart_source(source):
                    chosen = await self._charts.resolve(source)
                    return ResolvedRevision(hide_credentials(address_of(source)), chosen.version, digest=chosen.digest, place=chosen.url)
                url = self._git.parse(source.repo_url)
                resolved = await self._git.resolve(url, revision, source.tag_prefix)
                return ResolvedRevision(url.shown, resolved.commit, resolved.ref)
        except TimeoutError as error:
            raise _too_slow(source, f"resolving {revision!r}", timeout) from error

    async def resolve_all(self, sources: Sequence[Source], *, timeout: float) -> tuple[ResolvedRevision, ...]:
        """The revisions of several sources, in order. Raises the first fault of any."""
        resolving = [asyncio.ensure_future(self.resolve(source, timeout=timeout)) for source in sources]
        try:
            return tuple(await asyncio.gather(*resolving))
        finally:
            for each in resolving:
                each.cancel()
            await asyncio.gather(*resolving, return_exceptions=True)

    async def render(self, source: Source, revision: ResolvedRevision, *, timeout: float, target: Target | None = None) -> Rendered:
        """The objects of a source at a resolved revision, for a target.

        Raises everything that is wrong with the files in one ErrorGroup, or the one fault that there is; NoManifestsError,
        PathNotFoundError, LinkError, SubmoduleError, SourceTooLargeError, RenderError; the faults of reaching a repository;
        and a timeout error after `timeout` seconds.
        """
        target = target or Target()
        try:
            async with self._counted(source), asyncio.timeout(timeout):
                if not source.repo_url:
                    return await self._render_local(source, target)
                return await self._mended(lambda: self._render_one(source, revision, target), [source])
        except TimeoutError as error:
            raise _too_slow(source, f"reading {revision.revision[:12]}" if revision.revision else "reading it", timeout) from error

    async def render_all(
        self, sources: Sequence[Source], revisions: Sequence[ResolvedRevision], *, timeout: float, target: Target | None = None
    ) -> Rendered:
        """The objects of several sources as one set, in order. Files of those that have a `ref` are there for all.

        Raises what `render` does; the file of a fault says of which source it is. One source alone is rendered as `render`
        does it.
        """
        if len(sources) == 1:
            return await self.render(sources[0], revisions[0], timeout=timeout, target=target)
        try:
            async with self._counted(sources[0]), asyncio.timeout(timeout):
                return await self._mended(lambda: self._render_several(sources, revisions, target or Target()), sources)
        except TimeoutError as error:
            raise _too_slow(sources[0], "reading it and the other sources", timeout) from error

    @contextlib.asynccontextmanager
    async def _counted(self, source: Source) -> AsyncIterator[None]:
        try:
            yield
        except DelegateError as error:
            self._count(metric_kind(flatten(error)[0]))
            raise
        except TimeoutError:
            self._count("helm" if is_chart_source(source) else "git")
            raise

    def _count(self, kind: str) -> None:
        if self._on_fault is not None:
            self._on_fault(kind)

    async def _render_one(self, source: Source, revision: ResolvedRevision, target: Target) -> Rendered:
        async with self._open(source, revision, target.project) as opened:
            product = await render_request(self._request(opened, revision, target, {}), self._workshop)
        return rendered_from(product, revision.revision, opened.notices)

    async def _render_several(self, sources: Sequence[Source], revisions: Sequence[ResolvedRevision], target: Target) -> Rendered:
        parts: list[tuple[int, Rendered]] = []
        async with contextlib.AsyncExitStack() as stack:
            opened = [
                await stack.enter_async_context(self._open(source, revision, target.project))
                for source, revision in zip(sources, revisions, strict=True)
            ]
            lent = {each.source.ref: Lent(each.tree, each.where) for each in opened if each.source.ref}
            for index, (each, revision) in enumerate(zip(opened, revisions, strict=True)):
                if each.source.is_reference:
                    continue
                try:
                    product = await render_request(self._request(each, revision, target, lent), self._workshop)
                except DelegateError as error:
                    _say_source(error, index)
                    raise
                parts.append((index, rendered_from(product, revision.revision, each.notices)))
        return merged(parts)

    @contextlib.asynccontextmanager
    async def _open(self, source: Source, revision: ResolvedRevision, project: str) -> AsyncIterator[_Opened]:
        if not source.repo_url:
            directory, below = await asyncio.to_thread(split_local, self._local_path(source))
            yield _Opened(LocalTree(directory, self._limits), msgspec.structs.replace(source, path=below), str(directory))
        elif is_chart_source(source):
            chosen = ChartVersion(revision.revision, revision.place, revision.digest)
            artifact = await self._charts.open(source, chosen)
            path = "/".join(filter(None, (artifact.path, source.path)))
            where = f"{revision.repo_url} {source.chart} {revision.revision}"
            notices = (_UNSIGNED.format(project),) if await self._git.policy_of(project) is not None else ()
            yield _Opened(artifact.tree, msgspec.structs.replace(source, path=path), where, notices)
        else:
            url = self._git.parse(source.repo_url)
            policies = [policy for policy in (source.verify, await self._git.policy_of(project)) if policy is not None]
            signed = await self._git.verify(url, revision.revision, revision.ref, policies)
            wanted = await self._wanted(source, url)
            opening = self._git.open_checkout(url, revision.revision, revision.ref, wanted) if wanted else None
            async with opening or self._git.open_tree(url, revision.revision, revision.ref) as tree:
                yield _Opened(tree, source, f"{url.shown} at {revision.revision[:12]}", signed)

    async def _wanted(self, source: Source, url: RepositoryUrl) -> Wanted:
        """What a source says of submodules and Git LFS; else what the settings say of all, and what is written of its repository."""
        submodules = self._submodules if source.submodules is None else source.submodules
        return Wanted(submodules, await self._git.wants_lfs(url) if source.lfs is None else source.lfs)

    def _request(self, opened: _Opened, revision: ResolvedRevision, target: Target, lent: Mapping[str, Lent]) -> Request[Any]:
        source = opened.source
        variables = variables_of(
            source, application=target.application, namespace=target.namespace, revision=revision.revision, project=target.project
        )
        return Request(opened.tree, source, opened.where, variables, target, lent, self._charts.fetch_dependency)

    async def _mended(self, render: Callable[[], Awaitable[Rendered]], sources: Sequence[Source]) -> Rendered:
        """Renders; where a mirror turns out to be broken, makes it anew and renders again."""
        try:
            return await render()
        except CorruptRepositoryError as error:
            discarded = [
                await self._git.discard(self._git.parse(source.repo_url), error)
                for source in sources
                if source.repo_url and not is_chart_source(source)
            ]
            if not any(discarded):
                raise
        return await render()

    async def _render_local(self, source: Source, target: Target) -> Rendered:
        path = self._local_path(source)
        directory, below = await asyncio.to_thread(split_local, path)
        opened = _Opened(LocalTree(directory, self._limits), msgspec.structs.replace(source, path=below), str(path))
        request = self._request(opened, ResolvedRevision(), target, {})
        if await detect_type(request) is SourceType.DIRECTORY:
            return rendered_from(await render_directory(request, self._workshop, shown=path.name if below != "." else ""), "")
        return rendered_from(await self._render_in_place(opened, directory.resolve(), target), "")

    async def _render_in_place(self, opened: _Opened, directory: Path, target: Target) -> Product:
        """A kustomization or chart of this machine, which may reach as far as it says (see `roots_for`)."""
        roots = await asyncio.to_thread(roots_for, directory)
        for root in roots[:-1]:
            with contextlib.suppress(OutsideSourceError):
                return await self._render_below(root, opened, directory, target)
        return await self._render_below(roots[-1], opened, directory, target)

    async def _render_below(self, root: Path, opened: _Opened, directory: Path, target: Target) -> Product:
        source = msgspec.structs.replace(opened.source, path=str(directory.relative_to(root)))
        request = self._request(_Opened(LocalTree(root, self._limits), source, opened.where), ResolvedRevision(), target, {})
        return await render_request(request, self._workshop)

    def _local_path(self, source: Source) -> Path:
        if not self._allow_local:
            raise LocalSourceError("a source without repoURL is a path of this machine, which only local commands read", hint="set repoURL")
        path = Path(source.path)
        if not path.is_absolute():
            raise PathNotFoundError(f"{source.path} is not an absolute path", file=source.path)
        return path


def _say_source(error: DelegateError, index: int) -> None:
    for each in getattr(error, "errors", (error,)):
        each.file = f"sources[{index}]:{each.file}" if each.file else f"sources[{index}]"
    error.file = getattr(error, "errors", (error,))[0].file


def _too_slow(source: Source, what: str, timeout: float) -> DelegateError:
    if not source.repo_url:
        return SourceTimeoutError(f"{source.path}: {what} took longer than {timeout:g} s")
    shown = hide_credentials(source.repo_url)
    kind = FetchTimeoutError if is_chart_source(source) else GitTimeoutError
    return kind(f"{shown}: {what} took longer than {timeout:g} s", hint="check the way to its host, or give it more time")
