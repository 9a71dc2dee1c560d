"""Signs S3 requests with a corrected time, for machines whose clock is wrong. Imports botocore: load it with the bucket only.

botocore signs with this machine's time and knows no correction; S3 refuses what is 15 minutes off. The signer it uses is chosen by an
event of the client, and the time is a field of the request's context until the headers are made: there it is set right.
"""

import datetime as dt
from collections.abc import Callable
from typing import Any

import botocore.auth

_OURS = "delegate-s3v4"
_THEIRS = frozenset({"v4", "s3v4"})
_AHEAD = "delegate_clock_ahead"


class CorrectedSigner(botocore.auth.S3SigV4Auth):  # type: ignore[misc]  # botocore has no types
    """Signature version 4 for S3, at the server's time."""

    def _modify_request_before_signing(self, request: Any) -> None:
        ahead = dt.timedelta(seconds=request.context.get(_AHEAD, 0.0))
        request.context["timestamp"] = (dt.datetime.now(dt.UTC) + ahead).strftime(botocore.auth.SIGV4_TIMESTAMP)
        super()._modify_request_before_signing(request)


botocore.auth.AUTH_TYPE_MAPS[_OURS] = CorrectedSigner


def correct_clock(client: Any, ahead_seconds: Callable[[], float]) -> None:
    """Has a client sign with a time so far ahead of this machine's; while that is 0, nothing changes."""

    def choose(signature_version: Any, **_: object) -> str | None:
        return _OURS if ahead_seconds() and signature_version in _THEIRS else None

    def tell(request: Any, **_: object) -> None:
        request.context[_AHEAD] = ahead_seconds()

    client.meta.events.register_first("choose-signer.s3", choose)
    client.meta.events.register_last("before-sign.s3", tell)
