"""Tokens of service accounts: asked for at an account, honoured while it exists and until they expire (authentication/v1 TokenRequest)."""

import datetime as dt
import secrets
from typing import NamedTuple

from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.authorization import User
from delegate.simulator.registry import Registry
from delegate.simulator.store import Stored
from delegate.simulator.storing import Outcome

AUDIENCE = "https://kubernetes.default.svc"
MOST_TOKENS = 10_000
"""Tokens that are remembered; the oldest ones go first."""
_HOUR = 3600
_SHORTEST = 600
_LONGEST = 1 << 32


class _Issued(NamedTuple):
    namespace: str
    name: str
    uid: str
    expires: dt.datetime


class Tokens:
    """Which tokens were issued for which accounts."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._issued: dict[str, _Issued] = {}

    def request(self, account: Stored, body: JsonObject) -> Outcome:
        """The answer to a TokenRequest at an account."""
        spec = body.get("spec") or {}
        seconds = spec.get("expirationSeconds", _HOUR)
        limit = "less than 10 minutes" if seconds < _SHORTEST else "larger than 2^32 seconds" if seconds > _LONGEST else ""
        if limit:
            cause = statuses.invalid_value("spec.expirationSeconds", seconds, f"may not specify a duration {limit}")
            raise statuses.invalid("TokenRequest", "authentication.k8s.io", "", [cause])
        audiences = spec.get("audiences") or [AUDIENCE]
        expires = self._registry.clock() + dt.timedelta(seconds=min(seconds, _LONGEST))
        token = f"simulated.{account.namespace}.{account.name}.{secrets.token_urlsafe(24)}"
        if AUDIENCE in audiences:
            while len(self._issued) >= MOST_TOKENS:
                del self._issued[next(iter(self._issued))]
            self._issued[token] = _Issued(account.namespace, account.name, account.uid, expires)
        metadata = {"name": account.name, "namespace": account.namespace, "uid": account.uid, "creationTimestamp": self._registry.now()}
        made: JsonObject = {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": metadata,
            "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": spec.get("boundObjectRef")},
            "status": {"token": token, "expirationTimestamp": expires.strftime("%Y-%m-%dT%H:%M:%SZ")},
        }
        return Outcome(made, created=True)

    def user_of(self, token: str) -> User | None:
        """Whose token it is; None for an unknown one, an expired one, and one whose account has gone."""
        issued = self._issued.get(token)
        if issued is None or issued.expires <= self._registry.clock():
            return None
        account = self._registry.get(self._registry.kind("", "ServiceAccount"), issued.namespace, issued.name)
        if account is None or account.uid != issued.uid:
            return None
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{issued.namespace}", "system:authenticated")
        return User(f"system:serviceaccount:{issued.namespace}:{issued.name}", groups, issued.uid)
