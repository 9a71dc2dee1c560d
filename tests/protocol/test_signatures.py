"""Signed tasks: what holds, and every way in which a signature doesn't."""

import datetime as dt
import subprocess

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegate.model.resources import JsonObject
from delegate.model.tasks import Task, read_task
from delegate.protocol.pki.keys import make_key, read_key
from delegate.protocol.signatures import (
    SignatureError,
    SigningKeyError,
    check_signature,
    key_id,
    make_signing_key,
    read_public_key,
    sign_task,
    write_public_key,
)

NOW = dt.datetime(2027, 1, 15, 8, 0, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)
KEY = make_signing_key()
TRUSTED = {"release-team": read_public_key(write_public_key(KEY))}
DOCUMENT: JsonObject = {
    "kind": "sync",
    "application": "shop",
    "destination": {"name": "prod", "namespace": "shop"},
    "spec": {"source": {"repoURL": "https://git.example/c.git", "targetRevision": "main"}},
}


def signed() -> Task:
    return sign_task(read_task(DOCUMENT), KEY, now=NOW, life=HOUR)


def id_of(task: Task) -> str:
    assert task.signature is not None
    return task.signature.id


def test_a_signature_holds_after_its_way_through_a_manager() -> None:
    """Encoded, read again with every check, encoded again: still the same document."""
    task = signed()
    carried = read_task(msgspec.json.decode(msgspec.json.encode(read_task(task.document()).document())))

    assert check_signature(carried, id_of(task), TRUSTED, NOW) == "release-team"


@pytest.mark.parametrize(
    "change",
    [
        {"application": "other"},
        {"kind": "diff"},
        {"destination": {"name": "prod", "namespace": "kube-system"}},
        {"spec": {"source": {"repoURL": "https://git.example/c.git", "targetRevision": "evil"}}},
        {"options": {"prune": True}},
        {"timeout": "1h"},
        {"selector": {"env": "dev"}},
        {"approvedPlan": "x"},
    ],
)
def test_a_changed_document_is_refused(change: JsonObject) -> None:
    """Whatever was changed, also what was left out before."""
    task = signed()
    changed = read_task(task.document() | change)

    with pytest.raises(SignatureError, match="the signature of release-team is not over this document"):
        check_signature(changed, id_of(task), TRUSTED, NOW)


def test_every_other_way_to_be_wrong_has_words() -> None:
    """Unsigned, another id, an unknown key, too late, a moved end, no signature at all where one should be."""
    task = signed()
    assert task.signature is not None
    later = msgspec.structs.replace(task.signature, expires="2030-01-01T00:00:00Z")
    garbage = msgspec.structs.replace(task.signature, value="!")
    timeless = msgspec.structs.replace(task.signature, expires="tomorrow")
    for wrong, task_id, keys, now, words in (
        (read_task(DOCUMENT), "t", TRUSTED, NOW, "the task is not signed"),
        (task, "another", TRUSTED, NOW, "and handed out as another"),
        (task, id_of(task), {}, NOW, "which is not trusted here"),
        (task, id_of(task), TRUSTED, NOW + HOUR, "ended at 2027-01-15T09:00:00Z"),
        (msgspec.structs.replace(task, signature=later), id_of(task), TRUSTED, NOW, "is not over this document"),
        (msgspec.structs.replace(task, signature=garbage), id_of(task), TRUSTED, NOW, "is not over this document"),
        (msgspec.structs.replace(task, signature=timeless), id_of(task), TRUSTED, NOW, "is not over this document"),
    ):
        with pytest.raises(SignatureError, match=words):
            check_signature(wrong, task_id, keys, now)


@given(st.integers(0, 63), st.integers(0, 7))
def test_no_flipped_bit_of_a_signature_holds(byte: int, bit: int) -> None:
    """Each of its 512 bits counts."""
    import base64

    task = signed()
    assert task.signature is not None
    raw = bytearray(base64.b64decode(task.signature.value))
    raw[byte] ^= 1 << bit
    flipped = msgspec.structs.replace(task.signature, value=base64.b64encode(raw).decode())

    with pytest.raises(SignatureError):
        check_signature(msgspec.structs.replace(task, signature=flipped), id_of(task), TRUSTED, NOW)


def test_two_signatures_of_one_document_are_two_tasks() -> None:
    """Each has an id of its own."""
    assert id_of(signed()) != id_of(signed())


def test_keys_in_files() -> None:
    """As PEM, as OpenSSL reads it too; those of another kind sign no task."""
    assert key_id(read_public_key(write_public_key(read_key(KEY.to_pem())))) == key_id(TRUSTED["release-team"])
    with pytest.raises(SigningKeyError, match="Ed25519"):
        sign_task(read_task(DOCUMENT), make_key(), now=NOW, life=HOUR)
    for text in ("", "ed25519:", "ed25519:AAAA", "rsa:AAAA", "ed25519:!!!"):
        with pytest.raises(SigningKeyError, match="is no public key"):
            read_public_key(text)
    try:
        told = subprocess.run(["openssl", "pkey", "-noout", "-text"], input=KEY.to_pem(), capture_output=True, check=True)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    assert b"ED25519" in told.stdout
