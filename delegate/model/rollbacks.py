"""Rollbacks: what is asked for, and which release answers it. Pure."""

import enum
import re
from collections.abc import Sequence

import msgspec

from delegate.foundation.quantities import parse_duration
from delegate.model.errors import NoReleaseError, RolledBackAlreadyError
from delegate.model.gitops import GitOpsSpec
from delegate.model.releases import Release, ReleaseOutcome
from delegate.model.resources import JsonObject
from delegate.model.strict import Strict

LAST_VERIFIED = "last-verified"
_COMMIT = re.compile(r"[0-9a-f]{7,64}")


class RollbackMode(enum.StrEnum):
    IMMEDIATE = "immediate"
    GRACEFUL = "graceful"


class GitMode(enum.StrEnum):
    NONE = "none"
    REVERT = "revert"
    MERGE_REQUEST = "merge-request"


class WorkloadTarget(Strict, frozen=True):
    """A Deployment, StatefulSet or DaemonSet that goes back by its own revisions. `revision` 0: the one before."""

    kind: str = "Deployment"
    name: str = ""
    revision: int = 0


class HelmTarget(Strict, frozen=True):
    """A release of Helm's own that goes back to the last revision that worked, or to a named one.

    `unlockAfter`: one that is pending for longer is taken for dead; without it, it is left to whoever is at work on it.
    """

    name: str = ""
    revision: int = 0
    unlock_after: str = ""


class GitTarget(Strict, frozen=True):
    """What is done in the source as well: `commit` is taken back on `branch` (the repository's own where it is empty)."""

    mode: GitMode = GitMode.NONE
    commit: str = ""
    repo_url: str = msgspec.field(default="", name="repoURL")
    branch: str = ""
    paths: tuple[str, ...] = ()


class RollbackSpec(Strict, frozen=True):
    """`to` names a release: `last-verified`, its number, or its revision. `verification` is what must pass again.

    `mode` graceful has the good version stand beside the bad one and take its load over, by `routing` (as a canary's), before anything
    is restored; `drain` and `minReady` are as a canary's too. `gitops`: what is agreed for foreign owners. `watch`: how long what was
    restored is watched for somebody who sets it back; empty: two intervals of its owner.
    """

    to: str | int = LAST_VERIFIED
    workload: WorkloadTarget | None = None
    helm_release: HelmTarget | None = None
    git: GitTarget = GitTarget()
    mode: RollbackMode = RollbackMode.IMMEDIATE
    verification: tuple[JsonObject, ...] = ()
    gitops: GitOpsSpec = GitOpsSpec()
    watch: str = ""
    routing: JsonObject | str | None = None
    drain: str = "30s"
    min_ready: str = "10s"

    @property
    def watch_seconds(self) -> float | None:
        """None where the owner's intervals say it."""
        return parse_duration(self.watch) if self.watch else None


class Choice(msgspec.Struct, frozen=True):
    """The release to go back to, that which runs now (None: unknown), and what there is to say about it.

    `resumed` is the release of a rollback that was cut short: what it left undone may be nothing but its record.
    """

    target: Release
    current: Release | None
    notices: tuple[str, ...] = ()
    resumed: Release | None = None


def choose_release(releases: Sequence[Release], to: str | int) -> Choice:
    """The release that `to` means. Raises NoReleaseError, which says what there is, and RolledBackAlreadyError.

    What runs now is the newest release, however it ended. Never chosen by itself: one of the same content, or one that was
    rolled back from.
    """
    newest_first = sorted(releases, key=lambda release: -release.number)
    if not newest_first:
        raise NoReleaseError("no release is recorded", hint="a release is recorded by each sync that changes something")
    current = newest_first[0]
    wanted = str(to).strip()
    if wanted == LAST_VERIFIED:
        if current.restores:
            return _gone_on_with(newest_first, current)
        return _last_good(newest_first, current)
    if wanted.isdigit():
        found = [release for release in newest_first if release.number == int(wanted)]
    else:
        found = [release for release in newest_first if _is_revision(wanted, release.revision)]
    if not found:
        raise NoReleaseError(f"no release is {wanted!r}", hint=f"there are {describe(newest_first)}")
    return Choice(found[0], current)


def _gone_on_with(newest_first: Sequence[Release], current: Release) -> Choice:
    """A rollback that was cut short is gone on with. One that ended is not followed by a second, further back.

    What was put back and is bad too is not the cure, so the release that was left is not the cause.
    """
    if current.outcome not in (ReleaseOutcome.APPLYING, ReleaseOutcome.INTERRUPTED):
        raise RolledBackAlreadyError(
            f"release {current.number} put {current.restores} back already ({current.outcome.value}): where that is bad as well, "
            "the release that was left is not the cause",
            hint=f"look for what both depend on; to go further back, name a release: {describe(newest_first)}",
        )
    target = next((each for each in newest_first if each.number == current.restores), None)
    if target is None:
        raise NoReleaseError(
            f"release {current.number} was putting {current.restores} back, which is not recorded any more",
            hint=f"name one of those that there are: {describe(newest_first)}",
        )
    left = next((each for each in newest_first if each.number < current.number and each.restores != current.restores), None)
    return Choice(target, left, (f"the rollback to release {target.number} was cut short, and is gone on with",), current)


def _last_good(newest_first: Sequence[Release], current: Release) -> Choice:
    same = (current.number, current.restores)
    earlier = [each for each in newest_first if each.content != current.content and each.number not in same and not each.bad]
    verified = [release for release in earlier if release.verified]
    if verified:
        return Choice(verified[0], current)
    healthy = [release for release in earlier if release.outcome is ReleaseOutcome.HEALTHY]
    if not healthy:
        raise NoReleaseError(
            f"no release before {current.number} was verified, and none was healthy",
            hint=f"name one of those that there are: {describe(newest_first)}",
        )
    number = healthy[0].number
    return Choice(healthy[0], current, (f"no release was verified: {number} is the last that was healthy",))


def _is_revision(wanted: str, revision: str) -> bool:
    return wanted == revision or (bool(_COMMIT.fullmatch(wanted)) and revision.startswith(wanted))


def describe(releases: Sequence[Release]) -> str:
    """Releases in a line: `7 (failed), 6 (healthy, verified)`."""
    words = []
    for release in releases[:10]:
        state = [release.outcome.value, *(["verified"] if release.verified else []), *(["rolled back from"] if release.bad else [])]
        words.append(f"{release.number} ({', '.join(state)})")
    return ", ".join(words)
