"""Reading and writing objects of a running cluster: what is sent, what comes back, what is refused."""

import asyncio
from typing import Any

import pytest

from delegate.engine.clusters import access, errors
from delegate.engine.clusters.metering import RequestMeter
from delegate.engine.clusters.registry import Cluster
from delegate.model.resource_types import CONFIG_MAPS, DEPLOYMENTS, NAMESPACES, SECRETS
from delegate.model.resources import JsonObject, ResourceType
from tests.cluster.servers import config_map, kind

SOMEBODY = "11111111-1111-1111-1111-111111111111"


def deployment(namespace: str, name: str = "web", *, app: str = "", **spec: object) -> JsonObject:
    labels = {"app": app or name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "nginx:1.0"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template, **spec},
    }


def metadata(body: JsonObject) -> dict[str, Any]:
    found: dict[str, Any] = body["metadata"]
    return found


async def test_apply_creates_then_changes(cluster: Cluster, namespace: str) -> None:
    """Server-side apply is ours by name, and repeats without a write."""
    made = await cluster.client.apply(CONFIG_MAPS, config_map(namespace))
    again = await cluster.client.apply(CONFIG_MAPS, config_map(namespace))
    changed = await cluster.client.apply(CONFIG_MAPS, config_map(namespace, data={"k": "w"}))
    read = await cluster.client.get(CONFIG_MAPS, namespace, "a")

    assert metadata(made)["managedFields"][0]["manager"] == "delegate"
    assert metadata(made)["managedFields"][0]["operation"] == "Apply"
    assert metadata(again)["resourceVersion"] == metadata(made)["resourceVersion"]
    assert metadata(changed)["uid"] == metadata(made)["uid"]
    assert metadata(changed)["resourceVersion"] != metadata(made)["resourceVersion"]
    assert read["data"] == {"k": "w"}


async def test_metadata_without_the_body(cluster: Cluster, namespace: str) -> None:
    """Get and apply can leave the body at the server; the object keeps its own kind."""
    applied = await cluster.client.apply(DEPLOYMENTS, deployment(namespace), metadata_only=True)
    read = await cluster.client.get_metadata(DEPLOYMENTS, namespace, "web")

    for body in (applied, read):
        assert (body["apiVersion"], body["kind"]) == ("apps/v1", "Deployment")
        assert metadata(body)["name"] == "web"
        assert "spec" not in body


async def test_a_dry_run_of_everything_leaves_nothing(cluster: Cluster, namespace: str) -> None:
    """Apply, create, replace, patch and delete, tried out: the answer is as if, the cluster as before."""
    client = cluster.client.metered(RequestMeter())
    made = await client.apply(CONFIG_MAPS, config_map(namespace, "there"))
    before = await client.get(CONFIG_MAPS, namespace, "there")

    created = await client.apply(CONFIG_MAPS, config_map(namespace, "new"), dry_run=True)
    posted = await client.create(CONFIG_MAPS, config_map(namespace, "newer"), dry_run=True)
    applied = await client.apply(CONFIG_MAPS, config_map(namespace, "there", {"k": "w"}), dry_run=True)
    replaced = await client.replace(CONFIG_MAPS, config_map(namespace, "there", {"x": "y"}), dry_run=True)
    patched = await client.patch(CONFIG_MAPS, namespace, "there", {"data": {"z": "1"}}, dry_run=True)
    await client.delete(CONFIG_MAPS, namespace, "there", uid=metadata(made)["uid"], dry_run=True)

    assert metadata(created)["uid"]
    assert metadata(posted)["uid"]
    assert applied["data"] == {"k": "w"}
    assert replaced["data"] == {"x": "y"}
    assert patched["data"] == {"k": "v", "z": "1"}
    assert await client.get(CONFIG_MAPS, namespace, "there") == before
    for name in ("new", "newer"):
        with pytest.raises(errors.NotFoundError):
            await client.get(CONFIG_MAPS, namespace, name)
    assert client.meter.counts.dry_runs == 6
    assert client.meter.counts.writes == 1


async def test_the_names_that_a_server_gives(cluster: Cluster, namespace: str) -> None:
    """generateName works by create; apply refuses it as input."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "job-", "namespace": namespace}}

    first, second = await cluster.client.create(CONFIG_MAPS, body), await cluster.client.create(CONFIG_MAPS, body)

    assert metadata(first)["name"].startswith("job-")
    assert metadata(first)["name"] != metadata(second)["name"]
    with pytest.raises(errors.ClusterError) as caught:
        await cluster.client.apply(CONFIG_MAPS, body)
    assert caught.value.code.startswith("input.")


async def test_create_of_what_exists(cluster: Cluster, namespace: str) -> None:
    """409 AlreadyExists."""
    await cluster.client.create(CONFIG_MAPS, config_map(namespace))

    with pytest.raises(errors.AlreadyExistsError) as caught:
        await cluster.client.create(CONFIG_MAPS, config_map(namespace))

    assert caught.value.object == f"ConfigMap {namespace}/a"


async def test_unknown_fields_are_refused(cluster: Cluster, namespace: str) -> None:
    """Fields that the schema doesn't know are errors of input in each kind of write, and nothing is written."""
    odd = deployment(namespace) | {"spek": {}}
    with pytest.raises(errors.SchemaError, match="spek"):
        await cluster.client.apply(DEPLOYMENTS, odd)
    with pytest.raises(errors.SchemaError, match="spek"):
        await cluster.client.create(DEPLOYMENTS, odd)
    made = await cluster.client.apply(DEPLOYMENTS, deployment(namespace, "there"))
    with pytest.raises(errors.SchemaError, match="spek"):
        await cluster.client.replace(DEPLOYMENTS, made | {"spek": 1})
    with pytest.raises(errors.ApiError, match="spek") as caught:
        await cluster.client.patch(DEPLOYMENTS, namespace, "there", {"spek": 1})

    assert not caught.value.retryable
    with pytest.raises(errors.NotFoundError):
        await cluster.client.get(DEPLOYMENTS, namespace, "web")


async def test_a_wrong_type_is_refused(cluster: Cluster, namespace: str) -> None:
    """A text where a number belongs: 500 under server-side apply, 400 on create, one error for both."""
    for write in (cluster.client.apply, cluster.client.create):
        with pytest.raises(errors.SchemaError) as caught:
            await write(DEPLOYMENTS, deployment(namespace, replicas="two"))
        assert caught.value.code == "input.schema"


async def test_an_invalid_object_names_the_field(cluster: Cluster, namespace: str) -> None:
    """422 with the field that is wrong."""
    body = deployment(namespace)
    body["spec"]["selector"] = {"matchLabels": {"app": "other"}}

    with pytest.raises(errors.InvalidError) as caught:
        await cluster.client.apply(DEPLOYMENTS, body)

    assert caught.value.causes[0].field == "spec.template.metadata.labels"
    assert not isinstance(caught.value, errors.ImmutableFieldError)


async def test_an_immutable_field_is_proven(cluster: Cluster, namespace: str) -> None:
    """Changing a selector is told apart from being invalid."""
    await cluster.client.apply(DEPLOYMENTS, deployment(namespace, app="one"))

    with pytest.raises(errors.ImmutableFieldError) as caught:
        await cluster.client.apply(DEPLOYMENTS, deployment(namespace, app="two"), dry_run=True)

    assert "spec.selector" in caught.value.hint


async def test_another_manager_is_not_overruled_unless_forced(cluster: Cluster, namespace: str) -> None:
    """A conflict names manager and field; force takes it over."""
    await cluster.client.apply(CONFIG_MAPS, config_map(namespace, data={"k": "theirs"}), manager="somebody")

    with pytest.raises(errors.FieldManagerConflictError) as caught:
        await cluster.client.apply(CONFIG_MAPS, config_map(namespace, data={"k": "ours"}))
    forced = await cluster.client.apply(CONFIG_MAPS, config_map(namespace, data={"k": "ours"}), force=True)

    assert caught.value.managers == ("somebody",)
    assert caught.value.fields == (".data.k",)
    assert forced["data"] == {"k": "ours"}


async def test_a_namespace_that_is_missing(cluster: Cluster) -> None:
    """What should go into it says so; what is read from it or deleted in it is simply not there."""
    body = config_map("no-such-namespace-here")
    for write in (cluster.client.apply, cluster.client.create):
        with pytest.raises(errors.NamespaceNotFoundError) as caught:
            await write(CONFIG_MAPS, body)
        assert caught.value.missing_name == "no-such-namespace-here"
        assert "CreateNamespace=true" in caught.value.hint
    with pytest.raises(errors.NotFoundError):
        await cluster.client.get(CONFIG_MAPS, "no-such-namespace-here", "a")
    with pytest.raises(errors.NotFoundError):
        await cluster.client.delete(CONFIG_MAPS, "no-such-namespace-here", "a", uid=SOMEBODY)
    with pytest.raises(errors.NotFoundError):
        await cluster.client.get(NAMESPACES, "", "no-such-namespace-here")


async def test_a_deletion_hits_only_what_was_meant(cluster: Cluster, namespace: str) -> None:
    """Another object by the name, or a changed one, stays; the right one goes; gone is gone."""
    made = await cluster.client.apply(CONFIG_MAPS, config_map(namespace))
    changed = await cluster.client.apply(CONFIG_MAPS, config_map(namespace, data={"k": "w"}))
    uid, old = metadata(made)["uid"], metadata(made)["resourceVersion"]

    with pytest.raises(errors.RecreatedObjectError):
        await cluster.client.delete(CONFIG_MAPS, namespace, "a", uid=SOMEBODY)
    with pytest.raises(errors.StaleObjectError):
        await cluster.client.delete(CONFIG_MAPS, namespace, "a", uid=uid, resource_version=old)
    assert metadata(await cluster.client.get(CONFIG_MAPS, namespace, "a"))["uid"] == uid
    await cluster.client.delete(CONFIG_MAPS, namespace, "a", uid=uid, resource_version=metadata(changed)["resourceVersion"])

    with pytest.raises(errors.NotFoundError):
        await cluster.client.get(CONFIG_MAPS, namespace, "a")
    with pytest.raises(errors.NotFoundError):
        await cluster.client.delete(CONFIG_MAPS, namespace, "a", uid=uid)


async def test_a_finalizer_holds_what_is_deleted(cluster: Cluster, namespace: str) -> None:
    """The answer is the object with its deletion time; it goes with its finalizer."""
    made = await cluster.client.apply(CONFIG_MAPS, config_map(namespace, finalizers=["example.com/hold"]))

    answer = await cluster.client.delete(CONFIG_MAPS, namespace, "a", uid=metadata(made)["uid"])
    still = await cluster.client.get(CONFIG_MAPS, namespace, "a")
    await cluster.client.patch(CONFIG_MAPS, namespace, "a", {"metadata": {"finalizers": None}})

    assert metadata(answer)["deletionTimestamp"]
    assert metadata(still)["deletionTimestamp"]
    with pytest.raises(errors.NotFoundError):
        await cluster.client.get(CONFIG_MAPS, namespace, "a")


async def test_a_terminating_namespace_takes_nothing_new(cluster: Cluster, namespace: str) -> None:
    """The refusal is told apart from a lack of permission, and is worth waiting for."""
    await cluster.client.apply(CONFIG_MAPS, config_map(namespace, "hold", finalizers=["example.com/hold"]))
    place = await cluster.client.get(NAMESPACES, "", namespace)
    other = await cluster.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "ending-"}})
    name = metadata(other)["name"]
    await cluster.client.apply(CONFIG_MAPS, config_map(name, "hold", finalizers=["example.com/hold"]))
    await cluster.client.delete(NAMESPACES, "", name, uid=metadata(other)["uid"])
    try:
        with pytest.raises(errors.NamespaceTerminatingError) as caught:
            await cluster.client.apply(CONFIG_MAPS, config_map(name, "late"))
        assert caught.value.retryable
        assert caught.value.category.value == "conflict"
    finally:
        await cluster.client.patch(CONFIG_MAPS, name, "hold", {"metadata": {"finalizers": None}})
        await cluster.client.patch(CONFIG_MAPS, namespace, "hold", {"metadata": {"finalizers": None}})
    assert place["status"]["phase"] == "Active"


@pytest.mark.parametrize(
    ("patch", "patch_kind"),
    [
        ({"data": {"k": None, "n": "1"}}, "merge"),
        ([{"op": "remove", "path": "/data/k"}, {"op": "add", "path": "/data/n", "value": "1"}], "json"),
        ({"data": {"k": None, "n": "1"}}, "strategic"),
    ],
)
async def test_each_kind_of_patch(patch: object, patch_kind: Any, cluster: Cluster, namespace: str) -> None:
    """Merge, JSON and strategic merge patches do what they say."""
    await cluster.client.apply(CONFIG_MAPS, config_map(namespace))

    patched = await cluster.client.patch(CONFIG_MAPS, namespace, "a", patch, kind=patch_kind)

    assert patched["data"] == {"n": "1"}


async def test_a_subresource(cluster: Cluster, namespace: str) -> None:
    """Scale is read and patched as the resource's own path says."""
    await cluster.client.apply(DEPLOYMENTS, deployment(namespace))

    await cluster.client.patch(DEPLOYMENTS, namespace, "web", {"spec": {"replicas": 0}}, subresource="scale")
    scale = await cluster.client.get(DEPLOYMENTS, namespace, "web", subresource="scale")

    assert scale["kind"] == "Scale"
    assert scale["spec"].get("replicas", 0) == 0


async def test_a_body_that_is_too_large(cluster: Cluster, namespace: str) -> None:
    """Over 1 MiB of data is invalid; over the request limit is too large; both are input."""
    with pytest.raises(errors.InvalidError):
        await cluster.client.apply(CONFIG_MAPS, config_map(namespace, data={"k": "x" * 1_200_000}))
    with pytest.raises(errors.RequestTooLargeError):
        await cluster.client.apply(CONFIG_MAPS, config_map(namespace, data={"k": "x" * 4_000_000}))


async def test_a_secrets_value_stays_out_of_errors(cluster: Cluster, namespace: str) -> None:
    """Whatever the server says of a broken Secret, its value isn't repeated."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": namespace}}
    broken: list[JsonObject] = [
        {"stringData": "hunter2hunter2"},
        {"data": {"p": "no base64: hunter2hunter2"}},
        {"stringData": ["hunter2hunter2"]},
    ]
    for part in broken:
        for write in (cluster.client.apply, cluster.client.create):
            with pytest.raises(errors.SchemaError) as caught:
                await write(SECRETS, secret | part)
            assert "hunter2" not in f"{caught.value} {caught.value.hint} {caught.value.causes}"


@pytest.mark.parametrize("count", [40])
async def test_many_writes_at_once(count: int, cluster: Cluster, namespace: str) -> None:
    """A burst beyond the eight places ends with every object in place."""
    bodies = [config_map(namespace, f"c{number}") for number in range(count)]

    await asyncio.gather(*(cluster.client.apply(CONFIG_MAPS, body) for body in bodies))

    assert len((await cluster.client.list(CONFIG_MAPS, namespace, fields="metadata.name!=kube-root-ca.crt")).items) >= count


async def test_what_we_may_do(cluster: Cluster, limited: Cluster) -> None:
    """Access reviews tell an administrator from a user without permissions, and who we are."""
    wanted = access.Access("patch", "apps", "deployments", "default")

    assert await access.may(cluster.client, wanted)
    assert not await access.may(limited.client, wanted)
    assert not await access.may(limited.client, access.Access("get", "apps", "deployments/scale", "default", "web"))
    assert await access.user_name(limited.client) == "limited"
    assert limited.client.meter.counts.writes == 0


async def test_a_refused_write_names_its_rule(limited: Cluster) -> None:
    """Each verb's refusal carries the rule that would allow it."""
    with pytest.raises(errors.RbacError) as patching:
        await limited.client.apply(DEPLOYMENTS, deployment("default"))
    with pytest.raises(errors.RbacError) as deleting:
        await limited.client.delete(DEPLOYMENTS, "default", "web", uid=SOMEBODY)

    assert (patching.value.verb, deleting.value.verb) == ("patch", "delete")
    assert 'apiGroups: ["apps"], resources: ["deployments"], verbs: ["patch"]' in patching.value.hint


@pytest.mark.parametrize(
    ("type", "namespace", "name", "message"),
    [
        (CONFIG_MAPS, "", "a", "needs a namespace"),
        (NAMESPACES, "a", "b", "cluster-scoped"),
        (CONFIG_MAPS, "a", "", "no name"),
        (CONFIG_MAPS, "a", "../secrets/x", "no name"),
        (CONFIG_MAPS, "..", "x", "no name"),
        (CONFIG_MAPS, "a", "x%2fy", "no name"),
    ],
)
async def test_names_cannot_lead_elsewhere(type: ResourceType, namespace: str, name: str, message: str, client: Any) -> None:
    """A name that isn't one is refused before anything is sent."""
    with pytest.raises(errors.ClusterError, match=message) as caught:
        await client.get(type, namespace, name)

    assert caught.value.code == "input.address"
    assert client.meter.counts.reads == 0


async def test_roles_keep_their_colons(cluster: Cluster) -> None:
    """Names with characters that need quoting are found."""
    roles = await cluster.discovery.resource_for(kind("rbac.authorization.k8s.io/ClusterRole"))
    made = await cluster.client.apply(
        roles,
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "test:a-b"},
            "rules": [],
        },
    )
    read = await cluster.client.get(roles, "", "test:a-b")
    await cluster.client.delete(roles, "", "test:a-b", uid=metadata(made)["uid"])

    assert metadata(read)["uid"] == metadata(made)["uid"]
