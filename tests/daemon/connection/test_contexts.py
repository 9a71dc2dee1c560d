"""The TLS context that is shown: a newer certificate is never replaced by the one before it."""

import ssl
from pathlib import Path

import pytest

from delegate.daemon.connection.contexts import Contexts
from tests.protocol.pki.authorities import authority, material

SIGNER = authority()


def pair_file(directory: Path, delegate: str) -> Path:
    pair = material(SIGNER, delegate).pair
    path = directory / f"{delegate}.pem"
    path.write_bytes(pair.key.to_pem() + pair.chain_pem().encode())
    return path


def test_a_certificate_that_comes_while_files_are_read_again_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The context is made anew in a thread, which may take long; what the rotator shows meanwhile gets the new authorities too."""
    bundle = tmp_path / "bundle.pem"
    bundle.write_text(SIGNER.certificate.to_pem())
    first, second = pair_file(tmp_path, "d-1"), pair_file(tmp_path, "d-2")
    contexts = Contexts(encrypted=True, manager_authorities=bundle)
    contexts.show(contexts.make(first, ""), first, "")
    newer = contexts.make(second, "")
    bundle.write_text(SIGNER.certificate.to_pem() + authority("another").certificate.to_pem())
    make, made = contexts.make, list[Path | None]()

    def make_slowly(pair: Path | None, told: str) -> ssl.SSLContext | None:
        made.append(pair)
        context = make(pair, told)
        if len(made) == 1:
            contexts.show(newer, second, "")
        return context

    monkeypatch.setattr(contexts, "make", make_slowly)

    assert contexts.follow_files()

    assert made == [first, second]
    assert contexts._shown == (second, "")
    assert contexts.current is not newer
    assert contexts.current is not None
    assert newer is not None
    assert contexts.current.cert_store_stats()["x509_ca"] == newer.cert_store_stats()["x509_ca"] + 1
    assert not contexts.follow_files()


def test_a_context_of_before_the_change_is_made_anew(tmp_path: Path) -> None:
    """One that was made, and tried, before a file changed, and is shown after it."""
    bundle = tmp_path / "bundle.pem"
    bundle.write_text(SIGNER.certificate.to_pem())
    pair = pair_file(tmp_path, "d-1")
    contexts = Contexts(encrypted=True, manager_authorities=bundle)
    tried = contexts.make(pair, "")
    bundle.write_text(SIGNER.certificate.to_pem() + authority("another").certificate.to_pem())
    contexts.show(tried, pair, "")

    assert contexts.follow_files()
    assert contexts.current is not tried
    assert not contexts.follow_files()
