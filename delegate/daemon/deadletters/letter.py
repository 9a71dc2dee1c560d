"""A dead letter: one frozen JSON document about one thing that can't be read, delivered or done any more.

A letter says what it holds (`payload`), why nobody will take it (`reason`, `message`, `errors`: the chain of causes, outermost first),
how often it was tried, who wrote it and when, and whether anything in it was masked. Letters are written through `sealing`, which
masks secrets and gives them their id.
"""

import base64
import datetime as dt
import enum
import hashlib
import platform
from collections.abc import Sequence
from typing import Self

import msgspec

from delegate import __version__
from delegate.daemon.deadletters.errors import LetterDamagedError
from delegate.foundation.errors import DelegateError
from delegate.model.resources import JsonObject
from delegate.model.results import ErrorDetail, describe_error
from delegate.protocol.versions import PROTOCOL_MAX

FORMAT = 1
"""Of the document. Readers ignore fields that they don't know."""
_MOST_CAUSES = 20


class Reason(enum.StrEnum):
    """Why a letter is dead. Part of metrics and file names: short, and never renamed."""

    UNDECODABLE = "undecodable"  # a task that this delegate can't read
    SUPERSEDED = "superseded"  # a result that came too late: another attempt has the authority, or the task is final
    CONFLICT = "conflict"  # a result whose attempt has already sent another one
    INVALID = "invalid"  # a result that the manager can't read, and never will
    PAYLOAD_TOO_LARGE = "payload_too_large"  # a result that doesn't fit through the way to the manager
    RETRIES_EXHAUSTED = "retries_exhausted"  # a task that can't succeed any more

    @classmethod
    def of_verdict(cls, verdict: str) -> "Reason":
        """Of a manager's final word about a result (`protocol.work.ResultVerdict`); an unknown word means invalid."""
        return {"lease_lost": cls.SUPERSEDED, "conflict": cls.CONFLICT}.get(verdict, cls.INVALID)


class Encoding(enum.StrEnum):
    """How `content` holds the payload's bytes."""

    JSON = "json"  # as the value itself
    TEXT = "text"
    BASE64 = "base64"  # bytes that are no UTF-8, and the pieces of large payloads


class PayloadKind(enum.StrEnum):
    RESULT = "result"
    TASK = "task"


class Payload(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the letter is about. `size` (bytes) and `sha256` are those of `raw()`: after masking, as the letter holds it."""

    kind: PayloadKind
    encoding: Encoding
    content: object
    size: int = 0
    sha256: str = ""

    def raw(self) -> bytes:
        """The payload's bytes; JSON with sorted keys and no spaces. Raises LetterDamagedError where the content can't be that."""
        if self.encoding is Encoding.JSON:
            return msgspec.json.encode(self.content, order="sorted")
        if self.encoding is Encoding.TEXT and isinstance(self.content, str):
            return self.content.encode()
        try:
            return base64.b64decode(str(self.content), validate=True)
        except ValueError as error:
            raise LetterDamagedError(f"the content of the payload is not in {self.encoding.value}") from error

    def measured(self) -> Self:
        """The same with its size and digest."""
        raw = self.raw()
        return msgspec.structs.replace(self, size=len(raw), sha256=hashlib.sha256(raw).hexdigest())


class Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A piece of a payload that is too large for one letter: `number` (from 1) of `count`; the rest is about the whole."""

    letter: str
    number: int
    count: int
    encoding: Encoding
    size: int
    sha256: str


class Versions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Of what wrote the letter."""

    delegate: str = __version__
    protocol: str = str(PROTOCOL_MAX)
    python: str = platform.python_version()


class RedactionState(msgspec.Struct, frozen=True, rename="camel"):
    """`masked`: texts in which something was replaced by `(hidden)`; a letter with any can't be sent again as it was."""

    masked: int = 0

    @property
    def clean(self) -> bool:
        return self.masked == 0


class Letter(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`attempts`: how often it was tried. `id` is given by `sealing.seal`: the same for the same letter written again.

    `reason` is a `Reason`, or the word of a later version.
    """

    format: int = FORMAT
    id: str = ""
    reason: str
    message: str = ""
    created: dt.datetime
    delegate: str
    task: str = ""
    attempt: str = ""
    fence: int = 0
    kind: str = ""
    application: str = ""
    cluster: str = ""
    outcome: str = ""
    attempts: int = 1
    errors: tuple[ErrorDetail, ...] = ()
    traceparent: str = ""
    versions: Versions = Versions()
    redaction: RedactionState = RedactionState()
    part: Part | None = None
    payload: Payload


class Addressed(msgspec.Struct, frozen=True, kw_only=True):
    """What a letter is about, as far as it is known."""

    task: str = ""
    attempt: str = ""
    fence: int = 0
    kind: str = ""
    application: str = ""
    cluster: str = ""
    traceparent: str = ""


def result_payload(result: JsonObject) -> Payload:
    """A result document, whole."""
    return Payload(kind=PayloadKind.RESULT, encoding=Encoding.JSON, content=result)


def task_payload(raw: bytes) -> Payload:
    """The bytes of a task as they came: as a JSON object where they are one, so that people can read it, else as they are."""
    try:
        return Payload(kind=PayloadKind.TASK, encoding=Encoding.JSON, content=msgspec.json.decode(raw, type=dict[str, object]))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return Payload(kind=PayloadKind.TASK, encoding=Encoding.TEXT, content=raw.decode())
    except UnicodeDecodeError:
        return Payload(kind=PayloadKind.TASK, encoding=Encoding.BASE64, content=base64.b64encode(raw).decode())


class Writer(msgspec.Struct, frozen=True, kw_only=True):
    """Who writes letters: the delegate's name, and what it runs."""

    delegate: str
    versions: Versions = Versions()

    def of_result(
        self,
        result: JsonObject,
        reason: Reason,
        about: Addressed,
        *,
        created: dt.datetime,
        message: str = "",
        errors: Sequence[ErrorDetail] = (),
        attempts: int = 1,
    ) -> Letter:
        """About a result. What `about` leaves empty is taken from the result itself.

        Give `created` from the result's record and not from the clock where there is one: a letter that is written again after a crash
        then has the same name in the bucket.
        """
        return Letter(
            reason=reason,
            payload=result_payload(result),
            delegate=self.delegate,
            versions=self.versions,
            created=created,
            message=message,
            task=about.task or _text(result, "task"),
            attempt=about.attempt or _text(result, "attempt"),
            fence=about.fence,
            kind=about.kind or _text(result, "kind"),
            application=about.application or _text(result, "application"),
            cluster=about.cluster or _text(result, "cluster"),
            outcome=_text(result, "outcome"),
            traceparent=about.traceparent,
            attempts=attempts,
            errors=tuple(errors),
        )

    def of_task(
        self,
        raw: bytes,
        reason: Reason,
        about: Addressed,
        *,
        created: dt.datetime,
        message: str = "",
        errors: Sequence[ErrorDetail] = (),
        attempts: int = 1,
    ) -> Letter:
        """About a task, by the bytes that it came in."""
        return Letter(
            reason=reason,
            payload=task_payload(raw),
            delegate=self.delegate,
            versions=self.versions,
            created=created,
            message=message,
            task=about.task,
            attempt=about.attempt,
            fence=about.fence,
            kind=about.kind,
            application=about.application,
            cluster=about.cluster,
            traceparent=about.traceparent,
            attempts=attempts,
            errors=tuple(errors),
        )


def error_chain(error: BaseException) -> tuple[ErrorDetail, ...]:
    """An error and what caused it, outermost first; at most 20. What is no DelegateError gets the code `cause.<its type>`."""
    chain: list[ErrorDetail] = []
    current: BaseException | None = error
    while current is not None and len(chain) < _MOST_CAUSES:
        if isinstance(current, DelegateError):
            chain += describe_error(current)
        else:
            name = type(current).__name__
            chain.append(ErrorDetail(code=f"cause.{name}", category="internal", message=str(current) or name))
        current = current.__cause__
    return tuple(chain[:_MOST_CAUSES])


def _text(document: JsonObject, key: str) -> str:
    value = document.get(key)
    return value if isinstance(value, str) else ""
