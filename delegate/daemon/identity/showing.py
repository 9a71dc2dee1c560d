"""What is on disk of this delegate's certificates, for people. Reads and changes nothing."""

import datetime as dt
from pathlib import Path

import msgspec

from delegate.daemon.identity.errors import CertificateDamagedError
from delegate.daemon.identity.generations import Generations
from delegate.daemon.identity.holder import in_words
from delegate.daemon.identity.outside import ADOPTED_DIRECTORY, OutsideDirectory
from delegate.protocol.pki.certificates import Certificate, CertificateHealth, health_of, renew_at
from delegate.protocol.pki.pairs import Material


class AuthorityShown(msgspec.Struct, frozen=True, rename="camel"):
    subject: str
    fingerprint: str
    ends_at: str


class CertificateDetails(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Times in RFC 3339; fingerprints are SHA-256 in hex; `health` is good, ageing, degraded or expired, by this machine's clock."""

    serial: str
    subject: str
    issuer: str
    names: tuple[str, ...]
    fingerprint: str
    key_fingerprint: str
    begins_at: str
    renewed_from: str
    ends_at: str
    seconds_left: float
    health: str


class CertificateShown(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """`certificate` is the one in use, null where there is none; `reason` says what is wrong, empty where nothing is. `outside`: somebody
    else writes the directory. `generation` counts ours."""

    directory: str
    outside: bool
    usable: bool
    reason: str = ""
    generation: int | None = None
    certificate: CertificateDetails | None = None
    authorities: tuple[AuthorityShown, ...] = ()
    damages: tuple[str, ...] = ()


def look(cert_dir: Path, state_dir: Path, now: dt.datetime | None = None) -> CertificateShown:
    """What a delegate with these directories shows its manager. Blocking. Raises StateDirectoryError where that may not be read."""
    at = now or dt.datetime.now(dt.UTC)
    outside = OutsideDirectory(cert_dir)
    if outside.is_in_use():
        return _look_outside(outside, state_dir / ADOPTED_DIRECTORY, at)
    generations = Generations(cert_dir)
    damages = _damages(generations)
    usable = generations.usable()
    number = generations.current_number()
    current = next((each for each in usable if each.number == number), usable[0] if usable else None)
    if current is None:
        reason = "no certificate is there that can be used" if damages else "there is no certificate yet"
        return CertificateShown(directory=str(cert_dir), outside=False, usable=False, reason=reason, damages=damages)
    reason = "" if current.number == number else f"the current generation {number} can't be used, so an earlier one is"
    return _shown(str(cert_dir), current.material, at, generation=current.number, reason=reason, damages=damages)


def _look_outside(outside: OutsideDirectory, kept: Path, at: dt.datetime) -> CertificateShown:
    directory = str(outside.directory)
    try:
        return _shown(directory, outside.look(at).material, at, outside=True)
    except CertificateDamagedError as error:
        damage = str(error)
    last_good = Generations(kept).load_current()
    if last_good is None:
        return CertificateShown(directory=directory, outside=True, usable=False, reason=damage)
    return _shown(directory, last_good.material, at, outside=True, reason=f"{damage}; the last good one stays in use")


def _shown(
    directory: str,
    material: Material,
    at: dt.datetime,
    *,
    outside: bool = False,
    generation: int | None = None,
    reason: str = "",
    damages: tuple[str, ...] = (),
) -> CertificateShown:
    certificate = material.certificate
    health = health_of(certificate, at)
    ended = f"it ended at {in_words(certificate.not_after)}" if health is CertificateHealth.EXPIRED else ""
    return CertificateShown(
        directory=directory,
        outside=outside,
        usable=not ended,
        reason="; ".join(filter(None, (reason, ended))),
        generation=generation,
        certificate=_details(certificate, health, at),
        authorities=tuple(
            AuthorityShown(each.subject, each.fingerprint, in_words(each.not_after)) for each in material.authorities.certificates
        ),
        damages=damages,
    )


def _details(certificate: Certificate, health: CertificateHealth, at: dt.datetime) -> CertificateDetails:
    return CertificateDetails(
        serial=certificate.serial,
        subject=certificate.subject,
        issuer=certificate.issuer,
        names=certificate.names,
        fingerprint=certificate.fingerprint,
        key_fingerprint=certificate.key_fingerprint,
        begins_at=in_words(certificate.not_before),
        renewed_from=in_words(renew_at(certificate, 0.0)),
        ends_at=in_words(certificate.not_after),
        seconds_left=round((certificate.not_after - at).total_seconds(), 3),
        health=health.value,
    )


def _damages(generations: Generations) -> tuple[str, ...]:
    damages = []
    for number in generations.numbers():
        try:
            generations.load(number)
        except CertificateDamagedError as error:
            damages.append(str(error))
    return tuple(damages)
