"""A Kubernetes cluster's signing keys, and the tokens that it projects into pods."""

import json
import time
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from delegate.manager.accounts import AUDIENCE

ISSUER = "https://kubernetes.default.svc.cluster.local"
ACCOUNT = "delegate/delegate"


@cache
def _rsa(number: int) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


class SigningKey:
    """One key of a cluster. Equal numbers are equal keys."""

    def __init__(self, number: int = 0, *, kind: str = "RS256") -> None:
        self.kind = kind
        self.id = f"key-{number}"
        self.private: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
        self.private = _rsa(number) if kind.startswith("RS") else ec.generate_private_key(ec.SECP256R1())

    def jwk(self) -> dict[str, Any]:
        """As the cluster publishes it."""
        algorithm = jwt.get_algorithm_by_name(self.kind)
        return {**json.loads(algorithm.to_jwk(self.private.public_key())), "use": "sig", "kid": self.id, "alg": self.kind}

    def token(self, *, now: float | None = None, life: float = 3600.0, account: str = ACCOUNT, pod: str = "pod-1", **claims: Any) -> str:
        """As the kubelet projects it."""
        at = time.time() if now is None else now
        namespace, _, name = account.partition("/")
        body = {
            "aud": [AUDIENCE],
            "iss": ISSUER,
            "sub": f"system:serviceaccount:{namespace}:{name}",
            "iat": int(at),
            "nbf": int(at),
            "exp": int(at + life),
            "jti": "0d3c8f2e",
            "kubernetes.io": {"namespace": namespace, "pod": {"name": f"delegate-{pod}", "uid": pod}, "serviceaccount": {"name": name}},
            **claims,
        }
        return jwt.encode({name: value for name, value in body.items() if value is not None}, self.private, self.kind, {"kid": self.id})


def key_set(*keys: SigningKey) -> dict[str, Any]:
    return {"keys": [key.jwk() for key in keys]}


def registration(*keys: SigningKey, **more: Any) -> dict[str, Any]:
    """What an administrator registers."""
    return {"issuer": ISSUER, "keys": key_set(*keys), **more}
