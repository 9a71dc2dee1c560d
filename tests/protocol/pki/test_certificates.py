"""Certificates: what is read of them, and what their age means."""

import datetime as dt

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from delegate.protocol.pki.bundles import Bundle, check_chain, read_bundle
from delegate.protocol.pki.certificates import (
    CertificateHealth,
    health_of,
    is_expired,
    read_certificates,
    read_der,
    renew_at,
    share_of_life,
)
from delegate.protocol.pki.errors import KeyMismatchError, OutOfDateError, UnacceptableKeyError, UnreadablePemError, UntrustedChainError
from delegate.protocol.pki.keys import make_key
from delegate.protocol.pki.pairs import check_dates, check_pair, read_pair
from delegate.protocol.pki.proofs import is_proved, prove
from delegate.protocol.pki.requests import make_request, read_request
from tests.protocol.pki.authorities import DAY, NOON, authority, issue

AUTHORITY = authority()
CERTIFICATE = issue(AUTHORITY)
MINUTE = dt.timedelta(minutes=1)


def test_a_certificate_names_its_delegate_whatever_the_request_says() -> None:
    """Who asks decides what it is for, not what he calls himself."""
    assert CERTIFICATE.subject == "d-1"
    assert CERTIFICATE.names == ("urn:delegate:d-1",)
    assert (CERTIFICATE.issuer, CERTIFICATE.is_authority) == ("test authority", False)
    assert (CERTIFICATE.not_before, CERTIFICATE.life) == (NOON, DAY)


def test_a_certificate_is_read_as_it_was_written() -> None:
    """By itself, and as it comes in a handshake."""
    assert read_certificates(CERTIFICATE.to_pem()) == (CERTIFICATE,)
    assert read_der(CERTIFICATE.der) == CERTIFICATE


def test_certificates_of_others_are_read() -> None:
    """What a library of tests issues, with names and addresses."""
    theirs = trustme.CA().issue_cert("manager.example", "127.0.0.1")

    (leaf,) = read_certificates(theirs.cert_chain_pems[0].bytes())

    assert leaf.names == ("manager.example", "127.0.0.1")


@pytest.mark.parametrize("pem", ["", "no", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "x" * 300_000])
def test_what_is_no_certificate_is_refused(pem: str) -> None:
    """Also when there is a lot of it."""
    with pytest.raises(UnreadablePemError):
        read_certificates(pem)


def test_a_bundle_has_each_authority_once() -> None:
    """While one takes over from another, both are in it."""
    next_one = authority("next")
    both = read_bundle(AUTHORITY.certificate.to_pem() + next_one.certificate.to_pem() * 2)

    assert both.fingerprints == (AUTHORITY.certificate.fingerprint, next_one.certificate.fingerprint)
    assert both.merged([AUTHORITY.certificate]) == both == read_bundle(both.to_pem())
    assert both.living(NOON + 4000 * DAY) == Bundle() == read_bundle(" \n")


def test_health_follows_age() -> None:
    """Good until two thirds, ageing until nine tenths, degraded until the end."""
    health = [health_of(CERTIFICATE, NOON + DAY * share) for share in (-0.1, 0.0, 0.66, 0.67, 0.89, 0.901, 0.99999, 1.0)]

    assert [each.value for each in health] == ["good", "good", "good", "ageing", "ageing", "degraded", "degraded", "expired"]


@given(st.floats(-1, 1))
def test_renewal_is_at_half_life_give_or_take_a_tenth(jitter: float) -> None:
    """Never so late that anybody is warned."""
    at = renew_at(CERTIFICATE, jitter)

    assert 0.399 <= share_of_life(CERTIFICATE, at) <= 0.601
    assert health_of(CERTIFICATE, at) is CertificateHealth.GOOD
    assert not is_expired(CERTIFICATE, at)


def test_a_key_of_another_certificate_is_no_pair() -> None:
    """Half of a rotation is noticed before it is used."""
    key, other = make_key(), make_key()
    chain = issue(AUTHORITY, key).to_pem()

    assert read_pair(key.to_pem(), chain).certificate.key_fingerprint == key.fingerprint
    with pytest.raises(KeyMismatchError):
        read_pair(other.to_pem(), chain)
    with pytest.raises(KeyMismatchError):
        check_pair(key, ())


@pytest.mark.parametrize(("at", "fits"), [(-DAY, False), (-4 * MINUTE, True), (DAY / 2, True), (DAY, False)])
def test_dates_are_checked_with_some_patience_for_clocks(at: dt.timedelta, fits: bool) -> None:
    """A minute in the future is a clock; a day in the future is not."""
    if fits:
        check_dates(CERTIFICATE, NOON + at)
    else:
        with pytest.raises(OutOfDateError):
            check_dates(CERTIFICATE, NOON + at)


def test_a_chain_leads_to_an_authority_of_the_bundle() -> None:
    """By itself, or over an intermediate that came along."""
    check_chain((CERTIFICATE,), Bundle((AUTHORITY.certificate,)))
    check_chain((CERTIFICATE, AUTHORITY.certificate), Bundle((AUTHORITY.certificate,)))
    for chain in ((CERTIFICATE,), (CERTIFICATE, AUTHORITY.certificate)):
        with pytest.raises(UntrustedChainError):
            check_chain(chain, Bundle((authority().certificate,)))

    root = trustme.CA()
    theirs = root.create_child_ca().issue_cert("a.example")
    over = read_certificates(b"".join(each.bytes() for each in theirs.cert_chain_pems))
    check_chain(over, read_bundle(root.cert_pem.bytes()))
    with pytest.raises(UntrustedChainError):
        check_chain(over[:1], read_bundle(root.cert_pem.bytes()))


def test_a_request_is_told_by_its_digest_and_proves_its_key() -> None:
    """The same request again is the same; a request that was changed is none."""
    key = make_key()
    pem = make_request(key, "d-1")

    assert read_request(pem) == read_request(pem)
    assert read_request(pem).key_fingerprint == key.fingerprint
    lines = pem.splitlines()
    lines[-2] = ("A" if lines[-2][0] != "A" else "B") + lines[-2][1:]
    with pytest.raises((UnreadablePemError, UnacceptableKeyError)):
        read_request("\n".join(lines))
    for none in ("", "x", "é", "x" * 20_000):
        with pytest.raises(UnreadablePemError):
            read_request(none)


def test_a_proof_is_for_one_key_and_one_request() -> None:
    """Nobody gets anything by repeating somebody else's."""
    key = make_key()
    certificate = issue(AUTHORITY, key)
    proof = prove(key, "digest")

    assert is_proved(certificate, proof, "digest")
    assert not is_proved(certificate, proof, "another")
    assert not is_proved(CERTIFICATE, proof, "digest")
    assert not is_proved(certificate, "é nothing", "digest")
