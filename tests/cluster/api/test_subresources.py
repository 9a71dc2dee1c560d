"""Status, scale and eviction; generated names, and objects that guard their versions."""

from typing import Any

import pytest

from tests.simulator.clients import Client, config_map, deployment, owned_by, pod


@pytest.fixture
async def path(admin: Client, place: str) -> str:
    """A Deployment without pods that its controller has seen."""
    path = f"/apis/apps/v1{place}/deployments"
    await admin.apply(f"{path}/d", deployment("d", replicas=0))
    await admin.until(f"{path}/d", lambda body: body["status"].get("observedGeneration") == 1 and body["status"].get("conditions"))
    return f"{path}/d"


async def test_status_changes_status_alone(admin: Client, path: str) -> None:
    """Spec and labels in a status write are ignored; generation stays."""
    live = await admin.get(path)
    body = {**live, "spec": {**live["spec"], "replicas": 9}, "status": {**live["status"], "readyReplicas": 0, "collisionCount": 4}}
    body["metadata"] = {**live["metadata"], "labels": {"x": "y"}}
    answer = await admin.put(f"{path}/status", body)

    assert answer.status == 200, answer.body
    assert answer.body["status"]["collisionCount"] == 4
    assert answer.body["spec"]["replicas"] == 0
    assert "labels" not in answer.body["metadata"]
    assert answer.body["metadata"]["generation"] == live["metadata"]["generation"]


async def test_the_main_resource_leaves_status_alone(admin: Client, path: str) -> None:
    """A status in a PUT of the object is ignored."""
    live = await admin.get(path)
    answer = await admin.put(path, {**live, "status": {"replicas": 9}})

    assert answer.body["status"] == live["status"]
    assert answer.body["metadata"]["resourceVersion"] == live["metadata"]["resourceVersion"]


async def test_scale_shows_size_and_selector(admin: Client, path: str) -> None:
    """An autoscaling/v1 Scale with the object's uid and version."""
    live, scale = await admin.get(path), await admin.get(f"{path}/scale")

    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["metadata"]["uid"] == live["metadata"]["uid"]
    assert scale["spec"] == {}
    assert scale["status"] == {"replicas": 0, "selector": "app=d"}


async def test_scale_sets_the_size(admin: Client, path: str) -> None:
    """By PUT, by patch, by apply: the Deployment's replicas and generation follow, owned under the subresource."""
    scale = await admin.get(f"{path}/scale")
    put = await admin.put(f"{path}/scale", {**scale, "spec": {"replicas": 1}}, fieldManager="putter")
    assert (put.status, put.body["spec"]) == (200, {"replicas": 1})
    patched = await admin.patch(f"{path}/scale", {"spec": {"replicas": 2}}, fieldManager="patcher")
    assert (patched.status, patched.body["spec"]) == (200, {"replicas": 2})
    live = await admin.get(path)

    assert live["spec"]["replicas"] == 2
    assert live["metadata"]["generation"] == 3
    assert owned_by(live, "patcher", "Update", "scale") == {"f:spec": {"f:replicas": {}}}
    assert "f:replicas" not in owned_by(live, "tester")["f:spec"]
    conflict = await admin.apply(path, deployment("d", replicas=0))
    assert conflict.status == 409
    assert conflict.causes == [("FieldManagerConflict", ".spec.replicas")]
    await admin.apply(path, deployment("d", replicas=0), force="true")


@pytest.mark.parametrize(("spec", "status"), [({"replicas": -1}, 422), ({"replicas": "x"}, 400)])
async def test_scale_refuses(spec: Any, status: int, admin: Client, path: str) -> None:
    """A negative size, or none at all."""
    scale = await admin.get(f"{path}/scale")
    answer = await admin.put(f"{path}/scale", {**scale, "spec": spec})

    assert answer.status == status, answer.body


async def test_a_stale_scale_is_a_conflict(admin: Client, path: str) -> None:
    """The Scale's resourceVersion guards it."""
    scale = await admin.get(f"{path}/scale")
    await admin.patch(path, {"metadata": {"labels": {"x": "y"}}})
    answer = await admin.put(f"{path}/scale", {**scale, "spec": {"replicas": 1}})

    assert (answer.status, answer.body["reason"]) == (409, "Conflict")


async def test_generation_counts_changes_of_the_spec(admin: Client, path: str) -> None:
    """Labels don't count, the spec does, the same spec again doesn't."""
    first = (await admin.get(path))["metadata"]["generation"]
    labelled = await admin.patch(path, {"metadata": {"labels": {"x": "y"}}})
    changed = await admin.patch(path, {"spec": {"minReadySeconds": 1}})
    same = await admin.patch(path, {"spec": {"minReadySeconds": 1}})

    assert [answer.body["metadata"]["generation"] - first for answer in (labelled, changed, same)] == [0, 1, 1]


async def test_generates_names(admin: Client, place: str) -> None:
    """Five characters behind the given beginning, of which no two are alike; a long beginning is cut."""
    names = set()
    for _ in range(5):
        answer = await admin.post(f"/api/v1{place}/configmaps", {"metadata": {"generateName": "g-"}})
        assert (answer.status, answer.body["metadata"]["generateName"]) == (201, "g-")
        names.add(answer.body["metadata"]["name"])
    assert len(names) == 5
    assert {len(name) for name in names} == {7}
    long = await admin.post(f"/api/v1{place}/configmaps", {"metadata": {"generateName": "x" * 100}})

    assert len(long.body["metadata"]["name"]) == 63


async def test_an_update_needs_the_latest_version(admin: Client, place: str) -> None:
    """PUT with an old version is a conflict; without one it goes through for most kinds."""
    path = f"/api/v1{place}/configmaps"
    first = await admin.post(path, config_map("a", {"k": "1"}))
    second = await admin.put(f"{path}/a", {**first.body, "data": {"k": "2"}})
    stale = await admin.put(f"{path}/a", {**first.body, "data": {"k": "3"}})
    blind = await admin.put(f"{path}/a", config_map("a", {"k": "4"}))
    elsewhere = await admin.put(f"{path}/b", config_map("b", {"k": "4"}))

    assert [answer.status for answer in (second, stale, blind, elsewhere)] == [200, 409, 200, 404]


def budget(**spec: Any) -> dict[str, Any]:
    made = {"selector": {"matchLabels": {"app": "p"}}, **spec}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": made}


async def test_evictions_obey_budgets(admin: Client, place: str) -> None:
    """429 with a cause while the budget allows none; 201 once it allows one; 404 for no pod."""
    pods = f"/api/v1{place}/pods"
    for name in ("p1", "p2"):
        made = await admin.post(pods, {**pod(name), "metadata": {"name": name, "labels": {"app": "p"}}})
        assert made.status == 201
    await admin.post(f"/apis/policy/v1{place}/poddisruptionbudgets", budget(minAvailable=2))
    await admin.until(f"/apis/policy/v1{place}/poddisruptionbudgets/b", lambda body: body["status"].get("currentHealthy") == 2)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p1"}}
    refused = await admin.post(f"{pods}/p1/eviction", eviction)
    assert (refused.status, refused.body["reason"]) == (429, "TooManyRequests")
    assert refused.body["details"]["causes"][0]["reason"] == "DisruptionBudget"
    await admin.patch(f"/apis/policy/v1{place}/poddisruptionbudgets/b", {"spec": {"minAvailable": 1}})
    await admin.until(f"/apis/policy/v1{place}/poddisruptionbudgets/b", lambda body: body["status"].get("disruptionsAllowed") == 1)
    allowed = await admin.post(f"{pods}/p1/eviction", eviction)
    assert (allowed.status, allowed.body["status"]) == (201, "Success")
    await admin.until_gone(f"{pods}/p1")
    missing = await admin.post(f"{pods}/p9/eviction", {**eviction, "metadata": {"name": "p9"}})

    assert missing.status == 404


async def test_leases(admin: Client, place: str) -> None:
    """Taken, renewed under their version, and refused with a stale one."""
    path = f"/apis/coordination.k8s.io/v1{place}/leases"
    spec = {"holderIdentity": "one", "leaseDurationSeconds": 15, "leaseTransitions": 0, "renewTime": "2026-01-01T00:00:00.000000Z"}
    made = await admin.post(path, {"metadata": {"name": "l"}, "spec": spec})
    assert (made.status, made.body["spec"]) == (201, spec)
    assert (await admin.post(path, {"metadata": {"name": "l"}, "spec": spec})).status == 409
    renewed = await admin.put(f"{path}/l", {**made.body, "spec": {**spec, "renewTime": "2026-01-01T00:00:05.500000Z"}})
    stale = await admin.put(f"{path}/l", {**made.body, "spec": {**spec, "holderIdentity": "two"}})
    bad = await admin.put(f"{path}/l", {**renewed.body, "spec": {**spec, "leaseDurationSeconds": 0}})

    assert renewed.body["spec"]["renewTime"] == "2026-01-01T00:00:05.500000Z"
    assert (stale.status, stale.body["reason"]) == (409, "Conflict")
    assert (bad.status, bad.causes) == (422, [("FieldValueInvalid", "spec.leaseDurationSeconds")])
