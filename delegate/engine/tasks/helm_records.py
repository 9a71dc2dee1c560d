"""What Helm itself has left in the destination: releases that an interrupted install, upgrade or rollback left pending.

Nothing here runs Helm against a cluster, so such a release stands in nobody's way but Helm's own ("another operation is in progress").
Whoever takes an Application over from Helm, or goes on with both, should know of it. Metadata is all that is read: Helm keeps a
release in a Secret, which holds the values, and its state stands in the labels.
"""

import datetime as dt
from collections.abc import Iterable, Sequence

import structlog

from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.errors import ClusterError
from delegate.model.resource_types import SECRETS
from delegate.model.resources import JsonObject
from delegate.model.sources import Source, SourceType

log = structlog.get_logger(__name__)
_SELECTOR = "owner=helm,status in (pending-install,pending-upgrade,pending-rollback)"
_REMEDIES = {
    "pending-install": "helm uninstall {name} -n {namespace}",
    "pending-upgrade": "helm rollback {name} -n {namespace}",
    "pending-rollback": "helm rollback {name} -n {namespace}",
}
_MOST = 5


def may_be_helms(sources: Iterable[Source]) -> bool:
    """Whether any of the sources is a chart, as far as it says itself."""
    return any(source.explicit_type is SourceType.HELM for source in sources)


async def find_pending_releases(client: ApiClient, namespace: str) -> tuple[str, ...]:
    """What to say of each. Who may not list Secrets, or whose server is away for a moment, is told nothing: it is no fault of a sync."""
    try:
        found = await client.list(SECRETS, namespace, labels=_SELECTOR, metadata_only=True)
    except ClusterError as error:
        log.debug("helm.releases_not_looked_at", namespace=namespace, error=str(error))
        return ()
    return describe_pending(found.items, namespace)


def describe_pending(records: Sequence[JsonObject], namespace: str) -> tuple[str, ...]:
    """A notice for each release, by its latest record. Pure."""
    latest: dict[str, JsonObject] = {}
    for record in records:
        labels = record["metadata"].get("labels") or {}
        name = str(labels.get("name") or "")
        if name and (name not in latest or _version(record) > _version(latest[name])):
            latest[name] = record
    told = [_describe(name, latest[name], namespace) for name in sorted(latest)]
    if len(told) > _MOST:
        told = [*told[:_MOST], f"{len(told) - _MOST} more Helm releases in the namespace {namespace!r} are pending"]
    return tuple(told)


def _describe(name: str, record: JsonObject, namespace: str) -> str:
    status = str(record["metadata"]["labels"].get("status"))
    who = ", ".join(dict.fromkeys(str(entry.get("manager")) for entry in record["metadata"].get("managedFields") or ()))
    remedy = _REMEDIES.get(status, "helm history {name} -n {namespace}").format(name=name, namespace=namespace)
    return (
        f"the Helm release {name!r} (revision {_version(record)}) is {status} since {_since(record)}, written by {who or 'nobody named'}; "
        f"nothing is done to it here, but Helm will refuse to go on: once nobody is at work on it, `{remedy}`"
    )


def _since(record: JsonObject) -> str:
    """Helm notes the moment itself; the Secret is created in it."""
    metadata = record["metadata"]
    labels = metadata.get("labels") or {}
    noted = str(labels.get("modifiedAt") or labels.get("createdAt") or "")
    if noted.isascii() and noted.isdigit() and len(noted) <= 11:
        return dt.datetime.fromtimestamp(int(noted), dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return str(metadata.get("creationTimestamp") or "an unknown time")


def _version(record: JsonObject) -> int:
    version = str((record["metadata"].get("labels") or {}).get("version") or "")
    return int(version) if version.isascii() and version.isdigit() and len(version) < 10 else 0
