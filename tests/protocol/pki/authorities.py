"""Authorities and certificates for tests, with times of the test's own."""

import datetime as dt

from delegate.protocol.pki.bundles import Bundle
from delegate.protocol.pki.certificates import Certificate
from delegate.protocol.pki.issuing import Signer, make_authority
from delegate.protocol.pki.keys import PrivateKey, make_key
from delegate.protocol.pki.pairs import Material, check_pair
from delegate.protocol.pki.requests import make_request, read_request

NOON = dt.datetime(2030, 1, 1, 12, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)


def authority(name: str = "test authority", *, at: dt.datetime = NOON) -> Signer:
    return make_authority(name, begins=at - DAY, ends=at + 3650 * DAY)


def issue(
    signer: Signer, key: PrivateKey | None = None, delegate: str = "d-1", *, at: dt.datetime = NOON, life: dt.timedelta = DAY
) -> Certificate:
    request = read_request(make_request(key or make_key(), "whatever"))
    return signer.issue_for_delegate(request, delegate, begins=at, ends=at + life)


def material(signer: Signer, delegate: str = "d-1", *, at: dt.datetime = NOON, life: dt.timedelta = DAY) -> Material:
    key = make_key()
    return Material(check_pair(key, (issue(signer, key, delegate, at=at, life=life),)), Bundle((signer.certificate,)))
