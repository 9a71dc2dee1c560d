"""A watch loses nothing and invents nothing, whatever happens to its connection."""

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from aiohttp import web

from delegate.engine.clusters import errors, watches
from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.credentials import Credentials, bearer
from delegate.engine.clusters.registry import Cluster
from delegate.engine.clusters.watches import WatchEvent, WatchEventKind
from delegate.foundation.lifecycle.retrying import Retrying
from delegate.model.resource_types import CONFIG_MAPS, NAMESPACES
from delegate.model.resources import JsonObject
from tests.cluster.conftest import Server
from tests.cluster.servers import StaticSource, client_from, client_of, config_map
from tests.fakes.flaky_api import Fault, FlakyApi, cut_after, html, reply, reset, silent, status_body

ADDED, MODIFIED, DELETED, SYNCED = WatchEventKind.ADDED, WatchEventKind.MODIFIED, WatchEventKind.DELETED, WatchEventKind.SYNCED
Told = list[tuple[WatchEventKind, str, JsonObject]]
LIST = "/api/v1/namespaces/demo/configmaps?limit"
WATCH = "/api/v1/namespaces/demo/configmaps?watch"
EXPIRED = status_body(410, "Expired", "too old resource version: 1 (9)")


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test waits for a connection that ends at once, nor between tries."""
    monkeypatch.setattr(watches, "_SHORT_LIVED_SECONDS", 0.0)
    monkeypatch.setattr(watches, "_BACKOFF", Retrying(base_seconds=0.001, max_seconds=0.01))


def item(name: str, version: int, uid: str = "") -> JsonObject:
    return {"metadata": {"name": name, "namespace": "demo", "uid": uid or f"uid-{name}", "resourceVersion": str(version)}}


def listed(*items: JsonObject, version: int) -> Fault:
    return reply(200, {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": str(version)}, "items": list(items)})


def events(*pairs: tuple[str, JsonObject]) -> Fault:
    return reply(200, "".join(json.dumps({"type": word, "object": body}) + "\n" for word, body in pairs))


def bookmark(version: int) -> tuple[str, JsonObject]:
    return "BOOKMARK", {"metadata": {"resourceVersion": str(version)}}


def later(seconds: float = 30.0) -> float:
    return asyncio.get_running_loop().time() + seconds


async def told(client: ApiClient, count: int) -> list[tuple[WatchEventKind, str, str]]:
    """The first events of a watch: kind, name, version."""
    found = []
    async with contextlib.aclosing(client.watch(CONFIG_MAPS, "demo", deadline=later())) as watching:
        async for event in watching:
            metadata = event.object.get("metadata", {})
            found.append((event.kind, metadata.get("name", ""), metadata.get("resourceVersion", "")))
            if len(found) == count:
                break
    return found


async def drained(client: ApiClient, seconds: float) -> None:
    """Follows a watch to its end."""
    async for event in client.watch(CONFIG_MAPS, "demo", deadline=later(seconds)):
        assert event.kind is SYNCED


async def test_what_exists_then_what_changes(flaky: FlakyApi, client: ApiClient) -> None:
    """Listed objects are added, a marker says that this was all, then events follow from the list's version."""
    flaky.add(listed(item("a", 1), item("b", 2), version=5), path=LIST)
    flaky.add(events(("MODIFIED", item("a", 6)), ("ADDED", item("c", 7)), ("DELETED", item("b", 8))), path=WATCH)
    flaky.add(silent, path=WATCH)

    assert await told(client, 6) == [
        (ADDED, "a", "1"),
        (ADDED, "b", "2"),
        (SYNCED, "", ""),
        (MODIFIED, "a", "6"),
        (ADDED, "c", "7"),
        (DELETED, "b", "8"),
    ]
    watching = flaky.seen[1]
    assert watching.query["resourceVersion"] == "5"
    assert watching.query["allowWatchBookmarks"] == "true"
    assert int(watching.query["timeoutSeconds"]) <= 30


async def test_a_connection_that_ended_goes_on_where_it_was(flaky: FlakyApi, client: ApiClient) -> None:
    """The next connection begins at the last version seen, also where that came by a bookmark."""
    flaky.add(listed(version=5), path=LIST)
    flaky.add(events(("ADDED", item("a", 6))), path=WATCH)
    flaky.add(events(bookmark(40)), path=WATCH)
    flaky.add(reset, path=WATCH)
    flaky.add(html(502), path=WATCH)
    flaky.add(reply(429, status_body(429, "TooManyRequests", "busy")), path=WATCH)
    flaky.add(events(("MODIFIED", item("a", 41))), path=WATCH)
    flaky.add(silent, path=WATCH)

    assert await told(client, 3) == [(SYNCED, "", ""), (ADDED, "a", "6"), (MODIFIED, "a", "41")]
    assert [request.query["resourceVersion"] for request in flaky.seen if "watch" in request.query] == ["5", "6", "40", "40", "40", "40"]
    assert flaky.count("GET", "/api/v1/namespaces/demo/configmaps") == 7


@pytest.mark.parametrize("fault", [events(("ERROR", EXPIRED)), reply(410, EXPIRED)], ids=["event", "status"])
async def test_a_forgotten_version_lists_again_and_tells_the_difference(fault: Fault, flaky: FlakyApi, client: ApiClient) -> None:
    """After 410: what changed, what is new, what is gone, what was recreated; what stayed is not repeated."""
    flaky.add(listed(item("stays", 1), item("changes", 2), item("goes", 3), item("returns", 4), version=5), path=LIST)
    flaky.add(fault, path=WATCH)
    flaky.add(listed(item("stays", 1), item("changes", 12), item("returns", 14, "uid-2"), item("new", 15), version=20), path=LIST)
    flaky.add(silent, path=WATCH)

    found = await told(client, 10)

    assert found[:5] == [(ADDED, "stays", "1"), (ADDED, "changes", "2"), (ADDED, "goes", "3"), (ADDED, "returns", "4"), (SYNCED, "", "")]
    assert found[5:] == [
        (MODIFIED, "changes", "12"),
        (DELETED, "returns", ""),
        (ADDED, "returns", "14"),
        (ADDED, "new", "15"),
        (DELETED, "goes", ""),
    ]


async def test_what_was_told_is_not_told_again(flaky: FlakyApi, client: ApiClient) -> None:
    """An event with the version that is known already, and the end of an object nobody was told of, are dropped."""
    flaky.add(listed(item("a", 4), version=5), path=LIST)
    flaky.add(events(("ADDED", item("a", 4)), ("DELETED", item("stranger", 6)), ("MODIFIED", item("a", 7))), path=WATCH)
    flaky.add(silent, path=WATCH)

    assert await told(client, 3) == [(ADDED, "a", "4"), (SYNCED, "", ""), (MODIFIED, "a", "7")]


async def test_an_object_that_only_a_change_reveals_is_added(flaky: FlakyApi, client: ApiClient) -> None:
    """An object that comes under the selector by a change is new to whoever watches."""
    flaky.add(listed(version=5), path=LIST)
    flaky.add(events(("MODIFIED", item("a", 7))), path=WATCH)
    flaky.add(silent, path=WATCH)

    assert await told(client, 2) == [(SYNCED, "", ""), (ADDED, "a", "7")]


async def test_garbage_makes_a_new_connection(flaky: FlakyApi, client: ApiClient) -> None:
    """A line that is no JSON is a broken connection, not the end."""
    flaky.add(listed(version=5), path=LIST)
    flaky.add(reply(200, "{}\nnonsense\n"), path=WATCH)
    flaky.add(events(("ADDED", item("a", 6))), path=WATCH)
    flaky.add(silent, path=WATCH)

    assert await told(client, 2) == [(SYNCED, "", ""), (ADDED, "a", "6")]


async def test_an_endless_line_is_refused(flaky: FlakyApi, client: ApiClient) -> None:
    """A line beyond the limit is not collected any further."""
    flaky.add(listed(version=5), path=LIST)
    flaky.add(reply(200, b"x" * (9 * 2**20)), path=WATCH)

    with pytest.raises(errors.AnswerTooLargeError):
        await told(client, 2)


@pytest.mark.parametrize(
    ("fault", "error_type"),
    [
        (
            reply(
                403, status_body(403, "Forbidden", 'User "u" cannot watch resource "configmaps" in API group "" in the namespace "demo"')
            ),
            errors.RbacError,
        ),
        (reply(404, "404 page not found\n", content_type="text/plain"), errors.UnknownKindError),
        (html(), errors.NotJsonError),
        (reply(401, status_body(401, "Unauthorized", "Unauthorized")), errors.UnauthorizedError),
    ],
    ids=["no_permission", "the_kind_is_gone", "html", "refused_credentials"],
)
async def test_what_waiting_does_not_mend_is_raised(fault: Fault, error_type: type[Exception], flaky: FlakyApi, client: ApiClient) -> None:
    """No permission, a kind that is gone: the watcher is told at once."""
    flaky.add(listed(version=5), path=LIST)
    flaky.add(fault, path=WATCH, times=9)

    with pytest.raises(error_type):
        await told(client, 2)


async def test_a_token_that_ran_out_is_renewed(flaky: FlakyApi) -> None:
    """A watch whose token expired meanwhile goes on with the next one."""
    flaky.add(listed(version=5), path=LIST)
    flaky.add(reply(401, status_body(401, "Unauthorized", "Unauthorized")), path=WATCH)
    flaky.add(events(("ADDED", item("a", 6))), path=WATCH)
    flaky.add(silent, path=WATCH)
    source = StaticSource(Credentials(server=flaky.url, authorization=bearer("old-token")))
    source.on_rejected = lambda: Credentials(server=flaky.url, authorization=bearer("new-token"))
    async with client_from(source) as client:
        assert await told(client, 2) == [(SYNCED, "", ""), (ADDED, "a", "6")]

    assert [request.headers["Authorization"] for request in flaky.seen][-1] == "Bearer new-token"


async def test_a_first_list_that_fails_is_raised(flaky: FlakyApi, client: ApiClient) -> None:
    """Before anything is known, the retry policy decides, not the deadline."""
    flaky.add(reply(503, status_body(503, "ServiceUnavailable", "gone")), times=99)

    with pytest.raises(errors.UnavailableError):
        await told(client, 1)

    assert flaky.count() == 4


async def test_the_deadline_ends_it_quietly(flaky: FlakyApi, client: ApiClient) -> None:
    """A watch that works ends at its deadline without an error."""
    flaky.add(listed(item("a", 1), version=5), path=LIST)
    flaky.add(silent, path=WATCH)

    found = [event.kind async for event in client.watch(CONFIG_MAPS, "demo", deadline=later(0.1))]

    assert found == [ADDED, SYNCED]


async def test_a_server_that_stays_away_is_named_at_the_deadline(flaky: FlakyApi, client: ApiClient) -> None:
    """Whoever waited in vain learns that nobody was there."""
    flaky.add(listed(version=5), path=LIST)
    flaky.add(reset, path=WATCH, times=10**6)

    with pytest.raises(errors.UnreachableError):
        await drained(client, 0.2)


async def test_a_silent_connection_is_made_anew(flaky: FlakyApi, client: ApiClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bookmarks come every minute; a connection without any is dead, though nobody closed it."""
    monkeypatch.setattr(watches, "_SILENCE_SECONDS", 0.05)
    flaky.add(listed(version=5), path=LIST)

    flaky.add(silent, path=WATCH)
    flaky.add(events(("ADDED", item("a", 6))), path=WATCH)
    flaky.add(silent, path=WATCH)

    assert await told(client, 2) == [(SYNCED, "", ""), (ADDED, "a", "6")]


async def test_a_server_that_ends_each_watch_at_once_is_not_hammered(
    flaky: FlakyApi, client: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections that bring nothing are made with growing pauses."""
    monkeypatch.setattr(watches, "_SHORT_LIVED_SECONDS", 1.0)
    monkeypatch.setattr(watches, "_BACKOFF", Retrying(base_seconds=0.05, max_seconds=0.1))
    flaky.add(listed(version=5), path=LIST)
    flaky.add(events(), path=WATCH, times=10**6)

    with pytest.raises(errors.UnreachableError, match="ends each watch at once"):
        await drained(client, 1.0)

    assert flaky.count() < 100


@dataclass
class _History:
    """A small server of lists and watches over a history that is written meanwhile, with accidents by the dice."""

    dice: random.Random
    version: int = 1
    objects: dict[str, JsonObject] = field(default_factory=dict)
    changes: list[tuple[int, str, JsonObject]] = field(default_factory=list)
    kept_from: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def write(self) -> None:
        self.version += 1
        name = f"n{self.dice.randrange(6)}"
        known = self.objects.get(name)
        if known is None:
            body = item(name, self.version, f"uid-{self.version}")
            self.objects[name], word = body, "ADDED"
        elif self.dice.random() < 0.4:
            body, word = item(name, self.version, self.objects.pop(name)["metadata"]["uid"]), "DELETED"
        else:
            body, word = item(name, self.version, known["metadata"]["uid"]), "MODIFIED"
            self.objects[name] = body
        self.changes.append((self.version, word, body))
        self.changed.set()

    async def answer(self, api: FlakyApi, request: web.Request, body: bytes) -> web.StreamResponse:
        if "watch" in request.query:
            return await self._watch(api, request, body)
        items = [{"metadata": dict(each["metadata"])} for each in self.objects.values()]
        return await listed(*items, version=self.version)(api, request, body)

    async def _watch(self, api: FlakyApi, request: web.Request, body: bytes) -> web.StreamResponse:
        at = int(request.query["resourceVersion"])
        if self.dice.random() < 0.2:
            self.kept_from = self.version
        if at < self.kept_from:
            return await reply(410, EXPIRED)(api, request, body)
        if self.dice.random() < 0.2:
            return await reset(api, request, body)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for _ in range(self.dice.randrange(1, 8)):
            for version, word, changed in list(self.changes):
                if version > at:
                    at = version
                    await response.write(json.dumps({"type": word, "object": changed}).encode() + b"\n")
                    if self.dice.random() < 0.1 and request.transport is not None:
                        request.transport.abort()
                        return response
            self.changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.changed.wait(), 0.02)
        return response


@pytest.mark.parametrize("seed", range(12))
async def test_a_random_history_with_random_accidents(seed: int, flaky: FlakyApi) -> None:
    """The events always make sense by themselves, and in the end what was told is what is there."""
    dice = random.Random(seed)
    history = _History(dice)
    for _ in range(5):
        history.write()
    flaky.add(history.answer, times=10**9)
    state: dict[str, tuple[str, str]] = {}

    async def write() -> None:
        for _ in range(60):
            await asyncio.sleep(dice.random() * 0.01)
            history.write()

    def agree() -> bool:
        there = {name: (body["metadata"]["uid"], body["metadata"]["resourceVersion"]) for name, body in history.objects.items()}
        return writing.done() and state == there

    async with client_of(flaky.url) as client:
        writing = asyncio.create_task(write())
        synced = 0
        async with contextlib.aclosing(client.watch(CONFIG_MAPS, "demo", deadline=later(20))) as watching:
            async for event in watching:
                synced += event.kind is SYNCED
                _take(event, state)
                if agree():
                    break
        await writing
        assert agree()

    assert synced == 1


def _take(event: WatchEvent, state: dict[str, tuple[str, str]]) -> None:
    """Follows the events; an event that makes no sense after those before is one that was invented, or one that is missing."""
    if event.kind is SYNCED:
        return
    metadata = event.object["metadata"]
    name, known = metadata["name"], state.get(metadata["name"])
    if event.kind is ADDED:
        assert known is None
        state[name] = (metadata["uid"], metadata["resourceVersion"])
    elif event.kind is MODIFIED:
        assert known is not None
        assert known[0] == metadata["uid"]
        assert known[1] != metadata["resourceVersion"]
        state[name] = (metadata["uid"], metadata["resourceVersion"])
    else:
        assert known is not None
        assert known[0] == metadata["uid"]
        del state[name]


# Against a running cluster


@contextlib.asynccontextmanager
async def followed(client: ApiClient, namespace: str, *, metadata_only: bool = False) -> AsyncIterator[Told]:
    """What a watch of this test's ConfigMaps tells, from when it has told all there was."""
    found: Told = []
    synced = asyncio.Event()

    async def follow() -> None:
        watching = client.watch(CONFIG_MAPS, namespace, labels="grp=l", metadata_only=metadata_only, deadline=later())
        async for event in watching:
            found.append((event.kind, event.object.get("metadata", {}).get("name", ""), event.object))
            if event.kind is SYNCED:
                synced.set()

    following = asyncio.create_task(follow())
    try:
        async with asyncio.timeout(20):
            await synced.wait()
        yield found
    finally:
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following


async def _until(found: Told, count: int) -> None:
    async with asyncio.timeout(20):
        while len(found) < count:  # noqa: ASYNC110  # what is waited for has no event
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("metadata_only", [False, True])
async def test_a_watch_of_a_running_cluster(metadata_only: bool, cluster: Cluster, namespace: str) -> None:
    """Created, changed, out of the selector, back in it, deleted: each is told as it looks from inside the selector."""
    client = cluster.client
    body = config_map(namespace, "a", labels={"grp": "l"})
    made = await client.apply(CONFIG_MAPS, body)
    async with followed(client, namespace, metadata_only=metadata_only) as found:
        await client.apply(CONFIG_MAPS, body | {"data": {"k": "changed"}})
        await client.patch(CONFIG_MAPS, namespace, "a", {"metadata": {"labels": {"grp": "other"}}})
        await client.patch(CONFIG_MAPS, namespace, "a", {"metadata": {"labels": {"grp": "l"}}})
        await client.delete(CONFIG_MAPS, namespace, "a", uid=made["metadata"]["uid"])
        await client.apply(CONFIG_MAPS, config_map(namespace, "foreign", labels={"grp": "m"}))
        await client.apply(CONFIG_MAPS, config_map(namespace, "last", labels={"grp": "l"}))
        await _until(found, 7)

    assert [kind for kind, _, _ in found] == [ADDED, SYNCED, MODIFIED, DELETED, ADDED, DELETED, ADDED]
    assert all(event["kind"] == "ConfigMap" and event["apiVersion"] == "v1" for kind, _, event in found if kind is not SYNCED)
    assert ("data" in found[0][2]) is not metadata_only


async def test_a_running_cluster_behind_a_bad_network(through_flaky: tuple[FlakyApi, ApiClient], cluster: Cluster, namespace: str) -> None:
    """With the watch cut after every event, all changes arrive, once and in order."""
    flaky, client = through_flaky
    flaky.add(cut_after(1), path=f"/api/v1/namespaces/{namespace}/configmaps?labelSelector=grp%3Dl&watch", times=10**6)
    async with followed(client, namespace) as found:
        for number in range(12):
            await cluster.client.apply(CONFIG_MAPS, config_map(namespace, "a", {"n": str(number)}, labels={"grp": "l"}))
        await _until(found, 13)

    assert [event["data"]["n"] for kind, _, event in found if kind is not SYNCED] == [str(number) for number in range(12)]
    assert [kind for kind, _, _ in found] == [SYNCED, ADDED, *[MODIFIED] * 11]


@pytest.mark.only_simulator("makes the server forget its history")
async def test_a_server_that_forgets_its_history(server: Server, cluster: Cluster, namespace: str) -> None:
    """With every version forgotten and every watch dropped, what changed meanwhile is still told, once."""
    assert server.simulator is not None
    client = cluster.client
    stays = await client.apply(CONFIG_MAPS, config_map(namespace, "stays", labels={"grp": "l"}))
    goes = await client.apply(CONFIG_MAPS, config_map(namespace, "goes", labels={"grp": "l"}))
    async with followed(client, namespace) as found:
        server.simulator.drop_watches()
        await client.delete(CONFIG_MAPS, namespace, "goes", uid=goes["metadata"]["uid"])
        await client.apply(CONFIG_MAPS, config_map(namespace, "comes", labels={"grp": "l"}))
        server.simulator.expire_versions()
        await _until(found, 5)

    assert found[0][2]["metadata"]["uid"] in (stays["metadata"]["uid"], goes["metadata"]["uid"])
    assert sorted((kind.value, name) for kind, name, _ in found[3:]) == [("added", "comes"), ("deleted", "goes")]


async def test_a_watch_that_is_not_allowed(limited: Cluster) -> None:
    """The limited user is told which rule is missing."""
    watching = limited.client.watch(NAMESPACES, deadline=later())
    with pytest.raises(errors.RbacError, match="cannot list resource"):
        await anext(watching)
