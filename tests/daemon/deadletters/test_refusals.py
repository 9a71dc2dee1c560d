"""Each answer of S3 becomes an error that says what to do."""

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from delegate.daemon.deadletters.refusals import Refusal, Target, explain, retry_after

NOW = dt.datetime(2026, 3, 4, 5, 6, 7, tzinfo=dt.UTC)
TARGET = Target(bucket="dlq", key="v1/edge-1/letter.json", kms_key="alias/dlq")
USER = "User: arn:aws:iam::1:user/edge is not authorized to perform:"


@pytest.mark.parametrize(
    ("refusal", "kind", "retryable", "words"),
    [
        (Refusal(operation="PutObject", status=412, code="PreconditionFailed"), ObjectExistsError, False, "already stored"),
        (Refusal(operation="PutObject", status=501, code="NotImplemented"), ConditionUnknownError, False, "can't do"),
        (Refusal(operation="PutObject", status=404, code="NoSuchBucket"), BucketMissingError, False, "create it, or correct DLQ_BUCKET"),
        (Refusal(operation="GetObject", status=404, code="NoSuchKey"), ObjectMissingError, False, "nothing is stored"),
        (
            Refusal(operation="PutObject", status=403, code="AccessDenied", message="Access Denied"),
            AccessDeniedError,
            False,
            "allow s3:PutObject on arn:aws:s3:::dlq/*",
        ),
        (
            Refusal(operation="ListObjectsV2", status=403, code="AccessDenied"),
            AccessDeniedError,
            False,
            "allow s3:ListBucket on arn:aws:s3:::dlq ",
        ),
        (
            Refusal(
                operation="PutObject",
                status=403,
                code="AccessDenied",
                message=f'{USER} s3:PutObjectTagging on resource: "arn:aws:s3:::dlq/v1/x" because no policy allows it',
            ),
            AccessDeniedError,
            False,
            "allow s3:PutObjectTagging on arn:aws:s3:::dlq/v1/x ",
        ),
        (
            Refusal(
                operation="PutObject",
                status=403,
                code="AccessDenied",
                message=f"{USER} kms:GenerateDataKey on resource: arn:aws:kms:eu-west-1:1:key/2 because",
            ),
            EncryptionKeyError,
            False,
            "allow kms:GenerateDataKey on it",
        ),
        (Refusal(operation="PutObject", status=400, code="KMS.DisabledException"), EncryptionKeyError, False, "the key alias/dlq"),
        (Refusal(operation="PutObject", status=400, code="ExpiredToken"), CredentialsError, True, "have expired"),
        (Refusal(operation="PutObject", status=403, code="InvalidAccessKeyId"), CredentialsError, True, "check AWS_ACCESS_KEY_ID"),
        (Refusal(operation="PutObject", status=403, code="SignatureDoesNotMatch"), CredentialsError, True, "AWS_SECRET_ACCESS_KEY"),
        (
            Refusal(operation="AssumeRoleWithWebIdentity", status=403, code="AccessDenied"),
            CredentialsError,
            True,
            "AWS_WEB_IDENTITY_TOKEN_FILE",
        ),
        (Refusal(operation="PutObject", status=503, code="SlowDown"), BucketBusyError, True, "slow down"),
        (Refusal(operation="PutObject", status=429, code=""), BucketBusyError, True, "429 no code"),
        (Refusal(operation="PutObject", status=500, code="InternalError"), BucketFaultError, True, "500 InternalError"),
        (Refusal(operation="PutObject", status=507, code="XMinioStorageFull"), BucketFaultError, True, "507"),
        (Refusal(operation="PutObject", status=400, code="RequestTimeout"), BucketFaultError, True, "400 RequestTimeout"),
        (Refusal(operation="PutObject", status=409, code="ConditionalRequestConflict"), BucketFaultError, True, "409"),
        (Refusal(operation="PutObject", status=400, code="EntityTooLarge"), LetterRefusedError, False, "this letter stays in the spool"),
        (Refusal(operation="PutObject", status=403, code="WhateverItIs"), AccessDeniedError, False, "s3:PutObject"),
    ],
    ids=lambda value: f"{value.status}-{value.code or 'none'}" if isinstance(value, Refusal) else "",
)
def test_each_answer_has_its_error(refusal: Refusal, kind: type[BucketError], retryable: bool, words: str) -> None:
    """With the bucket's name, and the permission, key, or setting that is to be changed."""
    error = explain(refusal, TARGET, now=NOW)

    assert type(error) is kind
    assert error.retryable is retryable
    assert words in f"{error.message} {error.hint}"
    assert "dlq" in error.message


@pytest.mark.parametrize(
    ("refusal", "region"),
    [
        (
            Refusal(operation="PutObject", status=400, code="AuthorizationHeaderMalformed", details={"Region": "eu-central-1"}),
            "eu-central-1",
        ),
        (
            Refusal(operation="PutObject", status=301, code="PermanentRedirect", headers={"x-amz-bucket-region": "us-gov-west-1"}),
            "us-gov-west-1",
        ),
        (
            Refusal(
                operation="PutObject",
                status=301,
                code="PermanentRedirect",
                details={"Endpoint": "dlq.s3.ap-southeast-2.amazonaws.com"},
            ),
            "ap-southeast-2",
        ),
        (Refusal(operation="PutObject", status=301, code="", details={"Endpoint": "s3.example.com"}), ""),
        (Refusal(operation="PutObject", status=307, code="TemporaryRedirect"), ""),
    ],
)
def test_finds_the_region_wherever_an_answer_names_it(refusal: Refusal, region: str) -> None:
    """In the header, the element, or the address of the right endpoint."""
    error = explain(refusal, TARGET, now=NOW)

    assert isinstance(error, BucketRegionError)
    assert error.region == region
    assert (f"AWS_REGION={region}" if region else "AWS_REGION") in error.hint


@pytest.mark.parametrize(
    ("date", "ahead", "words"),
    [
        ("Wed, 04 Mar 2026 06:06:07 GMT", 3600.0, "this machine's clock is 3600 s behind"),
        ("Wed, 04 Mar 2026 04:06:07 GMT", -3600.0, "this machine's clock is 3600 s ahead of"),
        ("Wed, 04 Mar 2026 05:06:08 GMT", 1.0, "finds the time of this request wrong"),
        ("yesterday", None, "finds the time of this request wrong"),
        ("", None, "finds the time of this request wrong"),
    ],
)
def test_says_how_wrong_the_clock_is(date: str, ahead: float | None, words: str) -> None:
    """By the date of the answer."""
    refusal = Refusal(operation="PutObject", status=403, code="RequestTimeTooSkewed", headers={"date": date})

    error = explain(refusal, TARGET, now=NOW)

    assert isinstance(error, ClockSkewError)
    assert error.ahead_seconds == ahead
    assert words in error.message


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("7", 7.0), (" 7 ", 7.0), ("999999999999", 3600.0), ("Wed, 04 Mar 2026 05:06:37 GMT", 30.0), ("-3", None), ("soon", None), ("", None)],
)
def test_reads_retry_after_in_both_forms(value: str, seconds: float | None) -> None:
    """Seconds, or a date; never more than an hour, and nonsense is no wait."""
    assert retry_after({"retry-after": value}, NOW) == seconds


@given(
    st.builds(
        Refusal,
        operation=st.text(max_size=10),
        status=st.integers(0, 599),
        code=st.text(max_size=20),
        message=st.text(max_size=200),
        headers=st.dictionaries(st.sampled_from(["date", "retry-after", "x-amz-bucket-region"]), st.text(max_size=30)),
        details=st.dictionaries(st.sampled_from(["Region", "Endpoint"]), st.text(max_size=30)),
    )
)
def test_any_answer_at_all_becomes_an_error(refusal: Refusal) -> None:
    """Servers say anything; it is never worse than words."""
    error = explain(refusal, TARGET, now=NOW)

    assert isinstance(error, BucketError)
    assert len(error.message) < 1000
