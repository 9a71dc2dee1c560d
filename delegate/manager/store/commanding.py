"""Commands to delegates: kept until they are acknowledged, and forgotten with the attempt that they are about."""

from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from delegate.manager.identifiers import new_id
from delegate.manager.store.tables import commands
from delegate.manager.store.transactions import Transaction
from delegate.model.resources import JsonObject
from delegate.protocol.control import CommandKind

_INSERT = sa.insert(commands)
_FORGET = sa.delete(commands).where(commands.c.attempt_id.in_(sa.bindparam("ids", expanding=True)))
_OF_ATTEMPT = (commands.c.attempt_id == sa.bindparam("attempt"), commands.c.kind == sa.bindparam("kind"))
_WAITING = sa.select(commands.c.data).where(*_OF_ATTEMPT)


class Ordered(msgspec.Struct, frozen=True):
    """A command about one attempt. What is in `data` goes out beside the attempt's id."""

    delegate_id: str
    attempt_id: str
    kind: CommandKind
    data: JsonObject = {}


def command(transaction: Transaction, ordered: Sequence[Ordered]) -> None:
    """Has the delegates told, those with an open poll as soon as this is committed."""
    transaction.execute_many(
        _INSERT,
        [
            {
                "id": new_id(),
                "delegate_id": each.delegate_id,
                "attempt_id": each.attempt_id,
                "kind": each.kind.value,
                "data": msgspec.json.encode({"attemptId": each.attempt_id, **each.data}).decode(),
                "created_at": transaction.now,
            }
            for each in ordered
        ],
    )
    transaction.effects.commands_for |= {each.delegate_id for each in ordered}


def find_commanded(transaction: Transaction, attempt_id: str, kind: CommandKind) -> list[JsonObject]:
    """The data of the commands of this kind that wait for their delegate already."""
    rows = transaction.rows(_WAITING, attempt=attempt_id, kind=kind.value)
    return [msgspec.json.decode(row.data, type=JsonObject) for row in rows]


def forget_commands(transaction: Transaction, attempt_ids: Sequence[str]) -> None:
    """Of attempts that are over."""
    transaction.execute(_FORGET, ids=list(attempt_ids))
