"""Signed tasks: Ed25519 over the document, the task's id and the moment until which it may begin.

Whoever submits a task signs it; the manager carries the signature, and a delegate that was told to wants it before it begins. So a
compromised manager can neither make up a task nor change one, nor hand a signed one out as another: the id is signed, and a delegate that
has finished a task of that id doesn't begin it again. What is signed is

    delegate-task-v1 LF canonical JSON of {"document": the document without its signature, "expires": ..., "id": ...}

where canonical means keys sorted, no spaces, and nothing in it that has its default value.
"""

import base64
import binascii
import datetime as dt
import hashlib
import secrets
from collections.abc import Mapping

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from delegate.foundation.errors import Category, DelegateError
from delegate.model.tasks import Task, TaskSignature
from delegate.protocol.pki.keys import PrivateKey

_CONTEXT = b"delegate-task-v1\n"
_PREFIX = "ed25519:"
_ID_BYTES = 12


class SignatureError(DelegateError):
    """A signature that is missing where one is wanted, or that doesn't hold."""

    default_code = "policy.signature"
    category = Category.POLICY


class SigningKeyError(DelegateError):
    """A key that tasks can't be signed or checked with."""

    default_code = "input.signing_key"
    category = Category.INPUT


def make_signing_key() -> PrivateKey:
    return PrivateKey(Ed25519PrivateKey.generate())


def write_public_key(key: PrivateKey) -> str:
    """`ed25519:` and 32 bytes in base64, for the policy of delegates. Raises SigningKeyError for a key of another kind."""
    return _PREFIX + base64.b64encode(_ed25519(key).public_key().public_bytes_raw()).decode()


def read_public_key(text: str) -> Ed25519PublicKey:
    """Raises SigningKeyError."""
    try:
        if not text.startswith(_PREFIX):
            raise ValueError
        return Ed25519PublicKey.from_public_bytes(base64.b64decode(text.removeprefix(_PREFIX), validate=True))
    except (ValueError, binascii.Error) as error:
        raise SigningKeyError(
            f"{text[:80]!r} is no public key", hint="write ed25519:BASE64, as `delegate task make-key` prints it"
        ) from error


def key_id(key: Ed25519PublicKey) -> str:
    """The name that a signature calls its key by."""
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()[:16]


def sign_task(task: Task, key: PrivateKey, *, now: dt.datetime, life: dt.timedelta) -> Task:
    """The task with a new id and a signature that holds until its life is over. Raises SigningKeyError."""
    private = _ed25519(key)
    expires = (now + life).astimezone(dt.UTC).replace(microsecond=0)
    unsigned = TaskSignature(
        id=secrets.token_hex(_ID_BYTES), expires=expires.isoformat().replace("+00:00", "Z"), key=key_id(private.public_key()), value=""
    )
    value = base64.b64encode(private.sign(_signed_bytes(task, unsigned))).decode()
    return msgspec.structs.replace(task, signature=msgspec.structs.replace(unsigned, value=value))


def check_signature(task: Task, task_id: str, keys: Mapping[str, Ed25519PublicKey], now: dt.datetime) -> str:
    """The name of the key that vouches for this task under this id, now. Raises SignatureError that says what is wrong."""
    signature = task.signature
    if signature is None:
        raise SignatureError("the task is not signed", hint="sign it: delegate task submit --sign-key FILE")
    if signature.id != task_id:
        raise SignatureError(f"it was signed as task {signature.id} and handed out as {task_id}", hint="submit it anew, signed anew")
    named = {name: key for name, key in keys.items() if key_id(key) == signature.key}
    if not named:
        raise SignatureError(f"it is signed by the key {signature.key}, which is not trusted here", hint="add its public key to the policy")
    name, key = next(iter(named.items()))
    try:
        key.verify(base64.b64decode(signature.value, validate=True), _signed_bytes(task, signature))
    except (InvalidSignature, ValueError, binascii.Error) as error:
        raise SignatureError(f"the signature of {name} is not over this document: somebody has changed it", hint="sign it anew") from error
    if now >= expiry_of(signature):
        raise SignatureError(f"the signature of {name} ended at {signature.expires}", hint="sign it anew")
    return name


def expiry_of(signature: TaskSignature) -> dt.datetime:
    """Raises SignatureError."""
    try:
        moment = dt.datetime.fromisoformat(signature.expires)
        if moment.tzinfo is None:
            raise ValueError
    except ValueError as error:
        raise SignatureError(f"the signature ends at {signature.expires[:40]!r}, which is no time", hint="sign it anew") from error
    return moment


def _signed_bytes(task: Task, signature: TaskSignature) -> bytes:
    document = msgspec.structs.replace(task, signature=None).document()
    return _CONTEXT + msgspec.json.encode({"document": document, "expires": signature.expires, "id": signature.id}, order="sorted")


def _ed25519(key: PrivateKey) -> Ed25519PrivateKey:
    private = key.reveal()
    if not isinstance(private, Ed25519PrivateKey):
        raise SigningKeyError("tasks are signed with Ed25519 keys, and this is another kind", hint="make one with delegate task make-key")
    return private
