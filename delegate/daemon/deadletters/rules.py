"""How a bucket is called."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class BucketRules:
    """Times in seconds; `call_seconds` bounds one call with all its remedies.

    `kms_key` (id, ARN or alias) has S3 encrypt each letter with it; empty leaves that to the bucket. `proxy_for` tells the proxy of a
    URL, `tls` makes the context that says whom to trust.
    """

    kms_key: str = ""
    call_seconds: float = 60.0
    connect_seconds: float = 10.0
    read_seconds: float = 30.0
    connections: int = 8
    proxy_for: Callable[[str], str | None] = field(default=lambda url: None)
    tls: Callable[[], ssl.SSLContext] = field(default=ssl.create_default_context)
