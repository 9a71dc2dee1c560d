"""The delegate dies at any of its writes, or hangs and comes back: the next attempt finishes, and late writers are refused."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from delegate.engine.clusters.errors import NotFoundError, UnreachableError
from delegate.engine.clusters.metering import Effect
from delegate.engine.clusters.registry import Cluster
from delegate.engine.clusters.transport import Answer, Call, Transport
from delegate.engine.records import leases
from delegate.engine.records.inventories import InventoryStore
from delegate.engine.records.releases import ReleaseStore
from delegate.engine.tasks import carrying_out, deleting
from delegate.model.applied import PART_OF_LABEL
from delegate.model.inventory import InventoryState, application_applyset_id
from delegate.model.releases import Release, ReleaseOutcome
from delegate.model.resource_types import CONFIG_MAPS
from delegate.model.results import Outcome
from tests.cluster.conftest import Server
from tests.cluster.syncing import Syncer, settings_map, syncer_for

_SHORT_LEASE = 2


class Death:
    """The process is gone from the n-th write on, seen from the cluster: before it arrives, or after it was done.

    Its Lease is short, so that the next attempt need not wait long; that one's own is as long as ever.
    """

    def __init__(self, at_write: int, *, after_it_was_done: bool) -> None:
        self._left = at_write
        self._after = after_it_was_done
        self.happened = False

    def __str__(self) -> str:
        return f"{'after' if self._after else 'before'}-{self._left}"

    def again(self) -> "Death":
        return Death(self._left, after_it_was_done=self._after)

    @contextmanager
    def strikes(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        real = Transport.send

        async def send(transport: Transport, call: Call, timeout: float, **options: bool) -> Answer:
            if not self.happened and call.effect is Effect.WRITE:
                self._left -= 1
                if self._left == 0:
                    if self._after:
                        await real(transport, call, timeout, **options)
                    self.happened = True
            if self.happened:
                raise UnreachableError("the process is gone", retryable=False)
            return await real(transport, call, timeout, **options)

        with monkeypatch.context() as patched:
            patched.setattr(Transport, "send", send)
            for module in (carrying_out, deleting):
                patched.setattr(module, "hold_lease", _short_lived)
            yield


def _short_lived(*arguments: Any, **options: Any) -> AbstractAsyncContextManager[leases.WriteLease]:
    return leases.hold_lease(*arguments, **{**options, "seconds": _SHORT_LEASE})


@pytest.mark.parametrize("after_it_was_done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at_write", range(1, 11))
async def test_the_next_attempt_finishes_whatever_write_the_last_one_died_at(
    syncer: Syncer, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, at_write: int, after_it_was_done: bool
) -> None:
    """Nothing is orphaned, nothing is forgotten, and one more sync has nothing to do."""
    syncer.write([settings_map("stays"), settings_map("goes")])
    await syncer.sync()
    syncer.write([settings_map("stays", {"level": "debug"}), settings_map("comes"), settings_map("comes-too")])
    death = Death(at_write, after_it_was_done=after_it_was_done)
    with death.strikes(monkeypatch):
        died = await syncer.sync(prune=True)

    result = await syncer.sync(prune=True)
    again = await syncer.sync(prune=True)

    assert death.happened
    assert died.outcome is not Outcome.REFUSED
    assert result.outcome is Outcome.SUCCEEDED, result
    assert again.requests.writes == 0
    label = f"{PART_OF_LABEL}={application_applyset_id('shop', syncer.namespace)}"
    members = await cluster.client.list(CONFIG_MAPS, syncer.namespace, labels=label)
    assert {item["metadata"]["name"] for item in members.items} == {"stays", "comes", "comes-too"}
    stored = (await InventoryStore(cluster.client, "shop", syncer.namespace).read()).inventory
    assert stored.state is InventoryState.CONFIRMED
    assert {entry.name: entry.uid for entry in stored.entries} == {
        item["metadata"]["name"]: item["metadata"]["uid"] for item in members.items
    }


@pytest.mark.parametrize("after_it_was_done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at_write", range(1, 8))
async def test_an_object_is_made_anew_whatever_write_the_last_attempt_died_at(
    syncer: Syncer, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, at_write: int, after_it_was_done: bool
) -> None:
    """Also where it died between the deletion and the creation: the next one creates it, once."""
    syncer.sync_options = ["Replace=true"]
    fixed = {"immutable": True}
    syncer.write([settings_map(data={"level": "info"}) | fixed])
    await syncer.sync()
    syncer.write([settings_map(data={"level": "debug"}) | fixed])
    death = Death(at_write, after_it_was_done=after_it_was_done)
    with death.strikes(monkeypatch):
        await syncer.sync()

    result = await syncer.sync()
    again = await syncer.sync()

    assert death.happened
    assert result.outcome is Outcome.SUCCEEDED, result
    assert again.requests.writes == 0
    assert (await cluster.client.get(CONFIG_MAPS, syncer.namespace, "settings"))["data"] == {"level": "debug"}
    syncer.write([settings_map(data={"level": "warn"}) | fixed])
    await syncer.sync()
    assert all(release.outcome is not ReleaseOutcome.APPLYING for release in await releases_of(cluster, syncer))


@pytest.mark.parametrize("way", ["cascade", "orphan"])
@pytest.mark.parametrize("death", [Death(number, after_it_was_done=after) for number in range(1, 8) for after in (False, True)], ids=str)
async def test_an_application_ends_whatever_write_the_last_attempt_died_at(
    syncer: Syncer, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, death: Death, way: str
) -> None:
    """Nothing of it is left over, neither objects nor records, and what is let go is let go whole."""
    syncer.write([settings_map("one"), settings_map("two")])
    await syncer.sync()
    death = death.again()
    with death.strikes(monkeypatch):
        await syncer.sync(delete=way)

    result = await syncer.sync(delete=way)

    assert death.happened
    assert result.outcome is Outcome.SUCCEEDED, result
    label = f"{PART_OF_LABEL}={application_applyset_id('shop', syncer.namespace)}"
    assert (await cluster.client.list(CONFIG_MAPS, syncer.namespace, labels=label)).items == ()
    kept = {item["metadata"]["name"] for item in (await cluster.client.list(CONFIG_MAPS, syncer.namespace)).items}
    assert kept - {"kube-root-ca.crt", "openshift-service-ca.crt"} == (set() if way == "cascade" else {"one", "two"})
    assert await releases_of(cluster, syncer) == []


async def releases_of(cluster: Cluster, syncer: Syncer) -> list[Release]:
    return await ReleaseStore(cluster.client, syncer.application, syncer.namespace).known()


@pytest.fixture
async def rivals(server: Server, namespace: str, tmp_path: Path) -> AsyncIterator[tuple[Syncer, Syncer]]:
    """Two delegates that sync the same Application, each from its own source."""
    made = []
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        made.append(syncer_for(server.kubeconfig, tmp_path / name, namespace, lease_seconds=_SHORT_LEASE))
    yield made[0], made[1]
    for syncer in made:
        await syncer.engine.close()


@pytest.mark.parametrize("first_write_of", ["create", "change"])
async def test_an_attempt_that_hung_and_comes_back_can_not_write(
    rivals: tuple[Syncer, Syncer], cluster: Cluster, monkeypatch: pytest.MonkeyPatch, first_write_of: str
) -> None:
    """A write that was on its way while a newer attempt finished is answered 409 and changes nothing."""
    old, new = rivals
    if first_write_of == "change":
        old.write([settings_map(data={"level": "first"})])
        await old.sync()
    old.write([settings_map(data={"level": "old"})])
    new.write([settings_map(data={"level": "new"})])
    hangs, goes_on = asyncio.Event(), asyncio.Event()
    real = Transport.send

    async def send(transport: Transport, call: Call, timeout: float, **options: bool) -> Answer:
        if call.effect is Effect.WRITE and call.question.verb == "apply" and not hangs.is_set():
            hangs.set()
            await goes_on.wait()
        return await real(transport, call, timeout, **options)

    monkeypatch.setattr(Transport, "send", send)
    monkeypatch.setattr(leases.WriteLease, "keep", _never_renews)
    hung = asyncio.create_task(old.sync())
    async with asyncio.timeout(20):
        await hangs.wait()

    newer = await new.sync()
    goes_on.set()
    late = await hung

    assert newer.outcome is Outcome.SUCCEEDED, newer
    assert late.outcome is not Outcome.SUCCEEDED
    live = await cluster.client.get(CONFIG_MAPS, new.namespace, "settings")
    assert live["data"] == {"level": "new"}


async def _never_renews(lease: leases.WriteLease) -> None:
    del lease
    await asyncio.Event().wait()


async def test_a_pruned_object_does_not_come_back(syncer: Syncer, cluster: Cluster) -> None:
    """What was pruned is gone for the next attempt too."""
    syncer.write([settings_map("stays"), settings_map("goes")])
    await syncer.sync()
    syncer.write([settings_map("stays")])
    await syncer.sync(prune=True)

    again = await syncer.sync(prune=True)

    assert again.requests.writes == 0
    with pytest.raises(NotFoundError):
        await cluster.client.get(CONFIG_MAPS, syncer.namespace, "goes")
