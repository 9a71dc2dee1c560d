"""What depends on other members of the set: definitions, namespaces, accounts, waves."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from delegate.engine.clusters.errors import NotFoundError
from delegate.engine.clusters.registry import Cluster
from delegate.model.resource_types import CONFIG_MAPS, DEPLOYMENTS, NAMESPACES
from delegate.model.resources import JsonObject, ResourceType
from delegate.model.results import Outcome
from tests.cluster.conftest import Server
from tests.cluster.servers import drop_namespace
from tests.cluster.syncing import Syncer, actions, deployment, resource, settings_map, syncer_for

DEFINITIONS = ResourceType(
    group="apiextensions.k8s.io", version="v1", kind="CustomResourceDefinition", plural="customresourcedefinitions", namespaced=False
)


def definition(group: str, **properties: JsonObject) -> JsonObject:
    spec = {
        "size": {"type": "integer", "minimum": 0},
        "colour": {"type": "string", "default": "grey"},
        "labels": {"type": "object", "default": {}, "additionalProperties": {"type": "string"}},
        **properties,
    }
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"baskets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "Basket", "plural": "baskets", "singular": "basket", "listKind": "BasketList"},
            "versions": [version],
        },
    }


def basket(group: str, namespace: str, **spec: object) -> JsonObject:
    return {"apiVersion": f"{group}/v1", "kind": "Basket", "metadata": {"name": "main", "namespace": namespace}, "spec": spec}


@pytest.fixture
async def shop(server: Server, cluster: Cluster, namespace: str, tmp_path: Path) -> AsyncIterator[Syncer]:
    """An Application in a namespace that only its own set brings."""
    made = syncer_for(server.kubeconfig, tmp_path, f"{namespace}-shop")
    yield made
    await made.engine.close()
    for resource_type, name in ((DEFINITIONS, f"baskets.{group_of(made)}"), (NAMESPACES, made.namespace)):
        try:
            live = await cluster.client.get(resource_type, "", name)
        except NotFoundError:
            continue
        if resource_type is NAMESPACES:
            await drop_namespace(cluster.client, live)
        else:
            await cluster.client.delete(resource_type, "", name, uid=live["metadata"]["uid"])


def group_of(syncer: Syncer) -> str:
    return f"{syncer.namespace}.example.test"


def own_namespace(syncer: Syncer) -> JsonObject:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": syncer.namespace}}


async def test_a_custom_resource_comes_after_its_definition_and_namespace(shop: Syncer) -> None:
    """Sync case 11.1 and 11.3: written in the wrong order, applied in the right one; defaults of the server are no drift."""
    group = group_of(shop)
    shop.write([basket(group, shop.namespace, size=3), own_namespace(shop), definition(group)])

    result = await shop.sync()
    again = await shop.sync()

    assert result.outcome is Outcome.SUCCEEDED, result
    assert set(actions(result).values()) == {"created"}
    assert (again.requests.writes, set(actions(again).values())) == (0, {"unchanged"})


async def test_a_new_field_of_a_definition_can_be_used_in_the_same_sync(shop: Syncer) -> None:
    """Sync case 11.4: the definition is applied first and nothing remembers its old schema."""
    group = group_of(shop)
    shop.write([basket(group, shop.namespace, size=3), own_namespace(shop), definition(group)])
    await shop.sync()
    lid: JsonObject = {"type": "boolean", "default": False}
    shop.write([basket(group, shop.namespace, size=3, lid=True), own_namespace(shop), definition(group, lid=lid)])

    result = await shop.sync()

    assert result.outcome is Outcome.SUCCEEDED, result
    assert resource(result, "Basket", "main").action.value == "configured"


async def test_a_bad_custom_resource_fails_before_its_definition_is_created(shop: Syncer, cluster: Cluster) -> None:
    """Sync case 11.2: without a server that knows the kind, the definition in the set judges."""
    group = group_of(shop)
    shop.write([basket(group, shop.namespace, size="three"), own_namespace(shop), definition(group)])

    result = await shop.sync()

    assert result.outcome is Outcome.REFUSED, result
    assert result.error is not None
    assert "size" in result.error.message
    with pytest.raises(NotFoundError):
        await cluster.client.get(DEFINITIONS, "", f"baskets.{group}")


async def test_an_account_of_the_set_comes_before_the_pods_that_use_it(shop: Syncer) -> None:
    """A ServiceAccount of the set exists before its workload is written."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "runner"}}
    workload = deployment()
    workload["spec"]["template"]["spec"]["serviceAccountName"] = "runner"
    shop.write([workload, account, own_namespace(shop)])

    result = await shop.sync()

    assert result.outcome is Outcome.SUCCEEDED, result


async def test_a_later_wave_waits_for_the_health_of_an_earlier_one(shop: Syncer, cluster: Cluster) -> None:
    """What is in wave 1 is not written while wave 0 can't become healthy."""
    later = settings_map("later", annotations={"argocd.argoproj.io/sync-wave": "1"})
    shop.write([deployment(image="registry.example/broken:broken"), later, own_namespace(shop)])

    result = await shop.sync(failFastAfter="1s")

    assert result.outcome is Outcome.FAILED, result
    assert resource(result, "ConfigMap", "later").action.value == "skipped"
    with pytest.raises(NotFoundError):
        await cluster.client.get(CONFIG_MAPS, shop.namespace, "later")


async def test_a_generated_name_is_the_same_object_at_the_next_sync(shop: Syncer) -> None:
    """An object with generateName is named by its content: unchanged content is no new object."""
    generated = settings_map()
    generated["metadata"] = {"generateName": "settings-"}
    shop.write([generated, own_namespace(shop)])

    await shop.sync()
    again = await shop.sync()

    assert set(actions(again).values()) == {"unchanged"}


async def test_an_invalid_object_is_found_before_its_namespace_is_created(shop: Syncer, cluster: Cluster) -> None:
    """It is tried in a namespace that exists: nothing of the set is written, and the words are about the object as it was named."""
    service: JsonObject = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": []}}
    unknown = deployment()
    unknown["spec"]["replicsa"] = 1
    shop.write([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": shop.namespace}}, settings_map(), service, unknown])

    result = await shop.sync()

    assert (result.outcome, result.requests.writes) == (Outcome.REFUSED, 0)
    assert {error.object for error in result.errors} == {f"Service {shop.namespace}/web", f"apps/Deployment {shop.namespace}/web"}
    assert any('"web" is invalid: spec.ports: Required value' in error.message for error in result.errors)
    with pytest.raises(NotFoundError):
        await cluster.client.get(NAMESPACES, "", shop.namespace)


@pytest.mark.parametrize("way", ["prune", "cascade"])
async def test_what_acts_on_finalizers_outlives_what_they_hold(shop: Syncer, cluster: Cluster, way: str) -> None:
    """Custom resources go first, also from the wave of their operator; while one is held, its operator and definition stay (case 11.6)."""
    group = group_of(shop)
    held = basket(group, shop.namespace, size=3)
    held["metadata"]["finalizers"] = ["example.test/hold"]
    shop.write([definition(group), held, deployment("operator"), own_namespace(shop), settings_map()])
    await shop.sync()
    shop.write([own_namespace(shop), settings_map()])
    options: JsonObject = {"prune": True} if way == "prune" else {"delete": "cascade"}

    first = await shop.sync(timeout="2s", **options)
    kept = [
        await _is_there(cluster, DEFINITIONS, "", f"baskets.{group}"),
        await _is_there(cluster, DEPLOYMENTS, shop.namespace, "operator"),
    ]
    kind = ResourceType(group=group, version="v1", kind="Basket", plural="baskets", namespaced=True)
    await cluster.client.patch(kind, shop.namespace, "main", {"metadata": {"finalizers": None}})
    second = await shop.sync(**options)

    assert first.outcome is Outcome.FAILED
    assert first.error is not None
    assert "example.test/hold" in first.error.message
    assert any(error.object.endswith(f"{shop.namespace}/operator") and "is kept until" in error.message for error in first.errors)
    assert kept == [True, True]
    assert second.outcome is Outcome.SUCCEEDED, (second.errors, actions(second), second.message)
    assert not await _is_there(cluster, DEFINITIONS, "", f"baskets.{group}")


async def _is_there(cluster: Cluster, resource_type: ResourceType, namespace: str, name: str) -> bool:
    try:
        metadata = (await cluster.client.get_metadata(resource_type, namespace, name))["metadata"]
    except NotFoundError:
        return False
    return not metadata.get("deletionTimestamp")
