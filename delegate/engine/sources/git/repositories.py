"""Git repositories as sources: what a revision means, and the tree of a commit.

One mirror a repository, made when it is first asked for. Resolving asks the repository; opening a tree fetches a commit
where the mirror doesn't hold it yet.
"""

import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import msgspec
import structlog

from delegate.engine.sources.errors import (
    CorruptRepositoryError,
    RevisionNotFoundError,
    TransferError,
)
from delegate.engine.sources.fetching import rules_from
from delegate.engine.sources.git import references
from delegate.engine.sources.git.checkouts import Checkout, Module, Wanted
from delegate.engine.sources.git.hosts import LargeFileHost
from delegate.engine.sources.git.lfs import LargeFiles
from delegate.engine.sources.git.logins import Logins
from delegate.engine.sources.git.mirrors import Mirror
from delegate.engine.sources.git.objects import CommitTree, TreeMemory, open_objects, root_of
from delegate.engine.sources.git.settings import Login
from delegate.engine.sources.git.signatures import SignatureChecks, Tag
from delegate.engine.sources.git.urls import RepositoryUrl, parse_url
from delegate.engine.sources.git.writing import Identity, RepositoryWriter
from delegate.engine.sources.limits import SourceLimits
from delegate.engine.sources.versions import is_range
from delegate.model.sources import SignaturePolicy

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_MOST_MIRRORS = 1000
_MOST_VERIFIED = 1000
_TAGS = "refs/tags/"


class GitRepositories:
    """Every repository that this process reads. `cache_dir` holds the mirrors."""

    def __init__(self, *, cache_dir: Path, logins: Logins, limits: SourceLimits, allow_local: bool, environment: Mapping[str, str]) -> None:
        self._cache_dir = cache_dir
        self._logins = logins
        self._limits = limits
        self._allow_local = allow_local
        self._environment = environment
        self._mirrors: OrderedDict[RepositoryUrl, Mirror] = OrderedDict()
        self._memory = TreeMemory()
        self._verified: OrderedDict[object, tuple[str, ...]] = OrderedDict()

    def parse(self, url: str) -> RepositoryUrl:
        """Raises RepositoryUrlError, LocalSourceError."""
        return parse_url(url, allow_local=self._allow_local, allow_http=self._logins.settings.allow_http)

    async def resolve(self, url: RepositoryUrl, revision: str, tag_prefix: str = "") -> references.Resolved:
        """The commit that a revision means: one listing of the repository, none for a full id that the mirror holds.

        A range of versions is resolved among the tags (those with the prefix). Raises RevisionNotFoundError,
        AmbiguousRevisionError and the faults of reaching a repository.
        """
        mirror = self._mirror(url)
        where = url.shown
        if references.is_full_id(revision):
            commit = revision.lower()
            if self._memory.get(mirror.path, root_of(commit)) is not None:
                return references.Resolved(commit)
            await self._ensure(mirror, commit)
            return references.Resolved(await mirror.find_commit(commit) or commit)
        listed = await mirror.list_references()
        if tag_prefix:
            return references.resolve_version(listed, revision, where, tag_prefix)
        if is_range(revision):
            return references.resolve_version(listed, revision, where, "")
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

    @contextlib.asynccontextmanager
    async def open_tree(self, url: RepositoryUrl, commit: str, ref: str) -> AsyncIterator[CommitTree]:
        """The tree of a commit, fetched first where it isn't here yet. Raises the faults of reaching a repository.

        CorruptRepositoryError, also from inside the block, may go away with `discard`.
        """
        mirror = self._mirror(url)
        directory = await self._ensure(mirror, commit, ref)
        where = f"{url.shown} at {commit[:12]}"
        async with open_objects(directory, mirror.environment, where) as reader:
            yield await CommitTree.of_commit(reader, commit, self._memory, directory, self._limits)

    @contextlib.asynccontextmanager
    async def open_checkout(self, url: RepositoryUrl, commit: str, ref: str, wanted: Wanted) -> AsyncIterator[Checkout]:
        """The same with submodules or the files of Git LFS, which are fetched as they are read. Raises what `Checkout` does besides."""
        async with contextlib.AsyncExitStack() as stack:

            async def open_module(url: RepositoryUrl, commit: str, depth: int, ref: str = "") -> Module:
                tree = await stack.enter_async_context(self.open_tree(url, commit, ref))
                return Module(url, tree, self._mirror(url).environment, depth, self._large_files(url) if wanted.large_files else None)

            yield Checkout(
                await open_module(url, commit, 0, ref),
                wanted=wanted,
                open_module=open_module,
                discard=self.discard,
                allow_http=self._logins.settings.allow_http,
                limits=self._limits,
            )

    async def wants_lfs(self, url: RepositoryUrl) -> bool:
        """Whether what is written of a repository has its Git LFS files fetched. Raises AccessError."""
        return await self._logins.wants_lfs(url)

    def _large_files(self, url: RepositoryUrl) -> LargeFiles:
        mirror = self._mirror(url)
        store, lock = mirror.large_files
        return LargeFiles(url, LargeFileHost(mirror, self._logins, self._environment), store=store, lock=lock, limits=self._limits)

    def writer(self, url: RepositoryUrl, identity: Identity) -> RepositoryWriter:
        """What commits to a repository and pushes, as `identity`."""
        return RepositoryWriter(self._mirror(url), identity, self._limits)

    async def verify(self, url: RepositoryUrl, commit: str, ref: str, policies: Sequence[SignaturePolicy]) -> tuple[str, ...]:
        """Who signed a commit, or the tag that led to it, in words; nothing without a policy. Raises SignatureError, AccessError."""
        if not policies:
            return ()
        mirror, keyring = self._mirror(url), await self._logins.keyring()
        key = (url, commit, ref, tuple(policies), keyring)
        known = self._verified.get(key)
        if known is None:
            where = await self._ensure(mirror, commit, ref)
            tag = await mirror.own_tag(ref, commit) if ref.startswith(_TAGS) and where == mirror.path else ""
            checks = SignatureChecks(where, mirror.environment, url.shown)
            found = [await checks.verify(commit, Tag(tag, ref.removeprefix(_TAGS)), policy, keyring) for policy in policies]
            known = tuple(dict.fromkeys(found))
            self._verified[key] = known
            if len(self._verified) > _MOST_VERIFIED:
                self._verified.popitem(last=False)
        return known

    async def login_for(self, url: RepositoryUrl, *, rejected: bool = False) -> Login:
        """Who we are to a repository, and by which proxies, for interfaces beside Git.

        Raises AccessError, and the faults of getting a token.
        """
        login = await self._logins.login_for(url, rejected=rejected)
        return msgspec.structs.replace(login, proxies=login.proxies or rules_from(self._environment))

    async def policy_of(self, project: str) -> SignaturePolicy | None:
        return await self._logins.policy_of(project)

    async def discard(self, url: RepositoryUrl, error: CorruptRepositoryError) -> bool:
        """Removes a mirror that can't be read, so that it is made anew; False where it isn't ours."""
        mirror = self._mirror(url)
        known = self._memory.forget(mirror.path)
        if not mirror.path.is_dir():
            return known
        log.warning("git.mirror_corrupt", repository=url.shown, error=error.message)
        await mirror.discard()
        return True

    async def _ensure(self, mirror: Mirror, commit: str, ref: str = "") -> Path:
        """Sees to it that a commit can be read, and says from which git directory."""
        if self._memory.get(mirror.path, root_of(commit)) is not None or await mirror.has_commit(commit):
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

    def _mirror(self, url: RepositoryUrl) -> Mirror:
        mirror = self._mirrors.get(url)
        if mirror is None:
            mirror = Mirror(url, cache_dir=self._cache_dir, logins=self._logins, limits=self._limits, outside=self._environment)
            self._mirrors[url] = mirror
            if len(self._mirrors) > _MOST_MIRRORS:
                self._mirrors.popitem(last=False)
        self._mirrors.move_to_end(url)
        return mirror
