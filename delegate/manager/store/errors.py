"""Faults of the store:

DelegateError
  StoreError               the database refused an operation
    StoreUnavailableError  it can't be reached, is full or read-only: the same operation may succeed later
"""

import sqlalchemy.exc

from delegate.foundation.errors import Category, DelegateError

_REPEATABLE_STATES = frozenset({"40001", "40P01", "23505"})  # serialization failure, deadlock, a row that another manager made first


class StoreError(DelegateError):
    default_code = "manager.store"
    category = Category.DEPENDENCY


class StoreUnavailableError(StoreError):
    default_code = "manager.store_unavailable"
    default_retryable = True


def translate(error: Exception) -> StoreError:
    """The database's fault in our words. Statements and their parameters are left out: they may hold secrets."""
    origin = getattr(error, "orig", None) or error
    words = str(origin).splitlines()[0] if str(origin) else type(origin).__name__
    unreachable = isinstance(error, sqlalchemy.exc.OperationalError | sqlalchemy.exc.InterfaceError | OSError)
    if unreachable or getattr(error, "connection_invalidated", False):
        return StoreUnavailableError(f"the database can't be used: {words}", hint="see that it runs, is reachable and has space")
    return StoreError(f"the database refused an operation: {words}")


def is_repeatable(error: BaseException) -> bool:
    """Whether the whole transaction only lost a race, so that it is run again."""
    origin = getattr(error, "orig", None)
    return getattr(origin, "sqlstate", None) in _REPEATABLE_STATES
