"""Merge, JSON and strategic merge patches."""

from typing import Any

import pytest

from tests.simulator.clients import JSON_PATCH, MERGE, STRATEGIC, Client, config_map, deployment, owned_by


@pytest.fixture
async def path(admin: Client, place: str) -> str:
    """A ConfigMap to patch."""
    made = await admin.post(f"/api/v1{place}/configmaps", config_map("a", {"k": "v", "l": "w"}, labels={"x": "1"}))
    assert made.status == 201
    return f"/api/v1{place}/configmaps/a"


@pytest.fixture
async def workload(admin: Client, place: str) -> str:
    """A Deployment without pods to patch: two containers, the second with variables."""
    body = deployment("d", replicas=0)
    body["spec"]["template"]["spec"]["containers"].append(
        {"name": "side", "image": "side:1", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}], "args": ["x", "y"]}
    )
    body["spec"]["template"]["spec"]["tolerations"] = [{"key": "a", "operator": "Exists"}]
    made = await admin.post(f"/apis/apps/v1{place}/deployments", body)
    assert made.status == 201, made.body
    return f"/apis/apps/v1{place}/deployments/d"


@pytest.mark.parametrize(
    ("patch", "data"),
    [
        ({"data": {"k": "2"}}, {"k": "2", "l": "w"}),
        ({"data": {"k": None}}, {"l": "w"}),
        ({"data": {"new": "n"}}, {"k": "v", "l": "w", "new": "n"}),
        ({"data": None}, None),
        ({}, {"k": "v", "l": "w"}),
        ({"data": {"missing": None}}, {"k": "v", "l": "w"}),
    ],
)
async def test_merge(patch: Any, data: Any, admin: Client, path: str) -> None:
    """Members are set or, where null, removed; the rest stays (RFC 7396)."""
    answer = await admin.patch(path, patch)

    assert (answer.status, answer.body.get("data")) == (200, data)


@pytest.mark.parametrize(
    ("operations", "data"),
    [
        ([{"op": "add", "path": "/data/n", "value": "1"}], {"k": "v", "l": "w", "n": "1"}),
        ([{"op": "replace", "path": "/data/k", "value": "2"}], {"k": "2", "l": "w"}),
        ([{"op": "remove", "path": "/data/k"}], {"l": "w"}),
        ([{"op": "test", "path": "/data/k", "value": "v"}, {"op": "remove", "path": "/data/k"}], {"l": "w"}),
        ([{"op": "copy", "from": "/data/k", "path": "/data/c"}], {"k": "v", "l": "w", "c": "v"}),
        ([{"op": "move", "from": "/data/k", "path": "/data/m"}], {"l": "w", "m": "v"}),
        ([{"op": "add", "path": "/metadata/annotations", "value": {"a~b/c": "1"}}], {"k": "v", "l": "w"}),
        ([], {"k": "v", "l": "w"}),
        ([{"op": "replace", "path": "/data/missing", "value": "x"}], {"k": "v", "l": "w", "missing": "x"}),
        ([{"op": "copy", "from": "/data/missing", "path": "/data/x"}], {"k": "v", "l": "w", "x": ""}),
        ([{"op": "test", "path": "/data/missing", "value": None}], {"k": "v", "l": "w"}),
    ],
)
async def test_json(operations: Any, data: Any, admin: Client, path: str) -> None:
    """Operations in order (RFC 6902)."""
    answer = await admin.patch(path, operations, JSON_PATCH)

    if any("annotations" in operation["path"] for operation in operations):
        assert answer.status == 422  # a tilde is no part of a name
    else:
        assert (answer.status, answer.body.get("data")) == (200, data)


@pytest.mark.parametrize(
    ("kind", "patch", "status"),
    [
        (JSON_PATCH, [{"op": "test", "path": "/data/k", "value": "other"}], 422),
        (JSON_PATCH, [{"op": "remove", "path": "/data/missing"}], 422),
        (JSON_PATCH, [{"op": "move", "from": "/data/missing", "path": "/data/x"}], 422),
        (JSON_PATCH, [{"op": "copy", "from": "", "path": "/data/x"}], 422),
        (JSON_PATCH, [{"op": "add", "path": "", "value": 3}], 422),
        (JSON_PATCH, [{"op": 1, "path": "/data/k"}], 400),
        (JSON_PATCH, [{"op": "add", "path": 3}], 400),
        (JSON_PATCH, [{"op": "test", "path": "/data/k/deeper", "value": "x"}], 422),
        (JSON_PATCH, [3], 400),
        (JSON_PATCH, [{"op": "add", "path": "/nowhere/deep", "value": "x"}], 422),
        (JSON_PATCH, [{"op": "jump", "path": "/data/k"}], 422),
        (JSON_PATCH, [{"op": "add"}], 422),
        (JSON_PATCH, {"op": "add"}, 400),
        (JSON_PATCH, [{"op": "replace", "path": "/data/k", "value": 1}], 422),
        (MERGE, [], 400),
        (MERGE, {"data": {"k": 1}}, 422),
        (MERGE, {"data": "text"}, 422),
        (MERGE, {"metadata": {"name": "b"}}, 400),
        (MERGE, {"metadata": {"resourceVersion": "1"}}, 409),
        (MERGE, {"metadata": {"uid": "x"}}, 422),
        (MERGE, {"metadata": {"labels": {"a b": "c"}}}, 422),
        (MERGE, "{", 400),
        (STRATEGIC, {"data": {"k": 1}}, 422),
        (STRATEGIC, {"data": {"$patch": "sometimes"}}, 500),
        (STRATEGIC, "[", 400),
        ("application/x-unknown", {}, 415),
    ],
)
async def test_refuses(kind: str, patch: Any, status: int, admin: Client, path: str) -> None:
    """What can't be read, done or stored; the object stays as it was."""
    before = await admin.get(path)
    answer = await admin.patch(path, patch, kind)

    assert answer.status == status, answer.body
    assert await admin.get(path) == before


@pytest.mark.parametrize("kind", [MERGE, JSON_PATCH, STRATEGIC])
async def test_what_is_not_there_can_not_be_patched(kind: str, admin: Client, place: str) -> None:
    """404, unlike apply."""
    answer = await admin.patch(f"/api/v1{place}/configmaps/none", [] if kind == JSON_PATCH else {}, kind)

    assert (answer.status, answer.body["reason"]) == (404, "NotFound")


async def test_strategic_merges_lists_by_their_keys(admin: Client, workload: str) -> None:
    """Containers by name, variables in them too; lists without a key are replaced."""
    patch = {
        "spec": {
            "template": {
                "spec": {
                    "containers": [{"name": "side", "image": "side:2", "env": [{"name": "B", "value": "3"}], "args": ["z"]}],
                    "tolerations": [{"key": "b", "operator": "Exists"}],
                }
            }
        }
    }
    answer = await admin.patch(workload, patch, STRATEGIC)
    spec = answer.body["spec"]["template"]["spec"]
    main, side = sorted(spec["containers"], key=lambda each: str(each["name"]))

    assert (main["name"], main["image"]) == ("main", "nginx:1.0")
    assert (side["image"], side["args"]) == ("side:2", ["z"])
    assert sorted((each["name"], each["value"]) for each in side["env"]) == [("A", "1"), ("B", "3")]
    assert [each["key"] for each in spec["tolerations"]] == ["b"]


async def test_strategic_directives(admin: Client, workload: str) -> None:
    """Delete an item, replace a list, set the order, keep only some members."""
    template = "spec", "template", "spec"

    async def patched(spec: dict[str, Any]) -> Any:
        answer = await admin.patch(workload, {template[0]: {template[1]: {template[2]: spec}}}, STRATEGIC)
        assert answer.status == 200, answer.body
        return answer.body["spec"]["template"]["spec"]

    ordered = await patched({"$setElementOrder/containers": [{"name": "side"}, {"name": "main"}]})
    assert [each["name"] for each in ordered["containers"]] == ["side", "main"]
    env = await patched({"containers": [{"name": "side", "env": [{"name": "A", "$patch": "delete"}]}]})
    assert [each["name"] for each in env["containers"][0]["env"]] == ["B"]
    deleted = await patched({"containers": [{"name": "side", "$patch": "delete"}]})
    assert [each["name"] for each in deleted["containers"]] == ["main"]
    replaced = await patched({"containers": [{"$patch": "replace"}, {"name": "new", "image": "n:1"}]})
    assert [each["name"] for each in replaced["containers"]] == ["new"]
    answer = await admin.patch(workload, {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}, STRATEGIC)
    assert answer.body["spec"]["strategy"] == {"type": "Recreate"}


async def test_strategic_finalizers(admin: Client, path: str) -> None:
    """A list of plain values is added to, or taken from by its directive."""
    added = await admin.patch(path, {"metadata": {"finalizers": ["example.com/a", "example.com/b"]}}, STRATEGIC)
    assert added.body["metadata"]["finalizers"] == ["example.com/a", "example.com/b"]
    taken = await admin.patch(path, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}}, STRATEGIC)
    assert taken.body["metadata"]["finalizers"] == ["example.com/b"]
    await admin.patch(path, {"metadata": {"finalizers": None}})


async def test_indexes_of_a_json_patch(admin: Client, path: str) -> None:
    """Before a place, at the end, from the end; an index beyond it fails."""
    added = [
        {"op": "add", "path": "/metadata/finalizers", "value": ["e.com/b", "e.com/c"]},
        {"op": "add", "path": "/metadata/finalizers/0", "value": "e.com/a"},
        {"op": "add", "path": "/metadata/finalizers/-", "value": "e.com/d"},
        {"op": "remove", "path": "/metadata/finalizers/-1"},
        {"op": "replace", "path": "/metadata/finalizers/1", "value": "e.com/x"},
    ]
    answer = await admin.patch(path, added, JSON_PATCH)
    assert answer.body["metadata"]["finalizers"] == ["e.com/a", "e.com/x", "e.com/c"]
    beyond = await admin.patch(path, [{"op": "remove", "path": "/metadata/finalizers/3"}], JSON_PATCH)
    assert beyond.status == 422
    await admin.patch(path, [{"op": "remove", "path": "/metadata/finalizers"}], JSON_PATCH)


async def test_unknown_members_of_an_operation_warn(admin: Client, path: str) -> None:
    """As unknown fields do, and are refused when strict."""
    operations = [{"op": "add", "path": "/data/k", "value": "x", "extra": 1}]
    warned = await admin.patch(path, operations, JSON_PATCH)
    refused = await admin.patch(path, operations, JSON_PATCH, fieldValidation="Strict")

    assert warned.warnings == ['299 - "json patch unknown field \\"[0].extra\\""']
    assert refused.status == 422


async def test_patches_make_owners(admin: Client, path: str) -> None:
    """Each writer owns what it changed, under its own name and operation Update."""
    await admin.patch(path, {"data": {"k": "2"}}, fieldManager="merger")
    await admin.patch(path, [{"op": "add", "path": "/data/n", "value": "1"}], JSON_PATCH, fieldManager="jsoner")
    answer = await admin.patch(path, {"data": {"l": "3"}}, STRATEGIC, fieldManager="strategist")

    assert owned_by(answer.body, "merger", "Update") == {"f:data": {"f:k": {}}}
    assert owned_by(answer.body, "jsoner", "Update") == {"f:data": {"f:n": {}}}
    assert owned_by(answer.body, "strategist", "Update") == {"f:data": {"f:l": {}}}


async def test_a_version_guards_a_patch(admin: Client, path: str) -> None:
    """A resourceVersion in a merge patch is a precondition."""
    version = (await admin.get(path))["metadata"]["resourceVersion"]
    good = await admin.patch(path, {"metadata": {"resourceVersion": version}, "data": {"k": "2"}})
    stale = await admin.patch(path, {"metadata": {"resourceVersion": version}, "data": {"k": "3"}})

    assert (good.status, stale.status, stale.body["reason"]) == (200, 409, "Conflict")


async def test_unknown_fields_warn_or_are_refused(admin: Client, path: str) -> None:
    """By fieldValidation: Warn tells in a header, Strict refuses, Ignore drops in silence."""
    patch = {"nonsense": 1}
    warned = await admin.patch(path, patch, fieldValidation="Warn")
    ignored = await admin.patch(path, patch, fieldValidation="Ignore")
    refused = await admin.patch(path, patch, fieldValidation="Strict")

    assert (warned.status, warned.warnings) == (200, ['299 - "unknown field \\"nonsense\\""'])
    assert (ignored.status, ignored.warnings) == (200, [])
    assert refused.status == 422
    assert 'unknown field "nonsense"' in refused.body["message"]
    assert "nonsense" not in warned.body


async def test_a_merge_patch_can_not_change_the_kind(admin: Client, path: str) -> None:
    """Another kind or version in a patch is refused; taking the kind away changes nothing."""
    assert (await admin.patch(path, {"kind": None})).body["kind"] == "ConfigMap"
    assert (await admin.patch(path, {"apiVersion": None})).status == 400
    for patch in ({"kind": "Secret"}, {"apiVersion": "v2"}):
        answer = await admin.patch(path, patch)
        assert answer.status in (400, 422), answer.body


async def test_client_side_apply_leaves_its_annotation(admin: Client, workload: str) -> None:
    """What kubectl does: a strategic patch with the last applied configuration; generation moves."""
    before = (await admin.get(workload))["metadata"]["generation"]
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
    noted = await admin.patch(workload, {"metadata": {"annotations": annotations}}, STRATEGIC)
    changed = await admin.patch(workload, {"spec": {"paused": True}}, STRATEGIC)

    # A Deployment's generation counts annotations, too: they go on to its ReplicaSets.
    assert noted.body["metadata"]["generation"] == before + 1
    assert changed.body["metadata"]["generation"] == before + 2
