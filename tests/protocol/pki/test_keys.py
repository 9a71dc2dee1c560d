"""Keys: made, written and read, and seen nowhere else."""

import copy
import pickle

import pytest
from cryptography.hazmat.primitives.asymmetric import dsa, ed25519, rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat

from delegate.protocol.pki.errors import UnacceptableKeyError, UnreadablePemError
from delegate.protocol.pki.keys import make_key, read_key
from tests.protocol.pki.authorities import authority, issue


def pem_of(key: rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey | dsa.DSAPrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def test_a_key_is_read_as_it_was_written() -> None:
    """The fingerprint tells that it is the same."""
    key = make_key()

    assert read_key(key.to_pem()).fingerprint == key.fingerprint
    assert make_key().fingerprint != key.fingerprint


def test_a_key_shows_itself_to_nobody() -> None:
    """Not in words, and not in a pickle."""
    key = make_key()
    body = key.to_pem().splitlines()[1].decode()

    assert body not in repr(key) + str(key) + f"{key}"
    with pytest.raises(TypeError):
        pickle.dumps(key)
    with pytest.raises(TypeError):
        copy.deepcopy(key)


def test_a_key_is_found_among_certificates() -> None:
    """Some issuers write everything into one file, in any order."""
    key = make_key()
    certificate = issue(authority(), key).to_pem().encode()

    assert read_key(certificate + key.to_pem() + certificate).fingerprint == key.fingerprint


@pytest.mark.parametrize("key", [rsa.generate_private_key(65537, 2048), ed25519.Ed25519PrivateKey.generate()], ids=["rsa", "ed25519"])
def test_outside_issuers_may_use_other_kinds(key: rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey) -> None:
    """What cert-manager and Vault can be set to is read."""
    assert len(read_key(pem_of(key)).fingerprint) == 64


@pytest.mark.parametrize("key", [rsa.generate_private_key(65537, 1024), dsa.generate_private_key(2048)], ids=["weak rsa", "dsa"])
def test_weak_and_strange_keys_are_refused(key: rsa.RSAPrivateKey | dsa.DSAPrivateKey) -> None:
    """With words that say what is taken."""
    with pytest.raises(UnacceptableKeyError) as caught:
        read_key(pem_of(key))

    assert caught.value.hint


@pytest.mark.parametrize(
    "pem",
    [
        b"",
        b"-----BEGIN",
        b"-----BEGIN PRIVATE KEY-----\n",
        b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        make_key().to_pem()[:120],
        make_key().reveal().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")),
        issue(authority()).to_pem().encode(),
        b"x" * 300_000,
    ],
    ids=["empty", "begun", "headed", "no key", "half", "encrypted", "a certificate", "huge"],
)
def test_what_is_no_key_is_refused_without_repeating_it(pem: bytes) -> None:
    """Half of a key is as secret as the whole."""
    with pytest.raises(UnreadablePemError) as caught:
        read_key(pem)

    assert not any(line in str(caught.value) for line in pem.decode().splitlines() if len(line) > 30)
