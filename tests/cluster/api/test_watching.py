"""Watches: initial events, bookmarks, selections, forms, and the ways in which they end."""

import time
from typing import Any

import pytest

from tests.simulator.clients import PARTIAL, TABLE, Client, config_map


@pytest.fixture
def path(place: str) -> str:
    return f"/api/v1{place}/configmaps"


async def version_of(client: Client, path: str) -> str:
    return str((await client.get(path))["metadata"]["resourceVersion"])


async def test_tells_what_happens_after_a_version(admin: Client, path: str) -> None:
    """Every change after the version, in order, with the object as it was then; nothing from before."""
    await admin.post(path, config_map("before"))
    start = await version_of(admin, path)
    await admin.post(path, config_map("a", {"k": "1"}))
    await admin.patch(f"{path}/a", {"data": {"k": "2"}})
    last = await admin.delete(f"{path}/a")
    async with admin.watch(path, resourceVersion=start) as events:
        told = [await events.next() for _ in range(3)]

    assert [(kind, body["data"]["k"]) for kind, body in told] == [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")]
    versions = [int(body["metadata"]["resourceVersion"]) for _, body in told]
    assert versions == sorted(set(versions))
    assert versions[0] > int(start)
    assert last.status == 200
    assert all(body["kind"] == "ConfigMap" and body["apiVersion"] == "v1" for _, body in told)


@pytest.mark.parametrize("start", ["", "0"])
async def test_begins_with_what_exists(start: str, admin: Client, path: str) -> None:
    """Without a version, or from 0: everything as ADDED first."""
    await admin.post(path, config_map("a", labels={"app": "x"}))
    params = {"resourceVersion": start} if start else {}
    async with admin.watch(path, labelSelector="app=x", **params) as events:
        assert await events.named(1) == [("ADDED", "a")]
        await admin.post(path, config_map("b", labels={"app": "x"}))
        assert await events.named(1) == [("ADDED", "b")]


async def test_marks_the_end_of_what_existed(admin: Client, path: str) -> None:
    """With sendInitialEvents a bookmark says when everything has been told."""
    await admin.post(path, config_map("a", labels={"app": "x"}))
    params = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with admin.watch(path, labelSelector="app=x", **params) as events:
        assert await events.named(1) == [("ADDED", "a")]
        kind, body = await events.next()

    assert kind == "BOOKMARK"
    assert (body["kind"], body["apiVersion"]) == ("ConfigMap", "v1")
    assert body["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(body["metadata"]["resourceVersion"]) > 0
    assert "name" not in body["metadata"]


async def test_tells_nothing_that_existed_when_asked_not_to(admin: Client, path: str) -> None:
    """sendInitialEvents=false begins with the next change."""
    await admin.post(path, config_map("a", labels={"app": "x"}))
    params = {"sendInitialEvents": "false", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with admin.watch(path, labelSelector="app=x", **params) as events:
        await admin.post(path, config_map("b", labels={"app": "x"}))
        assert await events.named(1) == [("ADDED", "b")]


async def test_an_object_that_leaves_the_selection_is_deleted(admin: Client, path: str) -> None:
    """As it was while it matched, with the version of the change; one that enters is added."""
    start = await version_of(admin, path)
    async with admin.watch(path, labelSelector="app=x", resourceVersion=start) as events:
        await admin.post(path, config_map("a"))
        entered = await admin.patch(f"{path}/a", {"metadata": {"labels": {"app": "x"}}})
        await admin.patch(f"{path}/a", {"data": {"k": "v"}})
        left = await admin.patch(f"{path}/a", {"metadata": {"labels": {"app": "y"}}, "data": {"k": "w"}})
        await admin.delete(f"{path}/a")
        await admin.post(path, config_map("end", labels={"app": "x"}))
        told = [await events.next() for _ in range(4)]

    assert [(kind, body["metadata"]["name"]) for kind, body in told] == [
        ("ADDED", "a"),
        ("MODIFIED", "a"),
        ("DELETED", "a"),
        ("ADDED", "end"),
    ]
    assert told[0][1]["metadata"]["resourceVersion"] == entered.body["metadata"]["resourceVersion"]
    gone = told[2][1]
    assert (gone["metadata"]["labels"], gone["data"]) == ({"app": "x"}, {"k": "v"})
    assert gone["metadata"]["resourceVersion"] == left.body["metadata"]["resourceVersion"]


async def test_one_object_alone(admin: Client, path: str) -> None:
    """By a field selector, or by the old path for it; watch=1 on the object's own path just gets it."""
    await admin.post(path, config_map("a"))
    await admin.post(path, config_map("b"))
    start = await version_of(admin, path)
    async with (
        admin.watch(path, fieldSelector="metadata.name=a", resourceVersion=start) as selected,
        admin.watch(f"{path.replace('/api/v1', '/api/v1/watch')}/a", resourceVersion=start) as own,
    ):
        await admin.patch(f"{path}/b", {"data": {"k": "v"}})
        await admin.patch(f"{path}/a", {"data": {"k": "v"}})

        assert await selected.named(1) == [("MODIFIED", "a")]
        assert await own.named(1) == [("MODIFIED", "a")]
    assert (await admin.get(f"{path}/a", watch="1"))["kind"] == "ConfigMap"


async def test_all_namespaces_at_once(admin: Client, path: str) -> None:
    """A watch without a namespace sees each of them."""
    name = path.split("/")[4]
    await admin.post(path, config_map("a", labels={"watched": name}))
    async with admin.watch("/api/v1/configmaps", labelSelector=f"watched={name}") as events:
        kind, body = await events.next()

    assert (kind, body["metadata"]["namespace"]) == ("ADDED", name)


async def test_metadata_alone(admin: Client, path: str) -> None:
    """Events and bookmarks as PartialObjectMetadata, with managedFields and without data."""
    await admin.apply(f"{path}/a", config_map("a", {"k": "v"}, labels={"app": "x"}))
    params = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with admin.watch(path, accept=PARTIAL, labelSelector="app=x", **params) as events:
        kind, body = await events.next()
        marked, mark = await events.next()
        await admin.patch(f"{path}/a", {"metadata": {"labels": None}})
        left, gone = await events.next()

    assert (kind, set(body), body["kind"]) == ("ADDED", {"kind", "apiVersion", "metadata"}, "PartialObjectMetadata")
    assert [entry["manager"] for entry in body["metadata"]["managedFields"]] == ["tester"]
    assert (marked, mark["kind"], mark["apiVersion"]) == ("BOOKMARK", "PartialObjectMetadata", "meta.k8s.io/v1")
    assert (left, gone["metadata"]["labels"]) == ("DELETED", {"app": "x"})


async def test_rows_of_a_table(admin: Client, path: str) -> None:
    """Each event a table of one row; the columns are told once."""
    await admin.post(path, config_map("a", {"k": "v"}, labels={"app": "x"}))
    async with admin.watch(path, accept=TABLE, labelSelector="app=x") as events:
        kind, first = await events.next()
        await admin.patch(f"{path}/a", {"data": {"l": "w"}})
        _, second = await events.next()

    assert (kind, first["kind"], first["rows"][0]["cells"][:2]) == ("ADDED", "Table", ["a", 1])
    assert first["columnDefinitions"][0]["name"] == "Name"
    assert second["rows"][0]["cells"][:2] == ["a", 2]
    assert not second["columnDefinitions"]


async def test_ends_after_its_time(admin: Client, path: str) -> None:
    """timeoutSeconds closes the stream without a word."""
    await admin.post(path, config_map("a", labels={"app": "x"}))
    began = time.monotonic()
    async with admin.watch(path, labelSelector="app=x", timeoutSeconds="1") as events:
        told = await events.rest()

    assert [(kind, body["metadata"]["name"]) for kind, body in told] == [("ADDED", "a")]
    assert time.monotonic() - began < 20


async def test_a_bookmark_comes_before_the_end(admin: Client, path: str) -> None:
    """Who allows bookmarks is told how far the watch had come before it ends."""
    start = await version_of(admin, path)
    async with admin.watch(path, resourceVersion=start, allowWatchBookmarks="true", timeoutSeconds="3") as events:
        await admin.post(path, config_map("a"))
        told = await events.rest()

    assert told[0][0] == "ADDED"
    assert {kind for kind, _ in told[1:]} == {"BOOKMARK"}
    assert int(told[1][1]["metadata"]["resourceVersion"]) >= int(told[0][1]["metadata"]["resourceVersion"])


@pytest.mark.parametrize(
    ("params", "status", "reason"),
    [
        ({"resourceVersionMatch": "NotOlderThan"}, 422, "Invalid"),
        ({"sendInitialEvents": "true"}, 422, "Invalid"),
        ({"sendInitialEvents": "true", "resourceVersionMatch": "Exact"}, 422, "Invalid"),
        ({"labelSelector": "a in b"}, 400, "BadRequest"),
        ({"fieldSelector": "spec.x=y"}, 400, "BadRequest"),
        ({"timeoutSeconds": "x"}, 400, "BadRequest"),
    ],
)
async def test_refuses_what_makes_no_sense(params: dict[str, str], status: int, reason: str, admin: Client) -> None:
    """Before anything is told."""
    answer = await admin.send("GET", "/api/v1/namespaces/default/configmaps", watch="1", **params)

    assert (answer.status, answer.body["reason"]) == (status, reason)


async def test_a_forgotten_version_is_an_error_event(server: Any, admin: Client, path: str) -> None:
    """200, then an ERROR with a Status of 410 as the only event."""
    start = "1"
    if server.simulator is not None:
        start = await version_of(admin, path)
        await admin.post(path, config_map("a"))
        server.simulator.expire_versions()
    async with admin.watch(path, resourceVersion=start) as events:
        first = await events.next()
        if server.simulator is None and first[0] != "ERROR":
            pytest.skip("a control plane that has just started forgets nothing")
        told = [first, *await events.rest()]

    assert events.status == 200
    assert [(kind, body["kind"], body["code"], body["reason"]) for kind, body in told] == [("ERROR", "Status", 410, "Expired")]


async def test_a_write_without_a_change_is_no_event(admin: Client, path: str) -> None:
    """Neither an apply nor a patch nor a PUT of what is there already moves the version."""
    made = await admin.apply(f"{path}/a", config_map("a", {"k": "v"}))
    start = await version_of(admin, path)
    async with admin.watch(path, resourceVersion=start) as events:
        for answer in (
            await admin.apply(f"{path}/a", config_map("a", {"k": "v"})),
            await admin.patch(f"{path}/a", {"data": {"k": "v"}}, fieldManager="other"),
            await admin.put(f"{path}/a", made.body, fieldManager="tester-too"),
        ):
            assert answer.body["metadata"]["resourceVersion"] == made.body["metadata"]["resourceVersion"]
        await admin.post(path, config_map("end"))

        assert await events.named(1) == [("ADDED", "end")]
