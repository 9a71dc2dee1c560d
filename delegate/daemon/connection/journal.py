"""What the outbox writes on disk: one record a line, each with its own checksum.

A line is eight hexadecimal digits (CRC-32 of the rest), a space, and a JSON object without line breaks. Whatever happens to a
line spoils that line alone: reading goes on at the next one. A last line without its end is a torn write: it was never promised to
anybody, and is cut off.
"""

import zlib
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from delegate.model.resources import JsonObject
from delegate.protocol.work import ResultItem


class Began(msgspec.Struct, frozen=True, tag="began", rename="camel"):
    """An attempt was taken on. Without an `Ended` or `Kept` after it, its process died in the middle."""

    attempt_id: str
    task_id: str
    fence: int
    kind: str = ""
    application: str = ""


class Kept(msgspec.Struct, frozen=True, tag="result", rename="camel"):
    """A result that the manager has to get. `kept_at` is RFC 3339, for people.

    `task` is the task's document where it failed for a reason that might pass, and is not tried any more (`tries`: hand-outs that began):
    it becomes a dead letter once the manager has the result.
    """

    item: ResultItem
    kind: str = ""
    application: str = ""
    outcome: str = ""
    kept_at: str = ""
    tries: int = 1
    task: JsonObject | None = None


class Ended(msgspec.Struct, frozen=True, tag="ended", rename="camel"):
    """Nothing is owed for this attempt any more."""

    attempt_id: str


Record = Began | Kept | Ended


class Damage(NamedTuple):
    """A line that is not what was written; `torn` where it is only the unfinished end."""

    offset: int
    length: int
    reason: str
    torn: bool = False


class Line(NamedTuple):
    """A record with the bytes that hold it, line end included."""

    record: Record
    raw: bytes


class Reading(NamedTuple):
    lines: tuple[Line, ...]
    damages: tuple[Damage, ...]


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Record)


def encode_record(record: Record) -> bytes:
    """The line of a record."""
    body = _ENCODER.encode(record)
    return b"%08x %b\n" % (zlib.crc32(body), body)


def decode_line(raw: bytes) -> Record:
    """The record of a line. Raises ValueError that says what is wrong with it."""
    if raw[-1:] != b"\n":
        raise ValueError("the line has no end")
    checksum, space, body = raw[:-1].partition(b" ")
    if not space or b"%08x" % zlib.crc32(body) != checksum:
        raise ValueError("the checksum does not fit")
    try:
        return _DECODER.decode(body)
    except msgspec.DecodeError as error:
        raise ValueError(f"no record: {error}") from error


def read_records(data: bytes) -> Reading:
    """Every sound record of a file's bytes, and every damage."""
    lines: list[Line] = []
    damages: list[Damage] = []
    offset = 0
    for raw in _split(data):
        try:
            lines.append(Line(decode_line(raw), raw))
        except ValueError as error:
            last = offset + len(raw) == len(data)
            damages.append(Damage(offset, len(raw), str(error), torn=last and not raw.endswith(b"\n")))
        offset += len(raw)
    return Reading(tuple(lines), tuple(damages))


def _split(data: bytes) -> Iterable[bytes]:
    """At line feeds alone: damaged bytes may hold anything that `splitlines` takes for a line end."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start) + 1 or len(data)
        yield data[start:end]
        start = end


def owed(lines: Iterable[Line]) -> dict[str, Line]:
    """What is still open after these records, by attempt, in order: a result to deliver, or a start without an end."""
    still: dict[str, Line] = {}
    for line in lines:
        match line.record:
            case Began(attempt_id=attempt):
                still.setdefault(attempt, line)
            case Kept(item=item):
                still.pop(item.attempt_id, None)
                still[item.attempt_id] = line
            case Ended(attempt_id=attempt):
                still.pop(attempt, None)
    return still
