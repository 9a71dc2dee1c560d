"""One kind that can't be read must not stop the rest: partial permissions, broken webhooks, groups that are away.

What the client owes to a sync that may read only some things: each refusal is its own error, at once, and names what is
missing; nothing else is affected.
"""

import asyncio

import pytest

from delegate.engine.clusters import errors
from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.registry import Cluster
from delegate.foundation.errors import Category
from delegate.model.resource_types import CONFIG_MAPS, DEPLOYMENTS, SECRETS
from delegate.model.resources import GroupKind, JsonObject, ResourceType
from tests.cluster.servers import config_map, kind
from tests.fakes.flaky_api import FlakyApi, reply, status_body

_RBAC = "rbac.authorization.k8s.io"
_WIDGETS = ResourceType(group="broken.example.test", version="v1", kind="Widget", plural="widgets", namespaced=True)


@pytest.fixture
async def partly(cluster: Cluster, limited: Cluster, namespace: str) -> ApiClient:
    """A user who may list and write ConfigMaps in the test's namespace, and only get Secrets there."""
    rules = [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "patch", "create"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]},
    ]
    metadata = {"name": "partly", "namespace": namespace}
    role = {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": metadata, "rules": rules}
    binding = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": "partly"},
        "subjects": [{"kind": "User", "name": "limited", "apiGroup": _RBAC}],
    }
    for body in (role, binding):
        await cluster.client.apply(await cluster.discovery.resource_for(kind(f"{_RBAC}/{body['kind']}")), body)
    async with asyncio.timeout(20):
        while True:
            try:
                await limited.client.list(CONFIG_MAPS, namespace)
                break
            except errors.RbacError:
                await asyncio.sleep(0.05)
    return limited.client


async def test_a_kind_that_may_only_be_read_one_by_one(partly: ApiClient, cluster: Cluster, namespace: str) -> None:
    """ConfigMaps by list, Secrets by get: the refused list says which rule is missing, and the get works."""
    secret: JsonObject = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "b", "namespace": namespace}, "data": {}}
    await cluster.client.apply(SECRETS, secret)
    await partly.apply(CONFIG_MAPS, config_map(namespace))

    listed = await partly.list(CONFIG_MAPS, namespace, fields="metadata.name=a")
    with pytest.raises(errors.RbacError) as caught:
        await partly.list(SECRETS, namespace)
    one = await partly.get_metadata(SECRETS, namespace, "b")

    assert [item["metadata"]["name"] for item in listed.items] == ["a"]
    assert (caught.value.verb, caught.value.resource, caught.value.namespace) == ("list", "secrets", namespace)
    assert one["metadata"]["name"] == "b"


async def test_other_namespaces_and_the_whole_cluster_stay_closed(partly: ApiClient) -> None:
    """A Role ends at its namespace: each refusal says at which scope the permission is missing, and isn't tried again."""
    before = partly.meter.counts.reads
    with pytest.raises(errors.RbacError) as elsewhere:
        await partly.list(CONFIG_MAPS, "default")
    with pytest.raises(errors.RbacError) as everywhere:
        await partly.list(CONFIG_MAPS)

    assert elsewhere.value.namespace == "default"
    assert "Role in namespace default" in elsewhere.value.hint
    assert everywhere.value.namespace == ""
    assert "ClusterRole" in everywhere.value.hint
    assert partly.meter.counts.reads == before + 2


async def test_a_namespace_that_is_gone_is_forbidden_to_whoever_had_only_it(limited: Cluster) -> None:
    """With the namespace went the binding: 403, not 404; the error is one of permission and names the namespace."""
    with pytest.raises(errors.RbacError) as caught:
        await limited.client.get(CONFIG_MAPS, "gone", "a")

    assert caught.value.namespace == "gone"
    assert caught.value.category is Category.PERMISSION


async def test_a_write_that_is_not_allowed_beside_one_that_is(partly: ApiClient, namespace: str) -> None:
    """The permitted write goes through, the other one names its rule; a dry run tells both before."""
    deployment: JsonObject = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {},
    }
    outcomes = await asyncio.gather(
        partly.apply(CONFIG_MAPS, config_map(namespace), dry_run=True),
        partly.apply(DEPLOYMENTS, deployment, dry_run=True),
        return_exceptions=True,
    )

    assert not isinstance(outcomes[0], BaseException)
    assert isinstance(outcomes[1], errors.RbacError)
    assert 'apiGroups: ["apps"], resources: ["deployments"], verbs: ["patch"]' in outcomes[1].hint


async def test_a_definition_whose_conversion_webhook_is_down(flaky: FlakyApi, client: ApiClient) -> None:
    """Its own kind is a dependency that is away; every other kind is read."""
    message = 'conversion webhook for broken.example.test/v1, Kind=Widget failed: Post "https://w.svc/c": no endpoints available'
    flaky.add(reply(500, status_body(500, "InternalError", message)), path="/apis/broken.example.test", times=9)
    flaky.add(reply(200, {"kind": "ConfigMapList", "metadata": {}, "items": []}), path="/api/v1/", times=9)

    broken, good = await asyncio.gather(client.list(_WIDGETS, "demo"), client.list(CONFIG_MAPS, "demo"), return_exceptions=True)

    assert isinstance(broken, errors.WebhookUnreachableError)
    assert broken.category is Category.DEPENDENCY
    assert "broken.example.test/v1, Kind=Widget" in broken.webhook
    assert not isinstance(good, BaseException)


@pytest.mark.only_real("needs the aggregation layer")
async def test_an_aggregated_group_whose_server_is_away(cluster: Cluster, namespace: str) -> None:
    """Discovery of a real control plane with an API service that nobody serves: the rest is known, that group waits."""
    group = f"{namespace}.example.com"
    services = await cluster.discovery.resource_for(kind("apiregistration.k8s.io/APIService"))
    spec = {"group": group, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10, "insecureSkipTLSVerify": True}
    spec["service"] = {"namespace": namespace, "name": "nowhere"}
    body = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": f"v1.{group}"}, "spec": spec}
    made = await cluster.client.apply(services, body)
    try:
        async with asyncio.timeout(30):
            while True:
                cluster.discovery.invalidate()
                if group in await cluster.discovery.unavailable_groups():
                    break
                await asyncio.sleep(0.1)
        with pytest.raises(errors.GroupUnavailableError) as caught:
            await cluster.discovery.resource_for(GroupKind(group, "Thing"))
        assert (await cluster.discovery.resource_for(kind("apps/Deployment"))).plural == "deployments"
        assert caught.value.retryable
    finally:
        await cluster.client.delete(services, "", f"v1.{group}", uid=made["metadata"]["uid"])
