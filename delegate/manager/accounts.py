"""Service accounts of Kubernetes clusters that may enrol: their tokens, checked by the keys that an administrator registered.

A projected token is signed by its cluster, names its audience, its service account and its pod, and ends within the hour; the
kubelet replaces it. So a pod has one at every start, however long ago the delegate's token ended. Nobody is asked: the manager needs
no way to the cluster.
"""

import binascii
import re
from base64 import urlsafe_b64decode
from collections.abc import Iterable, Sequence

import jwt
import msgspec
from jwt.types import Options

from delegate.manager.errors import AuthenticationError, ForbiddenError, InvalidError, TokenExpiredError

ALGORITHMS = ("RS256", "RS384", "RS512", "ES256", "ES384", "ES512")
"""What API servers sign with. Never what the token says alone: the key has to be of that kind."""
AUDIENCE = "delegate-manager"
_LEEWAY_SECONDS = 60.0
_LONGEST_LIFE_SECONDS = 48 * 3600.0
_MOST_KEYS = 16
_SUBJECT = "system:serviceaccount:"
_ACCOUNT = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


class AccountRules(msgspec.Struct, frozen=True):
    """Who may enrol from one cluster: `accounts` are namespace/name, `keys` a JSON Web Key Set."""

    cluster: str
    issuer: str
    audience: str
    accounts: tuple[str, ...]
    keys: str


class AccountToken(msgspec.Struct, frozen=True):
    """A token that is good."""

    account: str
    expires_at: float
    pod: str = ""


class _Claims(msgspec.Struct, frozen=True):
    iss: str
    sub: str
    exp: float
    aud: str | tuple[str, ...] = ()
    nbf: float = 0.0
    iat: float = 0.0
    kubernetes: "_Kubernetes | None" = msgspec.field(name="kubernetes.io", default=None)


class _Kubernetes(msgspec.Struct, frozen=True):
    pod: "_Named | None" = None


class _Named(msgspec.Struct, frozen=True):
    name: str = ""
    uid: str = ""


def looks_like_account_token(secret: str) -> bool:
    """Whether it is a JSON Web Token at all; ours are not."""
    return secret.startswith("eyJ") and secret.count(".") == 2


def issuer_of(secret: str) -> str:
    """Who the token says has issued it: only to find the rules that it is checked by. Raises AuthenticationError."""
    return _unverified(secret).iss


def check_account_token(secret: str, rules: AccountRules, now: float) -> AccountToken:
    """Raises AuthenticationError (not from that cluster, or for somebody else), TokenExpiredError, ForbiddenError (another account)."""
    claims = _verified(secret, rules)
    audiences = (claims.aud,) if isinstance(claims.aud, str) else claims.aud
    if claims.iss != rules.issuer or rules.audience not in audiences:
        raise AuthenticationError(
            f"the service account token is for {', '.join(audiences) or 'nobody'}, not for {rules.audience}",
            hint=f"project it into the pod with the audience {rules.audience}",
        )
    if claims.exp + _LEEWAY_SECONDS <= now:
        raise TokenExpiredError("the service account token has expired", hint="read the projected file anew; the kubelet replaces it")
    if claims.nbf - _LEEWAY_SECONDS > now:
        raise AuthenticationError("the service account token is not valid yet", hint="compare the clocks of the cluster and the manager")
    if claims.exp - now > _LONGEST_LIFE_SECONDS:
        raise AuthenticationError("the service account token lives too long", hint="use a projected token (expirationSeconds: 3600)")
    account = claims.sub.removeprefix(_SUBJECT).replace(":", "/", 1)
    if not claims.sub.startswith(_SUBJECT) or account not in rules.accounts:
        raise ForbiddenError(
            f"{claims.sub} of cluster {rules.cluster} may not enrol delegates; missing: {account} among its registered accounts",
            hint=f"name it with --service-account in `delegate manager cluster-keys register {rules.cluster}`, "
            f"or run the delegate as {' or '.join(rules.accounts)}",
        )
    pod = claims.kubernetes.pod if claims.kubernetes is not None else None
    return AccountToken(account, claims.exp, pod.uid if pod is not None else "")


def check_keys(keys: str) -> int:
    """How many keys of a JSON Web Key Set can be used. Raises InvalidError where none can."""
    try:
        usable = _keys(keys, "")
    except (jwt.PyJWTError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidError(f"keys: no JSON Web Key Set: {error}", hint="kubectl get --raw /openid/v1/jwks") from error
    if not usable:
        raise InvalidError("keys: there is no key in it that tokens are signed with", hint="kubectl get --raw /openid/v1/jwks")
    return len(usable)


def check_accounts(accounts: Iterable[str]) -> tuple[str, ...]:
    """Raises InvalidError for what is no namespace/name."""
    found = tuple(dict.fromkeys(accounts))
    if not found:
        raise InvalidError("serviceAccounts: none is named", hint="name each as namespace/name")
    for each in found:
        if not _ACCOUNT.fullmatch(each):
            raise InvalidError(f"serviceAccounts: {each!r} is no service account; write namespace/name")
    return found


def _verified(secret: str, rules: AccountRules) -> _Claims:
    try:
        header = jwt.get_unverified_header(secret)
        algorithm = str(header.get("alg", ""))
        candidates = _keys(rules.keys, str(header.get("kid", "")))
    except (jwt.PyJWTError, ValueError, TypeError) as error:
        raise AuthenticationError("the service account token can't be read") from error
    if algorithm in ALGORITHMS:
        for key in candidates:
            if key.algorithm_name and key.algorithm_name[:2] != algorithm[:2]:
                continue
            try:
                # Times and audience are checked by the manager's own clock and words.
                jwt.decode_complete(secret, key, algorithms=[algorithm], options=_SIGNATURE_ALONE)
            except (jwt.PyJWTError, ValueError, TypeError):
                continue
            return _unverified(secret)
    raise AuthenticationError(
        f"no key that is registered for cluster {rules.cluster} has signed the service account token",
        hint=f"register the keys that the cluster has now: `kubectl get --raw /openid/v1/jwks | "
        f"delegate manager cluster-keys register {rules.cluster} --keys -`",
    )


_SIGNATURE_ALONE: Options = {
    "verify_signature": True,
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_aud": False,
}


def _keys(keys: str, key_id: str) -> Sequence[jwt.PyJWK]:
    """The keys of this id; all of them where the token names none."""
    found = [each for each in jwt.PyJWKSet.from_json(keys).keys if each.key_type in ("RSA", "EC")][:_MOST_KEYS]
    return [each for each in found if not key_id or each.key_id == key_id]


def _unverified(secret: str) -> _Claims:
    body = secret.split(".")[1]
    try:
        return msgspec.json.decode(urlsafe_b64decode(body + "=" * (-len(body) % 4)), type=_Claims)
    except (msgspec.DecodeError, UnicodeDecodeError, binascii.Error, ValueError) as error:
        raise AuthenticationError("the service account token can't be read") from error
