"""The work lane: acquire, results, release, events."""

import asyncio

import msgspec

from delegate.manager.api.calls import Access, Call, Nothing, Operation, check_count
from delegate.manager.dispatch import Profile, Waiter
from delegate.manager.errors import InvalidError
from delegate.manager.store import asking
from delegate.manager.store.events import keep_events
from delegate.manager.store.handouts import give_back
from delegate.manager.store.results import accept_results
from delegate.manager.store.sessions import check_session
from delegate.manager.store.transactions import Transaction
from delegate.protocol import codec, routes
from delegate.protocol.work import (
    AcquireAnswer,
    AcquireRequest,
    EventsAnswer,
    EventsRequest,
    ReleaseAnswer,
    ReleaseRequest,
    ResultDecision,
    ResultsAnswer,
    ResultsRequest,
)

_SHORTEST_WAIT = 0.0
_MAX_SLOTS = 10_000
_MAX_ITEMS = 1_000


async def acquire(call: Call[AcquireRequest, Nothing]) -> AcquireAnswer:
    """A long poll: answers as soon as there is a task for one of the free slots, else empty when the wait is over."""
    request, services = call.body, call.services
    if not 1 <= request.free_slots <= _MAX_SLOTS:
        raise InvalidError(f"freeSlots is {request.free_slots}; a poll is made with 1 to {_MAX_SLOTS} slots that are free")
    check_count("running", request.running, services.limits.attempts_named)
    delegate_id = call.principal.delegate_id
    wait = max(_SHORTEST_WAIT, min(request.wait_seconds, services.rhythm.poll_seconds))
    until = asyncio.get_running_loop().time() + wait
    with services.dispatch.enter_worker(Waiter(delegate_id, request.free_slots)) as waiter:
        while True:
            waiter.settle()
            asked = await services.database.write(lambda tx: asking.ask(tx, delegate_id, request, services.attempt_key))
            services.dispatch.describe_worker(waiter, Profile(asked.kinds, asked.clusters, asked.labels))
            if asked.tasks or services.dispatch.closing or not await waiter.wait(until):
                break
            await services.authenticator.check_unrevoked(call.peer)
    return AcquireAnswer(
        request_id=request.request_id,
        server_time=call.server_time(),
        tasks=tuple(msgspec.Raw(codec.encode(task)) for task in asked.tasks),
    )


async def report_results(call: Call[ResultsRequest, Nothing]) -> ResultsAnswer:
    """A verdict for each result. Authorized by the attempt tokens inside, so that the end of a session loses no result."""
    items = call.body.results
    check_count("results", items, _MAX_ITEMS)
    decisions = await call.services.database.write(lambda tx: accept_results(tx, items, call.services.attempt_key))
    return ResultsAnswer(request_id=call.body.request_id, server_time=call.server_time(), results=tuple(decisions))


async def release(call: Call[ReleaseRequest, Nothing]) -> ReleaseAnswer:
    """Takes attempts back that did not begin."""
    body, delegate_id = call.body, call.principal.delegate_id
    check_count("attempts", body.attempts, _MAX_ITEMS)

    def work(transaction: Transaction) -> list[ResultDecision]:
        check_session(transaction, delegate_id, body.epoch)
        return [
            ResultDecision(attempt_id=attempt, verdict=verdict.value, message=words)
            for attempt, verdict, words in give_back(transaction, delegate_id, body.attempts)
        ]

    decisions = await call.services.database.write(work)
    return ReleaseAnswer(request_id=body.request_id, server_time=call.server_time(), attempts=tuple(decisions))


async def report_events(call: Call[EventsRequest, Nothing]) -> EventsAnswer:
    """Keeps progress for people to watch."""
    body, delegate_id = call.body, call.principal.delegate_id
    kept = await call.services.database.write(lambda tx: keep_events(tx, delegate_id, body.epoch, body.events[:_MAX_ITEMS]))
    return EventsAnswer(request_id=body.request_id, server_time=call.server_time(), kept=kept)


OPERATIONS = (
    Operation(
        method="POST",
        path=routes.ACQUIRE,
        name="acquireTasks",
        summary="Waits for tasks, at most as many as slots are free",
        access=Access.SESSION,
        handler=acquire,
        body=AcquireRequest,
        answer=AcquireAnswer,
        refusals=(409,),
        tag="delegate",
    ),
    Operation(
        method="POST",
        path=routes.RESULTS,
        name="reportResults",
        summary="Hands results over; each gets a verdict",
        access=Access.ATTEMPT,
        handler=report_results,
        body=ResultsRequest,
        answer=ResultsAnswer,
        tag="delegate",
    ),
    Operation(
        method="POST",
        path=routes.RELEASE,
        name="releaseAttempts",
        summary="Gives attempts back that did not begin",
        access=Access.SESSION,
        handler=release,
        body=ReleaseRequest,
        answer=ReleaseAnswer,
        refusals=(409,),
        tag="delegate",
    ),
    Operation(
        method="POST",
        path=routes.EVENTS,
        name="reportEvents",
        summary="Reports progress of attempts",
        access=Access.SESSION,
        handler=report_events,
        body=EventsRequest,
        answer=EventsAnswer,
        refusals=(409,),
        tag="delegate",
    ),
)
