"""Clusters whose service accounts may enrol delegates, by the keys that sign their tokens.

Each has a token of the store's own behind it, named `cluster:NAME`, which nobody has the secret of: it carries scope and labels, counts
uses, is listed with the others, and revoking it ends the trust and the delegates that enrolled by it.
"""

from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from delegate.manager.accounts import AccountRules, AccountToken, check_account_token, issuer_of
from delegate.manager.errors import AuthenticationError, ConflictError, NotFoundError
from delegate.manager.selectors import write_labels
from delegate.manager.store.histories import Entry, record
from delegate.manager.store.tables import cluster_keys, tokens
from delegate.manager.store.tokens import NewToken, create_token, revoke_token
from delegate.manager.store.transactions import Row, Transaction

TOKEN_PREFIX = "cluster:"  # noqa: S105 - the beginning of a name
_COLUMNS = (*cluster_keys.c, tokens.c.name, tokens.c.scopes, tokens.c.labels, tokens.c.uses, tokens.c.last_used_at, tokens.c.revoked_at)
_JOINED = sa.select(*_COLUMNS).join(tokens, tokens.c.id == cluster_keys.c.token_id)
_LIST = _JOINED.where(tokens.c.revoked_at.is_(None)).order_by(cluster_keys.c.cluster)
_OF_CLUSTER = _JOINED.where(cluster_keys.c.cluster == sa.bindparam("cluster"), tokens.c.revoked_at.is_(None))
_OF_ISSUER = _JOINED.where(cluster_keys.c.issuer == sa.bindparam("issuer")).order_by(
    tokens.c.revoked_at.is_not(None), cluster_keys.c.cluster
)
_TOKEN = sa.select(tokens).where(tokens.c.id == sa.bindparam("token"))
_INSERT = sa.insert(cluster_keys)
_UPDATE = (
    sa.update(cluster_keys)
    .where(cluster_keys.c.token_id == sa.bindparam("token"))
    .values(
        issuer=sa.bindparam("to_issuer"),
        audience=sa.bindparam("to_audience"),
        accounts=sa.bindparam("to_accounts"),
        keys=sa.bindparam("to_keys"),
        updated_at=sa.bindparam("at"),
    )
)
_UPDATE_TOKEN = (
    sa.update(tokens).where(tokens.c.id == sa.bindparam("token")).values(scopes=sa.bindparam("to_scopes"), labels=sa.bindparam("to_labels"))
)


class Trust(msgspec.Struct, frozen=True, kw_only=True):
    """What is registered for a cluster."""

    rules: AccountRules
    scopes: tuple[str, ...]
    labels: dict[str, str]


def register(transaction: Transaction, trust: Trust, actor: str) -> Row:
    """Trusts a cluster, or replaces what is registered for it: at once, so register the next keys beside the old ones first.

    Raises ConflictError where another cluster has this issuer and one of these keys would speak for both.
    """
    rules = trust.rules
    for other in transaction.rows(_OF_ISSUER, issuer=rules.issuer):
        if other.cluster != rules.cluster and other.revoked_at is None and other.keys == rules.keys:
            raise ConflictError(f"cluster {other.cluster} is registered with the same issuer and keys", hint="use that name")
    known = transaction.row(_OF_CLUSTER, cluster=rules.cluster)
    written = {
        "issuer": rules.issuer,
        "audience": rules.audience,
        "accounts": msgspec.json.encode(rules.accounts).decode(),
        "keys": rules.keys,
    }
    if known is None:
        wanted = NewToken(name=TOKEN_PREFIX + rules.cluster, scopes=trust.scopes, life_seconds=None, labels=trust.labels)
        token, _ = create_token(transaction, wanted, actor)
        transaction.execute(_INSERT, token_id=token.id, cluster=rules.cluster, updated_at=transaction.now, **written)
    else:
        transaction.execute(_UPDATE, token=known.token_id, at=transaction.now, **{f"to_{name}": value for name, value in written.items()})
        transaction.execute(_UPDATE_TOKEN, token=known.token_id, to_scopes=",".join(trust.scopes), to_labels=write_labels(trust.labels))
    record(transaction, Entry(actor, "cluster_keys_registered", detail={"cluster": rules.cluster, "accounts": list(rules.accounts)}))
    return find_cluster(transaction, rules.cluster)


def find_cluster(transaction: Transaction, cluster: str) -> Row:
    """Raises NotFoundError."""
    row = transaction.row(_OF_CLUSTER, cluster=cluster)
    if row is None:
        raise NotFoundError(
            f"no keys are registered for cluster {cluster!r}", hint=f"`delegate manager cluster-keys register {cluster}` registers them"
        )
    return row


def list_clusters(transaction: Transaction) -> Sequence[Row]:
    return transaction.rows(_LIST)


def forget_cluster(transaction: Transaction, cluster: str, actor: str) -> Row:
    """Ends the trust, and for good the delegates that enrolled by it."""
    row = find_cluster(transaction, cluster)
    revoke_token(transaction, row.token_id, actor)
    return row


def find_account(transaction: Transaction, secret: str) -> tuple[Row, AccountToken]:
    """The token that stands behind a service account's token, and what that says.

    Raises AuthenticationError, TokenExpiredError, ForbiddenError.
    """
    issuer = issuer_of(secret)
    found = transaction.rows(_OF_ISSUER, issuer=issuer)
    if not found:
        raise AuthenticationError(
            f"no keys are registered for service account tokens of {issuer[:200]}",
            hint="register its cluster's keys with `delegate manager cluster-keys register NAME --issuer ISSUER --keys FILE`, "
            "or enrol with a token of `delegate token create`",
        )
    living = [row for row in found if row.revoked_at is None]
    if not living:
        raise AuthenticationError(f"the keys of cluster {found[0].cluster} are not trusted any more", hint="register them again")
    # Clusters of one provider may share an issuer; their keys tell them apart.
    for row in living[:-1]:
        try:
            return _checked(transaction, row, secret)
        except AuthenticationError:
            continue
    return _checked(transaction, living[-1], secret)


def read_rules(row: Row) -> AccountRules:
    return AccountRules(row.cluster, row.issuer, row.audience, msgspec.json.decode(row.accounts, type=tuple[str, ...]), row.keys)


def _checked(transaction: Transaction, row: Row, secret: str) -> tuple[Row, AccountToken]:
    account = check_account_token(secret, read_rules(row), transaction.now)
    token = transaction.row(_TOKEN, token=row.token_id)
    assert token is not None
    return token, account
