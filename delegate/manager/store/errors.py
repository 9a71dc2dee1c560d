"""Faults of the store:

DelegateError
  StoreError               the database refused an operation
    StoreUnavailableError  it can't be reached, is full or read-only: the same operation may succeed later
  UnstorableError          422: a value is one that the database can't keep
"""

import sqlalchemy.exc

from delegate.foundation.errors import Category, DelegateError
from delegate.manager.errors import InvalidError

_UNSTORABLE_STATES = frozenset({"22021", "22P05", "54000"})  # characters that text can't hold, a text too long for its index
_REPEATABLE_STATES = frozenset({"40001", "40P01", "23505"})  # serialization failure, deadlock, a row that another manager made first


class StoreError(DelegateError):
    default_code = "manager.store"
    category = Category.DEPENDENCY


class StoreUnavailableError(StoreError):
    default_code = "manager.store_unavailable"
    default_retryable = True


class UnstorableError(InvalidError):
    default_code = "manager.unstorable"


def translate(error: Exception) -> StoreError | UnstorableError:
    """The database's fault in our words. Statements and their parameters are left out: they may hold secrets."""
    origin = getattr(error, "orig", None) or error
    words = str(origin).splitlines()[0] if str(origin) else type(origin).__name__
    if getattr(origin, "sqlstate", None) in _UNSTORABLE_STATES:
        return UnstorableError(f"a value can't be kept: {words}", hint="leave control characters out, and keep names short")
    unreachable = isinstance(error, sqlalchemy.exc.OperationalError | sqlalchemy.exc.InterfaceError | OSError)
    if unreachable or getattr(error, "connection_invalidated", False):
        return StoreUnavailableError(f"the database can't be used: {words}", hint="see that it runs, is reachable and has space")
    return StoreError(f"the database refused an operation: {words}")


def is_repeatable(error: BaseException) -> bool:
    """Whether the whole transaction only lost a race, so that it is run again."""
    origin = getattr(error, "orig", None)
    return getattr(origin, "sqlstate", None) in _REPEATABLE_STATES
