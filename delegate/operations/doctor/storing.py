"""The bucket of dead letters: one small object is put, read back and deleted."""

import hashlib
import os
import uuid

from delegate.daemon.connection.trust import tls_context
from delegate.daemon.deadletters.bucket import Bucket
from delegate.daemon.deadletters.errors import BucketError, CredentialsError
from delegate.foundation.settings.programs import DelegateSettings
from delegate.foundation.settings.proxies import ProxyRules
from delegate.operations.doctor.findings import Area, Finding, Status, finding_of

_PREFIX = "delegate-doctor"
_METADATA_HINT = (
    "in a pod: give the service account a role (eks.amazonaws.com/role-arn), or let the pod reach the metadata service "
    "(169.254.169.254, hop limit 2, not through a proxy)"
)


async def check_bucket(settings: DelegateSettings) -> list[Finding]:
    """Raises BucketSettingError."""
    network = settings.network
    bucket = Bucket.of_settings(
        settings.dead_letters, proxy_for=ProxyRules.from_settings(network).address_for, tls=lambda: tls_context(network.ssl_cert_file)
    )
    if bucket is None:
        hint = "set DLQ_BUCKET where dead letters are to outlive this disk"
        return [Finding(check="bucket", area=Area.STORAGE, status=Status.SKIPPED, what="no bucket is set", hint=hint)]
    place = settings.dead_letters.bucket or ""
    key = bucket.address.key(f"{_PREFIX}/{uuid.uuid4().hex}")
    body = b'{"written by": "delegate doctor"}'
    found: list[Finding] = []
    try:
        for word, step in (
            ("put", lambda: bucket.put(key, body, sha256=hashlib.sha256(body).hexdigest())),
            ("get", lambda: bucket.get(key)),
            ("delete", lambda: bucket.delete(key)),
        ):
            fault = await _try(step)
            found.append(_judge(word, fault, place))
            if word == "put" and fault is not None:
                break
    finally:
        await bucket.close()
    return found


async def _try(step: object) -> BucketError | None:
    try:
        await step()  # type: ignore[operator]
    except BucketError as error:
        return error
    return None


def _judge(word: str, fault: BucketError | None, place: str) -> Finding:
    if fault is None:
        return Finding(check=f"bucket {word}", area=Area.STORAGE, status=Status.OK, what=f"{word} works", where=place)
    # Letters are written all the same: reading is for people who send them again, deleting for purging.
    finding = finding_of(fault, f"bucket {word}", Area.STORAGE, place, Status.FAILED if word == "put" else Status.WARNING)
    if isinstance(fault, CredentialsError) and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return Finding(
            check=finding.check,
            area=finding.area,
            status=finding.status,
            what=finding.what,
            where=place,
            hint=f"{finding.hint}; {_METADATA_HINT}",
            facts=finding.facts,
        )
    return finding
