"""One bare mirror a repository, that only grows: fetched under a lock, read without one.

Each ref is fetched into a name made of its hash, so that a branch `feature` and a later `feature/sub` never are in each
other's way, and nothing is ever pruned: a commit that was deployed once can be deployed again, also after its branch was
rewritten. Histories are cut to one commit where the server can do so.
"""

import asyncio
import contextlib
import hashlib
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import structlog

from delegate.engine.sources.commands import Command, Completed, run_command
from delegate.engine.sources.errors import CacheDirectoryError, RevisionNotFoundError
from delegate.engine.sources.git import environments, faults
from delegate.engine.sources.git.locks import MirrorLock
from delegate.engine.sources.git.logins import Logins
from delegate.engine.sources.git.references import References, read_listing
from delegate.engine.sources.git.settings import Login
from delegate.engine.sources.git.urls import RepositoryUrl, Transport
from delegate.engine.sources.keyfiles import private_files
from delegate.engine.sources.limits import SourceLimits
from delegate.engine.sources.sharing import SharedCall
from delegate.engine.sources.stores import DigestStore

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_MOST_PACKS = 40
"""Packs before they are put together; each fetch adds one."""
_WORDS_BYTES = 1024 * 1024
_MOST_LARGE_FILES = 1000
_ID_CHARACTERS = 32
_SHA256_CHARACTERS = 64
_STALE_PATTERNS = ("*.lock", "refs/**/*.lock", "objects/**/tmp_*", "objects/**/*.lock")


class Mirror:
    """The mirror of one repository. Every call ends with the caller's deadline and leaves no lock behind."""

    def __init__(self, url: RepositoryUrl, *, cache_dir: Path, logins: Logins, limits: SourceLimits, outside: Mapping[str, str]) -> None:
        name = hashlib.sha256(url.key.encode()).hexdigest()[:_ID_CHARACTERS]
        self.path = cache_dir / f"{name}.git"
        self.url = url
        self._home = cache_dir / "home"
        self._keys = cache_dir / "keys"
        self._logins = logins
        self._limits = limits
        self._lock = MirrorLock(cache_dir / f"{name}.lock")
        self._outside = outside
        self._local = environments.local_environment(outside, self._home)
        self._listing = SharedCall(self._list)

    @property
    def large_files(self) -> tuple[DigestStore, MirrorLock]:
        """Where files of Git LFS are kept, and who may fetch them."""
        store = DigestStore(self.path.with_suffix(".lfs"), most_files=_MOST_LARGE_FILES)
        return store, MirrorLock(self.path.with_suffix(".lfs.lock"))

    @property
    def environment(self) -> Mapping[str, str]:
        """For git processes that only read the mirror."""
        return self._local

    async def list_references(self) -> References:
        """What the repository advertises now; callers at the same time share one listing."""
        return await self._listing.result()

    async def has_commit(self, commit: str) -> bool:
        """Whether the mirror holds a commit, and all of it."""
        return await self.find_commit(commit) is not None

    async def find_commit(self, name: str) -> str | None:
        """The id of the commit that a full id stands for: itself, or what an annotated tag of that id leads to."""
        if not self.path.is_dir():
            return None
        completed = await self._git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        return completed.stdout.decode().strip() or None

    async def find_commits(self, prefix: str) -> list[str]:
        """The commits of the mirror whose ids begin with `prefix`."""
        if not self.path.is_dir():
            return []
        candidates = (await self._git("rev-parse", f"--disambiguate={prefix}")).stdout
        described = await self._git("cat-file", "--batch-check=%(objecttype) %(objectname)", stdin=candidates)
        return [line.split()[1] for line in described.stdout.decode().splitlines() if line.startswith("commit ")]

    async def fetch_commit(self, commit: str, ref: str = "") -> None:
        """Brings a commit in, by the ref that leads to it, else by its id, else with everything that the server has.

        Raises RevisionNotFoundError where none of them brings it, and what `faults.classify` makes of a failure.
        """
        async with self._lock.held() as descriptor:
            if await self.has_commit(commit):
                return
            await self._prepare(len(commit))
            specifications = [[f"+{ref}:{_own_name(ref)}"]] if ref else []
            specifications.append([f"+{commit}:refs/delegate/commits/{commit}"])
            for specification in specifications:
                await self._fetch(specification, descriptor, id_length=len(commit), depth=1)
                if await self.has_commit(commit):
                    await self._tidy(descriptor)
                    return
        await self.fetch_everything()
        if not await self.has_commit(commit):
            raise RevisionNotFoundError(
                f"{self.url.shown}: commit {commit} is not in the repository any more (history rewritten)",
                hint="choose a commit that is reachable from a branch or tag",
            )

    async def own_tag(self, ref: str, commit: str) -> str:
        """The mirror's name of a tag that leads to a commit, fetched where it isn't here; empty where it leads elsewhere by now."""
        name = _own_name(ref)
        if await self.find_commit(name) != commit:
            async with self._lock.held() as descriptor:
                await self._prepare(len(commit))
                await self._fetch([f"+{ref}:{name}"], descriptor, id_length=len(commit), depth=1)
        return name if await self.find_commit(name) == commit else ""

    async def fetch_everything(self) -> None:
        """Brings in the whole history of every branch and tag: for short ids, and servers that give nothing by id."""
        references = await self.list_references()
        names = [name for name in references.commits if name.startswith(("refs/heads/", "refs/tags/"))]
        if not names:
            return
        async with self._lock.held() as descriptor:
            id_length = len(references.commits[names[0]])
            await self._prepare(id_length)
            await self._fetch([f"+{name}:{_own_name(name)}" for name in names], descriptor, id_length=id_length, depth=0)
            await self._tidy(descriptor)

    async def find_in_place(self, commit: str) -> Path | None:
        """The git directory of a repository of this machine that has the commit itself; None for any other repository."""
        if self.url.transport is not Transport.FILE:
            return None
        top = Path(self.url.address.removeprefix("file://"))
        for directory in (top, top / ".git"):
            if (directory / "HEAD").is_file():
                arguments = ("git", f"--git-dir={directory}", "cat-file", "-e", f"{commit}^{{commit}}")
                completed = await run_command(Command(arguments, self._local, directory=self._home), timeout=_LONGEST_CALL_SECONDS)
                return directory if completed.exit_code == 0 else None
        return None

    async def discard(self) -> None:
        """Removes a mirror that can't be read, so that the next fetch makes it anew."""
        async with self._lock.held():
            await self._remove()

    def exclusive(self) -> AbstractAsyncContextManager[int]:
        """Keeps everybody else from writing into the mirror; nothing that fetches may be called inside."""
        return self._lock.held()

    async def run(self, *arguments: str, stdin: bytes = b"", variables: Mapping[str, str] | None = None) -> Completed:
        """Runs a git command on the mirror that talks to nobody."""
        return await self._git(*arguments, stdin=stdin, variables=variables)

    async def talk(self, *arguments: str) -> tuple[Completed, Login]:
        """Runs a git command on the mirror that talks to the repository, as whoever we are to it; says also who that was."""
        return await self._run_remote(("git", f"--git-dir={self.path}", *arguments))

    async def ask_host(self, *words: str) -> tuple[Completed, Login]:
        """Runs a command at the host of a repository that is reached by SSH, as git would run its own there."""
        destination, _ = self.url.ssh_destination
        self._make_home()
        login = await self._logins.login_for(self.url)
        async with private_files(self._keys, login.files) as files:
            settings = self._logins.settings
            environment = environments.remote_environment(self._outside, self._home, self.url, login=login, settings=settings, files=files)
            arguments = (*shlex.split(environment["GIT_SSH_COMMAND"]), *destination, shlex.join(words))
            command = Command(arguments, environment, directory=self._home)
            return await run_command(command, timeout=_LONGEST_CALL_SECONDS, stdout_limit=_WORDS_BYTES), login

    async def _list(self) -> References:
        self._make_home()
        completed, login = await self._run_remote(("git", "ls-remote", "--quiet", "--symref", "--", self.url.address))
        if completed.exit_code != 0:
            raise faults.classify(completed.stderr, self.url, login, str(self.path))
        return read_listing(completed.stdout)

    async def _fetch(self, specifications: Sequence[str], lock: int, *, id_length: int, depth: int) -> None:
        """Fetches into our own refs. A server that has no such object is no fault here: the caller looks for it."""
        options = ["--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--force", "--quiet", "--stdin"]
        if depth:
            options.append(f"--depth={depth}")
        elif (self.path / "shallow").exists():
            options.append("--unshallow")
        stdin = "".join(f"{specification}\n" for specification in specifications).encode()
        arguments = ("git", f"--git-dir={self.path}", "fetch", *options, "--", self.url.address)
        completed, login = await self._run_remote(arguments, stdin=stdin, lock=lock)
        if completed.exit_code == 0:
            return
        if depth and faults.refuses_shallow(completed.stderr):
            await self._fetch(specifications, lock, id_length=id_length, depth=0)
        elif faults.is_corrupt(completed.stderr):
            log.warning("git.mirror_corrupt", repository=self.url.shown, error=faults.excerpt(completed.stderr))
            await self._remove()
            await self._prepare(id_length)
            again, login = await self._run_remote(arguments, stdin=stdin, lock=lock)
            if again.exit_code != 0:
                raise faults.classify(again.stderr, self.url, login, str(self.path))
        elif not faults.is_unknown_object(completed.stderr):
            raise faults.classify(completed.stderr, self.url, login, str(self.path))

    async def _prepare(self, id_length: int) -> None:
        """Makes the mirror where there is none, and removes what a killed fetch left behind. Under the lock."""
        self._make_home()
        if (self.path / "HEAD").is_file():
            await asyncio.to_thread(self._remove_stale)
            return
        kind = "sha256" if id_length == _SHA256_CHARACTERS else "sha1"
        arguments = ("git", "init", "--quiet", "--bare", "--template=", f"--object-format={kind}", str(self.path))
        completed = await run_command(Command(arguments, self._local, directory=self._home), timeout=_LONGEST_CALL_SECONDS)
        if completed.exit_code != 0:
            raise faults.classify(completed.stderr, self.url, Login(), str(self.path))

    async def _remove(self) -> None:
        # Renamed first: who reads it meanwhile finds all of it or nothing.
        away = self.path.with_suffix(".broken")
        await asyncio.to_thread(shutil.rmtree, away, True)
        with contextlib.suppress(FileNotFoundError):
            self.path.rename(away)
        await asyncio.to_thread(shutil.rmtree, away, True)

    async def _tidy(self, lock: int) -> None:
        """Puts packs together once there are many. Unreachable objects stay."""
        packs = len(list((self.path / "objects" / "pack").glob("*.pack")))
        if packs > _MOST_PACKS:
            await self._git("repack", "-d", "--geometric=2", "--quiet", lock=lock)

    async def _git(
        self, *arguments: str, stdin: bytes = b"", lock: int | None = None, variables: Mapping[str, str] | None = None
    ) -> Completed:
        command = Command(
            ("git", f"--git-dir={self.path}", *arguments),
            {**self._local, **(variables or {})},
            directory=self._home,
            descriptors=() if lock is None else (lock,),
        )
        return await run_command(command, timeout=_LONGEST_CALL_SECONDS, stdin=stdin, stdout_limit=self._limits.listing_bytes)

    async def _run_remote(self, arguments: tuple[str, ...], *, stdin: bytes = b"", lock: int | None = None) -> tuple[Completed, Login]:
        """Runs what talks to the repository, as whoever we are to it now; a login that can be renewed is tried twice."""
        login = await self._logins.login_for(self.url)
        completed = await self._run_as(login, arguments, stdin, lock)
        if completed.exit_code != 0 and login.renewable and faults.is_refused(completed.stderr):
            login = await self._logins.login_for(self.url, rejected=True)
            completed = await self._run_as(login, arguments, stdin, lock)
        return completed, login

    async def _run_as(self, login: Login, arguments: tuple[str, ...], stdin: bytes, lock: int | None) -> Completed:
        async with private_files(self._keys, login.files) as files:
            settings = self._logins.settings
            environment = environments.remote_environment(self._outside, self._home, self.url, login=login, settings=settings, files=files)
            command = Command(arguments, environment, directory=self._home, descriptors=() if lock is None else (lock,))
            return await run_command(command, timeout=_LONGEST_CALL_SECONDS, stdin=stdin, stdout_limit=self._limits.listing_bytes)

    def _make_home(self) -> None:
        try:
            self._home.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._home.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            words = f"{self._home} can't be made: {os.strerror(error.errno or 0)}"
            raise CacheDirectoryError(words, hint="make the directory writable, or choose another one") from error

    def _remove_stale(self) -> None:
        for pattern in _STALE_PATTERNS:
            for stale in self.path.glob(pattern):
                if stale.is_file():
                    stale.unlink(missing_ok=True)


_LONGEST_CALL_SECONDS = 3600.0
"""No git call takes longer, whatever deadline its caller has."""


def _own_name(ref: str) -> str:
    return f"refs/delegate/refs/{hashlib.sha256(ref.encode()).hexdigest()[:40]}"
