"""Keys that the manager makes for itself once, and that managers of one database share."""

import secrets

import sqlalchemy as sa

from delegate.manager.store.tables import keys
from delegate.manager.store.transactions import Transaction

_FIND = sa.select(keys.c.value).where(keys.c.name == sa.bindparam("name"))
_INSERT = sa.insert(keys)
_ATTEMPTS = "attempts"


def find_or_make_key(transaction: Transaction) -> bytes:
    """The key that attempt tokens are derived with."""
    known = transaction.scalar(_FIND, name=_ATTEMPTS)
    if known is None:
        transaction.execute(_INSERT, name=_ATTEMPTS, value=secrets.token_bytes(32))
        known = transaction.scalar(_FIND, name=_ATTEMPTS)
    return bytes(known)
