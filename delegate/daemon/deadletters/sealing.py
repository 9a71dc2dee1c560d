"""From a letter to the bytes that are kept: secrets masked, an id given, too large payloads cut into pieces. And back. Pure.

The id is a digest of what the letter is about and holds, not of when it was written: the same letter written again, after a crash
between keeping it and telling whoever gave it, has the same id. A payload over `PIECE_BYTES` is cut into several letters, each with
an id of its own and whole in itself, so that nothing that keeps or moves letters needs to know; `join` puts them together.
"""

import base64
import datetime as dt
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from delegate.daemon.deadletters.errors import LetterDamagedError
from delegate.daemon.deadletters.letter import Encoding, Letter, Part, Payload, RedactionState
from delegate.foundation.redaction import KNOWN_SECRETS, KnownSecrets, names_a_secret, redact
from delegate.foundation.secrets import HIDDEN
from delegate.model.results import ErrorDetail

PIECE_BYTES = 4 * 2**20
"""Bytes of a payload in one letter. A courier holds a few letters in memory at once, so none may be large."""
_LONGEST_WORDS = 8192
_LONGEST_NAME = 253
_MOST_ERRORS = 50
_DEEPEST = 64
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")


class Sealed(NamedTuple):
    """A letter as it is kept: its bytes, and their digest as lower-case hex."""

    letter: Letter
    body: bytes
    sha256: str


def seal(letter: Letter, *, known: KnownSecrets = KNOWN_SECRETS, piece_bytes: int = PIECE_BYTES) -> tuple[Sealed, ...]:
    """One letter to keep, or several where its payload is large. No known secret, and nothing that looks like one, is in any."""
    masked = redacted(letter, known)
    payload = masked.payload.measured()
    whole = msgspec.structs.replace(masked, payload=payload, id=_letter_id(masked, payload.sha256))
    pieces = [whole] if payload.size <= piece_bytes else _cut(whole, piece_bytes)
    return tuple(_encode(piece) for piece in pieces)


def read(body: bytes) -> Letter:
    """The letter of some kept bytes. Raises LetterDamagedError."""
    try:
        return msgspec.json.decode(body, type=Letter)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise LetterDamagedError(f"no dead letter: {error}") from error


def join(pieces: Sequence[Letter]) -> Letter:
    """The letter that was cut into these. Raises LetterDamagedError where one is missing or the whole is not what it was."""
    by_number = {piece.part.number: piece for piece in pieces if piece.part is not None}
    first = next(iter(by_number.values()), None)
    if first is None or first.part is None:
        raise LetterDamagedError("these are no pieces of a dead letter")
    part = first.part
    missing = [str(number) for number in range(1, part.count + 1) if number not in by_number]
    if missing:
        raise LetterDamagedError(
            f"of the {part.count} pieces of the dead letter {part.letter}, {', '.join(missing)} can't be found",
            hint="the others may be in the bucket already",
        )
    raw = b"".join(by_number[number].payload.raw() for number in sorted(by_number))
    if hashlib.sha256(raw).hexdigest() != part.sha256:
        raise LetterDamagedError(f"the pieces of the dead letter {part.letter} are not what was cut")
    content = _content(raw, part.encoding)
    payload = Payload(kind=first.payload.kind, encoding=part.encoding, content=content, size=part.size, sha256=part.sha256)
    return msgspec.structs.replace(first, id=part.letter, payload=payload, part=None)


def object_key(letter: Letter, sha256: str) -> str:
    """`v1/<delegate>/<yyyy>/<mm>/<dd>/<task>/<attempt>-<sha256>.json`, in UTC: the same for the same bytes."""
    day = letter.created.astimezone(dt.UTC).strftime("%Y/%m/%d")
    return f"v1/{plain(letter.delegate)}/{day}/{plain(letter.task)}/{plain(letter.attempt)}-{sha256}.json"


def plain(name: str) -> str:
    """A name for a path: letters, digits, `.`, `_` and `-`, at most 100; `unknown` for none."""
    if _PLAIN_NAME.fullmatch(name):
        return name
    return _NO_NAME.sub("_", name).strip("._-")[:100] or "unknown"


def redacted(letter: Letter, known: KnownSecrets = KNOWN_SECRETS) -> Letter:
    """The letter with every secret masked, its words bounded, and its redaction state as it is then."""
    masking = _Masking(known)
    payload = msgspec.structs.replace(letter.payload, content=masking.payload(letter.payload))
    words = {
        name: masking.name(getattr(letter, name))
        for name in ("delegate", "task", "attempt", "kind", "application", "cluster", "outcome", "traceparent")
    }
    return msgspec.structs.replace(
        letter,
        **words,
        created=letter.created.astimezone(dt.UTC),
        payload=payload,
        message=masking.words(letter.message),
        errors=tuple(masking.error(each) for each in letter.errors[:_MOST_ERRORS]),
        redaction=RedactionState(masked=letter.redaction.masked + masking.masked),
    )


class _Masking:
    """Masks values of one letter, and counts those in which it had to."""

    def __init__(self, known: KnownSecrets) -> None:
        self._known = known
        self.masked = 0

    def text(self, text: str) -> str:
        masked = redact(text, self._known)
        self.masked += masked != text
        return masked

    def words(self, text: str) -> str:
        masked = self.text(text)
        return masked if len(masked) <= _LONGEST_WORDS else f"{masked[:_LONGEST_WORDS]} … ({len(masked) - _LONGEST_WORDS} more characters)"

    def name(self, name: str) -> str:
        # A short secret may occur by chance inside a generated id, which must stay what it is.
        return name if _PLAIN_NAME.fullmatch(name) else self.text(name)[:_LONGEST_NAME]

    def error(self, error: ErrorDetail) -> ErrorDetail:
        return msgspec.structs.replace(
            error,
            message=self.words(error.message),
            hint=self.words(error.hint),
            file=self.words(error.file),
            object=self.words(error.object),
        )

    def payload(self, payload: Payload) -> object:
        if payload.encoding is Encoding.JSON:
            return self.value(payload.content, 0)
        if payload.encoding is Encoding.TEXT:
            return self.text(str(payload.content))
        # Bytes that are no text may still hold some, and base64 hides it from every pattern.
        masked = self.text(payload.raw().decode(errors="surrogateescape"))
        return base64.b64encode(masked.encode(errors="surrogateescape")).decode()

    def value(self, value: object, depth: int) -> object:
        match value:
            case str():
                return self.text(value)
            case dict() if depth < _DEEPEST:
                return dict(self._members(value, depth))
            case list() if depth < _DEEPEST:
                return [self.value(each, depth + 1) for each in value]
            case dict() | list():
                return self.text(msgspec.json.encode(value).decode())
            case _:
                return value

    def _members(self, value: dict[str, object], depth: int) -> Iterator[tuple[str, object]]:
        is_secret = value.get("kind") == "Secret"
        for key, member in value.items():
            if is_secret and key in ("data", "stringData") and isinstance(member, dict):
                yield key, {self.text(name): self._hidden(each) for name, each in member.items()}
            elif names_a_secret(key):
                yield self.text(key), self._hidden(member)
            else:
                yield self.text(key), self.value(member, depth + 1)

    def _hidden(self, value: object) -> object:
        if value is None or isinstance(value, bool) or value in ("", [], {}, HIDDEN):
            return value
        self.masked += 1
        return HIDDEN


def _letter_id(letter: Letter, payload_sha256: str, piece: int = 0) -> str:
    about = (str(letter.reason), letter.task, letter.attempt, letter.fence, payload_sha256, piece)
    return hashlib.sha256(msgspec.json.encode(about)).hexdigest()[:32]


def _encode(letter: Letter) -> Sealed:
    body = msgspec.json.encode(letter, order="deterministic")
    return Sealed(letter, body, hashlib.sha256(body).hexdigest())


def _cut(letter: Letter, piece_bytes: int) -> Iterable[Letter]:
    raw = letter.payload.raw()
    count = -(-len(raw) // piece_bytes)
    for number in range(1, count + 1):
        piece = raw[(number - 1) * piece_bytes : number * piece_bytes]
        payload = Payload(kind=letter.payload.kind, encoding=Encoding.BASE64, content=base64.b64encode(piece).decode()).measured()
        part = Part(
            letter=letter.id,
            number=number,
            count=count,
            encoding=letter.payload.encoding,
            size=letter.payload.size,
            sha256=letter.payload.sha256,
        )
        yield msgspec.structs.replace(letter, id=_letter_id(letter, letter.payload.sha256, number), payload=payload, part=part)


def _content(raw: bytes, encoding: Encoding) -> object:
    if encoding is Encoding.JSON:
        return msgspec.json.decode(raw)
    return raw.decode() if encoding is Encoding.TEXT else base64.b64encode(raw).decode()
