"""The manager's authorities, kept where all managers of one database find them."""

from collections.abc import Callable

import sqlalchemy as sa

from delegate.manager.authorities import NewAuthority, StoredAuthority
from delegate.manager.identifiers import new_id
from delegate.manager.store.histories import Entry, record
from delegate.manager.store.tables import authorities
from delegate.manager.store.transactions import Transaction
from delegate.protocol.pki.certificates import read_certificates
from delegate.protocol.pki.issuing import Signer
from delegate.protocol.pki.keys import read_key

_ALL = sa.select(authorities).order_by(authorities.c.signs_from, authorities.c.id)
_INSERT = sa.insert(authorities)
_LOCK = "authorities"


def find_or_make(transaction: Transaction, make: Callable[[], NewAuthority]) -> list[StoredAuthority]:
    """All of them; the first one is made when there is none."""
    found = list_authorities(transaction)
    if found:
        return found
    transaction.hold_keys([_LOCK])
    found = list_authorities(transaction)
    if not found:
        add(transaction, make(), signs_from=0.0, actor="manager")
    return list_authorities(transaction)


def list_authorities(transaction: Transaction) -> list[StoredAuthority]:
    return [
        StoredAuthority(row.id, Signer(read_key(bytes(row.key)), read_certificates(row.certificate)[0]), row.signs_from)
        for row in transaction.rows(_ALL)
    ]


def add(transaction: Transaction, new: NewAuthority, *, signs_from: float, actor: str) -> str:
    """Announces an authority; its id. It signs from then on, and is believed at once."""
    authority_id = new_id()
    transaction.execute(
        _INSERT,
        id=authority_id,
        certificate=new.certificate,
        key=new.key,
        created_by=actor,
        created_at=transaction.now,
        signs_from=signs_from,
    )
    record(transaction, Entry(actor, "authority_announced", detail={"authority": authority_id, "signs_from": signs_from}))
    return authority_id
