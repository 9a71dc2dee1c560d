"""Identifiers and secrets that the manager makes."""

import base64
import hashlib
import hmac
import random
import secrets
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: no i, l, o, u
_dice = random.Random()  # noqa: S311 - ids are no secrets, and the system's randomness costs a call that gives the processor away
_PREFIXES = {"admin": "dga", "delegate": "dgt", "session": "dgs", "refresh": "dgr"}


def _base32(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, digit = divmod(number, 32)
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))


def new_id() -> str:
    """Twenty characters that sort by time of creation and are fit for a Kubernetes name and label."""
    return _base32(int(time.time() * 1000), 10) + _base32(_dice.getrandbits(50), 10)


def attempt_id(task_id: str, fence: int) -> str:
    """An attempt is one hand-out of its task, and hand-outs are counted by the fence."""
    return f"{task_id}-{fence}"


def new_secret(kind: str) -> str:
    """A token of 256 random bits; its prefix says what it is for, so that scanners and people recognize it."""
    return f"{_PREFIXES[kind]}_{secrets.token_urlsafe(32)}"


def hash_secret(secret: str) -> str:
    """What is stored of a token. A plain hash is enough for 256 random bits."""
    return hashlib.sha256(secret.encode()).hexdigest()


def attempt_token(key: bytes, attempt: str, fence: int) -> str:
    """The token that authorizes an attempt's result: derived, so that a repeated answer carries the same one."""
    digest = hmac.digest(key, f"{attempt}:{fence}".encode(), "sha256")
    return "dgx_" + base64.urlsafe_b64encode(digest).decode().rstrip("=")
