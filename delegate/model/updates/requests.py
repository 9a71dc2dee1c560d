"""What a git-update asks for: the spec of its task, read strictly, and the tags that a policy refuses."""

import enum
import posixpath
import re
from collections.abc import Collection, Iterator

import msgspec

from delegate.model.resources import JsonObject
from delegate.model.strict import Strict
from delegate.model.updates.errors import MutableTagError, UpdateSpecError
from delegate.model.updates.paths import parse_path
from delegate.model.updates.scalars import Value


class UpdateMode(enum.StrEnum):
    COMMIT = "commit"
    MERGE_REQUEST = "merge-request"


class Edit(Strict, frozen=True):
    """One scalar of one file. `object` (`Deployment/checkout`) chooses among the documents of a file."""

    file: str
    path: str
    value: Value
    object: str = ""


class GitUpdateSpec(Strict, frozen=True):
    """`images` maps names without tag to the tag or digest that they get, wherever they stand below `path`.

    `evidence` is what the merge request says of why; `branch` is the one that is changed, or that the merge request is for; by default the
    repository's own.
    """

    repo_url: str = msgspec.field(name="repoURL")
    branch: str = ""
    path: str = ""
    edits: tuple[Edit, ...] = ()
    images: dict[str, str] = {}
    mode: UpdateMode = UpdateMode.COMMIT
    message: str = ""
    evidence: str = ""


_MOST_EDITS = 500
_MOST_MESSAGE = 10_000
_INSIDE = "write it from the top of the repository on"
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_IMAGE = re.compile(r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?::[0-9]{1,5}(?=/))?(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*", re.IGNORECASE)
_BAD_BRANCH = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|^[-/.]|/\.|\.lock(?:/|$)|[/.]$")


def read_update(spec: JsonObject) -> GitUpdateSpec:
    """Raises UpdateSpecError that names the field."""
    try:
        update = msgspec.convert(spec, GitUpdateSpec)
    except msgspec.ValidationError as error:
        words, _, place = str(error).partition(" - at `$")
        raise UpdateSpecError(f"spec{place.rstrip('`')}: {words}") from error
    for field, words, hint in faults_of_update(update):
        raise UpdateSpecError(f"spec.{field}: {words}", hint=hint)
    return update


def faults_of_update(update: GitUpdateSpec) -> Iterator[tuple[str, str, str]]:
    """Everything about a spec that can't be meant: field (below the spec), words, hint."""
    if not update.repo_url:
        yield "repoURL", "it is empty", "name the configuration repository"
    if update.branch and not is_branch(update.branch):
        yield "branch", f"{update.branch!r} is no name of a branch", "write main, not refs/heads/main"
    if not update.edits and not update.images:
        yield "edits", "there are neither edits nor images", "say what is to change"
    if len(update.edits) + len(update.images) > _MOST_EDITS:
        yield "edits", f"there are more than {_MOST_EDITS} edits and images", "make several tasks of it"
    if len(update.message) > _MOST_MESSAGE:
        yield "message", f"it is longer than {_MOST_MESSAGE} characters", ""
    for field, text in (("message", update.message), ("evidence", update.evidence)):
        if "\0" in text:
            yield field, "it holds a NUL", ""
    if update.path and not is_inside(update.path):
        yield "path", f"{update.path!r} leads out of the repository", _INSIDE
    for number, edit in enumerate(update.edits):
        yield from _faults_of_edit(f"edits[{number}]", edit)
    for name, reference in update.images.items():
        if not _IMAGE.fullmatch(name):
            yield "images", f"{name!r} is no name of an image", "write it without tag and digest"
        if not is_reference(reference):
            yield "images", f"{reference!r} of {name} is neither a tag nor a digest", "write 1.4.0, or sha256:..."


def _faults_of_edit(place: str, edit: Edit) -> Iterator[tuple[str, str, str]]:
    if not is_inside(edit.file):
        yield f"{place}.file", f"{edit.file!r} leads out of the repository", _INSIDE
    try:
        parse_path(edit.path)
    except UpdateSpecError as error:
        yield f"{place}.path", error.message, error.hint


def is_reference(text: str) -> bool:
    """Whether a text is a tag, a digest, or a tag with a digest."""
    tag, at, digest = text.partition("@")
    if _DIGEST.fullmatch(text):
        return True
    return bool(_TAG.fullmatch(tag)) and (not at or bool(_DIGEST.fullmatch(digest)))


def is_inside(path: str) -> bool:
    """Whether a path, as written, stays inside of the repository and out of Git's own directory."""
    parts = path.split("/")
    if not path or "\0" in path or path.startswith("/") or any(part.lower() == ".git" for part in parts):
        return False
    return posixpath.normpath(path).partition("/")[0] != ".."


def is_branch(name: str) -> bool:
    """Whether Git takes a name for a branch (git-check-ref-format)."""
    return bool(name) and not _BAD_BRANCH.search(name) and not name.startswith("refs/") and name not in ("@", "HEAD")


def refuse_mutable(update: GitUpdateSpec, tags: Collection[str]) -> None:
    """Raises MutableTagError for a tag that a policy calls mutable, also where an edit sets it in an image or a tag's field."""
    edited = [(f"{edit.file}: {edit.path}", _tag_in(edit.path, edit.value)) for edit in update.edits if isinstance(edit.value, str)]
    named = [*((f"image {name}", tag) for name, tag in update.images.items()), *edited]
    for where, tag in named:
        if tag is not None and (not tag or tag in tags):
            raise _mutable(where, tag)


def _tag_in(path: str, value: str) -> str | None:
    """The tag that an edit sets; empty for an image without one; None where it sets none."""
    last = str(parse_path(path)[-1]).lower()
    if last == "image" or last.endswith("image"):
        return None if "@" in value else value.rpartition("/")[2].partition(":")[2]
    if last.endswith("tag"):
        return value
    return None


def _mutable(where: str, tag: str) -> MutableTagError:
    named = f"tag {tag!r}" if tag else "no tag, which means latest"
    return MutableTagError(
        f"policy mutable-tags: {where} would get {named}; what it means can change without a commit",
        hint="name a version that is never pushed again, or the digest: sha256:...",
    )
