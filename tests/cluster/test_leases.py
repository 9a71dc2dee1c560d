"""Authority to write: one holder at a time, taken over when it stops renewing, and the work that it allowed ends with it."""

import asyncio

import pytest

from delegate.engine.clusters import errors as cluster_errors
from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.registry import Cluster
from delegate.engine.records.errors import LeaseHeldError, LeaseLostError
from delegate.engine.records.leases import acquire_lease, hold_lease
from delegate.model.leases import LeaseRecord, read_lease
from delegate.model.resource_types import CONFIG_MAPS, LEASES
from tests.cluster.servers import eventually
from tests.fakes.flaky_api import FlakyApi, answer_lost, hang, reply, reset, status_body

NAME = "delegate-shop"


async def record_of(cluster: Cluster, namespace: str) -> LeaseRecord:
    return read_lease(await cluster.client.get(LEASES, namespace, NAME))


async def renewed_since(cluster: Cluster, namespace: str, before: LeaseRecord) -> None:
    """Waits for the next renewal."""
    async with asyncio.timeout(10):
        while (await record_of(cluster, namespace)).renewed == before.renewed:  # noqa: ASYNC110  # nothing tells
            await asyncio.sleep(0.02)


async def steal(cluster: Cluster, namespace: str) -> None:
    """Another attempt takes the Lease by force, as an operator's mistake or a split clock would."""
    await cluster.client.patch(LEASES, namespace, NAME, {"spec": {"holderIdentity": "thief", "leaseTransitions": 99}})


async def test_taken_renewed_and_given_back(cluster: Cluster, namespace: str) -> None:
    """The Lease names the attempt and its fence, is renewed while it is held, and belongs to nobody afterwards."""
    async with hold_lease(cluster.client, "shop", namespace, holder="attempt-1", seconds=3) as lease:
        lease.check()
        taken = await record_of(cluster, namespace)
        await renewed_since(cluster, namespace, taken)
        await lease.verify()
        assert not lease.lost
        assert (taken.holder, taken.fence, lease.fence) == ("attempt-1", 1, 1)

    released = await record_of(cluster, namespace)
    assert (released.holder, released.fence) == ("", 1)


async def test_the_next_one_need_not_wait_and_counts_on(cluster: Cluster, namespace: str) -> None:
    """A Lease that was given back is taken at once, with a higher fence."""
    for fence in (1, 2, 3):
        async with asyncio.timeout(5), hold_lease(cluster.client, "shop", namespace, holder=f"attempt-{fence}") as lease:
            assert lease.fence == fence


async def test_the_fence_never_starts_again(cluster: Cluster, namespace: str) -> None:
    """With the Lease deleted, the fence that the inventory knows is the floor."""
    async with hold_lease(cluster.client, "shop", namespace, holder="attempt-1", fence_floor=41) as lease:
        assert lease.fence == 42


async def test_a_holder_that_renews_is_waited_for(cluster: Cluster, namespace: str) -> None:
    """While it renews nobody else gets it; the refusal names it."""
    async with hold_lease(cluster.client, "shop", namespace, holder="attempt-1", seconds=3) as lease:
        with pytest.raises(LeaseHeldError, match="attempt-1 is writing shop") as caught:
            await acquire_lease(cluster.client, "shop", namespace, holder="attempt-2", patience=4.0)
        lease.check()

    assert caught.value.holder == "attempt-1"
    assert caught.value.retryable


async def test_a_holder_that_died_is_succeeded(cluster: Cluster, namespace: str) -> None:
    """A Lease that nobody renews is taken over; the dead one, revived, knows that it has no authority."""
    dead = await acquire_lease(cluster.client, "shop", namespace, holder="attempt-1", seconds=1)
    async with hold_lease(cluster.client, "shop", namespace, holder="attempt-2") as lease:
        assert lease.fence == 2
        assert dead.lost
        with pytest.raises(LeaseLostError):
            dead.check()
        with pytest.raises(LeaseLostError):
            await dead.verify()
        await dead.release()
        assert (await record_of(cluster, namespace)).holder == "attempt-2"


async def test_the_same_attempt_after_a_restart(cluster: Cluster, namespace: str) -> None:
    """An attempt that comes back as itself goes on at once, with its own fence."""
    await acquire_lease(cluster.client, "shop", namespace, holder="attempt-1")
    async with asyncio.timeout(5), hold_lease(cluster.client, "shop", namespace, holder="attempt-1") as lease:
        assert lease.fence == 1


async def test_of_two_at_once_one_gets_it(cluster: Cluster, namespace: str) -> None:
    """A race for a free Lease has one winner, whoever asks."""
    outcomes = await asyncio.gather(
        *(acquire_lease(cluster.client, "shop", namespace, holder=f"attempt-{n}", patience=0.5) for n in range(6)), return_exceptions=True
    )

    winners = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
    assert len(winners) == 1
    assert {type(outcome) for outcome in outcomes if isinstance(outcome, BaseException)} == {LeaseHeldError}


async def test_work_ends_when_the_lease_is_taken(cluster: Cluster, namespace: str) -> None:
    """The block is cancelled and LeaseLostError comes out of it, naming who has it now; nothing is given back."""
    ended = asyncio.Event()

    async def work() -> None:
        async with hold_lease(cluster.client, "shop", namespace, holder="attempt-1", seconds=3):
            await steal(cluster, namespace)
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                ended.set()
                raise

    with pytest.raises(LeaseLostError, match="thief holds it with fence 99"):
        await work()

    assert ended.is_set()
    assert (await record_of(cluster, namespace)).holder == "thief"


async def test_work_ends_when_the_lease_is_deleted(cluster: Cluster, namespace: str) -> None:
    """Somebody who deletes the Lease takes authority away."""

    async def work() -> None:
        async with hold_lease(cluster.client, "shop", namespace, holder="attempt-1", seconds=3):
            lease = await cluster.client.get(LEASES, namespace, NAME)
            await cluster.client.delete(LEASES, namespace, NAME, uid=lease["metadata"]["uid"])
            await asyncio.sleep(30)

    with pytest.raises(LeaseLostError, match="somebody deleted it"):
        await work()


async def test_a_foreign_label_takes_no_authority(cluster: Cluster, namespace: str) -> None:
    """A write to the Lease that changes neither holder nor fence is no loss."""
    async with hold_lease(cluster.client, "shop", namespace, holder="attempt-1", seconds=3) as lease:
        await cluster.client.patch(LEASES, namespace, NAME, {"metadata": {"labels": {"team": "x"}}})
        await renewed_since(cluster, namespace, await record_of(cluster, namespace))
        lease.check()

    assert (await cluster.client.get(LEASES, namespace, NAME))["metadata"]["labels"]["team"] == "x"


async def test_the_works_own_error_comes_out_as_it_is(cluster: Cluster, namespace: str) -> None:
    """An error of the block isn't wrapped, keeps its cause, and the Lease is given back."""
    with pytest.raises(ValueError, match="of the work") as caught:
        async with hold_lease(cluster.client, "shop", namespace, holder="attempt-1"):
            raise ValueError("of the work") from KeyError("its cause")

    assert isinstance(caught.value.__cause__, KeyError)
    assert (await record_of(cluster, namespace)).holder == ""


async def test_cancelling_the_work_gives_the_lease_back(cluster: Cluster, namespace: str) -> None:
    """A task that is cancelled (superseded, drained) leaves no Lease to wait for."""
    entered = asyncio.Event()

    async def work() -> None:
        async with hold_lease(cluster.client, "shop", namespace, holder="attempt-1"):
            entered.set()
            await asyncio.sleep(30)

    working = asyncio.create_task(work())
    await entered.wait()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working

    assert (await record_of(cluster, namespace)).holder == ""


@pytest.mark.parametrize("fault", [reset, answer_lost, reply(503, status_body(503, "x", "busy"))], ids=["cut", "answer_lost", "busy"])
async def test_a_renewal_that_fails_once(
    fault: object, through_flaky: tuple[FlakyApi, ApiClient], cluster: Cluster, namespace: str
) -> None:
    """One failed renewal is tried again in time; whether it arrived makes no difference."""
    flaky, client = through_flaky
    async with hold_lease(client, "shop", namespace, holder="attempt-1", seconds=4) as lease:
        flaky.add(fault, method="PUT", times=2)  # type: ignore[arg-type]
        await eventually(lambda: flaky.count("PUT") >= 4)
        lease.check()

    assert (await record_of(cluster, namespace)).holder == ""


@pytest.mark.parametrize("fault", [reset, hang], ids=["cut", "hang"])
async def test_a_server_that_is_gone_ends_the_work_in_time(
    fault: object, through_flaky: tuple[FlakyApi, ApiClient], cluster: Cluster, namespace: str
) -> None:
    """Whoever can't renew stops by itself, before another one may take over."""
    flaky, client = through_flaky
    loop = asyncio.get_running_loop()
    began = loop.time()

    async def work() -> None:
        async with hold_lease(client, "shop", namespace, holder="attempt-1", seconds=3):
            flaky.add(fault, path="/apis/coordination.k8s.io", times=10**6)  # type: ignore[arg-type]
            await asyncio.sleep(30)

    with pytest.raises(LeaseLostError, match="could not be renewed in time"):
        await work()

    assert loop.time() - began < 3.0
    assert (await record_of(cluster, namespace)).holder == "attempt-1"


@pytest.mark.parametrize("fault", [reset, answer_lost, hang], ids=["cut", "answer_lost", "hang"])
async def test_taking_it_over_a_bad_network(
    fault: object, through_flaky: tuple[FlakyApi, ApiClient], cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A create whose answer is lost is recognized as our own, not waited for as if it were somebody else's."""
    monkeypatch.setitem(ApiClient.create.__kwdefaults__ or {}, "timeout", 0.3)
    flaky, client = through_flaky
    flaky.add(fault, method="POST")  # type: ignore[arg-type]
    async with asyncio.timeout(10), hold_lease(client, "shop", namespace, holder="attempt-1") as lease:
        assert lease.fence == 1

    assert (await record_of(cluster, namespace)).fence == 1


async def test_renewals_do_not_queue_behind_the_work(through_flaky: tuple[FlakyApi, ApiClient], cluster: Cluster, namespace: str) -> None:
    """With all eight places taken by calls that hang, the Lease is still renewed."""
    flaky, client = through_flaky
    flaky.add(hang, path="/api/v1/namespaces/slow", times=100)
    async with hold_lease(client, "shop", namespace, holder="attempt-1", seconds=3) as lease:
        slow = [asyncio.create_task(client.list(CONFIG_MAPS, "slow")) for _ in range(20)]
        before = flaky.count("PUT")
        await eventually(lambda: flaky.count("PUT") >= before + 2)
        lease.check()
        for call in slow:
            call.cancel()
        await asyncio.gather(*slow, return_exceptions=True)


async def test_without_permission(limited: Cluster) -> None:
    """A delegate that may not read Leases learns which rule to add, at once."""
    with pytest.raises(cluster_errors.RbacError) as caught:
        await acquire_lease(limited.client, "shop", "default", holder="attempt-1")

    assert 'resources: ["leases"]' in caught.value.hint


async def test_a_namespace_that_is_missing(cluster: Cluster) -> None:
    """The Lease needs its namespace."""
    with pytest.raises(cluster_errors.NamespaceNotFoundError):
        await acquire_lease(cluster.client, "shop", "no-such-namespace-here", holder="attempt-1")
