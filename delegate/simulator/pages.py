"""Continue tokens, and tables as they were: what a client that reads a list page by page is shown (apiserver `storage/continue`).

A token names the version of its list and the last key shown. Nothing is kept for it: the past comes from the table's log, as long
as that reaches back.
"""

import base64
import binascii

import msgspec

from delegate.simulator import statuses
from delegate.simulator.store import Stored, Table

_FORMAT = "meta.k8s.io/v1"
_PRESENT = -1
"""The version in a token that a 410 brings along: go on with whatever is there now."""

Key = tuple[str, str]


class Token(msgspec.Struct, frozen=True):
    """Where a list goes on. `start` is the last key shown, as `namespace/name`."""

    v: str
    rv: int
    start: str

    @property
    def after(self) -> Key:
        namespace, _, name = self.start.rpartition("/")
        return namespace, name

    def text(self) -> str:
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")


def token_of(version: int, last: Stored) -> Token:
    return Token(_FORMAT, version, f"{last.namespace}/{last.name}")


def read_token(text: str) -> Token:
    """Raises a 400 for what is no token."""
    try:
        token = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=Token)
    except (ValueError, binascii.Error, msgspec.DecodeError) as error:
        raise statuses.bad_request(f"invalid continue token: continue key is not valid: {error}") from None
    if token.v != _FORMAT:
        why = f'continue key is not valid: server does not recognize this encoded version "{token.v}"'
        raise statuses.bad_request(f"invalid continue token: {why}")
    return token


def is_present(token: Token) -> bool:
    return token.rv == _PRESENT


def expired(token: Token) -> statuses.StatusError:
    """The 410 for a token whose version is forgotten; it carries one to go on with, inconsistently."""
    error = statuses.StatusError(
        410,
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without the"
        " continue parameter, or use the continue token in this response to retrieve the remainder of the results."
        " Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted"
        " between the time the first chunk was returned and now may show up in the list.",
        reason="Expired",
    )
    error.metadata = {"continue": Token(_FORMAT, _PRESENT, token.start).text()}
    return error


def order(stored: Stored) -> Key:
    """By key: the namespace with its slash, then the name."""
    return stored.namespace + "/", stored.name


def items_at(table: Table, namespace: str | None, version: int) -> list[Stored]:
    """The objects that were there at a version that the table's log reaches back to, in order."""
    changes = table.changes_after(version)
    now = table.items(namespace)
    if not changes:
        return now
    then: dict[Key, Stored] = {(item.namespace, item.name): item for item in now}
    for change in reversed(changes):
        stored = change.stored
        if namespace is not None and stored.namespace != namespace:
            continue
        key = (stored.namespace, stored.name)
        if change.before is None:
            then.pop(key, None)
        else:
            then[key] = change.before
    return sorted(then.values(), key=order)


def after(items: list[Stored], token: Token) -> list[Stored]:
    """What comes behind the last key shown."""
    namespace, name = token.after
    key = (namespace + "/", name)
    return [item for item in items if order(item) > key]
