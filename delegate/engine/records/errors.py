"""Faults of what is kept in the cluster beside an Application.

RecordsError
    LeaseHeldError          another attempt has authority and keeps renewing it                     conflict
    LeaseLostError          ours is over: taken, deleted, or not renewed in time; stop writing      conflict
    LateWriterError         a newer attempt has written the inventory; ours may not any more        conflict
    UnknownReleaseError     no such release, or no longer                                           input
    InventoryChangedError   somebody else wrote it since it was read; read again and plan anew      conflict
    JournalChangedError     somebody else wrote a canary's journal; stop                            conflict
"""

from delegate.foundation.errors import Category, DelegateError


class RecordsError(DelegateError):
    default_code = "conflict.records"
    category = Category.CONFLICT


class LeaseHeldError(RecordsError):
    """`holder` is the attempt that has it."""

    default_code = "conflict.lease_held"
    default_retryable = True
    holder: str = ""


class LeaseLostError(RecordsError):
    default_code = "conflict.lease_lost"


class LateWriterError(RecordsError):
    default_code = "conflict.late_writer"


class InventoryChangedError(RecordsError):
    default_code = "conflict.inventory_changed"
    default_retryable = True


class JournalChangedError(RecordsError):
    default_code = "conflict.journal_changed"


class UnknownReleaseError(RecordsError):
    default_code = "input.unknown_release"
    category = Category.INPUT
