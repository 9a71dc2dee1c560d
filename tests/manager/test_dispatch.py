"""Open polls are woken for what fits their delegate now, not for what fitted when they began."""

import asyncio

from delegate.manager.dispatch import Dispatch, Profile, Waiter
from delegate.manager.effects import Effects, ReadyTask

NOW = 1000.0


def _effects(cluster: str) -> Effects:
    effects = Effects()
    effects.ready.append(ReadyTask(kind="sync", cluster_uid=cluster, labels={}, at=NOW))
    return effects


async def _is_called(waiter: Waiter) -> bool:
    return await waiter.wait(asyncio.get_running_loop().time() + 0.02)


async def test_a_poll_that_learned_of_a_cluster_is_woken_for_its_tasks() -> None:
    """A delegate finds its clusters after it began to poll; nobody has to wait for the end of that poll."""
    dispatch = Dispatch(lambda: NOW)
    with dispatch.enter_worker(Waiter("d-1", free_slots=1)) as waiter:
        dispatch.describe_worker(waiter, Profile(kinds=frozenset({"sync"})))
        dispatch.apply(_effects("c-1"))
        assert not await _is_called(waiter)

        dispatch.describe_worker(waiter, Profile(kinds=frozenset({"sync"}), clusters=frozenset({"c-1"})))
        dispatch.apply(_effects("c-1"))
        assert await _is_called(waiter)


async def test_a_poll_that_lost_a_cluster_is_not_woken_for_its_tasks() -> None:
    """And leaves nothing behind when it ends."""
    dispatch = Dispatch(lambda: NOW)
    with dispatch.enter_worker(Waiter("d-1", free_slots=1)) as waiter:
        dispatch.describe_worker(waiter, Profile(kinds=frozenset({"sync"}), clusters=frozenset({"c-1", "c-2"})))
        dispatch.describe_worker(waiter, Profile(kinds=frozenset({"sync"}), clusters=frozenset({"c-2"})))
        dispatch.apply(_effects("c-1"))
        assert not await _is_called(waiter)
        dispatch.apply(_effects("c-2"))
        assert await _is_called(waiter)

    assert dispatch.waiting == 0
