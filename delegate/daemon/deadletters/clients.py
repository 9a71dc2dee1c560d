"""S3 clients, and what their libraries' errors mean. Imports aioboto3 (30 MiB, a tenth of a second): loaded by `bucket` when it is used.

Credentials come from where AWS's own tools look: variables, a web identity, profiles, a process, the container's or machine's metadata.
"""

import datetime as dt
import os
import ssl
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import aioboto3
import aiohttp
import structlog
from aiobotocore.session import AioSession
from botocore import exceptions as boto

from delegate.daemon.deadletters.errors import BucketError, BucketFaultError, BucketSettingError, BucketUnreachableError, CredentialsError
from delegate.daemon.deadletters.refusals import Refusal, Target, explain
from delegate.daemon.deadletters.rules import BucketRules
from delegate.daemon.deadletters.signing import correct_clock
from delegate.daemon.deadletters.transport import client_config
from delegate.foundation.redaction import KNOWN_SECRETS, redact

log = structlog.get_logger(__name__)
FAILURES: tuple[type[Exception], ...] = (boto.BotoCoreError, boto.ClientError, aiohttp.ClientError, OSError)
"""What a call on a client may raise; `translate` makes a BucketError of each."""
_UNREACHABLE = (
    boto.HTTPClientError,
    boto.ConnectionError,
    boto.EndpointConnectionError,
    boto.IncompleteReadError,
    aiohttp.ClientError,
    OSError,
)
_NO_CREDENTIALS = (
    boto.NoCredentialsError,
    boto.PartialCredentialsError,
    boto.CredentialRetrievalError,
    boto.InvalidIMDSEndpointError,
    boto.MetadataRetrievalError,
    boto.TokenRetrievalError,
    boto.UnauthorizedSSOTokenError,
)


def prepare_session(rules: BucketRules) -> Any:
    """A session with its descriptions of services loaded. Blocks for a tenth of a second; call it in a thread.

    Raises what `translate` takes.
    """
    core = AioSession()
    core.set_default_client_config(
        client_config(
            tls=_trust(rules),
            proxy_for=rules.proxy_for,
            connect_seconds=rules.connect_seconds,
            read_seconds=rules.read_seconds,
            connections=rules.connections,
        )
    )
    loader = core.get_component("data_loader")
    loader.load_service_model("s3", "service-2")
    loader.load_service_model("s3", "endpoint-rule-set-1")
    loader.load_data("endpoints")
    return aioboto3.Session(botocore_session=core)


async def open_client(session: Any, region: str, ahead_seconds: Callable[[], float], exits: AsyncExitStack) -> Any:
    """An S3 client, closed with `exits`. Raises BucketSettingError, and what `translate` takes.

    An empty `region` is that of the settings. `ahead_seconds`: how far the server's clock is ahead of ours.
    """
    # Pods with a role get AWS_REGION, which botocore alone among AWS's libraries does not read.
    region = region or os.environ.get("AWS_REGION", "") or session.region_name or "us-east-1"
    try:
        client = await exits.enter_async_context(session.client("s3", region_name=region))
    except ValueError as error:
        raise BucketSettingError(f"no S3 client can be made: {error}", hint="check AWS_ENDPOINT_URL and AWS_REGION") from error
    correct_clock(client, ahead_seconds)
    await _hide_credentials(session)
    return client


def translate(error: Exception, operation: str, target: Target, now: dt.datetime) -> BucketError:
    """What a failure of a call means, and what to do about it."""
    if isinstance(error, boto.ClientError):
        return explain(_refusal_of(error), target, now=now)
    words = redact(" ".join(str(error).split()))[:500]
    if isinstance(error, _NO_CREDENTIALS):
        return CredentialsError(
            f"there are no credentials for {target.shown}: {words}",
            hint="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the delegate a role (AWS_ROLE_ARN with "
            "AWS_WEB_IDENTITY_TOKEN_FILE, or an instance profile whose metadata service can be reached from here)",
            code="dead_letter.credentials_missing",
            renewable=True,
        )
    if isinstance(error, boto.SSLError):
        return BucketUnreachableError(
            f"the TLS certificate of {target.shown} is not accepted: {words}",
            hint="set SSL_CERT_FILE (or AWS_CA_BUNDLE) to a PEM file with the authority that signed it",
        )
    if isinstance(error, boto.ProxyConnectionError):
        return BucketUnreachableError(
            f"the proxy for {target.shown} can't be used: {words}", hint="check HTTPS_PROXY, its credentials, and NO_PROXY"
        )
    if isinstance(error, boto.ReadTimeoutError | boto.ConnectTimeoutError):
        return BucketUnreachableError(f"{target.shown} did not answer in time: {words}", hint="check the way to S3")
    if type(error).__name__ == "ResponseParserError":
        return BucketUnreachableError(
            f"what answers for {target.shown} is no S3: {words}", hint="look for a proxy or a captive portal, and check AWS_ENDPOINT_URL"
        )
    if isinstance(error, _UNREACHABLE):
        hint = "check the network, AWS_ENDPOINT_URL and AWS_REGION, and that a firewall lets the connection out"
        return BucketUnreachableError(f"{target.shown} can't be reached: {words}", hint=hint)
    if isinstance(error, boto.BotoCoreError):
        return BucketSettingError(f"{operation} on {target.shown} can't be made: {words}", hint="check the AWS settings and DLQ_BUCKET")
    return BucketFaultError(f"{operation} on {target.shown} failed: {words}")


def _refusal_of(error: boto.ClientError) -> Refusal:
    details = error.response.get("Error", {})
    metadata = error.response.get("ResponseMetadata", {})
    return Refusal(
        operation=error.operation_name,
        status=int(metadata.get("HTTPStatusCode") or 0),
        code=str(details.get("Code") or ""),
        message=redact(str(details.get("Message") or "")),
        headers={str(name).lower(): str(value) for name, value in metadata.get("HTTPHeaders", {}).items()},
        details={str(name): str(value) for name, value in details.items() if name not in ("Code", "Message")},
    )


def _trust(rules: BucketRules) -> ssl.SSLContext:
    context = rules.tls()
    bundle = os.environ.get("AWS_CA_BUNDLE", "")
    if bundle:
        context.load_verify_locations(cafile=bundle)
    return context


async def _hide_credentials(session: Any) -> None:
    credentials = await session.get_credentials()
    if credentials is not None:
        frozen = await credentials.get_frozen_credentials()
        KNOWN_SECRETS.add(frozen.secret_key)
        KNOWN_SECRETS.add(frozen.token)
