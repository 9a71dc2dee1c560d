"""Limits of what runs at once: for environments, clusters, and keys that task documents name."""

from typing import Annotated

import msgspec

from delegate.manager.api.calls import Access, Call, Nothing, Operation
from delegate.manager.concurrency import LimitKind
from delegate.manager.errors import InvalidError
from delegate.manager.store import limiting
from delegate.manager.views import LimitList, LimitView

LIMITS = "/api/v1/limits"
_LONGEST_NAME = 253


class LimitRequest(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """0 pauses: nothing more begins, and what runs goes on."""

    max_parallel: Annotated[int, msgspec.Meta(ge=0, le=100_000)]


async def list_limits(call: Call[Nothing, Nothing]) -> LimitList:
    """All limits that are set."""
    return LimitList(items=tuple(await call.services.database.read(limiting.list_limits)))


async def set_limit(call: Call[LimitRequest, Nothing]) -> LimitView:
    """Lets at most so many tasks run at once. Those that run already are left alone."""
    kind, name, actor = _kind(call.path["kind"]), _name(call.path["name"]), call.principal.name
    return await call.services.database.write(lambda tx: limiting.set_limit(tx, kind, name, call.body.max_parallel, actor))


async def remove_limit(call: Call[Nothing, Nothing]) -> LimitList:
    """Takes a limit away; what is left."""
    kind, name, actor = _kind(call.path["kind"]), _name(call.path["name"]), call.principal.name
    await call.services.database.write(lambda tx: limiting.remove_limit(tx, kind, name, actor))
    return await list_limits(call)


def _kind(text: str) -> LimitKind:
    try:
        return LimitKind(text)
    except ValueError:
        raise InvalidError(f"{text!r} has no limits", hint=f"there are limits for {', '.join(LimitKind)}") from None


def _name(text: str) -> str:
    if len(text) > _LONGEST_NAME:
        raise InvalidError(f"a name of {len(text)} characters is none")
    return text


OPERATIONS = (
    Operation(
        method="GET",
        path=LIMITS,
        name="listLimits",
        summary="Lists limits of what runs at once",
        access=Access.ADMIN,
        handler=list_limits,
        answer=LimitList,
        tag="limits",
    ),
    Operation(
        method="PUT",
        path=LIMITS + "/{kind}/{name}",
        name="setLimit",
        summary="Sets how many tasks of an environment, a cluster or a key run at once",
        access=Access.ADMIN,
        handler=set_limit,
        body=LimitRequest,
        answer=LimitView,
        refusals=(422,),
        tag="limits",
    ),
    Operation(
        method="DELETE",
        path=LIMITS + "/{kind}/{name}",
        name="removeLimit",
        summary="Takes a limit away",
        access=Access.ADMIN,
        handler=remove_limit,
        answer=LimitList,
        refusals=(404, 422),
        tag="limits",
    ),
)
