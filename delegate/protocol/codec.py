"""Bytes to messages and back, with bounds. Nothing undecodable gets past it."""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar, get_args, get_origin

import msgspec

from delegate.foundation.errors import Category, DelegateError
from delegate.model.resources import JsonObject
from delegate.protocol.messages import Message
from delegate.protocol.work import LeasedTask

MAX_BODY_BYTES = 8 * 2**20
M = TypeVar("M", bound=Message)


class UndecodableError(DelegateError):
    """Bytes that are no such message."""

    default_code = "protocol.undecodable"
    category = Category.DEPENDENCY
    default_retryable = True


class UndecodableTask(msgspec.Struct, frozen=True):
    """A task of a batch that can't be read. What could be read of its identity allows it to be given back."""

    attempt_id: str
    task_id: str
    fence: int
    reason: str
    raw: bytes


def encode(message: msgspec.Struct) -> bytes:
    return msgspec.json.encode(message)


def decode(body: bytes, wanted: type[M]) -> M:
    """A message from a body. Raises UndecodableError; the body itself is never repeated in the words."""
    if len(body) > MAX_BODY_BYTES:
        raise UndecodableError(f"a {wanted.__name__} of {len(body)} bytes is over the limit of {MAX_BODY_BYTES}", retryable=False)
    try:
        return _decode(body, wanted)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UndecodableError(f"not a {wanted.__name__}: {error}") from error


def _decode(body: bytes, wanted: type[M]) -> M:
    try:
        return msgspec.json.decode(body, type=wanted)
    except msgspec.ValidationError:
        return msgspec.json.decode(_without_nulls(body, wanted), type=wanted)


def _without_nulls(body: bytes, wanted: type[msgspec.Struct]) -> bytes:
    """The same message with members left out that are null where they may be missing; opaque documents stay byte for byte."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(wanted)}
    kept: dict[str, msgspec.Raw] = {}
    for name, value in msgspec.json.decode(body, type=dict[str, msgspec.Raw]).items():
        field = fields.get(name)
        if field is None or (bytes(value) == b"null" and not field.required):
            continue
        kept[name] = _clean_member(value, field.type)
    return msgspec.json.encode(kept)


def _clean_member(value: msgspec.Raw, kind: Any) -> msgspec.Raw:
    if isinstance(kind, type) and issubclass(kind, Message):
        return msgspec.Raw(_without_nulls(bytes(value), kind))
    item = get_args(kind)[0] if get_origin(kind) is tuple else None
    if isinstance(item, type) and issubclass(item, Message):
        items = msgspec.json.decode(value, type=list[msgspec.Raw])
        return msgspec.Raw(msgspec.json.encode([msgspec.Raw(_without_nulls(bytes(each), item)) for each in items]))
    return value


class _Identity(Message, frozen=True, kw_only=True):
    attempt_id: str = ""
    task_id: str = ""
    fence: int = 0


def decode_tasks(batch: Iterable[msgspec.Raw]) -> tuple[list[LeasedTask], list[UndecodableTask]]:
    """The readable tasks of a batch, and the unreadable ones, each for itself."""
    tasks: list[LeasedTask] = []
    refused: list[UndecodableTask] = []
    for raw in batch:
        try:
            tasks.append(_decode(bytes(raw), LeasedTask))
        except msgspec.DecodeError as error:
            refused.append(_identify(bytes(raw), str(error)))
    return tasks, refused


def _identify(raw: bytes, reason: str) -> UndecodableTask:
    try:
        identity = msgspec.json.decode(raw, type=_Identity)
    except msgspec.DecodeError:
        identity = _Identity()
    return UndecodableTask(identity.attempt_id, identity.task_id, identity.fence, reason, raw)


def canonical(result: JsonObject) -> bytes:
    """The result with sorted keys and no spaces: what a digest is over."""
    return msgspec.json.encode(result, order="sorted")


def result_digest(result: JsonObject) -> str:
    """SHA-256 over the canonical bytes, as lower-case hex."""
    return hashlib.sha256(canonical(result)).hexdigest()


def canonical_pieces(result: JsonObject) -> Iterator[bytes]:
    """The bytes of `canonical`, piece by piece: never more than one element of one list at a time."""
    yield b"{"
    for number, key in enumerate(sorted(result)):
        yield (b"," if number else b"") + msgspec.json.encode(key) + b":"
        value = result[key]
        if isinstance(value, list | tuple):
            yield b"["
            for index, element in enumerate(value):
                yield (b"," if index else b"") + msgspec.json.encode(element, order="sorted")
            yield b"]"
        else:
            yield msgspec.json.encode(value, order="sorted")
    yield b"}"
