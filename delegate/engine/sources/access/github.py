"""Tokens of a GitHub App: a JSON Web Token signed with the App's key is changed for one of an installation, for an hour.

Sources: docs.github.com, "Generating a JSON Web Token (JWT) for a GitHub App" and "Authenticating as an installation".
"""

import asyncio
import base64
import datetime as dt
import json
from collections.abc import Mapping
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from delegate.engine.sources.access.entries import GithubApp
from delegate.engine.sources.errors import AccessError, FetchAuthenticationError, UnexpectedAnswerError
from delegate.engine.sources.fetching import Fetched, WebAccess, fetch
from delegate.foundation.clocks import SYSTEM_CLOCK, Clock
from delegate.foundation.redaction import KNOWN_SECRETS
from delegate.foundation.secrets import Secret

_ANSWER_BYTES = 1024 * 1024
_JWT_SECONDS = 540
_CLOCK_SKEW_SECONDS = 60
_FRESH_SECONDS = 300.0
"""A token is changed this long before it ends, so that none ends in the middle of a fetch."""
_HINT = "check githubAppID, githubAppInstallationID and that the App may read this repository"


Answer = TypeVar("Answer", bound=msgspec.Struct)


class _Token(msgspec.Struct, frozen=True):
    token: str
    expires_at: dt.datetime


class _Installation(msgspec.Struct, frozen=True):
    id: int


class GithubTokens:
    """Tokens by App and installation, each used until shortly before it ends."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._tokens: dict[tuple[str, int, int, str], tuple[Secret, float]] = {}
        self._lock = asyncio.Lock()

    async def token_for(self, app: GithubApp, repository: str, access: WebAccess, *, rejected: bool = False) -> Secret:
        """A token that may read a repository. `rejected`: the last one was refused, so another one is got.

        Raises AccessError, FetchAuthenticationError, UnexpectedAnswerError and the faults of `fetch`.
        """
        owner, name = ("", "") if app.installation else _owner_and_name(repository)
        key = (app.url, app.id, app.installation, owner)
        async with self._lock:
            kept = self._tokens.get(key)
            if kept is not None and not rejected and self._clock.monotonic() < kept[1]:
                return kept[0]
            jwt = await asyncio.to_thread(_sign, app, self._clock.now())
            installation = app.installation or await _find_installation(app, owner, name, access, jwt)
            answer = await _ask(f"{app.url.rstrip('/')}/app/installations/{installation}/access_tokens", access, jwt, method="POST")
            token = _decode(answer, _Token)
            left = (token.expires_at - self._clock.now()).total_seconds()
            secret = Secret(token.token)
            KNOWN_SECRETS.add(secret)
            self._tokens[key] = (secret, self._clock.monotonic() + max(0.0, left - _FRESH_SECONDS))
            return secret


async def _find_installation(app: GithubApp, owner: str, name: str, access: WebAccess, jwt: str) -> int:
    answer = await _ask(f"{app.url.rstrip('/')}/repos/{owner}/{name}/installation", access, jwt)
    return _decode(answer, _Installation).id


async def _ask(url: str, access: WebAccess, jwt: str, method: str = "GET") -> Fetched:
    headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
    body = b"" if method == "POST" else None
    answer = await fetch(url, access, limit=_ANSWER_BYTES, headers=headers, method=method, body=body, authorization=f"Bearer {jwt}")
    if answer.status in (401, 403, 404):
        raise FetchAuthenticationError(f"{url} answers {answer.status} to the GitHub App: {answer.text}", hint=_HINT)
    if answer.status not in (200, 201):
        raise UnexpectedAnswerError(f"{url} answers {answer.status}: {answer.text}")
    return answer


def _sign(app: GithubApp, now: dt.datetime) -> str:
    """Loads a large library, and computes: in a thread."""
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import padding, rsa  # noqa: PLC0415

    try:
        key = serialization.load_pem_private_key(app.private_key.reveal().encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise AccessError("githubAppPrivateKey is no private key in PEM", hint="give the key as GitHub made it") from None
    if not isinstance(key, rsa.RSAPrivateKey):
        raise AccessError("githubAppPrivateKey is no RSA key, which GitHub wants")
    seconds = int(now.timestamp())
    claims = {"iat": seconds - _CLOCK_SKEW_SECONDS, "exp": seconds + _JWT_SECONDS, "iss": str(app.id)}
    signed = f"{_part({'alg': 'RS256', 'typ': 'JWT'})}.{_part(claims)}"
    signature = key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
    return f"{signed}.{_encode(signature)}"


def _part(value: Mapping[str, object]) -> str:
    return _encode(json.dumps(value, separators=(",", ":")).encode())


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(answer: Fetched, kind: type[Answer]) -> Answer:
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise UnexpectedAnswerError(f"{answer.url} gives no token") from error


def _owner_and_name(repository: str) -> tuple[str, str]:
    parts = [part for part in urlsplit(repository).path.split("/") if part]
    if len(parts) < 2:
        raise AccessError(f"{repository} has no owner and name, which a GitHub App's installation is found by")
    return parts[-2], parts[-1].removesuffix(".git")
