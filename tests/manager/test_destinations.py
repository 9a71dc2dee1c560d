"""Which cluster a destination means."""

from collections.abc import Awaitable, Callable

import pytest

from tests.manager.clocks import FakeClock
from tests.manager.delegates import FakeDelegate, RefusedCallError
from tests.manager.operators import Operator, verify_document

Start = Callable[..., Awaitable[FakeDelegate]]


async def test_a_name_of_several_clusters_is_refused(operator: Operator, other: Start) -> None:
    """The message names the clusters, the hint a selector."""
    await other("east", clusters={"in-cluster": "uid-east"}, labels={"zone": "east"})
    await other("west", clusters={"in-cluster": "uid-west"}, labels={"zone": "west"})

    with pytest.raises(RefusedCallError) as refused:
        await operator.submit()
    problem = refused.value.problem
    assert (problem.status, problem.type) == (422, "urn:delegate:input.ambiguous_cluster")
    assert problem.detail == (
        "destination 'in-cluster' fits 2 clusters: in-cluster with uid uid-east at delegate east; "
        "in-cluster with uid uid-west at delegate west"
    )
    assert "selector" in problem.hint


async def test_a_selector_leaves_one_cluster(operator: Operator, other: Start) -> None:
    """Then it is clear."""
    await other("east", clusters={"in-cluster": "uid-east"}, labels={"zone": "east"})
    west = await other("west", clusters={"in-cluster": "uid-west"}, labels={"zone": "west"})
    task_id = await operator.submit(selector={"zone": "west"})

    assert (await operator.task(task_id))["destination"] == {"name": "in-cluster", "clusterUid": "uid-west"}
    assert [task.task_id for task in await west.acquire(4)] == [task_id]


async def test_replicas_in_one_cluster_are_no_doubt(operator: Operator, other: Start) -> None:
    """Several delegates that reach the same cluster mean the same."""
    await other("one", clusters={"in-cluster": "uid-1"})
    await other("two", clusters={"in-cluster": "uid-1", "by-another-name": "uid-1"})

    await operator.submit()


async def test_an_unknown_destination_waits_for_a_delegate_that_knows_it(operator: Operator, delegate: FakeDelegate, other: Start) -> None:
    """It is queued with the reason, and handed out when the delegate comes."""
    task_id = await operator.submit(destination={"name": "moon"})
    assert await operator.why(task_id) == "no connected delegate knows a cluster named 'moon' (known are in-cluster)"
    assert (await operator.task(task_id))["destination"] == {"name": "moon", "clusterUid": None}

    lander = await other("lander", clusters={"moon": "uid-moon"})

    assert (await operator.task(task_id))["destination"]["clusterUid"] == "uid-moon"
    assert [task.task_id for task in await lander.acquire()] == [task_id]


async def test_an_unknown_destination_that_turns_out_to_be_several_goes_on_waiting(operator: Operator, other: Start) -> None:
    """Nobody guesses afterwards either."""
    task_id = await operator.submit(destination={"name": "moon"})
    both = await other("both", clusters={"moon": "uid-1"})
    second = await operator.submit(destination={"name": "moon"}, application="second")
    await other("rival", clusters={"moon": "uid-2"})

    assert {task.task_id for task in await both.acquire(4)} == {task_id, second}
    with pytest.raises(RefusedCallError, match="fits 2 clusters"):
        await operator.submit(destination={"name": "moon"}, application="third")


async def test_tasks_superseded_when_their_cluster_becomes_known(operator: Operator, other: Start) -> None:
    """A newer task supersedes an older one, also if both had to wait to know where."""
    older = await operator.submit(destination={"name": "moon"})
    newer = await operator.submit(destination={"name": "moon"}, supersedes=True)
    lander = await other("lander", clusters={"moon": "uid-moon"})

    assert (await operator.task(older))["outcome"] == "superseded"
    assert [task.task_id for task in await lander.acquire(4)] == [newer]


async def test_the_address_of_the_cluster_itself_is_in_cluster(operator: Operator, delegate: FakeDelegate) -> None:
    """As Argo CD Applications write it."""
    task_id = await operator.submit(destination={"server": "https://kubernetes.default.svc", "namespace": "shop"})

    assert [task.task_id for task in await delegate.acquire()] == [task_id]


async def test_a_destination_may_be_left_out_where_there_is_one_cluster(operator: Operator, delegate: FakeDelegate) -> None:
    """With several it is refused."""
    task_id = await operator.submit(destination={})
    assert [task.task_id for task in await delegate.acquire()] == [task_id]


async def test_a_task_that_needs_no_cluster_goes_anywhere(operator: Operator, other: Start) -> None:
    """A verification by address has no destination."""
    bare = await other("bare", clusters={})
    task_id = await operator.submit(verify_document())

    assert [task.task_id for task in await bare.acquire()] == [task_id]


async def test_clusters_of_a_delegate_that_is_long_gone_do_not_count(operator: Operator, other: Start, clock: FakeClock) -> None:
    """A cluster that was rebuilt under its old name is not ambiguous for ever."""
    await other("old", clusters={"in-cluster": "uid-old"})
    clock.advance(86400 + 1)
    new = await other("new", clusters={"in-cluster": "uid-new"})
    task_id = await operator.submit()

    assert [task.task_id for task in await new.acquire()] == [task_id]
