"""Kinds are found where the server says they are, and one group that is away hides no other."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from delegate.engine.clusters import errors
from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.discovery import Discovery
from delegate.engine.clusters.registry import Cluster
from delegate.model.resources import GroupKind, JsonObject
from tests.cluster.recordings import recorded
from tests.cluster.servers import client_of, config_map, kind
from tests.fakes.flaky_api import FlakyApi, html, reply, status_body
from tests.foundation.clocks import ManualClock

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
RECORDED = [answer for answer in recorded("discovery") if isinstance(answer.body, dict)]


def recorded_body(path: str, answer_kind: str) -> JsonObject:
    for answer in RECORDED:
        if answer.path == path and isinstance(answer.body, dict) and answer.body.get("kind") == answer_kind:
            return answer.body
    raise AssertionError(f"{path} with {answer_kind} isn't recorded")


def answer_aggregated(flaky: FlakyApi, *, times: int = 1, **headers: str) -> None:
    for path in ("/api", "/apis"):
        body = recorded_body(path, "APIGroupDiscoveryList")
        flaky.add(reply(200, body, content_type=AGGREGATED, **headers), path=path, exact=True, times=times)


def answer_legacy(flaky: FlakyApi, *, broken: str = "", times: int = 99) -> None:
    """A small server of the older form: core/v1, apps/v1, batch with two versions, and a metrics group."""
    things = [{"name": "things", "kind": "Thing", "namespaced": True, "verbs": ["get"]}]
    flaky.add(reply(200, recorded_body("/api/v1", "APIResourceList")), path="/api/v1", exact=True, times=times)
    flaky.add(reply(200, recorded_body("/api", "APIVersions")), path="/api", exact=True, times=times)
    bodies: dict[str, Any] = {
        "apps/v1": recorded_body("/apis/apps/v1", "APIResourceList"),
        "batch/v1": {"resources": things},
        "batch/v1beta1": {"resources": [*things, {"name": "olds", "kind": "Old", "namespaced": False, "verbs": []}]},
        "metrics.k8s.io/v1beta1": {"resources": [{"name": "pods", "kind": "PodMetrics", "namespaced": True, "verbs": ["get"]}]},
    }
    for group_version, body in bodies.items():
        good = group_version.partition("/")[0] != broken
        fault = reply(200, body) if good else reply(503, status_body(503, "ServiceUnavailable", "the server is currently unable"))
        flaky.add(fault, path=f"/apis/{group_version}", exact=True, times=times)
    groups = [
        {"name": "apps", "versions": [{"version": "v1"}], "preferredVersion": {"version": "v1"}},
        {"name": "batch", "versions": [{"version": "v1beta1"}, {"version": "v1"}], "preferredVersion": {"version": "v1"}},
        {"name": "metrics.k8s.io", "versions": [{"version": "v1beta1"}], "preferredVersion": {"version": "v1beta1"}},
    ]
    flaky.add(reply(200, {"kind": "APIGroupList", "groups": groups}), path="/apis", exact=True, times=times)


@pytest.fixture
async def discovery(flaky: FlakyApi, clock: ManualClock) -> AsyncIterator[Discovery]:
    async with client_of(flaky.url, clock=clock) as client:
        yield Discovery(client, clock=clock)


async def test_aggregated_discovery_takes_two_requests(flaky: FlakyApi, discovery: Discovery) -> None:
    """All kinds of a real server from two answers, with scope, verbs and subresources."""
    answer_aggregated(flaky)

    deployments = await discovery.resource_for(GroupKind("apps", "Deployment"))
    namespaces = await discovery.resource_for(GroupKind("", "Namespace"))
    scopes = await discovery.scopes()

    assert (deployments.version, deployments.plural, deployments.namespaced) == ("v1", "deployments", True)
    assert deployments.subresources == {"scale", "status"}
    assert {"patch", "watch"} <= deployments.verbs
    assert not namespaces.namespaced
    assert scopes[GroupKind("rbac.authorization.k8s.io", "ClusterRole")] is False
    assert scopes[GroupKind("", "ConfigMap")] is True
    assert flaky.count() == 2


async def test_the_preferred_version_and_any_other(flaky: FlakyApi, discovery: Discovery) -> None:
    """Without a version the preferred one, with one that one."""
    answer_aggregated(flaky)
    scaler = GroupKind("autoscaling", "HorizontalPodAutoscaler")

    assert (await discovery.resource_for(scaler)).version == "v2"
    assert (await discovery.resource_for(scaler, "v1")).version == "v1"


async def test_a_server_without_the_aggregated_form(flaky: FlakyApi, discovery: Discovery) -> None:
    """The older form gives the same answers, with one request for each group and version."""
    answer_legacy(flaky)

    deployments = await discovery.resource_for(GroupKind("apps", "Deployment"))
    thing = await discovery.resource_for(GroupKind("batch", "Thing"))
    old = await discovery.resource_for(GroupKind("batch", "Old"))

    assert deployments.subresources == {"scale", "status"}
    assert thing.version == "v1"
    assert (old.version, old.namespaced) == ("v1beta1", False)


async def test_a_broken_group_hides_no_other(flaky: FlakyApi, discovery: Discovery) -> None:
    """503 for one group: the others are known, its kinds raise what they wait for."""
    answer_legacy(flaky, broken="metrics.k8s.io")

    assert (await discovery.resource_for(GroupKind("apps", "Deployment"))).plural == "deployments"
    with pytest.raises(errors.GroupUnavailableError, match="currently unable") as caught:
        await discovery.resource_for(GroupKind("metrics.k8s.io", "PodMetrics"))
    assert caught.value.retryable
    assert await discovery.unavailable_groups() == {"metrics.k8s.io": "the server is currently unable"}


async def test_a_stale_group_of_the_aggregated_form(flaky: FlakyApi, discovery: Discovery) -> None:
    """`freshness: Stale` is how the aggregated form says that a group is away."""
    stale = {"metadata": {"name": "metrics.k8s.io"}, "versions": [{"version": "v1beta1", "resources": [], "freshness": "Stale"}]}
    for path in ("/api", "/apis"):
        flaky.add(reply(200, {"kind": "APIGroupDiscoveryList", "items": [stale]}, content_type=AGGREGATED), path=path, exact=True, times=9)

    with pytest.raises(errors.GroupUnavailableError, match=r"metrics\.k8s\.io"):
        await discovery.resource_for(GroupKind("metrics.k8s.io", "PodMetrics"))


async def test_a_group_that_came_back_is_noticed(flaky: FlakyApi, discovery: Discovery, clock: ManualClock) -> None:
    """A broken group is asked about again when it is wanted, not at every call."""
    answer_legacy(flaky, broken="metrics.k8s.io")
    metrics = GroupKind("metrics.k8s.io", "PodMetrics")
    with pytest.raises(errors.GroupUnavailableError):
        await discovery.resource_for(metrics)
    flaky.forget()
    answer_legacy(flaky)
    await clock.sleep(6)

    assert (await discovery.resource_for(metrics)).plural == "pods"


async def test_an_unknown_kind_says_what_is_served_instead(flaky: FlakyApi, discovery: Discovery, clock: ManualClock) -> None:
    """Another version, a similar kind, or the advice to apply the definition."""
    answer_aggregated(flaky, times=9)
    with pytest.raises(errors.UnknownKindError, match="HorizontalPodAutoscaler in version v2beta2") as version:
        await discovery.resource_for(GroupKind("autoscaling", "HorizontalPodAutoscaler"), "v2beta2")
    await clock.sleep(1)
    with pytest.raises(errors.UnknownKindError) as similar:
        await discovery.resource_for(GroupKind("apps", "Deploymnet"))
    await clock.sleep(1)
    with pytest.raises(errors.UnknownKindError) as other:
        await discovery.resource_for(GroupKind("example.com", "Widget"))

    assert "serves it in v2, v1" in version.value.hint
    assert "did you mean apps/Deployment?" in similar.value.hint
    assert "CustomResourceDefinition" in other.value.hint


async def test_an_unknown_kind_is_looked_up_once_more(flaky: FlakyApi, discovery: Discovery, clock: ManualClock) -> None:
    """A definition that was applied meanwhile is found, with one look for all who ask at once."""
    answer_aggregated(flaky)
    await discovery.scopes()
    await clock.sleep(1)
    widgets = {
        "metadata": {"name": "example.com"},
        "versions": [{"version": "v1", "resources": [{"resource": "widgets", "responseKind": {"kind": "Widget"}, "scope": "Namespaced"}]}],
    }
    for path in ("/api", "/apis"):
        flaky.add(reply(200, {"kind": "APIGroupDiscoveryList", "items": [widgets]}, content_type=AGGREGATED), path=path, exact=True)

    found = await asyncio.gather(*(discovery.resource_for(GroupKind("example.com", "Widget")) for _ in range(20)))

    assert {each.plural for each in found} == {"widgets"}
    assert flaky.count() == 4


async def test_an_invalidated_group_is_read_anew(flaky: FlakyApi, discovery: Discovery, clock: ManualClock) -> None:
    """After a change to a definition, its group is asked about again; others are not."""
    answer_aggregated(flaky, times=9)
    await discovery.scopes()
    discovery.invalidate("apps")
    await discovery.resource_for(GroupKind("", "ConfigMap"))
    assert flaky.count() == 2
    await clock.sleep(1)
    await discovery.resource_for(GroupKind("apps", "Deployment"))
    assert flaky.count() == 4
    await discovery.resource_for(GroupKind("apps", "Deployment"))
    assert flaky.count() == 4


async def test_what_is_known_gets_old(flaky: FlakyApi, discovery: Discovery, clock: ManualClock) -> None:
    """After ten minutes it is read again, with an etag where the server gave one."""
    answer_aggregated(flaky, ETag='"v1"')
    await discovery.scopes()
    await clock.sleep(599)
    await discovery.scopes()
    assert flaky.count() == 2
    flaky.add(reply(304, b""), times=2)
    await clock.sleep(2)

    scopes = await discovery.scopes()

    assert scopes[GroupKind("", "ConfigMap")] is True
    assert [request.headers.get("If-None-Match") for request in flaky.seen] == [None, None, '"v1"', '"v1"']


async def test_a_server_that_answers_html(flaky: FlakyApi, client: ApiClient) -> None:
    """Discovery against something else than an API server names the address."""
    flaky.add(html(), times=9)

    with pytest.raises(errors.NotJsonError, match=r"Sign in"):
        await Discovery(client).scopes()


async def test_the_kinds_of_a_running_cluster(cluster: Cluster) -> None:
    """What every cluster serves is found, namespaced or not."""
    scopes = await cluster.discovery.scopes()

    for text, namespaced in {
        "ConfigMap": True, "Secret": True, "Namespace": False, "apps/Deployment": True, "batch/Job": True,
        "rbac.authorization.k8s.io/ClusterRole": False, "apiextensions.k8s.io/CustomResourceDefinition": False,
    }.items():  # fmt: skip
        assert scopes[kind(text)] is namespaced, text


async def test_a_kind_that_is_defined_while_we_look(cluster: Cluster, namespace: str) -> None:
    """A definition is unknown before it is applied, then served; its objects can be written and its group ends with it."""
    group = f"{namespace}.example.com"
    widget = GroupKind(group, "Widget")
    with pytest.raises(errors.UnknownKindError):
        await cluster.discovery.resource_for(widget)
    definitions = await cluster.discovery.resource_for(kind("apiextensions.k8s.io/CustomResourceDefinition"))
    definition = await cluster.client.apply(definitions, _definition(group))
    try:
        widgets = await _served(cluster, widget)
        made = await cluster.client.apply(
            widgets, {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": namespace}, "spec": {"size": 1}}
        )
        assert made["spec"] == {"size": 1}
        assert widgets.namespaced
    finally:
        await cluster.client.delete(definitions, "", f"widgets.{group}", uid=definition["metadata"]["uid"])


async def _served(cluster: Cluster, group_kind: GroupKind) -> Any:
    async with asyncio.timeout(20):
        while True:
            cluster.discovery.invalidate(group_kind.group)
            try:
                found = await cluster.discovery.resource_for(group_kind)
                await cluster.client.list(found, "default")
                return found
            except errors.UnknownKindError:
                await asyncio.sleep(0.05)


def _definition(group: str) -> JsonObject:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


async def test_a_limited_user_may_discover_too(limited: Cluster) -> None:
    """Discovery needs no permission; anything else does."""
    config_maps = await limited.discovery.resource_for(GroupKind("", "ConfigMap"))

    with pytest.raises(errors.RbacError, match="cannot patch resource"):
        await limited.client.apply(config_maps, config_map("default"))
