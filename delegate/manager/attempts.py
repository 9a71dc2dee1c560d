"""Attempts as values: the states of one hand-out, and the pure decisions about its authority.

An attempt is `active` while its lease runs. A lease that ran out (`expired`), or a hand-out that its delegate never showed
to know of (`unseen`), makes the task available to others, but authority moves only with the next hand-out: until then, and
while no other task holds the application, the attempt may come back. The number that decides is the fence: only the latest
hand-out of a task ever has authority.
"""

import enum

import msgspec

from delegate.protocol.control import LeaseVerdict
from delegate.protocol.work import ResultVerdict


class AttemptState(enum.StrEnum):
    ACTIVE = "active"
    EXPIRED = "expired"  # the lease ran out
    UNSEEN = "unseen"  # its delegate never knew of it
    RELEASED = "released"  # given back before it began
    FINISHED = "finished"  # its result was accepted
    LOST = "lost"  # another one has the authority, or the task ended without it


REVIVABLE = frozenset({AttemptState.EXPIRED, AttemptState.UNSEEN})


class TaskState(enum.StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"


class Standing(msgspec.Struct, frozen=True):
    """All that decides about an attempt's authority."""

    attempt_state: str
    fence: int
    task_state: str
    task_fence: int
    lock_taken: bool = False  # another task of the application is running


def has_authority(standing: Standing) -> bool:
    """Whether the attempt is the one that may write now."""
    return (
        standing.attempt_state == AttemptState.ACTIVE and standing.task_state == TaskState.RUNNING and standing.fence == standing.task_fence
    )


def may_come_back(standing: Standing) -> bool:
    """Whether an attempt that lost its lease may have it again: nobody else got the task or the application since."""
    return (
        standing.attempt_state in REVIVABLE
        and standing.task_state == TaskState.QUEUED
        and standing.fence == standing.task_fence
        and not standing.lock_taken
    )


def judge_result(standing: Standing, *, known_digest: str, digest: str) -> ResultVerdict:
    """What becomes of a result, its digest and token being right. A RETRY never comes from here."""
    if standing.attempt_state == AttemptState.FINISHED:
        return ResultVerdict.DUPLICATE if known_digest == digest else ResultVerdict.CONFLICT
    if has_authority(standing) or may_come_back(standing):
        return ResultVerdict.ACCEPTED
    return ResultVerdict.LEASE_LOST


STOP_OUTCOMES = {
    LeaseVerdict.CANCEL: "cancelled",
    LeaseVerdict.SUPERSEDED: "superseded",
    LeaseVerdict.DEADLINE: "timed_out",
}
"""How a task ends whose attempt was told to stop and never said how it ended."""
