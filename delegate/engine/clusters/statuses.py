"""Reads a Kubernetes `Status` body and shortens its words.

The server repeats rejected values in its messages, sometimes whole pod templates, and those of Secrets too. What leaves
this module is short enough for a result and holds no value of a Secret.
"""

import json
import re

import msgspec

from delegate.engine.clusters.errors import Cause
from delegate.model.resources import JsonObject

HIDDEN = "(hidden)"
_LONGEST_VALUE = 120
_LONGEST_MESSAGE = 2000
_VALUE = "Invalid value: "
_GOT = re.compile(r"(\bgot )(?!string|integer|float|boolean|map|list|null\b).*", re.DOTALL)
_ECHOED_BODY = re.compile(r"(,? ?error found in #\d+ byte of).*", re.DOTALL)
_DECODER = json.JSONDecoder()


class Status(msgspec.Struct, frozen=True):
    """A Status body; absent fields are empty. Messages are shortened already."""

    code: int
    reason: str
    message: str
    name: str
    group: str
    kind: str
    causes: tuple[Cause, ...]
    retry_after: float | None


def read_status(body: JsonObject, *, sensitive: bool) -> Status:
    """`sensitive` hides every value that the message repeats; for requests that carry a Secret."""
    details = _mapping(body.get("details"))
    causes = tuple(
        Cause(str(each.get("reason") or ""), str(each.get("field") or ""), shorten(str(each.get("message") or ""), sensitive=sensitive))
        for each in map(_mapping, _sequence(details.get("causes")))
    )
    causes = tuple(dict.fromkeys(causes))  # server-side apply repeats some
    retry_after = details.get("retryAfterSeconds")
    return Status(
        code=body["code"] if isinstance(body.get("code"), int) else 0,
        reason=str(body.get("reason") or ""),
        message=_message(str(body.get("message") or ""), causes, sensitive=sensitive),
        name=str(details.get("name") or ""),
        group=str(details.get("group") or ""),
        kind=str(details.get("kind") or ""),
        causes=causes,
        retry_after=float(retry_after) if isinstance(retry_after, int | float) else None,
    )


def shorten(message: str, *, sensitive: bool) -> str:
    """A message of the server with long values, echoed bodies and diffs left out; all values where it's sensitive."""
    message = message.split("\n@@ ", 1)[0]
    message = _ECHOED_BODY.sub(r"\1 the body", message)
    if sensitive:
        message = _GOT.sub(rf"\1{HIDDEN}", message)
    before, found, rest = message.partition(_VALUE)
    if found:
        value, words = _split_value(rest)
        if sensitive:
            value = HIDDEN
        elif len(value) > _LONGEST_VALUE:
            value = "(…)"
        message = f"{before}{found}{value}{words}"
    return message if len(message) <= _LONGEST_MESSAGE else message[:_LONGEST_MESSAGE] + "…"


def _message(message: str, causes: tuple[Cause, ...], *, sensitive: bool) -> str:
    # The message repeats every cause in full; the shortened causes say the same.
    prefix, invalid, _ = message.partition(" is invalid: ")
    if invalid and causes and all(cause.field for cause in causes):
        words = "; ".join(f"{cause.field}: {cause.message}" for cause in causes)
        message = f"{prefix}{invalid}{words}"
        return message if len(message) <= _LONGEST_MESSAGE else message[:_LONGEST_MESSAGE] + "…"
    return shorten(message, sensitive=sensitive)


def _split_value(text: str) -> tuple[str, str]:
    try:
        _, end = _DECODER.raw_decode(text)
    except ValueError:
        # Servers before 1.33 print Go values; the words after the last colon are the fault.
        end = text.rfind(": ")
        end = len(text) if end < 0 else end
    return text[:end], text[end:]


def _mapping(value: object) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _sequence(value: object) -> list[object]:
    return value if isinstance(value, list) else []
