"""Reading: discovery, health, lists in pages and selections, versions, and the forms that clients ask for."""

import asyncio
from typing import Any

import pytest

from tests.simulator.clients import PARTIAL, PARTIAL_LIST, TABLE, Client, config_map, pod

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


async def maps(client: Client, place: str, *names: str, **metadata: Any) -> None:
    for name in names:
        answer = await client.post(f"/api/v1{place}/configmaps", config_map(name, {"k": "v"}, **metadata))
        assert answer.status == 201


def names(listed: Any) -> list[str]:
    """Without what every namespace has."""
    found = [item["metadata"]["name"] for item in listed["items"]]
    return [name for name in found if name not in ("kube-root-ca.crt", "openshift-service-ca.crt")]


async def test_both_forms_of_discovery_tell_the_same(admin: Client) -> None:
    """Kinds, scopes, verbs and subresources of every version, whichever way they are asked for."""
    for root in ("/api", "/apis"):
        aggregated = await admin.send("GET", root, accept=AGGREGATED)
        assert aggregated.headers["Content-Type"].startswith("application/json;g=apidiscovery.k8s.io;v=v2")
        for group in aggregated.body["items"]:
            for version in group["versions"]:
                name = group["metadata"].get("name")
                place = f"/apis/{name}/{version['version']}" if name else f"/api/{version['version']}"
                assert told(version["resources"]) == listed((await admin.get(place))["resources"]), place


def told(resources: Any) -> dict[str, Any]:
    """What aggregated discovery says: kind, scope, verbs, short names and subresources of each resource."""
    return {
        item["resource"]: (
            item["responseKind"]["kind"],
            item["scope"] == "Namespaced",
            sorted(item["verbs"]),
            item.get("shortNames", []),
            sorted(sub["subresource"] for sub in item.get("subresources", ())),
        )
        for item in resources
    }


def listed(resources: Any) -> dict[str, Any]:
    """The same of a version's resource list."""
    whole = [item for item in resources if "/" not in item["name"]]
    below = [item["name"].split("/", 1) for item in resources if "/" in item["name"]]
    return {
        item["name"]: (
            item["kind"],
            item["namespaced"],
            sorted(item["verbs"]),
            item.get("shortNames", []),
            sorted(sub for name, sub in below if name == item["name"]),
        )
        for item in whole
    }


async def test_says_its_version(admin: Client) -> None:
    """1.36, in the form that clients parse."""
    version = await admin.get("/version")

    assert (version["major"], version["minor"]) == ("1", "36")
    assert version["gitVersion"].startswith("v1.36.")


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/healthz/ping", "/livez/ping", "/readyz/ping"])
async def test_is_healthy(path: str, admin: Client) -> None:
    """The probes answer plain text."""
    answer = await admin.send("GET", path)

    assert (answer.status, answer.body) == (200, "ok")


async def test_a_list_comes_in_pages(admin: Client, place: str) -> None:
    """All pages show the state of the first, whatever changes meanwhile; each says how many are left."""
    path = f"/api/v1{place}/configmaps"
    await maps(admin, place, "a", "b", "c", "d", "e")
    first = await admin.get(path, limit="2")
    await admin.delete(f"{path}/e")
    await maps(admin, place, "bb")
    pages, page = [first], first
    while page["metadata"].get("continue"):
        page = await admin.get(path, limit="2", **{"continue": page["metadata"]["continue"]})
        pages.append(page)

    assert [name for page in pages for name in names(page)] == ["a", "b", "c", "d", "e"]
    assert {page["metadata"]["resourceVersion"] for page in pages} == {first["metadata"]["resourceVersion"]}
    total = sum(len(page["items"]) for page in pages)
    assert first["metadata"]["remainingItemCount"] == total - 2
    assert "remainingItemCount" not in pages[-1]["metadata"]


async def test_pages_of_a_selection_say_nothing_of_the_rest(admin: Client, place: str) -> None:
    """How many of the remaining objects match is not known to the server."""
    await maps(admin, place, "a", "b", "c", labels={"app": "x"})
    page = await admin.get(f"/api/v1{place}/configmaps", limit="1", labelSelector="app=x")

    assert names(page) == ["a"]
    assert page["metadata"]["continue"]
    assert "remainingItemCount" not in page["metadata"]


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"continue": "garbage"}, "BadRequest"),
        ({"labelSelector": "a in b"}, "BadRequest"),
        ({"labelSelector": "=="}, "BadRequest"),
        ({"labelSelector": "a=b c"}, "BadRequest"),
        ({"labelSelector": "a=-b"}, "BadRequest"),
        ({"fieldSelector": "data.k=v"}, "BadRequest"),
        ({"fieldSelector": "metadata.name"}, "BadRequest"),
        ({"resourceVersion": "x"}, "BadRequest"),
        ({"resourceVersionMatch": "Exact"}, "Invalid"),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, "Invalid"),
        ({"resourceVersionMatch": "Sometimes", "resourceVersion": "1"}, "Invalid"),
        ({"sendInitialEvents": "true"}, "Invalid"),
        ({"limit": "x"}, "BadRequest"),
    ],
)
async def test_refuses_what_makes_no_sense_in_a_list(params: dict[str, str], reason: str, admin: Client) -> None:
    """Selectors, versions and numbers that can't be read or don't go together."""
    answer = await admin.send("GET", "/api/v1/namespaces/default/configmaps", **params)

    assert (answer.status, answer.body["reason"]) == (422 if reason == "Invalid" else 400, reason)


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("tier=front", ["a"]),
        ("tier==front", ["a"]),
        ("tier!=front", ["b", "c", "d"]),
        ("tier in (front,back)", ["a", "b"]),
        ("tier notin (front)", ["b", "c", "d"]),
        ("tier", ["a", "b"]),
        ("!tier", ["c", "d"]),
        ("tier,env=dev", ["a"]),
        ("env in (dev),tier!=front", ["c"]),
        ("tier=", []),
        ("empty=", ["d"]),
        ("n>3", ["b"]),
        ("n<4", ["a"]),
        ("tier in (front),tier in (back)", []),
        ("example.com/part-of=x", ["d"]),
    ],
)
async def test_selects_by_labels(selector: str, found: list[str], admin: Client, place: str) -> None:
    """Equality, sets, existence, numbers, and all of them together."""
    await maps(admin, place, "a", labels={"tier": "front", "env": "dev", "n": "3"})
    await maps(admin, place, "b", labels={"tier": "back", "n": "4"})
    await maps(admin, place, "c", labels={"env": "dev"})
    await maps(admin, place, "d", labels={"empty": "", "example.com/part-of": "x"})

    assert names(await admin.get(f"/api/v1{place}/configmaps", labelSelector=selector)) == found


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("metadata.name=a", ["a"]),
        ("metadata.name!=a", ["b"]),
        ("metadata.name=a,metadata.name=b", []),
        ("spec.nodeName=", ["a", "b"]),
        ("spec.nodeName!=", []),
        ("spec.restartPolicy=Never", ["b"]),
        ("status.phase=Pending", ["a", "b"]),
        ("status.phase!=Pending", []),
        ("spec.serviceAccountName=default", ["a", "b"]),
        ("spec.schedulerName=nobody", ["a", "b"]),
        ("spec.hostNetwork=true", []),
    ],
)
async def test_selects_pods_by_fields(selector: str, found: list[str], admin: Client, place: str) -> None:
    """The fields that Pods can be selected by; these two wait for a scheduler that isn't there."""
    for name, policy in (("a", "Always"), ("b", "Never")):
        gates = [{"name": "example.com/wait"}]
        made = await admin.post(f"/api/v1{place}/pods", pod(name, restartPolicy=policy, schedulerName="nobody", schedulingGates=gates))
        assert made.status == 201, made.body

    assert names(await admin.get(f"/api/v1{place}/pods", fieldSelector=selector)) == found


async def test_lists_as_of_a_version(admin: Client, place: str) -> None:
    """Exact shows the past, NotOlderThan the present, a version from the future none."""
    path = f"/api/v1{place}/configmaps"
    await maps(admin, place, "a")
    past = (await admin.get(path))["metadata"]["resourceVersion"]
    await maps(admin, place, "b")
    now = (await admin.get(path))["metadata"]["resourceVersion"]

    exact = await admin.get(path, resourceVersion=past, resourceVersionMatch="Exact")
    assert names(exact) == ["a"]
    assert exact["metadata"]["resourceVersion"] == past
    fresh = await admin.get(path, resourceVersion=past, resourceVersionMatch="NotOlderThan")
    assert names(fresh) == ["a", "b"]
    assert int(fresh["metadata"]["resourceVersion"]) >= int(now)
    assert names(await admin.get(path, resourceVersion="0")) == ["a", "b"]
    assert names(await admin.get(path, resourceVersion=past)) == ["a", "b"]
    future = await admin.send("GET", path, resourceVersion=str(int(now) + 100_000))
    assert (future.status, future.body["reason"]) == (504, "Timeout")
    assert future.body["details"]["causes"] == [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]


async def test_a_page_of_the_past(admin: Client, place: str) -> None:
    """Exact with a limit pages through the old state."""
    path = f"/api/v1{place}/configmaps"
    await maps(admin, place, "a", "b")
    past = (await admin.get(path))["metadata"]["resourceVersion"]
    await maps(admin, place, "aa")
    first = await admin.get(path, resourceVersion=past, resourceVersionMatch="Exact", limit="1")
    second = await admin.get(path, limit="1", **{"continue": first["metadata"]["continue"]})

    assert names(first) + names(second) == ["a", "b"]
    with_both = await admin.send("GET", path, limit="1", resourceVersion=past, **{"continue": first["metadata"]["continue"]})
    assert with_both.status == 400


async def test_metadata_alone(admin: Client, place: str) -> None:
    """Objects and lists as PartialObjectMetadata: everything in the metadata, ownership too, and nothing else."""
    path = f"/api/v1{place}/configmaps"
    await maps(admin, place, "a", labels={"app": "x"})
    whole = await admin.get(f"{path}/a")
    one = (await admin.send("GET", f"{path}/a", accept=PARTIAL)).body
    listed = (await admin.send("GET", path, accept=PARTIAL_LIST, labelSelector="app=x")).body

    assert one == {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": whole["metadata"]}
    assert (listed["kind"], listed["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert [item["metadata"] for item in listed["items"]] == [whole["metadata"]]
    assert not any("data" in item for item in listed["items"])


async def test_writes_answer_metadata_alone_too(admin: Client, place: str) -> None:
    """An apply that asks for it gets no more than the metadata back."""
    answer = await admin.send(
        "PATCH",
        f"/api/v1{place}/configmaps/a",
        config_map("a", {"k": "v"}),
        kind="application/apply-patch+yaml",
        accept=PARTIAL,
        fieldManager="tester",
    )

    assert answer.status == 201
    assert answer.body["kind"] == "PartialObjectMetadata"
    assert set(answer.body) == {"kind", "apiVersion", "metadata"}


async def test_tables_for_people(admin: Client, place: str) -> None:
    """Columns and cells as kubectl prints them, rows with their objects' metadata."""
    await maps(admin, place, "a", labels={"app": "x"})
    table = (await admin.send("GET", f"/api/v1{place}/configmaps", accept=TABLE, labelSelector="app=x")).body

    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert [row["cells"][:2] for row in table["rows"]] == [["a", 1]]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


async def test_an_unknown_form_is_not_acceptable(admin: Client) -> None:
    """406 for what no server speaks."""
    answer = await admin.send("GET", "/api/v1/namespaces/default", accept="text/csv")

    assert (answer.status, answer.body["reason"]) == (406, "NotAcceptable")


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/default/widgets",
        "/apis/example.com/v1/widgets",
        "/api/v2/namespaces",
        "/apis/apps/v1beta1/namespaces/default/deployments",
        "/nowhere",
        "/api/v1/namespaces/default/configmaps/a/scale",
    ],
)
async def test_what_is_not_served_is_not_found(path: str, admin: Client) -> None:
    """A plain 404, not a Status of a resource."""
    answer = await admin.send("GET", path)

    assert answer.status == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/v1/namespaces/default/configmaps/a"),
        ("PUT", "/api/v1/namespaces/default/configmaps"),
        ("PATCH", "/api/v1/namespaces/default/configmaps"),
        ("DELETE", "/api/v1/namespaces"),
        ("GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
    ],
)
async def test_a_verb_that_a_resource_lacks_is_not_allowed(method: str, path: str, admin: Client) -> None:
    """405 with its reason."""
    answer = await admin.send(method, path, {} if method != "GET" else None)

    assert (answer.status, answer.body["reason"]) == (405, "MethodNotAllowed")


@pytest.mark.only_simulator("a real server keeps its history for five minutes")
async def test_a_continue_token_expires(server: Any, admin: Client, place: str) -> None:
    """410 with a token to go on with from the present, which names no consistent state."""
    path = f"/api/v1{place}/configmaps"
    await maps(admin, place, "a", "b", "c")
    first = await admin.get(path, limit="1")
    server.simulator.expire_versions()
    answer = await admin.send("GET", path, limit="1", **{"continue": first["metadata"]["continue"]})

    assert (answer.status, answer.body["reason"]) == (410, "Expired")
    rest = await admin.get(path, **{"continue": answer.body["metadata"]["continue"]})
    assert names(rest) == ["b", "c"]


async def test_many_readers_at_once(admin: Client, place: str) -> None:
    """Lists asked for together all answer the same."""
    await maps(admin, place, "a", "b")
    answers = await asyncio.gather(*(admin.get(f"/api/v1{place}/configmaps") for _ in range(20)))

    assert {tuple(names(answer)) for answer in answers} == {("a", "b")}
