"""Whose turn it is: the order in which flows of tasks are served. Pure.

A flow is all tasks of one submitter, environment, kind, cluster, selector and priority: those that any delegate may be handed or none.
The flow that has waited longest goes next, so that ten thousand tasks of one don't hold up ten of another; within a flow the oldest
task goes first. Each step of priority counts as so much waiting: a flow of a high priority goes first as long as no other has waited
that much longer, and the lowest is served in the end.
"""

import heapq
from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

T = TypeVar("T")


class Flow(msgspec.Struct, frozen=True):
    """`served_at`: when one of its tasks was handed out. `waiting_since`: the age of its first task. Seconds, both."""

    id: int
    priority: int
    served_at: float
    waiting_since: float


_STEP = 1e-6  # between two hand-outs of one moment


def take_turns(
    flows: Iterable[Flow], next_of: Callable[[Flow], T | None], *, wanted: int, now: float, ageing_seconds: float
) -> tuple[list[T], dict[int, float]]:
    """At most `wanted` tasks, each of the flow whose turn it is; `next_of` gives a flow's next one, or None at its end.

    Also, by flow, when it was served last.
    """
    order = [(max(flow.served_at, flow.waiting_since) - flow.priority * ageing_seconds, flow.id, flow) for flow in flows]
    heapq.heapify(order)
    taken: list[T] = []
    served: dict[int, float] = {}
    while order and len(taken) < wanted:
        _, _, flow = order[0]
        task = next_of(flow)
        if task is None:
            heapq.heappop(order)
            continue
        taken.append(task)
        served[flow.id] = now + _STEP * len(taken)
        heapq.heapreplace(order, (served[flow.id] - flow.priority * ageing_seconds, flow.id, flow))
    return taken, served
