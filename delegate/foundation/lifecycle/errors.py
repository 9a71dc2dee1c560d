"""Errors of the lifecycle:

DelegateError
  PartFailedError      a part of the process died again and again
"""

from delegate.foundation.errors import Category, DelegateError


class PartFailedError(DelegateError):
    """A supervised part died too often to be started once more. The process ends; its last line names the part."""

    default_code = "internal.part_failed"
    category = Category.INTERNAL

    def __init__(self, part: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.part = part
