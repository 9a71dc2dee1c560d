"""Keys of clusters: whose service accounts may enrol delegates."""

import re

import msgspec

from delegate.foundation.settings.kinds import parse_labels
from delegate.manager.accounts import AUDIENCE, AccountRules, check_accounts, check_keys
from delegate.manager.api.calls import Access, Call, Nothing, Operation
from delegate.manager.clocks import to_rfc3339
from delegate.manager.credential_views import ClusterKeysList, ClusterKeysView
from delegate.manager.errors import InvalidError
from delegate.manager.scopes import is_admin, parse_scopes
from delegate.manager.selectors import read_labels
from delegate.manager.store import cluster_keys
from delegate.manager.store.cluster_keys import Trust, read_rules
from delegate.manager.store.transactions import Row
from delegate.model.resources import JsonObject

CLUSTERS = "/api/v1/clusters"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")
_DEFAULT_ACCOUNT = "delegate/delegate"
_LONGEST_TEXT = 1000


class ClusterKeysRequest(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """`keys` is the cluster's JSON Web Key Set (`kubectl get --raw /openid/v1/jwks`), `issuer` the one of its tokens
    (`kubectl get --raw /.well-known/openid-configuration`). `serviceAccounts` are namespace/name; `labels` are stamped on every delegate
    that enrols so, as those of a token are."""

    issuer: str
    keys: JsonObject
    audience: str = AUDIENCE
    service_accounts: tuple[str, ...] = (_DEFAULT_ACCOUNT,)
    scope: str = "GITOPS"
    labels: dict[str, str] = {}


class _Key(msgspec.Struct, frozen=True):
    kid: str = ""


class _KeySet(msgspec.Struct, frozen=True):
    keys: tuple[_Key, ...] = ()


async def register(call: Call[ClusterKeysRequest, Nothing]) -> ClusterKeysView:
    """Trusts service account tokens that these keys signed, or replaces what is registered. Register the next keys beside the old ones."""
    trust = _checked(call.path["cluster"], call.body)
    row = await call.services.database.write(lambda transaction: cluster_keys.register(transaction, trust, call.principal.name))
    return _view(row)


async def show(call: Call[Nothing, Nothing]) -> ClusterKeysView:
    """What is registered for a cluster."""
    return _view(await call.services.database.read(lambda transaction: cluster_keys.find_cluster(transaction, call.path["cluster"])))


async def list_all(call: Call[Nothing, Nothing]) -> ClusterKeysList:
    """All clusters whose service accounts may enrol."""
    return ClusterKeysList(items=tuple(_view(row) for row in await call.services.database.read(cluster_keys.list_clusters)))


async def forget(call: Call[Nothing, Nothing]) -> ClusterKeysView:
    """Ends the trust and, for good, the delegates that enrolled by it."""
    cluster = call.path["cluster"]
    return _view(
        await call.services.database.write(lambda transaction: cluster_keys.forget_cluster(transaction, cluster, call.principal.name))
    )


def _checked(cluster: str, body: ClusterKeysRequest) -> Trust:
    if not _NAME.fullmatch(cluster):
        raise InvalidError(f"{cluster!r} is no name of a cluster; use up to 63 lower-case letters, digits, '-' and '.'")
    for name, text in (("issuer", body.issuer), ("audience", body.audience)):
        if not 1 <= len(text) <= _LONGEST_TEXT:
            raise InvalidError(f"{name}: give one, of at most {_LONGEST_TEXT} characters")
    keys = msgspec.json.encode(body.keys).decode()
    check_keys(keys)
    try:
        scopes = parse_scopes([body.scope])
        labels = parse_labels(",".join(f"{key}={value}" for key, value in body.labels.items()))
    except ValueError as error:
        raise InvalidError(str(error)) from error
    if is_admin(scopes):
        raise InvalidError("scope: admin is for operators' tokens", hint="use GITOPS, or single task kinds")
    rules = AccountRules(cluster, body.issuer, body.audience, check_accounts(body.service_accounts), keys)
    return Trust(rules=rules, scopes=scopes, labels=labels)


def _view(row: Row) -> ClusterKeysView:
    rules = read_rules(row)
    keys = msgspec.json.decode(rules.keys, type=_KeySet).keys
    return ClusterKeysView(
        cluster=rules.cluster,
        issuer=rules.issuer,
        audience=rules.audience,
        service_accounts=rules.accounts,
        key_ids=tuple(each.kid for each in keys),
        scopes=tuple(row.scopes.split(",")),
        labels=read_labels(row.labels),
        uses=row.uses,
        last_used_at=to_rfc3339(row.last_used_at),
        updated_at=to_rfc3339(row.updated_at),
    )


OPERATIONS = (
    Operation(
        method="PUT",
        path=CLUSTERS + "/{cluster}/keys",
        name="registerClusterKeys",
        summary="Registers the keys that sign a cluster's service account tokens",
        access=Access.ADMIN,
        handler=register,
        body=ClusterKeysRequest,
        body_limit=256 * 2**10,
        answer=ClusterKeysView,
        refusals=(409,),
        tag="clusters",
    ),
    Operation(
        method="GET",
        path=CLUSTERS + "/{cluster}/keys",
        name="showClusterKeys",
        summary="Shows what is registered for a cluster",
        access=Access.ADMIN,
        handler=show,
        answer=ClusterKeysView,
        refusals=(404,),
        tag="clusters",
    ),
    Operation(
        method="GET",
        path=CLUSTERS + "/keys",
        name="listClusterKeys",
        summary="Lists the clusters whose service accounts may enrol",
        access=Access.ADMIN,
        handler=list_all,
        answer=ClusterKeysList,
        tag="clusters",
    ),
    Operation(
        method="DELETE",
        path=CLUSTERS + "/{cluster}/keys",
        name="forgetClusterKeys",
        summary="Ends the trust in a cluster's keys, and the delegates that enrolled by it",
        access=Access.ADMIN,
        handler=forget,
        answer=ClusterKeysView,
        refusals=(404,),
        tag="clusters",
    ),
)
