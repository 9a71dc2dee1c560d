"""What is to be done about a certificate now. Pure."""

import datetime as dt
import enum

from delegate.protocol.pki.certificates import Certificate, is_expired, renew_at

_LOOKS_PER_LIFE = 40
_SHORTEST_LOOK, _LONGEST_LOOK = 0.1, 5.0
_TRIES_PER_LIFE = 20
_SHORTEST_CAP, _LONGEST_CAP = 0.2, 60.0


class Step(enum.Enum):
    WAIT = "wait"
    OBTAIN = "obtain"  # there is none yet
    RENEW = "renew"
    RECOVER = "recover"  # it is over, or the manager refuses it: a proof of it, else enrolling again


def next_step(certificate: Certificate | None, now: dt.datetime, *, jitter: float, refused: bool) -> Step:
    """`jitter` goes from -1 to 1; `refused`: the manager does not accept this certificate."""
    if certificate is None:
        return Step.OBTAIN
    if refused or is_expired(certificate, now):
        return Step.RECOVER
    return Step.RENEW if now >= renew_at(certificate, jitter) else Step.WAIT


def look_interval(certificate: Certificate | None) -> float:
    """Seconds until the time of day is read again. Short enough for a certificate that lives seconds, and after a suspend."""
    if certificate is None:
        return 1.0
    return min(_LONGEST_LOOK, max(_SHORTEST_LOOK, certificate.life.total_seconds() / _LOOKS_PER_LIFE))


def longest_wait(certificate: Certificate | None) -> float:
    """Seconds; the cap of the wait between two tries, so that several fit into what is left of the life."""
    if certificate is None:
        return _LONGEST_CAP
    return min(_LONGEST_CAP, max(_SHORTEST_CAP, certificate.life.total_seconds() / _TRIES_PER_LIFE))
