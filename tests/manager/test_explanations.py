"""Why a task is queued: every reason in words, asked in the order in which a hand-out would fail."""

import msgspec
import pytest

from delegate.manager.explanations import Candidate, WaitingTask, explain_waiting

NOW = 1_800_000_000.0
TASK = WaitingTask(
    kind="sync", application="checkout", selector={"env": "dev"}, destination="in-cluster", cluster_uid="uid-1", ready_at=NOW
)
FIT = Candidate(
    name="d-1",
    connected=True,
    labels={"env": "dev"},
    kinds=frozenset({"sync"}),
    scoped=frozenset({"sync", "diff"}),
    clusters={"in-cluster": "uid-1"},
    capacity=4,
)


def task(**changes: object) -> WaitingTask:
    return msgspec.structs.replace(TASK, **changes)


def delegate(**changes: object) -> Candidate:
    return msgspec.structs.replace(FIT, **changes)


@pytest.mark.parametrize(
    ("waiting", "delegates", "words"),
    [
        (task(ahead="t-9", ahead_runs=True), [FIT], "waiting for task t-9, which holds application checkout"),
        (task(ahead="t-9"), [FIT], "waiting for task t-9, which is ahead for application checkout"),
        (
            task(ready_at=NOW + 8, requeues=2, message="delegate d-7 was not heard of for 45 s"),
            [FIT],
            "backing off until 2027-01-15T08:00:08.000Z (requeue 2): delegate d-7 was not heard of for 45 s",
        ),
        (task(), [], "no delegate is connected"),
        (task(), [delegate(connected=False)], "no delegate is connected; d-1 is disconnected"),
        (
            task(),
            [delegate(name=f"d-{number}", connected=False) for number in range(1, 6)],
            "no delegate is connected; d-1, d-2, d-3 and 2 more are disconnected",
        ),
        (
            task(selector={"env": "dev", "gpu": "true"}),
            [delegate(labels={}), delegate(name="d-7", labels={"env": "dev"})],
            "no connected delegate has env=dev, gpu=true (nearest: d-7 lacks gpu=true)",
        ),
        (
            task(),
            [delegate(clusters={"other": "uid-2"})],
            "no connected delegate with env=dev reaches cluster in-cluster (uid uid-1)",
        ),
        (
            task(),
            [delegate(clusters={"other": "uid-2"}), delegate(name="d-2", connected=False)],
            "cluster in-cluster is reached by d-2 alone, which is disconnected",
        ),
        (
            task(cluster_uid=None, destination="moon"),
            [FIT],
            "no connected delegate with env=dev knows a cluster named 'moon' (known are in-cluster)",
        ),
        (
            task(cluster_uid=None, destination="moon", selector={}),
            [delegate(clusters={})],
            "no connected delegate knows a cluster named 'moon' (none is known)",
        ),
        (
            task(cluster_uid=None, destination="moon", selector={}),
            [delegate(clusters={"moon": "a"}), delegate(clusters={"moon": "b"})],
            "destination 'moon' fits 2 clusters; submit it again with a selector that leaves one",
        ),
        (task(kind="canary"), [FIT], "the token of d-1 lacks the scope canary"),
        (task(kind="diff"), [FIT], "no fitting delegate does diff tasks (d-1)"),
        (task(), [delegate(draining=True)], "the only fitting delegate, d-1, is draining"),
        (
            task(),
            [delegate(running=4), delegate(name="d-2", running=4)],
            "all 2 fitting delegates are full (8 of 8 slots taken)",
        ),
        (task(), [delegate(running=4)], "the only fitting delegate, d-1, is full (4 of 4 slots taken)"),
        (task(), [delegate(running=4), delegate(name="d-2")], "ready: d-2 gets it with the next poll"),
        (task(cluster_uid=""), [delegate(clusters={})], "ready: d-1 gets it with the next poll"),
    ],
)
def test_every_reason_has_words(waiting: WaitingTask, delegates: list[Candidate], words: str) -> None:
    """The first thing that keeps the task from being handed out, with the names that help."""
    assert explain_waiting(waiting, delegates, NOW) == words
