"""Looking at dead letters from outside, in the spool and in the bucket, also while the delegate runs. Blocks where it reads the disk."""

import datetime as dt
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from delegate.daemon.deadletters.bucket import Bucket, StoredObject
from delegate.daemon.deadletters.disk import Disk, Found
from delegate.daemon.deadletters.entries import Entry, entry_of
from delegate.daemon.deadletters.errors import LetterDamagedError, LetterNotFoundError
from delegate.daemon.deadletters.letter import Letter
from delegate.daemon.deadletters.sealing import join, read
from delegate.daemon.deadletters.spool import DAMAGED, explain_spool_fault

_KEY = re.compile(r"(?:.*/)?v1/([^/]+)/(\d{4}/\d{2}/\d{2})/([^/]+)/([^/]+)-([0-9a-f]{64})\.json", re.ASCII)


class Selection(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which letters are meant: those that fit all that is given. Empty means all. `older_than_seconds` is the least age."""

    ids: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    application: str = ""
    task: str = ""
    older_than_seconds: float = 0.0

    @property
    def everything(self) -> bool:
        return self == Selection()

    def fits(self, letter: "LetterRow") -> bool:
        return (
            (not self.ids or any(letter.id.startswith(each) or (letter.whole and letter.whole.startswith(each)) for each in self.ids))
            and (not self.reasons or letter.reason in self.reasons)
            and (not self.application or letter.application == self.application)
            and (not self.task or letter.task == self.task)
            and letter.age_seconds >= self.older_than_seconds
        )


class LetterRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A letter in the spool. `part` is `1/3` for a piece of the letter `whole`; `damaged` says what is wrong with its file."""

    id: str
    reason: str
    created: str
    age_seconds: float
    size: int
    file: str
    task: str = ""
    attempt: str = ""
    kind: str = ""
    application: str = ""
    cluster: str = ""
    outcome: str = ""
    message: str = ""
    part: str = ""
    whole: str = ""
    masked: int = 0
    damaged: str = ""


class SpoolCheck(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`damaged` are files that were letters once; `foreign` files that never were, and are left alone."""

    directory: str
    letters: int
    size: int
    damaged: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()

    @property
    def sound(self) -> bool:
        return not self.damaged


class Purged(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What was taken out, or would be with `dry_run`."""

    letters: tuple[LetterRow, ...]
    damaged_files: tuple[str, ...]
    size: int
    dry_run: bool


class StoredRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A letter in the bucket, as its key tells; `wrong` is set by verifying."""

    url: str
    delegate: str
    day: str
    task: str
    attempt: str
    sha256: str
    size: int
    wrong: str = ""


# In the spool.


def list_letters(directory: Path, selection: Selection, now: dt.datetime) -> list[LetterRow]:
    """Letters of the spool, oldest first. Raises SpoolUnusableError."""
    rows = (_row(entry, letter, error, now) for entry, letter, error in _letters(directory))
    return [row for row in rows if selection.fits(row)]


def find_letter(directory: Path, beginning: str) -> Letter:
    """The letter whose id begins so, whole. Raises LetterNotFoundError, LetterDamagedError, SpoolUnusableError."""
    of_whole: dict[str, list[Entry]] = {}
    meant: set[str] = set()
    for entry, letter, error in _letters(directory):
        if error is not None and entry.id.startswith(beginning):
            raise error
        whole = letter.part.letter if letter is not None and letter.part is not None else entry.id
        of_whole.setdefault(whole, []).append(entry)
        if entry.id.startswith(beginning) or whole.startswith(beginning):
            meant.add(whole)
    if not meant:
        raise LetterNotFoundError(
            f"no dead letter in {directory} has an id that begins with {beginning!r}",
            hint="`delegate dlq list` names those that are there; sent ones are in the bucket (--bucket)",
        )
    if len(meant) > 1:
        raise LetterNotFoundError(f"{beginning!r} begins the ids of {len(meant)} dead letters", hint="give more of the id")
    letters = [read(_body(directory, entry)) for entry in of_whole[meant.pop()]]
    return join(letters) if letters[0].part is not None else letters[0]


def check_spool(directory: Path) -> SpoolCheck:
    """Checks every letter's bytes against its name. Changes nothing. Raises SpoolUnusableError."""
    damaged = [f"{entry.name}: {error.message}" for entry, _, error in _letters(directory) if error is not None]
    aside = [f"{DAMAGED}/{each.name}: set aside by the delegate" for each in _files(directory / DAMAGED)]
    files = _files(directory)
    foreign = [each.name for each in files if entry_of(*each) is None and not each.name.startswith(".")]
    entries = [each for each in files if entry_of(*each) is not None]
    return SpoolCheck(
        directory=str(directory),
        letters=len(entries),
        size=sum(each.size for each in entries),
        damaged=tuple(damaged + aside),
        foreign=tuple(sorted(foreign)),
    )


def purge(
    directory: Path, selection: Selection, now: dt.datetime, *, letters: bool = True, damaged: bool = False, dry_run: bool = False
) -> Purged:
    """Takes the selected letters out for good, and with `damaged` the files that were set aside. Raises SpoolUnusableError."""
    rows = list_letters(directory, selection, now) if letters else []
    aside = _files(directory / DAMAGED) if damaged else []
    if not dry_run:
        try:
            for path in [*(directory / row.file for row in rows), *(directory / DAMAGED / each.name for each in aside)]:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise explain_spool_fault(directory, error) from error
    size = sum(row.size for row in rows) + sum(each.size for each in aside)
    return Purged(letters=tuple(rows), damaged_files=tuple(sorted(each.name for each in aside)), size=size, dry_run=dry_run)


# In the bucket.


async def list_stored(bucket: Bucket, *, prefix: str = "", most: int = 1000) -> tuple[list[StoredRow], bool]:
    """Letters of the bucket in order of their keys (delegate, then day), and whether there are more. Raises BucketError."""
    objects, more = await bucket.list_objects(f"v1/{prefix}", most=most)
    return list(_stored_rows(bucket, objects)), more


async def check_stored(bucket: Bucket, rows: Sequence[StoredRow]) -> list[StoredRow]:
    """Reads each letter and compares it with its key; those that are not what was written say so. Raises BucketError."""
    checked = []
    for row in rows:
        body = await bucket.get(row.url.removeprefix(bucket.address.url("")))
        wrong = "" if hashlib.sha256(body).hexdigest() == row.sha256 else "its bytes are not those that its key names"
        checked.append(msgspec.structs.replace(row, wrong=wrong))
    return checked


async def find_stored(bucket: Bucket, name: str) -> Letter:
    """The letter of a URL (`s3://...`) or key, whole. Raises LetterNotFoundError, LetterDamagedError, BucketError."""
    key = name.removeprefix(bucket.address.url(""))
    match = _KEY.fullmatch(key)
    if match is None:
        raise LetterNotFoundError(f"{name!r} is no dead letter in {bucket.address.url('')}", hint="`delegate dlq list --bucket` names them")
    letter = _read_stored(await bucket.get(key), match[5], key)
    if letter.part is None:
        return letter
    siblings, _ = await bucket.list_objects(f"v1/{match[1]}/{match[2]}/{match[3]}/{match[4]}-")
    pieces = []
    for each in siblings:
        found = _KEY.fullmatch(each.key)
        piece = _read_stored(await bucket.get(each.key), found[5], each.key) if found is not None else None
        if piece is not None and piece.part is not None and piece.part.letter == letter.part.letter:
            pieces.append(piece)
    return join(pieces)


# Steps.


def _letters(directory: Path) -> Iterator[tuple[Entry, Letter | None, LetterDamagedError | None]]:
    """Every letter of the spool, one at a time in memory; what is damaged with the error that says how."""
    entries = sorted(entry for entry in (entry_of(*each) for each in _files(directory)) if entry is not None)
    for entry in entries:
        try:
            body = _body(directory, entry)
        except LetterNotFoundError:
            continue  # sent meanwhile
        if hashlib.sha256(body).hexdigest() != entry.sha256:
            yield entry, None, LetterDamagedError("its bytes are not those that its name tells", file=entry.name)
            continue
        try:
            letter = read(body)
        except LetterDamagedError as error:
            yield entry, None, error
        else:
            yield entry, letter, None


def _body(directory: Path, entry: Entry) -> bytes:
    try:
        return Disk().read(directory / entry.name)
    except FileNotFoundError as error:
        raise LetterNotFoundError(f"the dead letter {entry.id} has left the spool", hint="it may be in the bucket (--bucket)") from error
    except OSError as error:
        raise explain_spool_fault(directory, error) from error


def _files(directory: Path) -> list[Found]:
    try:
        return Disk().list_files(directory)
    except OSError as error:
        raise explain_spool_fault(directory, error) from error


def _row(entry: Entry, letter: Letter | None, error: LetterDamagedError | None, now: dt.datetime) -> LetterRow:
    row = LetterRow(
        id=entry.id,
        reason=entry.reason,
        created=entry.created_at.isoformat(timespec="seconds"),
        age_seconds=max(0.0, (now - entry.created_at).total_seconds()),
        size=entry.size,
        file=entry.name,
        damaged=error.message if error is not None else "",
    )
    if letter is None:
        return row
    return msgspec.structs.replace(
        row,
        task=letter.task,
        attempt=letter.attempt,
        kind=letter.kind,
        application=letter.application,
        cluster=letter.cluster,
        outcome=letter.outcome,
        message=letter.message,
        part=f"{letter.part.number}/{letter.part.count}" if letter.part else "",
        whole=letter.part.letter if letter.part else "",
        masked=letter.redaction.masked,
    )


def _stored_rows(bucket: Bucket, objects: Iterable[StoredObject]) -> Iterator[StoredRow]:
    for each in objects:
        match = _KEY.fullmatch(each.key)
        if match is not None:
            yield StoredRow(
                url=bucket.address.url(each.key),
                delegate=match[1],
                day=match[2].replace("/", "-"),
                task=match[3],
                attempt=match[4],
                sha256=match[5],
                size=each.size,
            )


def _read_stored(body: bytes, sha256: str, key: str) -> Letter:
    if hashlib.sha256(body).hexdigest() != sha256:
        raise LetterDamagedError(f"the bytes of {key} are not those that its key names")
    return read(body)
