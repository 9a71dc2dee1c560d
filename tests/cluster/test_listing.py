"""Lists come in pages, whole, each object once, whatever happens between the pages."""

import asyncio
from typing import Any

import pytest
from aiohttp import web

from delegate.engine.clusters import errors, listing
from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.registry import Cluster
from delegate.model.resource_types import CONFIG_MAPS, NAMESPACES
from delegate.model.resources import JsonObject
from tests.cluster.servers import config_map
from tests.fakes.flaky_api import FlakyApi, reply, status_body

EXPIRED = status_body(410, "Expired", "The provided continue parameter is too old to display a consistent list result.")


def page(names: list[str], *, token: str = "", version: str = "9") -> JsonObject:
    items = [{"metadata": {"name": name, "namespace": "demo", "uid": f"uid-{name}", "resourceVersion": "1"}} for name in names]
    metadata = {"resourceVersion": version} | ({"continue": token} if token else {})
    return {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": metadata, "items": items}


def names(found: listing.Listing) -> list[str]:
    return [item["metadata"]["name"] for item in found.items]


async def test_pages_are_joined(flaky: FlakyApi, client: ApiClient) -> None:
    """Every page is fetched with the token of the one before; items carry their kind."""
    flaky.add(reply(200, page(["a", "b"], token="t1")))
    flaky.add(reply(200, page(["c"], token="t2")))
    flaky.add(reply(200, page(["d"], version="12")))

    found = await client.list(CONFIG_MAPS, "demo", labels="app=x", fields="metadata.name!=y")

    assert names(found) == ["a", "b", "c", "d"]
    assert found.resource_version == "12"
    assert {(item["apiVersion"], item["kind"]) for item in found.items} == {("v1", "ConfigMap")}
    assert [request.query.get("continue") for request in flaky.seen] == [None, "t1", "t2"]
    assert all(request.query["labelSelector"] == "app=x" and request.query["limit"] == "500" for request in flaky.seen)
    assert all(request.query["fieldSelector"] == "metadata.name!=y" for request in flaky.seen)


async def test_metadata_alone(flaky: FlakyApi, client: ApiClient) -> None:
    """Metadata lists ask for PartialObjectMetadata and name the objects by their own kind."""
    flaky.add(reply(200, page(["a"]) | {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}))

    found = await client.list(CONFIG_MAPS, metadata_only=True)

    assert flaky.seen[0].path == "/api/v1/configmaps"
    assert flaky.seen[0].headers["Accept"] == "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    assert found.items[0]["kind"] == "ConfigMap"


async def test_a_forgotten_page_token_restarts_the_list(flaky: FlakyApi, client: ApiClient) -> None:
    """410 on a continue token: the list begins again, and nothing is there twice."""
    flaky.add(reply(200, page(["a", "b"], token="t1")))
    flaky.add(reply(410, EXPIRED))
    flaky.add(reply(200, page(["a", "b", "c"], token="t2")))
    flaky.add(reply(200, page(["d"])))

    assert names(await client.list(CONFIG_MAPS, "demo")) == ["a", "b", "c", "d"]


async def test_tokens_that_are_always_forgotten_end_in_one_answer(flaky: FlakyApi, client: ApiClient) -> None:
    """After two restarts the list is read from the server's cache, without pages: that needs no token."""
    for _ in range(3):
        flaky.add(reply(200, page(["a"], token="t")))
        flaky.add(reply(410, EXPIRED))
    flaky.add(reply(200, page(["a", "b", "c"])))

    assert names(await client.list(CONFIG_MAPS, "demo")) == ["a", "b", "c"]
    assert flaky.count() == 7
    assert flaky.seen[-1].query == {"resourceVersion": "0"}


async def test_a_410_without_a_token_is_an_error(flaky: FlakyApi, client: ApiClient) -> None:
    """A list that never began can't be restarted for ever."""
    flaky.add(reply(410, EXPIRED), times=99)

    with pytest.raises(errors.ExpiredError):
        await client.list(CONFIG_MAPS, "demo")

    assert flaky.count() == 1


async def test_a_list_has_a_limit(flaky: FlakyApi, client: ApiClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit a list is refused rather than held."""
    monkeypatch.setattr(listing, "MOST_OBJECTS", 3)
    flaky.add(reply(200, page(["a", "b"], token="t")), times=9)

    with pytest.raises(errors.AnswerTooLargeError, match="more than 3 configmaps"):
        await client.list(CONFIG_MAPS, "demo")


async def test_sixty_thousand_objects_whose_token_expires(flaky: FlakyApi, client: ApiClient) -> None:
    """A list of 60,000 that is interrupted on its fourth page comes whole, from metadata."""
    total, restarted = 60_000, False

    async def answer(api: FlakyApi, request: web.Request, body: bytes) -> web.StreamResponse:
        nonlocal restarted
        start, size = int(request.query.get("continue", "0")), int(request.query["limit"])
        if start == 3 * size and not restarted:
            restarted = True
            return await reply(410, EXPIRED)(api, request, body)
        end = min(total, start + size)
        return await reply(200, page([f"n{i}" for i in range(start, end)], token=str(end) if end < total else ""))(api, request, body)

    flaky.add(answer, times=10**6)

    found = await client.list(CONFIG_MAPS, metadata_only=True)

    assert len({item["metadata"]["name"] for item in found.items}) == len(found.items) == total


async def test_paging_through_a_running_cluster(cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of two, with a selector by label and one by field."""
    monkeypatch.setattr(listing, "PAGE_SIZE", 2)
    bodies = [config_map(namespace, f"c{number}", labels={"grp": "l", "odd": str(number % 2)}) for number in range(5)]
    await asyncio.gather(*(cluster.client.apply(CONFIG_MAPS, body) for body in bodies))

    whole = await cluster.client.list(CONFIG_MAPS, namespace, labels="grp=l")
    even = await cluster.client.list(CONFIG_MAPS, namespace, labels="grp in (l,m),odd!=1")
    one = await cluster.client.list(CONFIG_MAPS, namespace, labels="grp", fields="metadata.name=c3")
    everywhere = await cluster.client.list(CONFIG_MAPS, labels="grp=l", metadata_only=True)

    assert names(whole) == ["c0", "c1", "c2", "c3", "c4"]
    assert names(even) == ["c0", "c2", "c4"]
    assert names(one) == ["c3"]
    ours: list[Any] = [item for item in everywhere.items if item["metadata"]["namespace"] == namespace]
    assert len(ours) == 5
    assert "data" not in ours[0]
    assert ours[0]["metadata"]["managedFields"][0]["manager"] == "delegate"
    assert whole.resource_version


async def test_a_bad_selector(cluster: Cluster, namespace: str) -> None:
    """A selector that can't be parsed is input, not an accident."""
    with pytest.raises(errors.SchemaError, match="unable to parse"):
        await cluster.client.list(CONFIG_MAPS, namespace, labels="bad selector (")


async def test_a_list_that_is_not_allowed_names_the_rule(limited: Cluster) -> None:
    """The limited user is told which rule is missing, at the scope that was asked for."""
    with pytest.raises(errors.RbacError) as namespaced:
        await limited.client.list(CONFIG_MAPS, "default")
    with pytest.raises(errors.RbacError) as everywhere:
        await limited.client.list(NAMESPACES)

    assert (namespaced.value.verb, namespaced.value.resource, namespaced.value.namespace) == ("list", "configmaps", "default")
    assert "ClusterRole" in everywhere.value.hint
