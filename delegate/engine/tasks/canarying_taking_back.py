"""Ends the canaries that a rollback finds at work: what is only tried is taken back before anybody judges what is live.

So an urgent rollback doesn't go behind the stable version, which was never left. One that comes a moment later, about the same incident,
finds that it was done already, and goes no further back by itself either.
"""

import datetime as dt

import msgspec

from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.errors import ForbiddenError
from delegate.engine.records.journals import list_journals
from delegate.engine.tasks.canarying import CanaryRun
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.preparing import Parts
from delegate.model.resources import JsonObject
from delegate.model.rollouts.journals import Journal
from delegate.model.rollouts.states import Phase
from delegate.model.rollouts.versions import images_of
from delegate.model.tasks import Task, TaskKind

_ONE_INCIDENT = dt.timedelta(minutes=10)
"""So long after one rollback has taken a canary back, another that names no revision is about the same."""


class TakenBack(msgspec.Struct, frozen=True):
    """Canaries that were taken back for a rollback, now or just before, in words."""

    words: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


async def take_back_canaries(
    task: Task, context: AttemptContext, parts: Parts, client: ApiClient, namespace: str, *, workload: tuple[str, str] | None
) -> TakenBack:
    """Those of the Application, or of one workload (kind, name). In a dry run none is touched.

    Raises CanaryBusyError where another Application is at work on the workload, DelegateError where one can't be taken back.
    """
    try:
        known = await list_journals(client, namespace)
    except ForbiddenError as error:
        return TakenBack(notices=(f"whether a canary is at work can't be told: {error.message}",))
    words, notices = [], []
    for kind, journal in known:
        if (kind, journal.workload) != workload if workload is not None else journal.application != task.application:
            continue
        if journal.task == context.task_id:
            continue  # a graceful rollback of ours, which goes on
        place = f"{kind} {namespace}/{journal.workload}"
        if journal.is_open and task.options.dry_run:
            notices.append(f"the canary of task {journal.task} is at work on {place}: it would be taken back first")
        elif journal.is_open:
            run = CanaryRun(_canary_of(task, kind, journal), context, parts)
            ended = await run.take_back(f"task {context.task_id} rolls back") or journal
            notices += [f"{place}: {each}" for each in ended.told]
            if ended.phase is Phase.RESTORED:
                words.append(f"the canary of task {journal.task} was taken back: {place} is as it was before it")
        elif _is_of_this_incident(journal, client.clock.now()):
            words.append(f"task {journal.taken_back_by} has just taken a canary back: {place} is as it was before it")
    return TakenBack(tuple(words), tuple(notices))


def _is_of_this_incident(journal: Journal, now: dt.datetime) -> bool:
    if journal.phase is not Phase.RESTORED or not journal.taken_back_by or not journal.entries:
        return False
    return now - dt.datetime.fromisoformat(journal.entries[-1].at) < _ONE_INCIDENT


def _canary_of(task: Task, kind: str, journal: Journal) -> Task:
    """A canary task that could have left such a journal: enough of it to go back."""
    spec: JsonObject = {
        "workload": {"kind": kind, "name": journal.workload},
        "images": images_of(journal.template),
        "routing": journal.routing or None,
        "drain": f"{journal.drain_seconds:g}s",
    }
    return msgspec.structs.replace(task, kind=TaskKind.CANARY, spec=spec, supersedes=False)
