"""Clusters: whether they are reached, and whether each permission is there that the Applications need, with the rule to add where not.

Which Applications those are is read from their records in the cluster (what they own), and from manifests that a person names.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from delegate.engine.clusters import errors
from delegate.engine.clusters.access import Access, may, user_name
from delegate.engine.clusters.registry import Cluster, ClusterRegistry
from delegate.foundation.errors import DelegateError
from delegate.model.inventory import APPLICATION_LABEL, read_inventory
from delegate.model.resource_types import CONFIG_MAPS
from delegate.model.resources import GroupKind, JsonObject, ResourceType
from delegate.model.rollouts.journals import JOURNAL_LABEL, read_journal
from delegate.model.rollouts.permissions import kind_of_journal, rules_of
from delegate.model.tasks import Destination
from delegate.operations.doctor.findings import Area, Finding, Status, finding_of

SYNC_VERBS = ("get", "list", "watch", "create", "patch", "delete")
"""What a sync with pruning does to what it owns. Applying is no verb of its own: the server asks for `patch`, and for `create` too
where the object does not exist."""
_RECORDS = (
    ("", "configmaps", ("get", "list", "create", "update", "patch", "delete")),
    ("coordination.k8s.io", "leases", ("get", "create", "update", "patch", "delete")),
)
_AT_ONCE = 16
Needed = dict[Access, set[str]]
"""Permissions, and the Applications that need them."""
_MOST = 2_000


class Need(msgspec.Struct, frozen=True, order=True):
    """Kinds of an Application in one namespace; empty: not namespaced."""

    application: str
    namespace: str
    group: str
    kind: str


async def check_clusters(registry: ClusterRegistry, wanted: Iterable[Need] = (), namespaces: Iterable[str] = ()) -> list[Finding]:
    """Every cluster of the registry. `wanted` and `namespaces` are beyond what the records say."""
    announced = await registry.announce()
    found = [finding_of(error, f"cluster {name}", Area.CLUSTER, name) for name, error in registry.faults.items()]
    if not announced and not found:
        hint = "set DELEGATE_KUBECONFIG, or run it in a cluster with a service account"
        found.append(Finding(check="cluster", area=Area.CLUSTER, status=Status.FAILED, what="there is no cluster to serve", hint=hint))
    for each in announced:
        try:
            cluster = await registry.open(Destination(name=each.name))
            found += await _check_cluster(cluster, list(wanted), list(namespaces))
        except DelegateError as error:
            found.append(finding_of(error, f"cluster {each.name}", Area.CLUSTER, each.name))
    return found


async def _check_cluster(cluster: Cluster, wanted: list[Need], namespaces: list[str]) -> list[Finding]:
    check = f"cluster {cluster.name}"
    try:
        body = (await cluster.client.get_path("/version")).body
        version = str(body.get("gitVersion", "")) if isinstance(body, dict) else ""
    except errors.ClusterError:
        version = ""
    try:
        user = await user_name(cluster.client)
    except errors.ClusterError:
        user = ""
    who = f" takes us for {user}" if user else " is reached"
    found = [
        Finding(
            check=check,
            area=Area.CLUSTER,
            status=Status.OK,
            what=f"Kubernetes {version or 'of an unknown version'}{who}",
            where=cluster.client.host,
            facts={"uid": cluster.uid, "version": version, "user": user},
        )
    ]
    recorded, canaries, notes = await _read_records(cluster, namespaces)
    found += notes
    needs = sorted(set(recorded) | set(wanted))
    found += await _check_permissions(cluster, needs, canaries, user)
    return found


async def _read_records(cluster: Cluster, namespaces: Sequence[str]) -> tuple[list[Need], Needed, list[Finding]]:
    """What the Applications own that have been synced here, and what their canaries need."""
    needs: list[Need] = []
    canaries: Needed = defaultdict(set)
    faults: list[DelegateError] = []
    for namespace in namespaces or [""]:
        try:
            listing = await cluster.client.list(CONFIG_MAPS, namespace, labels=APPLICATION_LABEL)
        except errors.ClusterError as error:
            faults.append(error)
            continue
        for item in listing.items[:_MOST]:
            metadata = item.get("metadata") or {}
            application = str((metadata.get("labels") or {}).get(APPLICATION_LABEL, ""))
            home = str(metadata.get("namespace", ""))
            needs += [Need(application, home, group, kind) for group, kind in (("", "ConfigMap"), ("coordination.k8s.io", "Lease"))]
            try:
                if JOURNAL_LABEL in (metadata.get("labels") or {}):
                    for access in _needs_of_canary(item, home):
                        canaries[access].add(application)
                    continue
                entries = read_inventory(item).entries
            except DelegateError as error:
                faults.append(error)
                continue
            needs += {Need(application, entry.namespace, entry.group, entry.kind) for entry in entries}
    found = [
        Finding(
            check=f"applications {cluster.name}",
            area=Area.CLUSTER,
            status=Status.SKIPPED,
            what=f"the records of Applications can't all be read: {fault}",
            where=cluster.client.host,
            hint="name the namespaces with --namespace: then ConfigMaps are listed in these alone; or manifests with --manifests",
        )
        for fault in faults[:3]
    ]
    return needs, canaries, found


def _needs_of_canary(config_map: JsonObject, namespace: str) -> Iterator[Access]:
    """Raises CorruptJournalError. A copy of configuration has its label too, and is no journal."""
    kind = kind_of_journal(str(config_map["metadata"]["name"]))
    for group, resource, verbs in rules_of(kind, read_journal(config_map)) if kind else ():
        for verb in verbs:
            yield Access(verb, group, resource, namespace)


async def _check_permissions(cluster: Cluster, needs: Sequence[Need], canaries: Needed, user: str) -> list[Finding]:
    if not needs:
        what = "no Application has been synced here yet, so there is nothing to ask for"
        hint = "name manifests with --manifests PATH to check beforehand"
        return [
            Finding(
                check=f"permissions {cluster.name}",
                area=Area.CLUSTER,
                status=Status.SKIPPED,
                what=what,
                where=cluster.client.host,
                hint=hint,
            )
        ]
    resources, unknown = await _resolve(cluster, {GroupKind(need.group, need.kind) for need in needs})
    by_access: Needed = defaultdict(set, canaries)
    for need in needs:
        resource = resources.get(GroupKind(need.group, need.kind))
        if resource is None:
            continue
        namespace = need.namespace if resource.namespaced else ""
        for verb in _verbs(resource):
            by_access[Access(verb, resource.group, resource.plural, namespace)].add(need.application)
    limit = asyncio.Semaphore(_AT_ONCE)

    async def ask(access: Access) -> bool:
        async with limit:
            return await may(cluster.client, access)

    answers = await asyncio.gather(*(ask(access) for access in by_access))
    missing = [access for access, allowed in zip(by_access, answers, strict=True) if not allowed]
    found = describe_missing(missing, by_access, user, cluster.name)
    found += [
        Finding(
            check=f"permissions {cluster.name}",
            area=Area.CLUSTER,
            status=Status.WARNING,
            what=f"the cluster serves no {kind}{f' of {group}' if group else ''}",
            where=cluster.client.host,
            hint="install what defines it",
        )
        for group, kind in sorted(unknown)
    ]
    if not found:
        words = f"all {len(by_access)} permissions that {len({need.application for need in needs})} Applications need are there"
        found.append(
            Finding(check=f"permissions {cluster.name}", area=Area.CLUSTER, status=Status.OK, what=words, where=cluster.client.host)
        )
    return found


def _verbs(resource: ResourceType) -> tuple[str, ...]:
    for group, plural, verbs in _RECORDS:
        if (resource.group, resource.plural) == (group, plural):
            return tuple(dict.fromkeys((*verbs, *SYNC_VERBS)))
    return SYNC_VERBS


async def _resolve(cluster: Cluster, kinds: Iterable[GroupKind]) -> tuple[dict[GroupKind, ResourceType], set[GroupKind]]:
    found: dict[GroupKind, ResourceType] = {}
    unknown: set[GroupKind] = set()
    for kind in kinds:
        try:
            found[kind] = await cluster.discovery.resource_for(kind)
        except errors.ClusterError:
            unknown.add(kind)
    return found, unknown


def describe_missing(missing: Iterable[Access], needed_by: Mapping[Access, set[str]], user: str, cluster: str) -> list[Finding]:
    """One finding for each resource and namespace: which verbs are missing, for which Applications, and the rule that gives them."""
    grouped: dict[tuple[str, str, str], list[Access]] = defaultdict(list)
    for access in missing:
        grouped[access.namespace, access.group, access.resource].append(access)
    found = []
    for (namespace, group, resource), accesses in sorted(grouped.items()):
        verbs = [verb for verb in dict.fromkeys((*SYNC_VERBS, "update")) if verb in {access.verb for access in accesses}]
        applications = sorted(set().union(*(needed_by.get(access, set()) for access in accesses)))
        role, place = ("Role", f" in namespace {namespace}") if namespace else ("ClusterRole", "")
        rule = f'{{apiGroups: ["{group}"], resources: ["{resource}"], verbs: [{", ".join(verbs)}]}}'
        bound = f" that is bound to {user!r}" if user else " that is bound to the delegate's user"
        applying = "; applying asks for patch (and create), there is no verb `apply`" if "patch" in verbs else ""
        found.append(
            Finding(
                check=f"permissions {cluster}",
                area=Area.CLUSTER,
                status=Status.FAILED,
                what=f"may not {', '.join(verbs)} {resource}{f'.{group}' if group else ''}{place}, which {', '.join(applications)} needs",
                where=namespace or "the whole cluster",
                hint=f"add to a {role}{place}{bound}: {rule}{applying}",
                facts={"namespace": namespace, "group": group, "resource": resource, "verbs": verbs, "applications": applications},
            )
        )
    return found
