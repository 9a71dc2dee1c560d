"""Cases of real bug reports, with their own inputs, from end to end on a cluster."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from delegate.engine.clusters.errors import NotFoundError
from delegate.engine.clusters.registry import Cluster
from delegate.model.resource_types import CONFIG_MAPS, DEPLOYMENTS, SECRETS, SERVICES, STATEFUL_SETS
from delegate.model.resources import JsonObject, ResourceType
from delegate.model.results import Outcome, SyncStatus, TaskResult
from tests.cluster.syncing import Syncer, actions, resource

CASES = Path(__file__).parent.parent / "data" / "cases" / "sync"
DEFINITIONS = ResourceType(
    group="apiextensions.k8s.io", version="v1", kind="CustomResourceDefinition", plural="customresourcedefinitions", namespaced=False
)
AUTOSCALERS = ResourceType(
    group="autoscaling", version="v2", kind="HorizontalPodAutoscaler", plural="horizontalpodautoscalers", namespaced=True
)


def objects(case: str, file: str = "input.yaml", *, kinds: tuple[str, ...] = (), namespace: str = "demo") -> list[JsonObject]:
    """The objects of an input, in the namespace of the test where the input says `namespace`."""
    (directory,) = CASES.glob(f"{case}-*")
    found = [body for body in yaml.safe_load_all((directory / file).read_text()) if body and (not kinds or body["kind"] in kinds)]
    for body in found:
        if body["metadata"].get("namespace") == namespace:
            del body["metadata"]["namespace"]
    return found


async def synced(syncer: Syncer, case: str, file: str = "input.yaml", **options: Any) -> TaskResult:
    syncer.write(objects(case, file))
    result = await syncer.sync(**options)
    assert result.outcome is Outcome.SUCCEEDED, result
    return result


async def is_left_alone(syncer: Syncer) -> None:
    again = await syncer.sync(wait=False)
    assert (again.outcome, again.requests.writes, again.sync) == (Outcome.SUCCEEDED, 0, SyncStatus.SYNCED)


async def test_quantities_are_equal_by_value(syncer: Syncer, cluster: Cluster) -> None:
    """Case 07: however they are written, a second sync has nothing to do; a limit below its request is the server's to refuse."""
    (stateful_set,) = objects("07", kinds=("StatefulSet",))
    (container,) = stateful_set["spec"]["template"]["spec"]["containers"]
    syncer.write([stateful_set])
    refused = await syncer.sync(wait=False)
    container["resources"]["requests"]["cpu"] = "500m"
    syncer.write([stateful_set])
    result = await syncer.sync(wait=False)

    assert refused.outcome is Outcome.REFUSED
    assert refused.error is not None
    assert "must be less than or equal to cpu limit" in refused.error.message
    assert result.outcome is Outcome.SUCCEEDED, result
    live = await cluster.client.get(STATEFUL_SETS, syncer.namespace, "db")
    resources = live["spec"]["template"]["spec"]["containers"][0]["resources"]
    assert resources["requests"] == {"cpu": "500m", "memory": "1G", "ephemeral-storage": "3Gi"}
    assert resources["limits"] == {"cpu": "500m", "memory": "1536Mi"}
    await is_left_alone(syncer)


async def test_text_that_looks_like_a_quantity_is_text(syncer: Syncer) -> None:
    """Case 07: in a ConfigMap 12000m is not 12."""
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"cpu": "12"}}
    syncer.write([config_map])
    await syncer.sync()
    syncer.write([{**config_map, "data": {"cpu": "12000m"}}])
    result = await syncer.sync()
    assert [(change.before, change.after) for change in resource(result, "ConfigMap", "a").changes] == [("12", "12000m")]


async def test_one_port_number_with_two_protocols(syncer: Syncer, cluster: Cluster) -> None:
    """Case 08: both stay, there and back; the difference is one port that was added."""
    await synced(syncer, "08", "before.yaml")
    there = await synced(syncer, "08", "after.yaml")
    ports = (await cluster.client.get(SERVICES, syncer.namespace, "dns"))["spec"]["ports"]
    assert sorted((port["port"], port["protocol"]) for port in ports) == [(53, "TCP"), (53, "UDP")]
    (added,) = resource(there, "Service", "dns").changes
    assert isinstance(added.after, dict)
    assert added.after["name"] == "dns-tcp"

    await synced(syncer, "08", "before.yaml")
    ports = (await cluster.client.get(SERVICES, syncer.namespace, "dns"))["spec"]["ports"]
    assert [(port["port"], port["protocol"]) for port in ports] == [(53, "UDP")]


async def test_keys_of_a_secret_go_and_its_values_are_never_shown(syncer: Syncer, cluster: Cluster) -> None:
    """Case 09: a key that left the manifest is gone, stringData wins, and no value is in the result."""
    await synced(syncer, "09", "before.yaml")
    result = await synced(syncer, "09", "after.yaml")
    live = await cluster.client.get(SECRETS, syncer.namespace, "login")
    assert live["data"] == {"account": "YWxwaGE=", "pass": "dHdv", "cert": "Y2VydA=="}
    assert {change.path for change in resource(result, "Secret", "login").changes} == {"/data/account", "/data/pass", "/data/user"}
    assert not any(value in repr(result) for value in ("YWxwaGE", "dHdv", "b25l", "alpha"))
    await is_left_alone(syncer)


async def test_a_key_that_somebody_added_to_a_secret_is_named_or_taken_away(syncer: Syncer, cluster: Cluster) -> None:
    """Case 09: named where nothing is said, taken away where the object is to be ours alone; its value is never shown."""
    await synced(syncer, "09", "after.yaml")
    await cluster.client.patch(SECRETS, syncer.namespace, "login", {"data": {"extra": "c2VjcmV0LXZhbHVl"}}, manager="somebody")
    seen = await syncer.sync()
    (secret,) = objects("09", "after.yaml")
    secret["metadata"]["annotations"] = {"delegate.gitops/ownership": "override"}
    syncer.write([secret])
    result = await syncer.sync()
    again = await syncer.sync()
    await cluster.client.patch(SECRETS, syncer.namespace, "login", {"data": {"extra": "c2VjcmV0LXZhbHVl"}}, manager="somebody")
    drifted = await syncer.diff()

    assert any("somebody added extra" in notice for notice in seen.notices)
    assert "/data/extra" in {change.path for change in resource(result, "Secret", "login").changes}
    assert again.requests.writes == 0
    assert drifted.sync is SyncStatus.OUT_OF_SYNC
    assert "c2VjcmV0" not in repr((seen, result, drifted))


async def test_nulls_and_empty_maps_state_nothing(syncer: Syncer, cluster: Cluster) -> None:
    """Case 10: a second sync sends nothing, and replicas that an autoscaler set stay."""
    await synced(syncer, "10")
    await is_left_alone(syncer)
    await cluster.client.patch(
        DEPLOYMENTS, syncer.namespace, "web", {"spec": {"replicas": 3}}, manager="kube-controller-manager", subresource="scale"
    )
    await is_left_alone(syncer)
    assert (await cluster.client.get(DEPLOYMENTS, syncer.namespace, "web"))["spec"]["replicas"] == 3


async def test_a_claim_template_is_no_drift_and_its_change_is_named(syncer: Syncer) -> None:
    """Case 12: the server fills the template in; a change of its size is refused with the field, and nothing else is touched."""
    await synced(syncer, "12", wait=False)
    await is_left_alone(syncer)
    (stateful_set,) = objects("12")
    stateful_set["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"] = "2Gi"
    syncer.write([stateful_set])
    result = await syncer.sync(wait=False)
    assert result.outcome is Outcome.REFUSED
    assert result.error is not None
    assert (result.error.code, result.error.object) == ("input.immutable_field", f"apps/StatefulSet {syncer.namespace}/store")
    assert "Replace=true" in result.error.hint


async def test_force_deletes_nothing_for_a_change_that_is_merely_invalid(syncer: Syncer, cluster: Cluster) -> None:
    """Case 14: a Service without ports, with every leave to replace it."""
    before = objects("14", "before.yaml", kinds=("Service",))
    syncer.write(before)
    await syncer.sync()
    uid = (await cluster.client.get(SERVICES, syncer.namespace, "shopfront"))["metadata"]["uid"]
    syncer.write(objects("14", "after.yaml", kinds=("Service",)))
    result = await syncer.sync(force=True, replace=True)
    assert (result.outcome, result.requests.writes) == (Outcome.REFUSED, 0)
    assert (await cluster.client.get(SERVICES, syncer.namespace, "shopfront"))["metadata"]["uid"] == uid


async def test_a_big_config_map_is_applied_and_a_bigger_one_refused(syncer: Syncer, cluster: Cluster) -> None:
    """Case 15: 300 KiB without an annotation that repeats it; 1.2 MiB not at all, before anything is written."""

    def config_map(name: str, size: int) -> JsonObject:
        line = "x" * 95 + "\n"
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"panel.json": line * (size // 96)}}

    syncer.write([config_map("big", 307_200)])
    assert (await syncer.sync()).outcome is Outcome.SUCCEEDED
    await is_left_alone(syncer)
    live = await cluster.client.get(CONFIG_MAPS, syncer.namespace, "big")
    assert "kubectl.kubernetes.io/last-applied-configuration" not in live["metadata"]["annotations"]

    syncer.write([config_map("small", 96), config_map("too-big", 1_258_291)])
    result = await syncer.sync()
    assert (result.outcome, result.requests.writes) == (Outcome.REFUSED, 0)
    assert result.error is not None
    assert "1048576" in result.error.message


async def test_a_field_of_client_side_apply_goes_and_anothers_stays(syncer: Syncer, cluster: Cluster) -> None:
    """Case 16: the preview says so before it is done; with override the other's goes too."""
    live = objects("16", "live.yaml")[0]
    live["metadata"]["namespace"] = syncer.namespace
    fields = live["metadata"].pop("managedFields")
    tuned = live["data"].pop("tuned")
    await cluster.client.create(CONFIG_MAPS, live, manager="kubectl-client-side-apply")
    await cluster.client.patch(CONFIG_MAPS, syncer.namespace, "settings", {"data": {"tuned": tuned}}, manager="tuner")
    assert {entry["manager"] for entry in fields} == {"kubectl-client-side-apply", "tuner"}
    syncer.write(objects("16"))

    seen = await syncer.diff()
    result = await syncer.sync()

    for each in (seen, result):
        assert {change.path for change in resource(each, "ConfigMap", "settings").changes} >= {"/data/drop", "/data/keep"}
    found = await cluster.client.get(CONFIG_MAPS, syncer.namespace, "settings")
    assert found["data"] == {"keep": "2", "tuned": "9"}
    assert "kubectl.kubernetes.io/last-applied-configuration" not in found["metadata"]["annotations"]
    assert {entry["manager"] for entry in found["metadata"]["managedFields"]} == {"delegate", "tuner"}
    await is_left_alone(syncer)

    (wanted,) = objects("16")
    wanted["metadata"]["annotations"] = {"delegate.gitops/ownership": "override"}
    syncer.write([wanted])
    await syncer.sync()
    assert (await cluster.client.get(CONFIG_MAPS, syncer.namespace, "settings"))["data"] == {"keep": "2"}
    await is_left_alone(syncer)


async def test_fields_that_others_drive_stay_theirs(syncer: Syncer, cluster: Cluster) -> None:
    """Case 17: replicas of an autoscaler, an image of an updater; the rest of the same list is applied."""
    deployment, scaler = objects("17")
    before = {**deployment, "spec": {**deployment["spec"]}}
    syncer.write([before])
    await syncer.sync()
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "registry.test/side:9"}]}}}}
    await cluster.client.patch(DEPLOYMENTS, syncer.namespace, "web", {"spec": {"replicas": 7}}, manager="other")
    await cluster.client.patch(DEPLOYMENTS, syncer.namespace, "web", patch, kind="strategic", manager="updater")
    image = '.spec.template.spec.containers[] | select(.name == "side") | .image'
    syncer.spec = {
        "ignoreDifferences": [
            {"kind": "Deployment", "name": "web", "jsonPointers": ["/spec/replicas"]},
            {"kind": "Deployment", "name": "web", "jqPathExpressions": [image]},
        ]
    }
    deployment["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.test/web:3"
    syncer.write([deployment, scaler])

    await syncer.sync(wait=False)

    live = (await cluster.client.get(DEPLOYMENTS, syncer.namespace, "web"))["spec"]
    images = {container["name"]: container["image"] for container in live["template"]["spec"]["containers"]}
    assert (live["replicas"], images) == (7, {"w": "registry.test/web:3", "side": "registry.test/side:9"})
    await is_left_alone(syncer)


async def test_the_order_of_an_autoscalers_metrics_is_no_drift(syncer: Syncer, cluster: Cluster) -> None:
    """Case 17.5: metrics are told apart by what they measure; a target that changed is still found."""
    deployment, scaler = objects("17")
    syncer.write([deployment, scaler])
    await syncer.sync(wait=False)
    other_order = {"spec": {"metrics": list(reversed(scaler["spec"]["metrics"]))}}
    await cluster.client.patch(AUTOSCALERS, syncer.namespace, "web", other_order, manager="kube-apiserver")
    seen = await syncer.diff()
    scaler["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] = 75
    syncer.write([deployment, scaler])
    result = await syncer.sync(wait=False)

    assert seen.sync is SyncStatus.SYNCED, seen
    assert result.outcome is Outcome.SUCCEEDED
    assert [change.after for change in resource(result, "HorizontalPodAutoscaler", "web").changes] == [75]
    await is_left_alone(syncer)


async def test_a_definition_with_objects_of_others_is_kept(syncer: Syncer, cluster: Cluster) -> None:
    """Case 11: pruned it would take them along; confirmed, it goes."""
    definition = next(body for body in objects("11") if body["kind"] == "CustomResourceDefinition")
    group = f"{syncer.namespace}.example.test"
    definition["metadata"]["name"] = f"baskets.{group}"
    definition["spec"]["group"] = group
    basket: JsonObject = {"apiVersion": f"{group}/v1", "kind": "Basket", "metadata": {"name": "main"}, "spec": {"size": 3}}
    kind = ResourceType(group=group, version="v1", kind="Basket", plural="baskets", namespaced=True)
    syncer.write([definition, basket])
    assert (await syncer.sync()).outcome is Outcome.SUCCEEDED
    foreign = {**basket, "metadata": {"name": "foreign", "namespace": syncer.namespace}}
    await cluster.client.create(kind, foreign)
    syncer.write([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}])

    kept = await syncer.sync(prune=True)
    assert actions(kept)["Basket/main"] == "pruned"
    assert any("1 objects of its kind are not ours" in notice and f"{syncer.namespace}/foreign" in notice for notice in kept.notices)
    assert await cluster.client.get(kind, syncer.namespace, "foreign")

    await syncer.sync(prune=True, confirm=True)
    with pytest.raises(NotFoundError):
        await cluster.client.get(DEFINITIONS, "", f"baskets.{group}")
