"""What a revision means among the refs of a repository. Pure."""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from delegate.engine.sources.errors import AmbiguousRevisionError, RevisionNotFoundError
from delegate.engine.sources.versions import Range, Version, read_range, read_version

_FULL_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SHORT_ID = re.compile(r"[0-9a-f]{7,63}")
_BAD_NAME = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|^-|^/|/$|//|\.lock$|\.$")
_ABSENT_SHOWN = 3


class References(msgspec.Struct, frozen=True):
    """The refs that a repository advertised: name to commit (annotated tags already followed), and where HEAD points."""

    commits: Mapping[str, str]
    head: str = ""


class Resolved(msgspec.Struct, frozen=True):
    """A commit id, and the full name of the ref that it was found by (empty for an id)."""

    commit: str
    ref: str = ""


def read_listing(output: bytes) -> References:
    """The output of `git ls-remote --symref`."""
    commits: dict[str, str] = {}
    peeled: dict[str, str] = {}
    head = ""
    for line in output.decode(errors="replace").splitlines():
        value, tab, name = line.partition("\t")
        if not tab:
            continue
        if value.startswith("ref: "):
            head = value.removeprefix("ref: ") if name == "HEAD" else head
        elif name.endswith("^{}"):
            peeled[name.removesuffix("^{}")] = value
        else:
            commits[name] = value
    return References(commits | peeled, head)


def is_full_id(revision: str) -> bool:
    return _FULL_ID.fullmatch(revision.lower()) is not None


def is_short_id(revision: str) -> bool:
    """Whether a revision reads as the beginning of a commit id. A ref of such a name is reached by its full name."""
    return not is_full_id(revision) and _SHORT_ID.fullmatch(revision.lower()) is not None


def check_name(revision: str, where: str) -> None:
    """Raises RevisionNotFoundError for what can be no ref's name (git-check-ref-format)."""
    if _BAD_NAME.search(revision):
        raise RevisionNotFoundError(
            f"{where}: {revision!r} can't be a revision", hint="give a branch, a tag, a commit id, HEAD or refs/..."
        )


def resolve_name(references: References, revision: str, where: str) -> Resolved:
    """The commit that HEAD, a branch, a tag or a full ref name stands for.

    Raises AmbiguousRevisionError where a branch and a tag share the name, RevisionNotFoundError where nothing has it.
    """
    check_name(revision, where)
    if revision in ("", "HEAD"):
        if "HEAD" in references.commits:
            return Resolved(references.commits["HEAD"], references.head or "HEAD")
        hint = "push a commit to it, or check the address: nothing but a repository with commits has one"
        if references.commits:
            hint = f"it points to {references.head}, which does not exist; name a branch" if references.head else "name a branch"
        raise RevisionNotFoundError(f"{where} has no HEAD", hint=hint)
    if revision.startswith("refs/"):
        candidates = [revision]
    else:
        candidates = [f"refs/heads/{revision}", f"refs/tags/{revision}"]
        if revision.startswith(("heads/", "tags/", "pull/", "merge-requests/")):
            candidates.append(f"refs/{revision}")
    found = [name for name in candidates if name in references.commits]
    if len(found) == 1:
        return Resolved(references.commits[found[0]], found[0])
    if found:
        places = " and ".join(f"{name} ({references.commits[name][:12]})" for name in found)
        raise AmbiguousRevisionError(f"{where}: {revision!r} is ambiguous: {places}", hint=f"write {' or '.join(found)}")
    raise RevisionNotFoundError(f"{where} has no branch or tag {revision!r}", hint=_nearest(references, revision))


def resolve_version(references: References, revision: str, where: str, prefix: str) -> Resolved:
    """The commit of the newest tag in a range of versions; of tags with a prefix, where one is given, without it.

    An exact tag or branch of that name wins over the range. Raises RevisionNotFoundError, and AmbiguousRevisionError where
    two tags are the same version (`1.0.0` and `v1.0.0`) of different commits.
    """
    exact = [name for name in (f"refs/tags/{prefix}{revision}", f"refs/heads/{revision}") if name in references.commits]
    if exact and not prefix:
        return resolve_name(references, revision, where)
    if exact and exact[0].startswith("refs/tags/"):
        return Resolved(references.commits[exact[0]], exact[0])
    wanted = read_range(revision)
    if wanted is None or (prefix and revision in ("", "HEAD")):
        hint = "with tagPrefix, targetRevision is a version or a range of them, such as 1.x"
        raise RevisionNotFoundError(f"{where}: {revision!r} is no range of versions", hint=hint)
    tags = [name.removeprefix("refs/tags/") for name in references.commits if name.startswith(f"refs/tags/{prefix}")]
    versions = [version for version in (read_version(tag.removeprefix(prefix)) for tag in sorted(tags)) if version is not None]
    newest = wanted.newest(versions)
    if newest is None:
        words = f"{where}: none of {len(versions)} tagged versions is in {revision!r}"
        raise RevisionNotFoundError(words, hint=_near_range(wanted, versions))
    names = [f"refs/tags/{prefix}{version.text}" for version in versions if version == newest]
    if len({references.commits[name] for name in names}) > 1:
        places = " and ".join(f"{name} ({references.commits[name][:12]})" for name in names)
        raise AmbiguousRevisionError(f"{where}: the newest version in {revision!r} is ambiguous: {places}", hint="remove one of the tags")
    return Resolved(references.commits[names[0]], names[0])


def _near_range(wanted: Range, versions: Sequence[Version]) -> str:
    if any(version.prerelease and wanted.admits(replace(version, prerelease="")) for version in versions):
        return "pre-releases are in a range only where it says so: add -0 to its version"
    return f"the newest tagged version is {max(versions).text}" if versions else "versions are tagged like v1.2.3"


def hint_for_id(references: References, revision: str) -> str:
    """What to write instead where a ref is named like a commit id."""
    named = [name for name in (f"refs/heads/{revision}", f"refs/tags/{revision}") if name in references.commits]
    return f"to mean the ref of that name, write {' or '.join(named)}" if named else ""


def _nearest(references: References, revision: str) -> str:
    short = [name.split("/", 2)[2] for name in references.commits if name.startswith(("refs/heads/", "refs/tags/"))]
    near = difflib.get_close_matches(revision, short[:2000], n=_ABSENT_SHOWN, cutoff=0.6)
    return f"did you mean {', '.join(near)}?" if near else "it may have been deleted; nothing else is taken instead"
