"""Dead letters, for people and programs: the index, and redrives; and for delegates, who tell of theirs."""

import math

import msgspec

from delegate.manager.api.calls import Access, Call, Nothing, Operation, check_count
from delegate.manager.errors import InvalidError
from delegate.manager.letter_views import LetterList, LetterView, PurgeView, RedriveList, RedriveView
from delegate.manager.redrives import FASTEST_RATE
from delegate.manager.store import letters, redriving
from delegate.manager.store.letters import LetterQuery, LetterSelection
from delegate.protocol import routes
from delegate.protocol.letters import MOST_LETTERS, LettersAnswer, LettersRequest

LETTERS = "/api/v1/dead-letters"
REDRIVES = "/api/v1/redrives"


class PurgeRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`all` has to be said where nothing else chooses."""

    filter: LetterSelection = LetterSelection()
    all: bool = False
    dry_run: bool = False


class RedriveRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`rate`: letters a second."""

    filter: LetterSelection = LetterSelection()
    rate: float = 10.0
    dry_run: bool = False


async def list_letters(call: Call[Nothing, LetterQuery]) -> LetterList:
    """A page of letters, the oldest first."""
    return await call.services.database.read(lambda tx: letters.list_letters(tx, call.query))


async def show_letter(call: Call[Nothing, Nothing]) -> LetterView:
    """One letter, without what it holds: that is where its url says."""
    return await call.services.database.read(lambda tx: letters.show_letter(tx, call.path["letter"]))


async def purge(call: Call[PurgeRequest, Nothing]) -> PurgeView:
    """Takes letters out of the index. Objects of the bucket, and letters on delegates' disks, stay."""
    body = call.body
    if body.filter == LetterSelection() and not body.all:
        raise InvalidError("nothing says which letters to purge", hint="give a filter, or all")
    actor = call.principal.name
    if body.dry_run:
        return await call.services.database.read(lambda tx: letters.purge_letters(tx, body.filter, actor, dry_run=True))
    return await call.services.database.write(lambda tx: letters.purge_letters(tx, body.filter, actor, dry_run=False))


async def redrive(call: Call[RedriveRequest, Nothing]) -> RedriveView:
    """Queues what letters are about as new tasks, each once, at a rate. One redrive at a time."""
    body = call.body
    if not (math.isfinite(body.rate) and 0.01 <= body.rate <= FASTEST_RATE):
        raise InvalidError(f"rate is {body.rate:g}; it can be 0.01 to {FASTEST_RATE:g} letters a second")
    order = redriving.Order(selection=body.filter, rate=body.rate, actor=call.principal.name)
    if body.dry_run:
        return await call.services.database.read(lambda tx: redriving.try_redrive(tx, order))
    started = await call.services.database.write(lambda tx: redriving.start_redrive(tx, order))
    call.services.on_redrive()
    return started


async def list_redrives(call: Call[Nothing, Nothing]) -> RedriveList:
    """The newest first."""
    return await call.services.database.read(redriving.list_redrives)


async def show_redrive(call: Call[Nothing, Nothing]) -> RedriveView:
    """One redrive, with what it has done so far."""
    return await call.services.database.read(lambda tx: redriving.show_redrive(tx, call.path["redrive"]))


async def cancel_redrive(call: Call[Nothing, Nothing]) -> RedriveView:
    """Ends a redrive; what was moved stays moved."""
    return await call.services.database.write(lambda tx: redriving.cancel_redrive(tx, call.path["redrive"], call.principal.name))


async def index_letters(call: Call[LettersRequest, Nothing]) -> LettersAnswer:
    """Takes note of letters that a delegate keeps."""
    body = call.body
    check_count("letters", body.letters, MOST_LETTERS)
    added = await call.services.database.write(lambda tx: letters.index_letters(tx, call.principal.delegate_id, body.epoch, body.letters))
    return LettersAnswer(request_id=body.request_id, server_time=call.server_time(), added=added)


OPERATIONS = (
    Operation(
        method="GET",
        path=LETTERS,
        name="listDeadLetters",
        summary="Lists dead letters",
        access=Access.ADMIN,
        handler=list_letters,
        query=LetterQuery,
        answer=LetterList,
        tag="dead letters",
    ),
    Operation(
        method="GET",
        path=LETTERS + "/{letter}",
        name="showDeadLetter",
        summary="Shows a dead letter",
        access=Access.ADMIN,
        handler=show_letter,
        answer=LetterView,
        refusals=(404,),
        tag="dead letters",
    ),
    Operation(
        method="POST",
        path=LETTERS + "/purge",
        name="purgeDeadLetters",
        summary="Takes dead letters out of the index",
        access=Access.ADMIN,
        handler=purge,
        body=PurgeRequest,
        answer=PurgeView,
        tag="dead letters",
    ),
    Operation(
        method="POST",
        path=REDRIVES,
        name="redrive",
        summary="Sends dead letters round again",
        access=Access.ADMIN,
        handler=redrive,
        body=RedriveRequest,
        answer=RedriveView,
        refusals=(409,),
        tag="dead letters",
    ),
    Operation(
        method="GET",
        path=REDRIVES,
        name="listRedrives",
        summary="Lists redrives",
        access=Access.ADMIN,
        handler=list_redrives,
        answer=RedriveList,
        tag="dead letters",
    ),
    Operation(
        method="GET",
        path=REDRIVES + "/{redrive}",
        name="showRedrive",
        summary="Shows a redrive",
        access=Access.ADMIN,
        handler=show_redrive,
        answer=RedriveView,
        refusals=(404,),
        tag="dead letters",
    ),
    Operation(
        method="POST",
        path=REDRIVES + "/{redrive}/cancel",
        name="cancelRedrive",
        summary="Ends a redrive",
        access=Access.ADMIN,
        handler=cancel_redrive,
        answer=RedriveView,
        refusals=(404,),
        tag="dead letters",
    ),
    Operation(
        method="POST",
        path=routes.LETTERS,
        name="indexDeadLetters",
        summary="Tells of dead letters that a delegate keeps",
        access=Access.SESSION,
        handler=index_letters,
        body=LettersRequest,
        answer=LettersAnswer,
        refusals=(409,),
        tag="delegate",
    ),
)
