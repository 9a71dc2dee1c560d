"""What stands in a sync's way in real clusters: partial permissions, things that are just being deleted."""

import asyncio
from pathlib import Path

from delegate.engine.clusters.registry import Cluster
from delegate.model.resource_types import CONFIG_MAPS, NAMESPACES
from delegate.model.resources import JsonObject, ResourceType
from delegate.model.results import Outcome
from tests.cluster.conftest import Server
from tests.cluster.servers import drop_namespace
from tests.cluster.syncing import Syncer, actions, settings_map, syncer_for

_RBAC = "rbac.authorization.k8s.io"
ROLES = ResourceType(group=_RBAC, version="v1", kind="Role", plural="roles", namespaced=True)
BINDINGS = ResourceType(group=_RBAC, version="v1", kind="RoleBinding", plural="rolebindings", namespaced=True)


async def grant(cluster: Cluster, namespace: str, rules: list[JsonObject]) -> None:
    """Gives the user without permissions some, in one namespace."""
    metadata = {"name": "granted", "namespace": namespace}
    await cluster.client.create(ROLES, {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": metadata, "rules": rules})
    binding = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": "granted"},
        "subjects": [{"kind": "User", "apiGroup": _RBAC, "name": "limited"}],
    }
    await cluster.client.create(BINDINGS, binding)


async def test_a_kind_that_may_be_read_but_not_listed_is_synced_object_by_object(
    server: Server, cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    """Sync case 23.1: Secrets may not be listed, the namespace object not read; the sync succeeds all the same, twice."""
    writing = ["get", "create", "patch", "update"]
    rules: list[JsonObject] = [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": [*writing, "list", "watch"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": writing},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": writing},
    ]
    await grant(cluster, namespace, rules)
    syncer = syncer_for(server.limited_kubeconfig, tmp_path, namespace)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "b"}, "data": {}}
    syncer.write([settings_map("a"), secret])

    result = await syncer.sync()
    again = await syncer.sync()
    await syncer.engine.close()

    assert result.outcome is Outcome.SUCCEEDED, result
    assert set(actions(result).values()) == {"created"}
    assert (again.outcome, again.requests.writes) == (Outcome.SUCCEEDED, 0), again


async def test_an_object_that_is_just_being_deleted_is_made_anew(syncer: Syncer, cluster: Cluster) -> None:
    """Sync case 19.6: what is wanted again while it terminates is created once it is gone."""
    syncer.write([settings_map("held", finalizers=["example.test/hold"])])
    await syncer.sync()
    live = await cluster.client.get(CONFIG_MAPS, syncer.namespace, "held")
    await cluster.client.delete(CONFIG_MAPS, syncer.namespace, "held", uid=live["metadata"]["uid"])
    planning = asyncio.Event()

    def hear(event: str, data: JsonObject) -> None:
        del data
        if event == "plan.started":
            planning.set()

    syncer.on_event = hear
    running = asyncio.create_task(syncer.sync())
    async with asyncio.timeout(10):
        await planning.wait()
    await cluster.client.patch(CONFIG_MAPS, syncer.namespace, "held", {"metadata": {"finalizers": None}})

    result = await running

    assert result.outcome is Outcome.SUCCEEDED, result
    anew = await cluster.client.get(CONFIG_MAPS, syncer.namespace, "held")
    assert anew["metadata"]["uid"] != live["metadata"]["uid"]


async def test_a_namespace_that_is_just_being_deleted_is_made_anew(
    server: Server, cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    """Sync case 26.6: the sync waits for the old namespace to go, and then creates what it needs."""
    syncer = syncer_for(server.kubeconfig, tmp_path, f"{namespace}-again")
    syncer.sync_options = ["CreateNamespace=true"]
    syncer.write([settings_map("held", finalizers=["example.test/hold"])])
    await syncer.sync()
    old = await cluster.client.get(NAMESPACES, "", syncer.namespace)
    await cluster.client.delete(NAMESPACES, "", syncer.namespace, uid=old["metadata"]["uid"])
    running = asyncio.create_task(syncer.sync(timeout="50s"))
    await cluster.client.patch(CONFIG_MAPS, syncer.namespace, "held", {"metadata": {"finalizers": None}})

    result = await running
    await syncer.engine.close()

    assert result.outcome is Outcome.SUCCEEDED, result
    made = await cluster.client.get(NAMESPACES, "", syncer.namespace)
    assert made["metadata"]["uid"] != old["metadata"]["uid"]
    await drop_namespace(cluster.client, made)
