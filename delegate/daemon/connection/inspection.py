"""Looking at an outbox from outside, also while its delegate runs: what is owed, and whether every byte is what was written."""

import datetime as dt
from pathlib import Path

import msgspec

from delegate.daemon.connection.journal import Began, Damage, Kept, Line, owed
from delegate.daemon.connection.journal_files import read_journals
from delegate.daemon.directories import explain_fault
from delegate.protocol.codec import result_digest


class OutboxEntry(msgspec.Struct, frozen=True, rename="camel"):
    """Something owed to the manager. `state`: `result` waits to be delivered, `running` or `lost` (its process is gone)."""

    attempt: str
    task: str
    state: str
    kind: str = ""
    application: str = ""
    outcome: str = ""
    kept_at: str = ""
    age_seconds: float | None = None
    bytes: int = 0


class JournalCheck(msgspec.Struct, frozen=True, rename="camel"):
    """One journal. `torn_bytes` at its end were never promised to anybody; each of `damages` was a record once."""

    file: str
    living: bool
    records: int
    results: int
    torn_bytes: int = 0
    damages: tuple[str, ...] = ()


def list_entries(directory: Path, now: dt.datetime) -> list[OutboxEntry]:
    """What is owed, oldest first. Raises StateDirectoryError."""
    entries = []
    try:
        for _, reading, living in read_journals(directory):
            entries += [_entry(line, living, now) for line in owed(reading.lines).values()]
    except OSError as error:
        raise explain_fault(directory, error) from error
    return entries


def verify(directory: Path) -> list[JournalCheck]:
    """Checks every record's checksum and every result's digest. Raises StateDirectoryError."""
    try:
        return [_check(path, reading.lines, reading.damages, living) for path, reading, living in read_journals(directory)]
    except OSError as error:
        raise explain_fault(directory, error) from error


def _entry(line: Line, living: bool, now: dt.datetime) -> OutboxEntry:
    match line.record:
        case Kept(item=item) as kept:
            return OutboxEntry(
                attempt=item.attempt_id,
                task=item.task_id,
                state="result",
                kind=kept.kind,
                application=kept.application,
                outcome=kept.outcome,
                kept_at=kept.kept_at,
                age_seconds=_age(kept.kept_at, now),
                bytes=len(line.raw),
            )
        case Began() as began:
            state = "running" if living else "lost"
            return OutboxEntry(
                attempt=began.attempt_id,
                task=began.task_id,
                state=state,
                kind=began.kind,
                application=began.application,
                bytes=len(line.raw),
            )
        case ended:
            return OutboxEntry(attempt=ended.attempt_id, task="", state="ended")


def _age(kept_at: str, now: dt.datetime) -> float | None:
    try:
        return max(0.0, (now - dt.datetime.fromisoformat(kept_at)).total_seconds())
    except ValueError:
        return None


def _check(path: Path, lines: tuple[Line, ...], damages: tuple[Damage, ...], living: bool) -> JournalCheck:
    words = [f"byte {damage.offset}: {damage.reason} ({damage.length} bytes)" for damage in damages if not damage.torn]
    results = [line.record.item for line in lines if isinstance(line.record, Kept)]
    words += [
        f"attempt {item.attempt_id}: the digest does not fit the result" for item in results if result_digest(item.result) != item.digest
    ]
    return JournalCheck(
        file=str(path),
        living=living,
        records=len(lines),
        results=len(results),
        torn_bytes=sum(damage.length for damage in damages if damage.torn),
        damages=tuple(words),
    )
