"""Tasks, for people and programs: submit, list, show, resume, cancel, retry, events, history."""

import msgspec

from delegate.manager.api.calls import JSON, Access, Call, Nothing, Operation
from delegate.manager.api.documents import read_documents
from delegate.manager.errors import InvalidError
from delegate.manager.store import reading
from delegate.manager.store.reading import TaskFilter
from delegate.manager.store.resuming import resume_task
from delegate.manager.store.submissions import Submission, cancel_task, retry_task, submit_task
from delegate.manager.store.transactions import Transaction
from delegate.manager.views import CancelView, EventList, HistoryList, ResumeView, TaskList, TaskView, WhyView
from delegate.model.tasks import Task, TaskKind, read_task

TASKS = "/api/v1/tasks"
YAML_TYPES = ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml")
_MAX_KEY = 200
_DOCUMENT_BYTES = 2**20
_LONGEST_NAME = 253
_LONGEST_ADDRESS = 1000
_LONGEST_SELECTOR = 2000


class CancelRequest(msgspec.Struct, frozen=True, rename="camel"):
    reason: str = ""


class ResumeQuery(msgspec.Struct, frozen=True, rename="camel"):
    """`pause` is the number that the task shows; 0: the one that it stands at now."""

    pause: int = 0


class EventsQuery(msgspec.Struct, frozen=True, rename="camel"):
    after: int = 0
    limit: int = 200


async def submit(call: Call[bytes, Nothing]) -> TaskView:
    """Queues a task document or an Argo CD Application. The header Idempotency-Key makes a repeated call the same submission."""
    documents = read_documents(call.body)
    if len(documents) != 1:
        raise InvalidError(f"{len(documents)} documents in one call", hint="submit them one by one")
    submission = Submission(task=_checked(read_task(documents[0])), submitter=call.principal.name, key=_key(call))

    def work(transaction: Transaction) -> TaskView:
        return reading.show_new_task(transaction, submit_task(transaction, submission))

    return await call.services.database.write(work)


def _checked(task: Task) -> Task:
    """What is right for a local command and never for a manager: sources that are fetched, and names that an index takes."""
    for field, text, most in (
        ("environment", task.environment, _LONGEST_NAME),
        ("destination.name", task.destination.name, _LONGEST_NAME),
        ("destination.server", task.destination.server, _LONGEST_ADDRESS),
        ("concurrencyKey", task.concurrency_key, _LONGEST_NAME),
        ("selector", "".join(f"{key}={value}," for key, value in task.selector.items()), _LONGEST_SELECTOR),
    ):
        if len(text.encode()) > most:
            raise InvalidError(f"{field}: {len(text.encode())} bytes are more than the {most} that it may have", code="input.task_document")
        if not text.isprintable():
            raise InvalidError(f"{field}: control characters can't be part of it", code="input.task_document")
    if task.kind in (TaskKind.SYNC, TaskKind.DIFF):
        spec = task.sync_spec()
        for index, source in enumerate(spec.all_sources):
            if not source.repo_url:
                place = f"spec.sources[{index}]" if spec.sources else "spec.source"
                raise InvalidError(f"{place}.repoURL: a delegate fetches from a repository, and none is named", code="input.task_document")
    return task


def _key(call: Call[object, object]) -> str:
    key = call.headers.get("idempotency-key", "")
    if len(key) > _MAX_KEY:
        raise InvalidError(f"the Idempotency-Key is longer than {_MAX_KEY} characters")
    return key


async def list_tasks(call: Call[Nothing, TaskFilter]) -> TaskList:
    """A page of tasks, the newest first."""
    return await call.services.database.read(lambda tx: reading.list_tasks(tx, call.query))


async def show(call: Call[Nothing, Nothing]) -> TaskView:
    """One task with its attempts, its result, and why it is queued."""
    return await call.services.database.read(lambda tx: reading.show_task(tx, call.path["task"]))


async def why(call: Call[Nothing, Nothing]) -> WhyView:
    """Why a task is queued, in one sentence."""
    return await call.services.database.read(lambda tx: reading.explain_task(tx, call.path["task"]))


async def cancel(call: Call[CancelRequest, Nothing]) -> CancelView:
    """Ends a task: a queued one at once, a running one by its delegate. Doing it twice is fine."""

    def work(transaction: Transaction) -> CancelView:
        effect = cancel_task(transaction, call.path["task"], call.principal.name, call.body.reason[:500])
        return CancelView(effect=effect, task=reading.summarize_task(transaction, call.path["task"]))

    return await call.services.database.write(work)


async def resume(call: Call[Nothing, ResumeQuery]) -> ResumeView:
    """Ends the pause, or the hold, that a canary stands at. Doing it twice is fine where the call names it."""

    def work(transaction: Transaction) -> ResumeView:
        effect = resume_task(transaction, call.path["task"], call.principal.name, call.query.pause)
        return ResumeView(effect=effect, task=reading.summarize_task(transaction, call.path["task"]))

    return await call.services.database.write(work)


async def retry(call: Call[Nothing, Nothing]) -> TaskView:
    """A new task with the document of a finished one, which it names."""

    def work(transaction: Transaction) -> TaskView:
        task = read_task(reading.read_document(transaction, call.path["task"]))
        return reading.show_new_task(transaction, retry_task(transaction, call.path["task"], task, call.principal.name, _key(call)))

    return await call.services.database.write(work)


async def events(call: Call[Nothing, EventsQuery]) -> EventList:
    """The progress of a task after a known event; asked again and again."""
    query = call.query
    return await call.services.database.read(lambda tx: reading.show_events(tx, call.path["task"], query.after, query.limit))


async def history(call: Call[Nothing, Nothing]) -> HistoryList:
    """What happened to a task: by whom, when."""
    return await call.services.database.read(lambda tx: reading.show_history(tx, call.path["task"]))


OPERATIONS = (
    Operation(
        method="POST",
        path=TASKS,
        name="submitTask",
        summary="Queues a task",
        access=Access.ADMIN,
        handler=submit,
        raw_body=(JSON, *YAML_TYPES),
        body=Task,
        body_limit=_DOCUMENT_BYTES,
        answer=TaskView,
        status=201,
        refusals=(409,),
        idempotent=True,
        tag="tasks",
    ),
    Operation(
        method="GET",
        path=TASKS,
        name="listTasks",
        summary="Lists tasks, the newest first",
        access=Access.ADMIN,
        handler=list_tasks,
        query=TaskFilter,
        answer=TaskList,
        tag="tasks",
    ),
    Operation(
        method="GET",
        path=TASKS + "/{task}",
        name="showTask",
        summary="Shows a task with attempts, result, and why it is queued",
        access=Access.ADMIN,
        handler=show,
        answer=TaskView,
        refusals=(404,),
        tag="tasks",
    ),
    Operation(
        method="GET",
        path=TASKS + "/{task}/why",
        name="explainTask",
        summary="Says why a task is queued",
        access=Access.ADMIN,
        handler=why,
        answer=WhyView,
        refusals=(404,),
        tag="tasks",
    ),
    Operation(
        method="POST",
        path=TASKS + "/{task}/cancel",
        name="cancelTask",
        summary="Cancels a task",
        access=Access.ADMIN,
        handler=cancel,
        body=CancelRequest,
        body_limit=64 * 2**10,
        answer=CancelView,
        refusals=(404,),
        tag="tasks",
    ),
    Operation(
        method="POST",
        path=TASKS + "/{task}/resume",
        name="resumeTask",
        summary="Has a paused canary go on",
        access=Access.ADMIN,
        handler=resume,
        query=ResumeQuery,
        answer=ResumeView,
        refusals=(404, 409),
        tag="tasks",
    ),
    Operation(
        method="POST",
        path=TASKS + "/{task}/retry",
        name="retryTask",
        summary="Queues a finished task again, as a new one",
        access=Access.ADMIN,
        handler=retry,
        answer=TaskView,
        status=201,
        refusals=(404, 409, 422),
        idempotent=True,
        tag="tasks",
    ),
    Operation(
        method="GET",
        path=TASKS + "/{task}/events",
        name="listEvents",
        summary="Lists the progress of a task",
        access=Access.ADMIN,
        handler=events,
        query=EventsQuery,
        answer=EventList,
        refusals=(404,),
        tag="tasks",
    ),
    Operation(
        method="GET",
        path=TASKS + "/{task}/history",
        name="listHistory",
        summary="Lists what happened to a task",
        access=Access.ADMIN,
        handler=history,
        answer=HistoryList,
        refusals=(404,),
        tag="tasks",
    ),
)
