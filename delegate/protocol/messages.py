"""What all messages have in common.

Every request carries a `requestId` of the sender's choice and every answer repeats it: an answer without it is no answer
(a login page, a proxy's error page), whatever its status. Fields are camelCase on the wire. Durations are relative seconds,
so that no two clocks need to agree. Unknown fields are ignored. Where a field is an enumeration, it travels as a string and
`known` turns an unknown value into the documented default, so that one new word never spoils a message.
"""

import enum
from typing import TypeVar

import msgspec

E = TypeVar("E", bound=enum.Enum)


class Message(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The base of every message."""


class Request(Message, frozen=True, kw_only=True):
    request_id: str


class Answer(Message, frozen=True, kw_only=True):
    """`server_time` is the manager's clock as RFC 3339, to tell a person about skew; nothing is decided by it."""

    request_id: str
    server_time: str = ""


def known(enumeration: type[E], value: str, default: E) -> E:
    """The member that a wire string names, or the default for a word of a newer version."""
    try:
        return enumeration(value)
    except ValueError:
        return default
