"""Errors of dead letters:

DeadLetterError
  LetterTooLargeError        larger than the whole spool may be: no waiting makes room
  LetterDamagedError         the file is not what was written; it was set aside
  LetterGoneError            somebody else sent or purged it meanwhile
  LetterNotFoundError        no letter has this id
  SpoolError
    SpoolFullError           no room: by its own limit, or the disk's
    SpoolUnusableError       the directory can't be read or written
  BucketError                the letter stays in the spool, and is tried again
    BucketUnreachableError   no answer of S3: refused, cut, timed out, or somebody else answered
    BucketBusyError          slow down, or later
    BucketFaultError         a fault of the server's own
    BucketMissingError       there is no such bucket
    BucketSettingError       AWS settings that can't be meant
    BucketRegionError        the bucket is in another region
    CredentialsError         none found, expired, or refused
    AccessDeniedError        the credentials are good, a permission is missing
    EncryptionKeyError       the KMS key can't be used
    ClockSkewError           this machine's clock is too far from the server's
    LetterRefusedError       this one letter will not be taken as it is; the others may
    ObjectMissingError       nothing is stored under this key
    ObjectExistsError        something is stored under this key
    ConditionUnknownError    the server does not know conditions of writing
"""

from typing import ClassVar

from delegate.foundation.errors import Category, DelegateError


class DeadLetterError(DelegateError):
    """A dead letter could not be kept, read or moved."""

    default_code = "dead_letter.fault"
    category = Category.DEPENDENCY


class LetterTooLargeError(DeadLetterError):
    default_code = "dead_letter.too_large"
    category = Category.INPUT


class LetterDamagedError(DeadLetterError):
    default_code = "dead_letter.damaged"
    category = Category.INTERNAL


class LetterGoneError(DeadLetterError):
    default_code = "dead_letter.gone"
    category = Category.CONFLICT


class LetterNotFoundError(DeadLetterError):
    default_code = "input.dead_letter_not_found"
    category = Category.INPUT


class SpoolError(DeadLetterError):
    """The letter is not kept: whoever gave it still has to keep it."""

    default_code = "dead_letter.spool"
    category = Category.TRANSIENT
    default_retryable = True


class SpoolFullError(SpoolError):
    default_code = "dead_letter.spool_full"


class SpoolUnusableError(SpoolError):
    default_code = "dead_letter.spool_unusable"
    category = Category.INPUT


class BucketError(DeadLetterError):
    """The bucket did not take a letter. `about_letter`: another letter may well be taken."""

    default_code = "dead_letter.bucket"
    about_letter: ClassVar[bool] = False


class BucketUnreachableError(BucketError):
    default_code = "dead_letter.bucket_unreachable"
    category = Category.TRANSIENT
    default_retryable = True


class BucketBusyError(BucketError):
    default_code = "dead_letter.bucket_busy"
    category = Category.TRANSIENT
    default_retryable = True


class BucketFaultError(BucketError):
    default_code = "dead_letter.bucket_fault"
    default_retryable = True


class BucketMissingError(BucketError):
    default_code = "dead_letter.bucket_missing"
    category = Category.INPUT


class BucketSettingError(BucketError):
    default_code = "dead_letter.bucket_setting"
    category = Category.INPUT


class BucketRegionError(BucketError):
    """`region` is the bucket's where the answer tells it, else empty."""

    default_code = "dead_letter.bucket_region"
    category = Category.INPUT

    def __init__(self, message: str, *, hint: str, region: str) -> None:
        super().__init__(message, hint=hint)
        self.region = region


class CredentialsError(BucketError):
    """`renewable`: other credentials may be found by looking again."""

    default_code = "dead_letter.credentials"
    category = Category.PERMISSION
    default_retryable = True

    def __init__(self, message: str, *, hint: str, renewable: bool = False, code: str | None = None) -> None:
        super().__init__(message, hint=hint, code=code)
        self.renewable = renewable


class ConditionUnknownError(BucketError):
    default_code = "dead_letter.condition_unknown"


class AccessDeniedError(BucketError):
    default_code = "dead_letter.access_denied"
    category = Category.PERMISSION


class EncryptionKeyError(BucketError):
    default_code = "dead_letter.encryption_key"
    category = Category.PERMISSION


class ClockSkewError(BucketError):
    """`ahead_seconds`: how far the server's clock is ahead of ours; None where its answer doesn't tell."""

    default_code = "dead_letter.clock_skew"
    category = Category.DEPENDENCY
    default_retryable = True

    def __init__(self, message: str, *, hint: str, ahead_seconds: float | None) -> None:
        super().__init__(message, hint=hint)
        self.ahead_seconds = ahead_seconds


class LetterRefusedError(BucketError):
    default_code = "dead_letter.refused"
    category = Category.INPUT
    about_letter = True


class ObjectMissingError(BucketError):
    default_code = "input.object_missing"
    category = Category.INPUT
    about_letter = True


class ObjectExistsError(BucketError):
    default_code = "dead_letter.object_exists"
    category = Category.CONFLICT
    about_letter = True
