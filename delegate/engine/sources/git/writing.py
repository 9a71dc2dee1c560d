"""Commits into a repository: made of objects in the bare mirror, pushed as a fast-forward, never by force.

A commit is a tree with some files replaced (a temporary index; no work tree), one parent, and our own author. Whoever is faster than we
are makes the push fail; then the change is made again on what is there by now. An answer that got lost is looked for: a change that is
there already isn't made twice.
"""

import asyncio
import random
import re
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from email.utils import parseaddr
from pathlib import Path
from typing import NamedTuple, Self

import msgspec
import structlog

from delegate.engine.sources.commands import Completed
from delegate.engine.sources.errors import AuthenticationError, HostUnreachableError, TransferError
from delegate.engine.sources.git import faults
from delegate.engine.sources.git.mirrors import Mirror
from delegate.engine.sources.git.settings import Login
from delegate.engine.sources.git.writing_errors import BranchMovedError, BranchNotFoundError, IdentityError, PushRejectedError
from delegate.engine.sources.git.writing_trees import CommitFiles, read_entries
from delegate.engine.sources.limits import SourceLimits
from delegate.model.updates.messages import has_trailer

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_MOVED = ("[rejected]", "cannot lock ref", "failed to update ref", "incorrect old value", "reference already exists")
_EMAIL = re.compile(r"[^\s<>@]+@[^\s<>@]+")
_ATTEMPTS = 10
_LONGEST_WAIT_SECONDS = 5.0
_WORDS = 500


class Identity(msgspec.Struct, frozen=True):
    """Whom commits are by."""

    name: str = "delegate"
    email: str = "delegate@localhost"

    @classmethod
    def read(cls, text: str) -> Self:
        """From `Name <email>`; empty is the default. Raises IdentityError."""
        if not text.strip():
            return cls()
        name, email = parseaddr(text)
        if not name or not _EMAIL.fullmatch(email) or not name.isprintable() or set(name) & set("<>"):
            raise IdentityError(f"DELEGATE_GIT_AUTHOR: {text!r} is nobody", hint="write Name <user@host>")
        return cls(name, email)


class Prepared(msgspec.Struct, frozen=True):
    """A commit that is still to be made: its tree and its message."""

    tree: str
    message: str


class Published(msgspec.Struct, frozen=True):
    """`commit` is the branch's tip afterwards, `parent` what it was put on.

    `made`: whether this task made it, now or in an attempt that died.
    """

    commit: str
    made: bool
    parent: str = ""
    attempts: int = 1


class _Pushed(NamedTuple):
    completed: Completed
    login: Login


Build = Callable[[str], Awaitable[Prepared | None]]
"""Makes the change on top of a commit; None where nothing is left to change."""


class RepositoryWriter:
    """Writes into one repository. Every call ends with the caller's deadline."""

    def __init__(self, mirror: Mirror, identity: Identity, limits: SourceLimits) -> None:
        self.mirror = mirror
        self.identity = identity
        self._limits = limits

    async def default_branch(self) -> str:
        """The branch that HEAD names. Raises BranchNotFoundError, and the faults of reaching a repository."""
        head = (await self.mirror.list_references()).head.removeprefix("refs/heads/")
        if not head:
            raise BranchNotFoundError(f"{self.mirror.url.shown} does not say which branch is its own", hint="set spec.branch")
        return head

    async def find_tip(self, branch: str) -> str | None:
        """The commit that a branch is at now, fetched; None where there is no such branch."""
        ref = f"refs/heads/{branch}"
        commit = (await self.mirror.list_references()).commits.get(ref)
        if commit is not None:
            await self.mirror.fetch_commit(commit, ref)
        return commit

    async def tip(self, branch: str) -> str:
        """As `find_tip`. Raises BranchNotFoundError with the branches that there are."""
        commit = await self.find_tip(branch)
        if commit is None:
            listed = (await self.mirror.list_references()).commits
            names = [name.removeprefix("refs/heads/") for name in listed if name.startswith("refs/heads/")]
            hint = f"there are {', '.join(sorted(names)[:10])}" if names else "the repository has no commit yet"
            raise BranchNotFoundError(f"{self.mirror.url.shown} has no branch {branch!r}", hint=hint)
        return commit

    async def files_of(self, commit: str) -> CommitFiles:
        """The files of a commit that the mirror holds."""
        listing = await self.git("ls-tree", "-r", "-z", "--full-tree", commit)
        return CommitFiles(self.mirror, commit, read_entries(listing), self._limits)

    async def message_of(self, commit: str) -> str:
        return (await self.git("log", "-1", "--format=%B", "--no-show-signature", commit)).decode(errors="replace")

    async def write_tree(self, commit: str, files: Mapping[str, bytes]) -> str:
        """The id of a commit's tree with the contents of some of its files replaced; their modes stay."""
        entries = (await self.files_of(commit)).entries
        async with self.mirror.exclusive():
            with tempfile.TemporaryDirectory(prefix="index-", dir=self.mirror.path) as folder:
                index = {"GIT_INDEX_FILE": str(Path(folder, "index"))}
                await self.git("read-tree", commit, variables=index)
                lines = []
                for path, content in files.items():
                    name = (await self.git("hash-object", "-w", "--stdin", "--no-filters", stdin=content)).decode().strip()
                    lines.append(f"{entries[path].mode} {name}\t{path}\0".encode(errors="surrogateescape"))
                await self.git("update-index", "-z", "--index-info", stdin=b"".join(lines), variables=index)
                return (await self.git("write-tree", variables=index)).decode().strip()

    async def commit(self, prepared: Prepared, parent: str) -> str:
        """Makes a commit by our identity. It is in the mirror and nowhere else."""
        who = {f"GIT_{role}_{field}": value for role in ("AUTHOR", "COMMITTER") for field, value in self._who().items()}
        stdin = prepared.message.encode(errors="replace")
        async with self.mirror.exclusive():
            made = await self.git("commit-tree", prepared.tree, "-p", parent, "-F", "-", stdin=stdin, variables=who)
        return made.decode().strip()

    async def push(self, commit: str, branch: str) -> None:
        """Moves a branch on to a commit, or makes it.

        Raises BranchMovedError where that is no fast-forward, PushRejectedError with the server's words where it says no, and the
        faults of reaching a repository.
        """
        arguments = ("push", "--porcelain", "--no-verify", "--no-follow-tags", "--", self.mirror.url.address)
        completed, login = await self.mirror.talk(*arguments, f"{commit}:refs/heads/{branch}")
        if completed.exit_code != 0:
            raise self._push_fault(_Pushed(completed, login), branch)

    async def git(self, *arguments: str, stdin: bytes = b"", variables: Mapping[str, str] | None = None) -> bytes:
        """Runs a git command on the mirror. Raises what its failure means."""
        completed = await self.mirror.run(*arguments, stdin=stdin, variables=variables)
        if completed.exit_code != 0:
            raise faults.classify(completed.stderr, self.mirror.url, Login(), str(self.mirror.path))
        return completed.stdout

    def _who(self) -> dict[str, str]:
        return {"NAME": self.identity.name, "EMAIL": self.identity.email}

    def _push_fault(self, pushed: _Pushed, branch: str) -> Exception:
        report = pushed.completed.stdout.decode(errors="replace")
        stderr = pushed.completed.stderr
        shown = self.mirror.url.shown
        if any(words in report or words in stderr for words in _MOVED):
            return BranchMovedError(f"{shown}: {branch} has moved on meanwhile")
        if "[remote rejected]" in report or "[remote failure]" in report:
            return PushRejectedError(f"{shown}: the server refuses the push to {branch}: {_server_words(report, stderr)}")
        error = faults.classify(stderr, self.mirror.url, pushed.login, str(self.mirror.path))
        if isinstance(error, AuthenticationError) and not pushed.login.is_anonymous:
            error.hint = "check that the credentials are not expired, and may write to this repository"
        return error


def _server_words(report: str, stderr: str) -> str:
    """What the server says of a refused push: its own lines first, else the reason in git's report."""
    said = [line.removeprefix("remote:").strip() for line in stderr.splitlines() if line.startswith("remote:")]
    reasons = [line.rpartition("\t")[2] for line in report.splitlines() if line.startswith("!")]
    return faults.excerpt("\n".join(f"remote: {line}" for line in [*(each for each in said if each.strip("=- ")), *reasons])).replace(
        "remote: ", ""
    )[:_WORDS]


async def publish(writer: RepositoryWriter, build: Build, *, branch: str, task: str, start: str = "") -> Published:
    """Makes a change on a branch and pushes it, on top of whatever is there; once, however often it is called for a task.

    `start` is the branch that `branch` begins at where there is none yet. Raises BranchMovedError where others are faster ten times in a
    row, what `build` raises, PushRejectedError, and the faults of reaching a repository.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        tip = await writer.find_tip(branch)
        base = tip if tip is not None else await writer.tip(start or branch)
        prepared = await build(base)
        if prepared is None:
            return Published(base, has_trailer(await writer.message_of(base), task), attempts=attempt)
        commit = await writer.commit(prepared, base)
        try:
            await writer.push(commit, branch)
        except (BranchMovedError, TransferError, HostUnreachableError) as error:
            # After a lost answer the next look at the branch says whether the push arrived.
            if attempt == _ATTEMPTS:
                raise
            log.info("git.push_repeated", repository=writer.mirror.url.shown, branch=branch, attempt=attempt, error=error.code)
            await asyncio.sleep(random.uniform(0, min(0.1 * 2**attempt, _LONGEST_WAIT_SECONDS)))  # noqa: S311 - jitter
            continue
        log.info("git.pushed", repository=writer.mirror.url.shown, branch=branch, commit=commit, attempt=attempt)
        return Published(commit, True, base, attempt)
    raise AssertionError("unreachable")
