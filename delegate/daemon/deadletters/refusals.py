"""What an answer of S3 means, and what a person can do about it. Pure: the answer comes as values, an error goes out.

Codes are those of the S3 error responses; what other servers say instead (MinIO, Ceph, STS on the way to credentials) is told by the
status. Anything unknown is about the one letter if it is a 4xx, and the server's own fault otherwise.
"""

import datetime as dt
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

import msgspec

from delegate.daemon.deadletters.errors import (
    AccessDeniedError,
    BucketBusyError,
    BucketError,
    BucketFaultError,
    BucketMissingError,
    BucketRegionError,
    ClockSkewError,
    ConditionUnknownError,
    CredentialsError,
    EncryptionKeyError,
    LetterRefusedError,
    ObjectExistsError,
    ObjectMissingError,
)

_EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired"})
_UNKNOWN_CREDENTIALS = frozenset({"InvalidAccessKeyId", "InvalidToken", "InvalidClientTokenId", "UnrecognizedClientException"})
_DENIED = frozenset({"AccessDenied", "AllAccessDisabled", "AccountProblem", "403", "Forbidden", "UnauthorizedAccess"})
_REGION = frozenset({"PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"})
_BUSY = frozenset({"SlowDown", "ServiceUnavailable", "RequestLimitExceeded", "Throttling", "ThrottlingException", "TooManyRequests"})
_SKEWED = frozenset({"RequestTimeTooSkewed", "RequestInTheFuture"})
_TRY_AGAIN = frozenset({"RequestTimeout", "ConditionalRequestConflict", "OperationAborted", "BadDigest", "XAmzContentSHA256Mismatch"})
_EXCHANGES = frozenset({"AssumeRole", "AssumeRoleWithWebIdentity", "GetRoleCredentials", "CreateToken"})
_ACTION = re.compile(r"not authorized to perform:? (\S+?)(?: on resource:? \"?([^\"\s]+)\"?)?(?:[\s,]|$)")
_REGION_NAME = re.compile(r"[a-z]{2}(?:-[a-z]+)+-\d")
_SIGNIFICANT_SKEW_SECONDS = 60.0


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that is no success. `headers` have lower-case names; `details` are further elements of the error document."""

    operation: str
    status: int
    code: str
    message: str = ""
    headers: Mapping[str, str] = {}
    details: Mapping[str, str] = {}


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for: for the words."""

    bucket: str
    key: str = ""
    kms_key: str = ""

    @property
    def arn(self) -> str:
        return f"arn:aws:s3:::{self.bucket}/{self.key}" if self.key else f"arn:aws:s3:::{self.bucket}"

    @property
    def shown(self) -> str:
        return f"s3://{self.bucket}/{self.key}" if self.key else f"s3://{self.bucket}"


def explain(refusal: Refusal, target: Target, *, now: dt.datetime) -> BucketError:
    """The error that an answer means. `now` is this machine's time."""
    for judge in (_about_condition, _about_credentials, _about_setting):
        error = judge(refusal, target)
        if error is not None:
            return error
    words = _words(refusal)
    if refusal.code in _SKEWED:
        return _explain_skew(refusal, target, now)
    if refusal.code in _BUSY or refusal.status in (429, 503):
        return BucketBusyError(f"{target.shown} asks to slow down: {words}", retry_after=retry_after(refusal.headers, now))
    if refusal.code in _TRY_AGAIN or refusal.status >= 500:
        return BucketFaultError(f"{target.shown} failed: {words}", retry_after=retry_after(refusal.headers, now))
    if refusal.status == 403:
        return _explain_denial(refusal, target)
    return LetterRefusedError(
        f"{target.shown} was refused: {words}", hint="this letter stays in the spool, and is tried again ever more seldom"
    )


def _about_condition(refusal: Refusal, target: Target) -> BucketError | None:
    if refusal.status == 412:
        return ObjectExistsError(f"{target.shown} is already stored")
    if refusal.status == 501 or refusal.code == "NotImplemented":
        return ConditionUnknownError(f"{target.shown} asks for what the server can't do: {_words(refusal)}")
    if refusal.code in ("NoSuchKey", "404") and refusal.operation != "PutObject":
        return ObjectMissingError(f"nothing is stored at {target.shown}")
    return None


def _about_credentials(refusal: Refusal, target: Target) -> BucketError | None:
    code, words = refusal.code, _words(refusal)
    if refusal.operation in _EXCHANGES:
        hint = "check the role's trust policy and the token that is exchanged for it (AWS_ROLE_ARN, AWS_WEB_IDENTITY_TOKEN_FILE)"
        return CredentialsError(f"{refusal.operation} brought no credentials for {target.shown}: {words}", hint=hint, renewable=True)
    if code in _EXPIRED:
        hint = "renew them where they come from; new ones are picked up without a restart"
        return CredentialsError(f"the credentials for {target.shown} have expired: {words}", hint=hint, renewable=True)
    if code in _UNKNOWN_CREDENTIALS:
        hint = "check AWS_ACCESS_KEY_ID and its secret; new ones in a credentials file are picked up without a restart"
        return CredentialsError(f"{target.shown} does not know the credentials: {words}", hint=hint, renewable=True)
    if code == "SignatureDoesNotMatch":
        hint = "check AWS_SECRET_ACCESS_KEY, and that no proxy on the way changes requests"
        return CredentialsError(f"{target.shown} does not accept the signature: {words}", hint=hint, renewable=True)
    return _explain_denial(refusal, target) if code in _DENIED and "kms:" not in refusal.message else None


def _about_setting(refusal: Refusal, target: Target) -> BucketError | None:
    if refusal.code in _REGION or refusal.status in (301, 307):
        return _explain_region(refusal, target)
    if refusal.code.startswith("KMS.") or ("kms:" in refusal.message and refusal.status in (400, 403)):
        return _explain_key(refusal, target)
    if refusal.code == "NoSuchBucket":
        return BucketMissingError(f"there is no bucket {target.bucket}", hint="create it, or correct DLQ_BUCKET")
    return None


def retry_after(headers: Mapping[str, str], now: dt.datetime) -> float | None:
    """Seconds that the answer asks to wait, by number or by date; at most an hour."""
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return float(min(int(value[:9]), 3600))
    date = _date(value)
    return None if date is None else min(max(0.0, (date - now).total_seconds()), 3600.0)


def _explain_skew(refusal: Refusal, target: Target, now: dt.datetime) -> ClockSkewError:
    server = _date(refusal.headers.get("date", ""))
    ahead = None if server is None else (server - now).total_seconds()
    if ahead is None or abs(ahead) < _SIGNIFICANT_SKEW_SECONDS:
        words = f"{target.shown} finds the time of this request wrong"
        return ClockSkewError(words, hint="set this machine's clock (NTP)", ahead_seconds=ahead)
    side = "behind" if ahead > 0 else "ahead of"
    return ClockSkewError(
        f"this machine's clock is {abs(ahead):.0f} s {side} that of {target.shown}",
        hint="set it (NTP); until then requests are signed with the server's time",
        ahead_seconds=ahead,
    )


def _explain_region(refusal: Refusal, target: Target) -> BucketRegionError:
    region = refusal.headers.get("x-amz-bucket-region") or refusal.details.get("Region") or ""
    if not region:
        found = _REGION_NAME.search(refusal.details.get("Endpoint", ""))
        region = found[0] if found else ""
    where = f"in the region {region}" if region else "in another region"
    hint = f"set AWS_REGION={region}" if region else "set AWS_REGION to the bucket's region"
    return BucketRegionError(f"the bucket {target.bucket} is {where}: {_words(refusal)}", hint=hint, region=region)


def _explain_key(refusal: Refusal, target: Target) -> EncryptionKeyError:
    key = f"the key {target.kms_key}" if target.kms_key else "the bucket's default key"
    named = _ACTION.search(refusal.message)
    permission = named[1] if named else "kms:GenerateDataKey" if refusal.operation == "PutObject" else "kms:Decrypt"
    return EncryptionKeyError(
        f"{target.shown} can't be encrypted with {key}: {_words(refusal)}",
        hint=f"check DELEGATE_DLQ_KMS_KEY and that the key is enabled, and allow {permission} on it to the delegate's credentials",
    )


def _explain_denial(refusal: Refusal, target: Target) -> AccessDeniedError:
    action, resource = {
        "PutObject": ("s3:PutObject", f"arn:aws:s3:::{target.bucket}/*"),
        "GetObject": ("s3:GetObject", f"arn:aws:s3:::{target.bucket}/*"),
        "HeadObject": ("s3:GetObject", f"arn:aws:s3:::{target.bucket}/*"),
    }.get(refusal.operation, ("s3:ListBucket", f"arn:aws:s3:::{target.bucket}"))
    named = _ACTION.search(refusal.message)
    if named is not None:
        action, resource = named[1], named[2] or resource
    return AccessDeniedError(
        f"{target.shown} is not allowed: {_words(refusal)}",
        hint=f"allow {action} on {resource} to the delegate's credentials (and look for a bucket policy that denies it)",
    )


def _words(refusal: Refusal) -> str:
    message = " ".join(refusal.message.split())[:500]
    code = refusal.code or "no code"
    return f"{refusal.status} {code}: {message}" if message and message != "None" else f"{refusal.status} {code}"


def _date(text: str) -> dt.datetime | None:
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    return date if date.tzinfo is not None else date.replace(tzinfo=dt.UTC)
