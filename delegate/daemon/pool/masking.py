"""Known secrets in what tasks tell: the last gate before results and steps leave the process, whatever the code before it let through."""

from typing import TypeVar

import msgspec

from delegate.foundation.redaction import KNOWN_SECRETS, KnownSecrets
from delegate.model.resources import JsonObject
from delegate.model.results import TaskResult

J = TypeVar("J")
_CONTENTS = frozenset({"changes"})
_NAMES = frozenset(
    {"task", "attempt", "kind", "application", "outcome", "sync", "health", "status", "action", "phase", "code", "category"}
    | {"group", "namespace", "name", "object", "file", "origin", "revision", "planHash", "path"}
    | {"verdict", "last", "type", "unit", "noData", "partial", "reduce", "direction"}
)


def mask_result(result: TaskResult, known: KnownSecrets = KNOWN_SECRETS) -> TaskResult:
    """The same result, with every known secret in its texts replaced; nearly always the very same one."""
    text = msgspec.json.encode(result).decode()
    if known.mask(text) is text:
        return result
    return msgspec.convert(_masked_result(msgspec.to_builtins(result), known), TaskResult)


def mask_step(data: JsonObject, known: KnownSecrets = KNOWN_SECRETS) -> JsonObject:
    """The same for what is told of a step."""
    text = msgspec.json.encode(data).decode()
    return data if known.mask(text) is text else _masked(data, known)


def _masked_result(value: J, known: KnownSecrets) -> J:
    """Without the words that name things: a secret that equals one of them gives nothing away there, and a result must stay readable."""
    match value:
        case dict():
            return {  # type: ignore[return-value]
                name: each
                if name in _NAMES and isinstance(each, str)
                else _masked(each, known)
                if name in _CONTENTS
                else _masked_result(each, known)
                for name, each in value.items()
            }
        case list() | tuple():
            return type(value)(_masked_result(each, known) for each in value)
        case _:
            return _masked(value, known)


def _masked(value: J, known: KnownSecrets) -> J:
    match value:
        case str():
            return known.mask(value)  # type: ignore[return-value]
        case dict():
            return {_masked(name, known): _masked(each, known) for name, each in value.items()}  # type: ignore[return-value]
        case list() | tuple():
            return type(value)(_masked(each, known) for each in value)
        case _:
            return value
