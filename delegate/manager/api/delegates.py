"""Delegates as the manager sees them."""

import msgspec

from delegate.manager.api.calls import Access, Call, Nothing, Operation
from delegate.manager.store import delegates
from delegate.manager.store.tokens import revoke_delegates
from delegate.manager.store.transactions import Transaction
from delegate.manager.views import DelegateList, DelegateView

DELEGATES = "/api/v1/delegates"


class DelegatesQuery(msgspec.Struct, frozen=True):
    revoked: bool = False


async def list_delegates(call: Call[Nothing, DelegatesQuery]) -> DelegateList:
    """All delegates; revoked ones where they are asked for."""
    return await call.services.database.read(lambda tx: DelegateList(items=tuple(delegates.list_delegates(tx, revoked=call.query.revoked))))


async def show(call: Call[Nothing, Nothing]) -> DelegateView:
    """One delegate, by id or by a name that no other has."""
    return await call.services.database.read(lambda tx: delegates.show_delegate(tx, call.path["delegate"]))


async def revoke(call: Call[Nothing, Nothing]) -> DelegateView:
    """Cuts a delegate off for good; another enrolment needs a token that was made after that."""

    def work(transaction: Transaction) -> DelegateView:
        found = delegates.show_delegate(transaction, call.path["delegate"])
        if not found.revoked_at:
            revoke_delegates(transaction, [found.id], call.principal.name)
        return delegates.show_delegate(transaction, found.id)

    return await call.services.database.write(work)


OPERATIONS = (
    Operation(
        method="GET",
        path=DELEGATES,
        name="listDelegates",
        summary="Lists delegates",
        access=Access.ADMIN,
        handler=list_delegates,
        query=DelegatesQuery,
        answer=DelegateList,
        tag="delegates",
    ),
    Operation(
        method="GET",
        path=DELEGATES + "/{delegate}",
        name="showDelegate",
        summary="Shows a delegate",
        access=Access.ADMIN,
        handler=show,
        answer=DelegateView,
        refusals=(404,),
        tag="delegates",
    ),
    Operation(
        method="POST",
        path=DELEGATES + "/{delegate}/revoke",
        name="revokeDelegate",
        summary="Revokes a delegate",
        access=Access.ADMIN,
        handler=revoke,
        answer=DelegateView,
        refusals=(404,),
        tag="delegates",
    ),
)
