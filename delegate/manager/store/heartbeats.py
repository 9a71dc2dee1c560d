"""Signs of life, and the commands that wait for a delegate."""

from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from delegate.manager.store.leases import Renewal, renew_leases
from delegate.manager.store.pauses import keep_pause
from delegate.manager.store.sessions import check_session
from delegate.manager.store.tables import commands, delegates
from delegate.manager.store.transactions import Transaction
from delegate.model.resources import JsonObject
from delegate.protocol.control import Command, HeartbeatRequest, LeaseDecision

_UPDATE = (
    sa.update(delegates)
    .where(delegates.c.id == sa.bindparam("delegate"))
    .values(
        heartbeat_at=sa.bindparam("at"),
        heartbeat_sequence=sa.bindparam("to_sequence"),
        heartbeat=sa.bindparam("to_heartbeat"),
        capacity=sa.bindparam("to_capacity"),
        free_slots=sa.bindparam("to_free"),
        stalled=sa.bindparam("to_stalled"),
        draining=sa.bindparam("to_draining"),
    )
)
_ACKNOWLEDGE = sa.delete(commands).where(
    commands.c.id.in_(sa.bindparam("ids", expanding=True)), commands.c.delegate_id == sa.bindparam("delegate")
)
_COMMANDS = (
    sa.select(commands.c.id, commands.c.kind, commands.c.data)
    .where(commands.c.delegate_id == sa.bindparam("delegate"))
    .order_by(commands.c.sequence)
    .limit(100)
)


_LONGEST_WORDS = 500


class Facts(msgspec.Struct, frozen=True, rename="camel"):
    """What a heartbeat says of the delegate itself, as it is kept for people to see."""

    outbox_entries: int = 0
    outbox_bytes: int = 0
    loop_lag_seconds: float = 0.0
    certificate_expires_in_seconds: float | None = None
    attempts: int = 0
    blocked: str = ""


def beat(transaction: Transaction, delegate_id: str, request: HeartbeatRequest) -> tuple[tuple[LeaseDecision, ...], tuple[Command, ...]]:
    """Renews the leases that a heartbeat names; verdicts for them and the commands that were not acknowledged."""
    check_session(transaction, delegate_id, request.epoch)
    transaction.execute(
        _UPDATE,
        delegate=delegate_id,
        at=transaction.now,
        to_sequence=request.sequence,
        to_heartbeat=msgspec.json.encode(
            Facts(
                request.outbox_entries,
                request.outbox_bytes,
                request.loop_lag_seconds,
                request.certificate_expires_in_seconds,
                len(request.attempts),
                request.blocked[:_LONGEST_WORDS],
            )
        ).decode(),
        to_capacity=request.capacity,
        to_free=request.free_slots,
        to_stalled=request.stalled,
        to_draining=request.draining,
    )
    named = {held.attempt_id: Renewal(held.fence, held.state, keep_pause(held, transaction.now)) for held in request.attempts}
    verdicts = renew_leases(transaction, delegate_id, named, vouched=not request.stalled)
    decisions = tuple(
        LeaseDecision(attempt_id=attempt, verdict=verdict.value, reason=reason) for attempt, (verdict, reason) in verdicts.items()
    )
    return decisions, take_commands(transaction, delegate_id, request.acknowledged)


def take_commands(transaction: Transaction, delegate_id: str, acknowledged: Sequence[str]) -> tuple[Command, ...]:
    """The commands for a delegate, without those that it has acknowledged."""
    if acknowledged:
        transaction.execute(_ACKNOWLEDGE, ids=list(acknowledged), delegate=delegate_id)
    return tuple(
        Command(id=row.id, kind=row.kind, data=msgspec.json.decode(row.data, type=JsonObject))
        for row in transaction.rows(_COMMANDS, delegate=delegate_id)
    )


def poll_commands(transaction: Transaction, delegate_id: str, epoch: int, acknowledged: Sequence[str]) -> tuple[Command, ...]:
    check_session(transaction, delegate_id, epoch)
    return take_commands(transaction, delegate_id, acknowledged)
