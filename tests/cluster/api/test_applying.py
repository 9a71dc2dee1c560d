"""Server-side apply: who owns what, conflicts, keyed lists, sets, atomic fields, and what happens to fields that are dropped."""

from typing import Any

import pytest

from tests.simulator.clients import Client, config_map, deployment, owned_by, service


@pytest.fixture
def maps(place: str) -> str:
    return f"/api/v1{place}/configmaps"


def services(place: str, name: str = "s") -> str:
    return f"/api/v1{place}/services/{name}"


def deployments(place: str, name: str = "d") -> str:
    return f"/apis/apps/v1{place}/deployments/{name}"


def web(**spec: Any) -> dict[str, Any]:
    """A Deployment that starts no pods."""
    return deployment("d", replicas=0, **spec)


async def test_creates_then_updates(admin: Client, maps: str) -> None:
    """201, then 200; one Apply entry with the fields of the last configuration."""
    made = await admin.apply(f"{maps}/a", config_map("a", {"k": "v", "l": "w"}))
    changed = await admin.apply(f"{maps}/a", config_map("a", {"k": "x"}))

    assert (made.status, changed.status) == (201, 200)
    assert changed.body["data"] == {"k": "x"}
    assert owned_by(changed.body, "tester") == {"f:data": {"f:k": {}}}
    assert int(changed.body["metadata"]["resourceVersion"]) > int(made.body["metadata"]["resourceVersion"])


async def test_a_field_of_another_manager_is_a_conflict(admin: Client, maps: str) -> None:
    """409 with a cause for each field and manager; nothing is changed."""
    await admin.apply(f"{maps}/a", config_map("a", {"k": "1", "l": "1", "m": "1"}), manager="one")
    await admin.patch(f"{maps}/a", {"data": {"m": "2"}}, fieldManager="editor")
    before = await admin.get(f"{maps}/a")
    answer = await admin.apply(f"{maps}/a", config_map("a", {"k": "9", "l": "1", "m": "9"}), manager="two")

    assert (answer.status, answer.body["reason"]) == (409, "Conflict")
    assert answer.causes == [("FieldManagerConflict", ".data.m"), ("FieldManagerConflict", ".data.k")] or sorted(answer.causes) == [
        ("FieldManagerConflict", ".data.k"),
        ("FieldManagerConflict", ".data.m"),
    ]
    messages = sorted(cause["message"] for cause in answer.body["details"]["causes"])
    assert messages[1] == 'conflict with "one"'
    assert messages[0].startswith('conflict with "editor" using v1')
    assert await admin.get(f"{maps}/a") == before


async def test_force_takes_the_fields(admin: Client, maps: str) -> None:
    """They change hands: the other manager keeps what wasn't taken."""
    await admin.apply(f"{maps}/a", config_map("a", {"k": "1", "l": "1"}), manager="one")
    answer = await admin.apply(f"{maps}/a", config_map("a", {"k": "2"}), manager="two", force="true")

    assert (answer.status, answer.body["data"]) == (200, {"k": "2", "l": "1"})
    assert owned_by(answer.body, "one") == {"f:data": {"f:l": {}}}
    assert owned_by(answer.body, "two") == {"f:data": {"f:k": {}}}


async def test_the_same_value_is_shared(admin: Client, maps: str) -> None:
    """Both own it; who gives it up doesn't remove it, the last one does."""
    await admin.apply(f"{maps}/a", config_map("a", {"k": "1"}), manager="one")
    shared = await admin.apply(f"{maps}/a", config_map("a", {"k": "1"}), manager="two")
    assert owned_by(shared.body, "one") == owned_by(shared.body, "two") == {"f:data": {"f:k": {}}}

    kept = await admin.apply(f"{maps}/a", config_map("a"), manager="one")
    assert kept.body["data"] == {"k": "1"}
    assert owned_by(kept.body, "one") in (None, {})

    gone = await admin.apply(f"{maps}/a", config_map("a"), manager="two")
    assert "data" not in gone.body


async def test_an_owner_who_shares_can_not_change_it_alone(admin: Client, maps: str) -> None:
    """A conflict with the other owner."""
    for manager in ("one", "two"):
        await admin.apply(f"{maps}/a", config_map("a", {"k": "1"}), manager=manager)
    answer = await admin.apply(f"{maps}/a", config_map("a", {"k": "2"}), manager="one")

    assert answer.status == 409
    assert answer.causes == [("FieldManagerConflict", ".data.k")]


async def test_a_dropped_field_returns_to_its_default(admin: Client, place: str) -> None:
    """What only we set is removed; what has a default gets it again, and nobody owns it."""
    path = deployments(place)
    first = await admin.apply(path, {**web(), "spec": {**web()["spec"], "revisionHistoryLimit": 3, "minReadySeconds": 5}})
    assert (first.body["spec"]["revisionHistoryLimit"], first.body["spec"]["minReadySeconds"]) == (3, 5)
    second = await admin.apply(path, web())

    assert second.body["spec"]["revisionHistoryLimit"] == 10
    assert "minReadySeconds" not in second.body["spec"]
    assert "f:revisionHistoryLimit" not in owned_by(second.body, "tester")["f:spec"]


async def test_fields_of_others_stay(admin: Client, maps: str) -> None:
    """What somebody else added is not ours to drop."""
    await admin.apply(f"{maps}/a", config_map("a", {"k": "1"}))
    await admin.patch(f"{maps}/a", {"data": {"theirs": "1"}, "metadata": {"labels": {"x": "y"}}}, fieldManager="editor")
    answer = await admin.apply(f"{maps}/a", config_map("a", {"l": "1"}))

    assert answer.body["data"] == {"theirs": "1", "l": "1"}
    assert answer.body["metadata"]["labels"] == {"x": "y"}


async def test_containers_merge_by_name(admin: Client, place: str) -> None:
    """Another manager's container stays, in place; ours goes when we drop it."""
    path = deployments(place)
    await admin.apply(path, web())
    more: Any = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"template": {"spec": {"containers": [{"name": "proxy", "image": "proxy:1"}]}}},
    }
    added = await admin.apply(path, more, manager="mesh")
    assert added.status == 200, added.body
    assert [each["name"] for each in added.body["spec"]["template"]["spec"]["containers"]] == ["main", "proxy"]
    more["spec"]["template"]["spec"]["containers"] = []
    gone = await admin.apply(path, more, manager="mesh")

    assert [each["name"] for each in gone.body["spec"]["template"]["spec"]["containers"]] == ["main"]


async def test_a_default_belongs_to_the_key_of_a_port(admin: Client, place: str) -> None:
    """Ports of a container are keyed by number and protocol, which is TCP where it isn't said."""
    path = deployments(place)
    body = web()
    container = body["spec"]["template"]["spec"]["containers"][0]
    container["ports"] = [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]
    made = await admin.apply(path, body)
    assert made.status == 201, made.body
    ports = owned_by(made.body, "tester")["f:spec"]["f:template"]["f:spec"]["f:containers"]['k:{"name":"main"}']["f:ports"]
    assert sorted(ports) == ['k:{"containerPort":80,"protocol":"TCP"}', 'k:{"containerPort":80,"protocol":"UDP"}']

    container["ports"] = [{"containerPort": 80, "protocol": "TCP", "name": "http"}]
    changed = await admin.apply(path, body)
    assert changed.body["spec"]["template"]["spec"]["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP", "name": "http"}]


async def test_ports_of_a_service_by_number_and_protocol(admin: Client, place: str) -> None:
    """One manager's port beside another's; a repeated key is an error that names it."""
    path = services(place)
    await admin.apply(path, service("s", {"name": "http", "port": 80}))
    other = service("s", {"name": "metrics", "port": 9090})
    del other["spec"]["selector"]
    both = await admin.apply(path, other, manager="two")
    assert [port["port"] for port in both.body["spec"]["ports"]] == [80, 9090]
    twice = await admin.apply(path, service("s", {"name": "a", "port": 80}, {"name": "b", "port": 80}))

    assert twice.status == 500
    assert "duplicate entries for key [port=80,protocol=" in twice.body["message"]


async def test_finalizers_are_a_set(admin: Client, maps: str) -> None:
    """Each manager owns its values; a value that both have stays until both drop it."""

    def with_finalizers(*names: str) -> dict[str, Any]:
        return config_map("a", finalizers=[f"example.com/{name}" for name in names])

    await admin.apply(f"{maps}/a", with_finalizers("x", "y"), manager="one")
    both = await admin.apply(f"{maps}/a", with_finalizers("y", "z"), manager="two")
    assert both.body["metadata"]["finalizers"] == ["example.com/x", "example.com/y", "example.com/z"]
    assert owned_by(both.body, "two") == {"f:metadata": {"f:finalizers": {'v:"example.com/y"': {}, 'v:"example.com/z"': {}}}}
    left = await admin.apply(f"{maps}/a", config_map("a"), manager="one")
    assert left.body["metadata"]["finalizers"] == ["example.com/y", "example.com/z"]
    done = await admin.apply(f"{maps}/a", config_map("a"), manager="two")

    assert "finalizers" not in done.body["metadata"]


async def test_an_atomic_field_has_one_owner(admin: Client, place: str) -> None:
    """A selector is replaced as a whole: setting another key of it is a conflict."""
    path = services(place)
    await admin.apply(path, service("s"))
    other = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"selector": {"tier": "front"}}}
    refused = await admin.apply(path, other, manager="two")
    forced = await admin.apply(path, other, manager="two", force="true")

    assert (refused.status, refused.causes) == (409, [("FieldManagerConflict", ".spec.selector")])
    assert forced.body["spec"]["selector"] == {"tier": "front"}
    assert owned_by(forced.body, "two") == {"f:spec": {"f:selector": {}}}
    assert "f:selector" not in owned_by(forced.body, "tester")["f:spec"]


async def test_an_update_takes_what_it_changes(admin: Client, maps: str) -> None:
    """PUT and PATCH move ownership of changed fields; an applier that comes back meets a conflict with the updater."""
    await admin.apply(f"{maps}/a", config_map("a", {"k": "1", "l": "1"}))
    edited = await admin.patch(f"{maps}/a", {"data": {"k": "2"}}, fieldManager="editor")
    assert owned_by(edited.body, "tester") == {"f:data": {"f:l": {}}}
    assert owned_by(edited.body, "editor", "Update") == {"f:data": {"f:k": {}}}
    answer = await admin.apply(f"{maps}/a", config_map("a", {"k": "1", "l": "1"}))

    assert answer.status == 409
    assert answer.causes == [("FieldManagerConflict", ".data.k")]


async def test_a_removed_field_can_be_applied_again(admin: Client, maps: str) -> None:
    """Nobody owns what somebody removed."""
    await admin.apply(f"{maps}/a", config_map("a", {"k": "1", "l": "1"}))
    await admin.patch(f"{maps}/a", {"data": {"k": None}}, fieldManager="editor")
    answer = await admin.apply(f"{maps}/a", config_map("a", {"k": "1", "l": "1"}))

    assert (answer.status, answer.body["data"]) == (200, {"k": "1", "l": "1"})
    assert owned_by(answer.body, "editor", "Update") is None


async def test_wiped_managed_fields_start_anew(admin: Client, maps: str) -> None:
    """An empty entry list removes all ownership; the next apply finds `before-first-apply`."""
    await admin.apply(f"{maps}/a", config_map("a", {"k": "1", "l": "1"}))
    wiped = await admin.patch(f"{maps}/a", {"metadata": {"managedFields": [{}]}})
    assert wiped.body["metadata"].get("managedFields", []) == []
    again = await admin.apply(f"{maps}/a", config_map("a", {"k": "1"}))

    assert again.body["data"] == {"k": "1", "l": "1"}
    managers = [(entry["manager"], entry["operation"]) for entry in again.body["metadata"]["managedFields"]]
    assert managers == [("tester", "Apply"), ("before-first-apply", "Update")]


async def test_null_means_nothing_given(admin: Client, place: str) -> None:
    """A null in a configuration is not owned, and sets the default."""
    body = web()
    body["spec"]["revisionHistoryLimit"] = None
    body["spec"]["strategy"] = None
    made = await admin.apply(deployments(place), body)

    assert made.status == 201, made.body
    assert made.body["spec"]["revisionHistoryLimit"] == 10
    assert made.body["spec"]["strategy"]["type"] == "RollingUpdate"


async def test_status_is_not_applied_by_the_main_resource(admin: Client, place: str) -> None:
    """A status in the configuration is neither stored nor owned."""
    made = await admin.apply(deployments(place), {**web(), "status": {"replicas": 7}})

    assert made.status == 201
    assert made.body["status"].get("replicas") != 7
    assert "f:status" not in owned_by(made.body, "tester")


async def test_status_has_owners_of_its_own(admin: Client, place: str) -> None:
    """Applying the status subresource makes an entry that names it."""
    await admin.apply(deployments(place), web())
    status = {"conditions": [{"type": "Checked", "status": "True", "reason": "Test", "message": ""}]}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "status": status}
    answer = await admin.apply(f"{deployments(place)}/status", body, manager="checker")

    assert answer.status == 200, answer.body
    assert "Checked" in [item["type"] for item in answer.body["status"]["conditions"]]
    owned = owned_by(answer.body, "checker", subresource="status")
    assert list(owned) == ["f:status"]


@pytest.mark.parametrize(
    ("change", "status", "reason"),
    [
        ({"kind": "Secret"}, 400, "BadRequest"),
        ({"apiVersion": "v2"}, 400, "BadRequest"),
        ({"metadata": {"name": "b"}}, 400, "BadRequest"),
        ({"metadata": {"name": "a", "namespace": "elsewhere"}}, 400, "BadRequest"),
        ({"metadata": {"name": "a", "managedFields": []}}, 400, "BadRequest"),
        ({"data": {"k": 1}}, 500, ""),
        ({"data": ["k"]}, 500, ""),
        ({"nonsense": 1}, 500, ""),
        ({"metadata": {"name": "a", "labels": {"x": 1}}}, 500, ""),
        ({"metadata": {"name": "a", "labels": {"-": "x"}}}, 422, "Invalid"),
        ({"metadata": {"name": "a", "resourceVersion": "1"}}, 409, "Conflict"),
        ({"metadata": {"name": "a", "uid": "x"}}, 422, "Invalid"),
    ],
)
async def test_refuses_a_configuration(change: dict[str, Any], status: int, reason: str, admin: Client, maps: str) -> None:
    """Wrong kinds and names, values that don't fit, stale versions: nothing is changed."""
    made = await admin.apply(f"{maps}/a", config_map("a", {"k": "v"}))
    answer = await admin.apply(f"{maps}/a", {**config_map("a", {"k": "w"}), **change})

    assert (answer.status, answer.body.get("reason", "")) == (status, reason), answer.body
    assert await admin.get(f"{maps}/a") == made.body


async def test_the_name_may_be_left_to_the_path(admin: Client, maps: str) -> None:
    """For an object that exists; one that is to be created has to be named."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "w"}}
    await admin.apply(f"{maps}/a", config_map("a", {"k": "v"}))
    changed = await admin.apply(f"{maps}/a", body)
    refused = await admin.apply(f"{maps}/b", body)

    assert (changed.status, changed.body["data"], refused.status) == (200, {"k": "w"}, 400)


async def test_needs_a_manager(admin: Client, maps: str) -> None:
    """422 without a fieldManager."""
    answer = await admin.send("PATCH", f"{maps}/a", config_map("a"), kind="application/apply-patch+yaml")

    assert (answer.status, answer.causes) == (422, [("FieldValueRequired", "fieldManager")])


async def test_takes_yaml(admin: Client, maps: str) -> None:
    """The body may be YAML as people write it."""
    answer = await admin.apply(f"{maps}/a", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  k: v\n")

    assert (answer.status, answer.body["data"]) == (201, {"k": "v"})


async def test_guards_by_the_version_in_the_body(admin: Client, maps: str) -> None:
    """With the live resourceVersion and uid an apply goes through; with older ones it doesn't."""
    made = await admin.apply(f"{maps}/a", config_map("a", {"k": "1"}))
    metadata = {key: made.body["metadata"][key] for key in ("resourceVersion", "uid")}
    good = await admin.apply(f"{maps}/a", config_map("a", {"k": "2"}, **metadata))
    stale = await admin.apply(f"{maps}/a", config_map("a", {"k": "3"}, **metadata))

    assert (good.status, stale.status, stale.body["reason"]) == (200, 409, "Conflict")


async def test_a_name_from_elsewhere_does_not_create(admin: Client, maps: str) -> None:
    """A uid in a configuration for an object that isn't there is a conflict: it would be another one."""
    answer = await admin.apply(f"{maps}/a", config_map("a", uid="6c0f7a3e-0000-4000-8000-000000000000"))

    assert (answer.status, answer.body["reason"]) == (409, "Conflict")


async def test_many_updaters_are_folded_together(admin: Client, maps: str) -> None:
    """At most ten entries of updaters are kept; the oldest become `ancient-changes`."""
    await admin.post(maps, config_map("a", {"start": "0"}))
    for number in range(12):
        await admin.patch(f"{maps}/a", {"data": {f"k{number}": "v"}}, fieldManager=f"m{number}")
    managers = [entry["manager"] for entry in (await admin.get(f"{maps}/a"))["metadata"]["managedFields"]]

    assert len(managers) <= 11
    assert "ancient-changes" in managers
