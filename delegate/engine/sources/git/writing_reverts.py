"""The reverse of a commit on top of a branch, as `git revert` makes it, without a work tree.

Git's three-way merge with the commit as the base, the branch as ours and the commit's first parent as theirs: for a merge commit that is
the revert by its main line. `git merge-tree` finds the base of two commits by itself (a base of one's choice takes git 2.40), so it is
given commits of our own making with these trees.
"""

import re

import msgspec

from delegate.engine.sources.git import references
from delegate.engine.sources.git.writing import Prepared, Published, RepositoryWriter, publish
from delegate.engine.sources.git.writing_errors import ForeignCommitsError, RevertConflictError, UnrevertableError
from delegate.model.updates.messages import revert_message

_WHOLE = {"GIT_SHALLOW_FILE": ""}
"""Histories are walked past the cuts that shallow fetches have made: by then, all of it is here."""
_NAMED = 5
_SHOWN_CHARACTERS = 80


class Revert(msgspec.Struct, frozen=True):
    """What is to be taken back, and where.

    `branch` is the one that gets the revert, beginning at `start` where it isn't there yet; `evidence` stands in the message. `paths` are
    looked through for commits of others, beside the files of the commit itself.
    """

    commit: str
    branch: str
    task: str
    start: str = ""
    evidence: str = ""
    paths: tuple[str, ...] = ()


class Reverted(msgspec.Struct, frozen=True):
    """`published.made` is false where the branch was as before the commit already."""

    published: Published
    subject: str
    files: tuple[str, ...]


class _Found(msgspec.Struct, frozen=True):
    commit: str
    parent: str
    subject: str
    files: tuple[str, ...]


async def revert_on_branch(writer: RepositoryWriter, revert: Revert) -> Reverted:
    """Reverts a commit and pushes that, once for a task.

    Raises UnrevertableError, RevertConflictError and ForeignCommitsError (both name the commit and those after it; nothing is pushed), and
    what `publish` raises.
    """
    await writer.mirror.fetch_everything()
    found = await _look_up(writer, revert.commit)

    async def build(tip: str) -> Prepared | None:
        if not await _holds(writer, tip, found.commit):
            await writer.mirror.fetch_everything()
        if not await _holds(writer, tip, found.commit):
            words = f"{writer.mirror.url.shown}: commit {_short(found)} is not on {revert.start or revert.branch}"
            raise UnrevertableError(words, hint="name a commit of that branch")
        tree, conflicts = await _merge(writer, found, tip)
        if not conflicts and tree == (await writer.git("rev-parse", f"{tip}^{{tree}}")).decode().strip():
            return None
        await _refuse_later(writer, found, tip, revert.paths, conflicts)
        return Prepared(tree, revert_message(found.subject, found.commit, revert.evidence, revert.task))

    published = await publish(writer, build, branch=revert.branch, task=revert.task, start=revert.start)
    return Reverted(published, found.subject, found.files)


async def _look_up(writer: RepositoryWriter, wanted: str) -> _Found:
    shown = writer.mirror.url.shown
    if not (references.is_full_id(wanted) or references.is_short_id(wanted)):
        raise UnrevertableError(f"{wanted!r} is no id of a commit")
    candidates = await writer.mirror.find_commits(wanted.lower())
    if len(candidates) != 1:
        words = f"{len(candidates)} commits begin with {wanted}" if candidates else f"there is no commit {wanted}"
        raise UnrevertableError(f"{shown}: {words}", hint="name it by its whole id")
    commit = candidates[0]
    told = (await writer.git("log", "-1", "--format=%P%n%s", "--no-show-signature", commit, variables=_WHOLE)).decode(errors="replace")
    parents, _, subject = told.partition("\n")
    if not parents:
        raise UnrevertableError(f"{shown}: {commit[:12]} is the first commit; there is nothing before it")
    parent = parents.split()[0]
    names = await writer.git("diff-tree", "-r", "-z", "--name-only", "--no-renames", parent, commit)
    return _Found(commit, parent, subject.strip(), _names(names))


async def _holds(writer: RepositoryWriter, tip: str, commit: str) -> bool:
    completed = await writer.mirror.run("merge-base", "--is-ancestor", commit, tip, variables=_WHOLE)
    return completed.exit_code == 0


async def _merge(writer: RepositoryWriter, found: _Found, tip: str) -> tuple[str, tuple[str, ...]]:
    """The tree without the commit's changes, and the files where that can't be decided."""
    async with writer.mirror.exclusive():
        base = await _stand_in(writer, found.commit)
        ours, theirs = await _stand_in(writer, tip, base), await _stand_in(writer, found.parent, base)
        completed = await writer.mirror.run("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours, theirs)
    if completed.exit_code not in (0, 1):
        await writer.git("cat-file", "-e", ours)
        words = f"{writer.mirror.url.shown}: git can't merge: {completed.stderr.strip()[:200]}"
        raise UnrevertableError(words, hint="git 2.38 or later is needed; else revert it by hand")
    tree, *conflicts = _names(completed.stdout)
    return tree, tuple(dict.fromkeys(conflicts)) if completed.exit_code == 1 else ()


async def _stand_in(writer: RepositoryWriter, commit: str, parent: str = "") -> str:
    """A commit with the tree of another one and a history of our choice; nobody ever refers to it."""
    who = {f"GIT_{role}_{field}": value for role in ("AUTHOR", "COMMITTER") for field, value in _NOBODY.items()}
    parents = ("-p", parent) if parent else ()
    made = await writer.git("commit-tree", f"{commit}^{{tree}}", *parents, "-m", "stand-in", variables=who)
    return made.decode().strip()


_NOBODY = {"NAME": "delegate", "EMAIL": "delegate@localhost", "DATE": "2000-01-01T00:00:00Z"}


async def _refuse_later(writer: RepositoryWriter, found: _Found, tip: str, paths: tuple[str, ...], conflicts: tuple[str, ...]) -> None:
    """Raises for commits between the commit and the tip that stand in the way of its revert."""
    looked = [f":(top,literal){path}" for path in dict.fromkeys((*found.files, *paths))]
    listed = await writer.git(
        *("log", "-z", "--format=%H%x1f%an%x1f%ae%x1f%s", "--no-show-signature", f"{found.commit}..{tip}", "--", *looked), variables=_WHOLE
    )
    later = [tuple(line.split("\x1f", 3)) for line in _names(listed)]
    shown = writer.mirror.url.shown
    if conflicts:
        words = f"{shown}: reverting {_short(found)} conflicts in {', '.join(conflicts[:_NAMED])} with {_list(later)}"
        raise RevertConflictError(words, hint="revert them together by hand, newest first, or fix forward", file=conflicts[0])
    foreign = [each for each in later if each[2] != writer.identity.email]
    if foreign:
        words = f"{shown}: after {_short(found)}, others changed the same files: {_list(foreign)}"
        raise ForeignCommitsError(
            words, hint="decide by hand whether they are to stay; then revert", file=found.files[0] if found.files else ""
        )


def _list(commits: list[tuple[str, ...]]) -> str:
    named = [f"{commit[:12]} ({_clean(subject)}, by {_clean(author)})" for commit, author, _, subject in commits[:_NAMED]]
    more = f" and {len(commits) - _NAMED} more" if len(commits) > _NAMED else ""
    return ", ".join(named) + more if named else "what the branch holds by now"


def _short(found: _Found) -> str:
    return f"{found.commit[:12]} ({_clean(found.subject)})"


def _clean(text: str) -> str:
    return re.sub(r"[\x00-\x1f\x7f]", " ", text)[:_SHOWN_CHARACTERS]


def _names(output: bytes) -> tuple[str, ...]:
    return tuple(name for name in output.decode(errors="surrogateescape").split("\0") if name)
