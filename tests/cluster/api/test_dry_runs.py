"""Dry runs: every verb answers as if it had been done, and leaves no trace."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.simulator.clients import APPLY, JSON_PATCH, MERGE, STRATEGIC, Answer, Client, config_map, deployment, pod

Write = Callable[[Client, str], Awaitable[Answer]]


def at(place: str, name: str = "") -> str:
    return f"/apis/apps/v1{place}/deployments{name}"


def named(name: str = "d", **spec: Any) -> dict[str, Any]:
    return deployment(name, replicas=0, **spec)


SCALE = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": 5}}
STATUS = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "status": {"replicas": 9}}
PAUSED: Any = {"spec": {"paused": True}}
DRY = {"dryRun": "All"}
OPTIONS = {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]}
WRITES: dict[str, tuple[Write, int]] = {
    "create": (lambda client, place: client.post(at(place), named("new"), **DRY), 201),
    "generate": (lambda client, place: client.post(at(place), {**named(), "metadata": {"generateName": "g-"}}, **DRY), 201),
    "update": (lambda client, place: client.put(at(place, "/d"), named(minReadySeconds=3), **DRY), 200),
    "apply a new one": (lambda client, place: client.apply(at(place, "/new"), named("new"), **DRY), 201),
    "apply": (lambda client, place: client.apply(at(place, "/d"), named(minReadySeconds=3), force="true", **DRY), 200),
    "merge": (lambda client, place: client.patch(at(place, "/d"), PAUSED, MERGE, **DRY), 200),
    "strategic": (lambda client, place: client.patch(at(place, "/d"), PAUSED, STRATEGIC, **DRY), 200),
    "json": (
        lambda client, place: client.patch(at(place, "/d"), [{"op": "add", "path": "/spec/paused", "value": True}], JSON_PATCH, **DRY),
        200,
    ),
    "delete by query": (lambda client, place: client.delete(at(place, "/d"), **DRY), 200),
    "delete by body": (lambda client, place: client.delete(at(place, "/d"), OPTIONS), 200),
    "foreground": (lambda client, place: client.delete(at(place, "/d"), propagationPolicy="Foreground", **DRY), 200),
    "delete all": (lambda client, place: client.delete(at(place), **DRY), 200),
    "update status": (lambda client, place: client.put(at(place, "/d/status"), {**named(), "status": {"replicas": 9}}, **DRY), 200),
    "patch status": (lambda client, place: client.patch(at(place, "/d/status"), {"status": {"replicas": 9}}, **DRY), 200),
    "apply status": (lambda client, place: client.apply(at(place, "/d/status"), STATUS, force="true", **DRY), 200),
    "update scale": (lambda client, place: client.put(at(place, "/d/scale"), SCALE, **DRY), 200),
    "patch scale": (lambda client, place: client.patch(at(place, "/d/scale"), {"spec": {"replicas": 5}}, **DRY), 200),
    "apply scale": (lambda client, place: client.apply(at(place, "/d/scale"), SCALE, force="true", **DRY), 200),
}


@pytest.mark.parametrize("name", WRITES)
async def test_leaves_no_trace(name: str, admin: Client, place: str) -> None:
    """The answer is a success, the objects are as before, and a watch hears nothing."""
    write, status = WRITES[name]
    await admin.post(at(place), named())
    await admin.until(at(place, "/d"), lambda body: body["status"].get("observedGeneration") == 1 and body["status"]["conditions"])
    sets = f"/apis/apps/v1{place}/replicasets"
    await admin.until(sets, lambda body: [item["status"].get("observedGeneration") for item in body["items"]] == [1])
    before = await admin.get(at(place))
    async with admin.watch(at(place), resourceVersion=before["metadata"]["resourceVersion"]) as events:
        answer = await write(admin, place)
        assert answer.status == status, answer.body
        assert (await admin.get(at(place)))["items"] == before["items"]
        await admin.post(at(place), named("end"))
        assert (await events.named(1)) == [("ADDED", "end")]


async def test_says_what_would_be(admin: Client, place: str) -> None:
    """Defaults, generation, ownership and name of a dry run are those of the real write."""
    path = f"/api/v1{place}/configmaps"
    dry = await admin.apply(f"{path}/a", config_map("a", {"k": "v"}), dryRun="All")
    real = await admin.apply(f"{path}/a", config_map("a", {"k": "v"}))
    assert dry.body["metadata"]["managedFields"][0]["fieldsV1"] == real.body["metadata"]["managedFields"][0]["fieldsV1"]
    assert dry.body["metadata"]["uid"] != real.body["metadata"]["uid"]
    assert "resourceVersion" not in dry.body["metadata"]
    generated = await admin.post(path, {"metadata": {"generateName": "g-"}}, dryRun="All")
    assert generated.body["metadata"]["name"].startswith("g-")
    changed = await admin.patch(f"{path}/a", {"data": {"k": "w"}}, dryRun="All")
    assert changed.body["data"] == {"k": "w"}
    assert changed.body["metadata"]["resourceVersion"] == real.body["metadata"]["resourceVersion"]


async def test_raises_the_generation_that_would_be(admin: Client, place: str) -> None:
    """Of a Deployment whose spec would change."""
    made = await admin.post(at(place), named())
    dry = await admin.patch(at(place, "/d"), {"spec": {"paused": True}}, dryRun="All")

    assert dry.body["metadata"]["generation"] == made.body["metadata"]["generation"] + 1


@pytest.mark.parametrize("kind", [MERGE, APPLY])
async def test_refuses_as_the_write_would(kind: str, admin: Client, place: str) -> None:
    """An invalid object, a taken name, a conflict."""
    path = f"/api/v1{place}/configmaps"
    await admin.apply(f"{path}/a", config_map("a", {"k": "v"}))
    assert (await admin.post(path, config_map("a"), dryRun="All")).status == 409
    assert (await admin.post(path, config_map("UPPER"), dryRun="All")).status == 422
    assert (await admin.apply(f"{path}/a", config_map("a", {"k": "w"}), manager="two", dryRun="All")).status == 409
    assert (await admin.send("PATCH", f"{path}/none", {}, kind=MERGE, dryRun="All")).status == 404
    refused = await admin.send("PATCH", f"{path}/a", config_map("a"), kind=kind, dryRun="Some", fieldManager="m")
    assert (refused.status, refused.body["reason"]) == (422, "Invalid")


async def test_finalizers_and_eviction(admin: Client, place: str) -> None:
    """Neither marks an object for deletion."""
    path = f"/api/v1{place}/configmaps"
    await admin.post(path, config_map("a", finalizers=["example.com/x"]))
    held = await admin.delete(f"{path}/a", dryRun="All")
    assert held.status == 200
    assert "deletionTimestamp" not in (await admin.get(f"{path}/a"))["metadata"]
    await admin.patch(f"{path}/a", {"metadata": {"finalizers": None}})
    await admin.post(f"/api/v1{place}/pods", pod("p", schedulerName="nobody"))
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    evicted = await admin.post(f"/api/v1{place}/pods/p/eviction", {**eviction, "deleteOptions": {"dryRun": ["All"]}})
    assert evicted.status == 201, evicted.body
    assert "deletionTimestamp" not in (await admin.get(f"/api/v1{place}/pods/p"))["metadata"]


async def test_a_namespace_that_would_be_deleted_stays(admin: Client, place: str) -> None:
    """Its phase too."""
    name = place.rpartition("/")[2]
    answer = await admin.delete(f"/api/v1/namespaces/{name}", dryRun="All")

    assert answer.status == 200
    assert (await admin.get(f"/api/v1/namespaces/{name}"))["status"]["phase"] == "Active"
