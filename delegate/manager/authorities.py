"""The authority of the manager: who signs certificates of delegates now, and whom delegates shall believe. Decisions only.

There may be several: one that signs, one that was announced and signs later, one that signed before. All of them are believed, so that
a change of authority breaks no connection: every delegate has the next one before anything is signed by it.
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from delegate.protocol.pki.bundles import Bundle
from delegate.protocol.pki.certificates import is_expired
from delegate.protocol.pki.issuing import Signer, make_authority
from delegate.protocol.pki.pairs import check_pair

AUTHORITY_NAME = "delegate manager authority"
_BACKDATED = dt.timedelta(hours=1)  # delegates whose clocks are slow believe it too


class CertificateRules(msgspec.Struct, frozen=True, kw_only=True):
    """Durations in seconds."""

    longest_life: float = 30 * 86400.0
    """A delegate that asks for more gets that."""
    default_life: float = 2 * 86400.0
    """Of a certificate whose life nobody asked for."""
    shortest_life: float = 2.0
    overlap: float = 60.0
    """How long the older certificate is good after the newer one was used first, and a connection after the end of its certificate."""
    renewal_grace: float = 7 * 86400.0
    """How long after its end a certificate still proves a renewal."""
    authority_life: float = 10 * 365 * 86400.0
    server_life: float = 30 * 86400.0
    """Of the manager's own certificate, where it signs that itself."""

    def life(self, wanted: float | None) -> float:
        """What is given for what was asked."""
        return min(self.longest_life, max(self.shortest_life, self.default_life if wanted is None else wanted))


class NewAuthority(msgspec.Struct, frozen=True):
    """As it is stored."""

    certificate: str
    key: bytes


@dataclass(frozen=True)
class StoredAuthority:
    """One of them. It signs from `signs_from` on (seconds since the epoch), unless a later one does."""

    id: str
    signer: Signer
    signs_from: float


def new_authority(now: float, rules: CertificateRules) -> NewAuthority:
    begins = moment(now)
    signer = make_authority(AUTHORITY_NAME, begins=begins - _BACKDATED, ends=begins + dt.timedelta(seconds=rules.authority_life))
    return NewAuthority(signer.certificate.to_pem(), signer.key.to_pem())


def choose_signer(authorities: Sequence[StoredAuthority], now: float) -> Signer:
    """The latest one that signs by now."""
    signing = [each for each in authorities if each.signs_from <= now and not is_expired(each.signer.certificate, moment(now))]
    # The first one signs from its creation on; where none is good any more, the newest is the best there is.
    chosen = max(signing or authorities, key=lambda each: each.signs_from)
    check_pair(chosen.signer.key, (chosen.signer.certificate,))
    return chosen.signer


def choose_bundle(authorities: Sequence[StoredAuthority], now: float) -> Bundle:
    """Whom to believe: all that are not over, the one that signs first."""
    signer = choose_signer(authorities, now).certificate
    return Bundle((signer,)).merged(each.signer.certificate for each in authorities).living(moment(now))


def moment(seconds: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(seconds, dt.UTC)
