"""Faults of keys and certificates:

PkiError
  UnreadablePemError     no PEM, or not what was expected in it
  UnacceptableKeyError   a key or signature of a kind that is not taken here
  KeyMismatchError       key and certificate don't belong to each other
  UntrustedChainError    no trusted authority signed it
  OutOfDateError         not valid yet, or not any more
"""

from delegate.foundation.errors import Category, DelegateError


class PkiError(DelegateError):
    """A key, request or certificate that can't be used. No message ever repeats a key."""

    default_code = "pki.unusable"
    category = Category.INPUT


class UnreadablePemError(PkiError):
    default_code = "pki.unreadable"


class UnacceptableKeyError(PkiError):
    default_code = "pki.key"


class KeyMismatchError(PkiError):
    default_code = "pki.mismatch"


class UntrustedChainError(PkiError):
    default_code = "pki.untrusted"


class OutOfDateError(PkiError):
    default_code = "pki.out_of_date"
