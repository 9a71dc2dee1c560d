"""The control lane: heartbeats and commands."""

import asyncio

from delegate.manager.api.calls import Access, Call, Nothing, Operation, check_count
from delegate.manager.dispatch import Waiter
from delegate.manager.store import heartbeats
from delegate.protocol import routes
from delegate.protocol.control import CommandsAnswer, CommandsRequest, HeartbeatAnswer, HeartbeatRequest


async def heartbeat(call: Call[HeartbeatRequest, Nothing]) -> HeartbeatAnswer:
    """Renews leases, a verdict for each attempt; commands ride along."""
    request, services = call.body, call.services
    check_count("attempts", request.attempts, services.limits.attempts_named)
    check_count("acknowledged", request.acknowledged, services.limits.attempts_named)
    decisions, commands = await services.database.write_soon(lambda tx: heartbeats.beat(tx, call.principal.delegate_id, request))
    return HeartbeatAnswer(
        request_id=request.request_id,
        server_time=call.server_time(),
        attempts=decisions,
        commands=commands,
        lease_seconds=services.rhythm.lease_seconds,
        heartbeat_seconds=services.rhythm.heartbeat_seconds,
        come_back_seconds=services.come_back_seconds(),
    )


async def poll_commands(call: Call[CommandsRequest, Nothing]) -> CommandsAnswer:
    """A long poll: answers as soon as there is a command, else empty when the wait is over."""
    request, services = call.body, call.services
    delegate_id = call.principal.delegate_id
    check_count("acknowledged", request.acknowledged, services.limits.attempts_named)
    until = asyncio.get_running_loop().time() + max(0.0, min(request.wait_seconds, services.rhythm.poll_seconds))
    acknowledged = request.acknowledged
    with services.dispatch.enter_listener(Waiter(delegate_id)) as waiter:
        while True:
            waiter.settle()
            commands = await services.database.write(
                lambda tx: heartbeats.poll_commands(tx, delegate_id, request.epoch, acknowledged)  # noqa: B023 - run before the next round
            )
            acknowledged = ()
            if commands or services.dispatch.closing or not await waiter.wait(until):
                break
            await services.authenticator.check_unrevoked(call.peer)
    return CommandsAnswer(request_id=request.request_id, server_time=call.server_time(), commands=commands)


OPERATIONS = (
    Operation(
        method="POST",
        path=routes.HEARTBEAT,
        name="heartbeat",
        summary="Renews leases and gives a verdict for each attempt",
        access=Access.SESSION,
        handler=heartbeat,
        body=HeartbeatRequest,
        answer=HeartbeatAnswer,
        refusals=(409,),
        tag="delegate",
    ),
    Operation(
        method="POST",
        path=routes.COMMANDS,
        name="pollCommands",
        summary="Waits for commands",
        access=Access.SESSION,
        handler=poll_commands,
        body=CommandsRequest,
        answer=CommandsAnswer,
        refusals=(409,),
        tag="delegate",
    ),
)
