"""Deletion: propagation, finalizers, preconditions, collections, and what garbage collection does with dependents."""

from typing import Any

import pytest

from tests.simulator.clients import Client, config_map, deployment, owner_reference, pod


@pytest.fixture
def maps(place: str) -> str:
    return f"/api/v1{place}/configmaps"


async def test_answers_what_it_deleted(admin: Client, maps: str) -> None:
    """A Status with name, kind and uid; then 404."""
    made = await admin.post(maps, config_map("a"))
    answer = await admin.delete(f"{maps}/a")

    assert (answer.status, answer.body["kind"], answer.body["status"]) == (200, "Status", "Success")
    assert answer.body["details"] == {"name": "a", "kind": "configmaps", "uid": made.body["metadata"]["uid"]}
    assert (await admin.send("GET", f"{maps}/a")).status == 404
    assert (await admin.delete(f"{maps}/a")).status == 404


@pytest.mark.parametrize("wrong", ["uid", "resourceVersion"])
async def test_preconditions(wrong: str, admin: Client, maps: str) -> None:
    """Another uid or version is a conflict; the right ones let it through."""
    made = await admin.post(maps, config_map("a"))
    right = {key: made.body["metadata"][key] for key in ("uid", "resourceVersion")}
    bad = {**right, wrong: "1" if wrong == "resourceVersion" else "6c0f7a3e-0000-4000-8000-000000000000"}
    refused = await admin.delete(f"{maps}/a", {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": bad})
    assert (refused.status, refused.body["reason"]) == (409, "Conflict")
    done = await admin.delete(f"{maps}/a", {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": right})

    assert done.status == 200


async def test_finalizers_hold_an_object(admin: Client, maps: str) -> None:
    """It is marked, stays, takes no new finalizers, and goes with the last one."""
    await admin.post(maps, config_map("a", finalizers=["example.com/x", "example.com/y"]))
    marked = await admin.delete(f"{maps}/a")
    assert marked.status == 200
    assert marked.body["kind"] == "ConfigMap"
    assert marked.body["metadata"]["deletionTimestamp"]
    assert marked.body["metadata"]["deletionGracePeriodSeconds"] == 0
    again = await admin.delete(f"{maps}/a")
    assert again.body["metadata"]["deletionTimestamp"] == marked.body["metadata"]["deletionTimestamp"]
    added = await admin.patch(f"{maps}/a", {"metadata": {"finalizers": ["example.com/x", "example.com/y", "example.com/z"]}})
    assert (added.status, added.causes[0]) == (422, ("FieldValueForbidden", "metadata.finalizers"))
    assert (await admin.patch(f"{maps}/a", {"data": {"k": "v"}})).status == 200
    assert (await admin.patch(f"{maps}/a", {"metadata": {"finalizers": ["example.com/y"]}})).status == 200
    last = await admin.patch(f"{maps}/a", {"metadata": {"finalizers": []}})

    assert last.status == 200
    assert (await admin.send("GET", f"{maps}/a")).status == 404


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"propagationPolicy": "Sometimes"}, 422),
        ({"propagationPolicy": "Background", "orphanDependents": True}, 422),
        ({"gracePeriodSeconds": "x"}, 400),
        ({"dryRun": ["Some"]}, 422),
        ({"kind": "Nonsense", "apiVersion": "v1"}, 400),
    ],
)
async def test_refuses_options(options: dict[str, Any], status: int, admin: Client, maps: str) -> None:
    """The object stays."""
    await admin.post(maps, config_map("a"))
    answer = await admin.delete(f"{maps}/a", {"kind": "DeleteOptions", "apiVersion": "v1", **options})

    assert answer.status == status, answer.body
    assert (await admin.send("GET", f"{maps}/a")).status == 200


async def test_a_collection(admin: Client, maps: str) -> None:
    """What matches the selector goes; the answer lists it."""
    for name in ("a", "b", "c"):
        await admin.post(maps, config_map(name, labels={"app": "x" if name != "c" else "y"}))
    answer = await admin.delete(maps, labelSelector="app=x")

    assert (answer.status, answer.body["kind"]) == (200, "ConfigMapList")
    assert [item["metadata"]["name"] for item in answer.body["items"]] == ["a", "b"]
    left = (await admin.get(maps, labelSelector="app"))["items"]
    assert [item["metadata"]["name"] for item in left] == ["c"]


async def owned(client: Client, maps: str, **reference: Any) -> None:
    """An owner `a` with a dependent `b`."""
    owner = await client.post(maps, config_map("a"))
    made = await client.post(maps, config_map("b", ownerReferences=[owner_reference(owner.body, **reference)]))
    assert made.status == 201


@pytest.mark.parametrize("policy", ["Background", ""])
async def test_dependents_go_after_their_owner(policy: str, admin: Client, maps: str) -> None:
    """The owner at once, then what it owned."""
    await owned(admin, maps)
    params = {"propagationPolicy": policy} if policy else {}
    await admin.delete(f"{maps}/a", **params)
    assert (await admin.send("GET", f"{maps}/a")).status == 404
    await admin.until_gone(f"{maps}/b")


async def test_dependents_go_before_their_owner(admin: Client, maps: str) -> None:
    """Foreground: the owner waits for those that block it."""
    await owned(admin, maps, blockOwnerDeletion=True)
    await admin.patch(f"{maps}/b", {"metadata": {"finalizers": ["example.com/x"]}})
    answer = await admin.delete(f"{maps}/a", propagationPolicy="Foreground")
    assert answer.body["metadata"]["finalizers"] == ["foregroundDeletion"]
    await admin.until(f"{maps}/b", lambda body: "deletionTimestamp" in body["metadata"])
    assert (await admin.send("GET", f"{maps}/a")).status == 200
    await admin.patch(f"{maps}/b", {"metadata": {"finalizers": []}})
    await admin.until_gone(f"{maps}/a")


async def test_dependents_are_orphaned(admin: Client, maps: str) -> None:
    """Orphan: the owner goes once its dependents no longer name it."""
    await owned(admin, maps)
    answer = await admin.delete(f"{maps}/a", propagationPolicy="Orphan")
    assert answer.body["metadata"]["finalizers"] == ["orphan"]
    await admin.until_gone(f"{maps}/a")

    assert "ownerReferences" not in (await admin.get(f"{maps}/b"))["metadata"]


async def test_a_dependent_with_another_owner_stays(admin: Client, maps: str) -> None:
    """It loses the reference to the owner that is gone."""
    one, two = [(await admin.post(maps, config_map(name))).body for name in ("a", "b")]
    await admin.post(maps, config_map("c", ownerReferences=[owner_reference(one), owner_reference(two)]))
    await admin.delete(f"{maps}/a")
    left = await admin.until(f"{maps}/c", lambda body: len(body["metadata"].get("ownerReferences") or ()) == 1)

    assert left["metadata"]["ownerReferences"][0]["name"] == "b"


async def test_a_deployment_takes_its_pods_along(admin: Client, place: str) -> None:
    """ReplicaSets and pods go with it; orphaned ones stay."""
    path = f"/apis/apps/v1{place}/deployments"
    for name in ("gone", "kept"):
        await admin.post(path, deployment(name, replicas=1))
    await admin.until(f"/api/v1{place}/pods", lambda body: len(body["items"]) == 2)
    await admin.delete(f"{path}/gone")
    await admin.delete(f"{path}/kept", propagationPolicy="Orphan")
    await admin.until_gone(f"{path}/kept")
    await admin.until(f"/api/v1{place}/pods", lambda body: [item["metadata"]["labels"]["app"] for item in body["items"]] == ["kept"])
    sets = (await admin.get(f"/apis/apps/v1{place}/replicasets"))["items"]

    assert [item["metadata"]["labels"]["app"] for item in sets] == ["kept"]
    assert "ownerReferences" not in sets[0]["metadata"]


async def test_a_pod_gets_its_grace(admin: Client, place: str) -> None:
    """A running pod is marked first, and gone once it has stopped; grace 0 removes it at once."""
    path = f"/api/v1{place}/pods"
    await admin.post(path, pod("a"))
    await admin.until(f"{path}/a", lambda body: body["status"].get("phase") == "Running")
    marked = await admin.delete(f"{path}/a")
    assert (marked.body["kind"], marked.body["metadata"]["deletionGracePeriodSeconds"]) == ("Pod", 30)
    await admin.until_gone(f"{path}/a")
    await admin.post(path, pod("b"))
    await admin.until(f"{path}/b", lambda body: body["status"].get("phase") == "Running")
    await admin.delete(f"{path}/b", {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})

    assert (await admin.send("GET", f"{path}/b")).status == 404


async def test_a_namespace_terminates(admin: Client) -> None:
    """Terminating while something is held, nothing new may be made in it, then it is gone with everything."""
    made = await admin.post("/api/v1/namespaces", {"metadata": {"generateName": "api-"}})
    name = made.body["metadata"]["name"]
    path = f"/api/v1/namespaces/{name}"
    assert made.body["spec"] == {"finalizers": ["kubernetes"]}
    assert made.body["metadata"]["labels"] == {"kubernetes.io/metadata.name": name}
    await admin.post(f"{path}/configmaps", config_map("held", finalizers=["example.com/x"]))
    await admin.post(f"{path}/configmaps", config_map("free"))
    marked = await admin.delete(path)
    assert marked.body["status"]["phase"] == "Terminating"
    refused = await admin.post(f"{path}/configmaps", config_map("late"))
    assert (refused.status, refused.body["reason"]) == (403, "Forbidden")
    assert refused.causes == [("NamespaceTerminating", "metadata.namespace")]
    assert (await admin.apply(f"{path}/configmaps/late", config_map("late"))).status == 403
    await admin.until_gone(f"{path}/configmaps/free")
    stuck = await admin.until(path, lambda body: len(body["status"].get("conditions") or ()) >= 3)
    states = {item["type"]: item["status"] for item in stuck["status"]["conditions"]}
    assert states["NamespaceFinalizersRemaining"] == "True"
    assert (await admin.patch(f"{path}/configmaps/held", {"metadata": {"finalizers": None}})).status == 200
    await admin.until_gone(path)


async def test_a_missing_namespace_is_not_found(admin: Client) -> None:
    """404 that names the namespace, for a create as for an apply."""
    path = "/api/v1/namespaces/nowhere-at-all/configmaps"
    for answer in (await admin.post(path, config_map("a")), await admin.apply(f"{path}/a", config_map("a"))):
        assert (answer.status, answer.body["reason"]) == (404, "NotFound")
        assert answer.body["details"] == {"name": "nowhere-at-all", "kind": "namespaces"}


async def test_the_default_namespaces_stay(admin: Client) -> None:
    """kube-system and default can't be deleted."""
    for name in ("default", "kube-system"):
        answer = await admin.delete(f"/api/v1/namespaces/{name}")
        assert (answer.status, answer.body["reason"]) == (403, "Forbidden")


async def test_options_in_the_body_hide_those_in_the_query(admin: Client, maps: str) -> None:
    """A dry run that is only asked for in the query is none when there is a body."""
    await admin.post(maps, config_map("a"))
    answer = await admin.delete(f"{maps}/a", {"kind": "DeleteOptions", "apiVersion": "v1"}, dryRun="All")

    assert answer.status == 200
    assert (await admin.send("GET", f"{maps}/a")).status == 404
