"""The certificate of this delegate, wired: kept and rotated by the identity, shown by the connections, asked for by the session.

Enrolment brings the first one, in the control lane's thread; the rotator, a part of the main loop, brings all others. Both come in use
in the same way: a TLS context is made with the new certificate, the manager is pinged over it, and from then on new connections are
opened with it.
"""

import asyncio
import ssl
import time
from pathlib import Path

import structlog

from delegate.daemon.connection.contexts import Contexts
from delegate.daemon.connection.enrolling import EnrolmentRefusedError
from delegate.daemon.connection.errors import (
    CertificateRefusedError,
    CertificateRejectedError,
    InvalidError,
    RevokedError,
    TransportError,
    UntrustedError,
)
from delegate.daemon.connection.keeper import SessionKeeper
from delegate.daemon.connection.pinging import fetch_authorities, ping
from delegate.daemon.connection.skew import ClockSkew
from delegate.daemon.connection.transport import Endpoint
from delegate.daemon.connection.trust import AuthoritiesError
from delegate.daemon.identity.errors import RenewalRefusedError, TrialError, UnsupportedError
from delegate.daemon.identity.generations import Generation, Generations
from delegate.daemon.identity.holder import ENROLLED, Holder, HolderHooks, Issued
from delegate.daemon.identity.outside import ADOPTED_DIRECTORY, OutsideDirectory
from delegate.daemon.identity.rotator import Asking, Rotator, RotatorHooks
from delegate.foundation.authorities import child_bundle, write_bundle
from delegate.foundation.clocks import SYSTEM_CLOCK, Clock
from delegate.foundation.secrets import Secret
from delegate.foundation.settings.programs import DelegateSettings
from delegate.foundation.settings.proxies import ProxyRules
from delegate.foundation.telemetry.metrics import DelegateMetrics
from delegate.protocol.pki.bundles import read_bundle
from delegate.protocol.pki.errors import PkiError

log = structlog.get_logger(__name__)
FEATURE = "certificates"
_TRIAL_SECONDS = 10.0
_FILES_SECONDS = 5.0
_REPLACED_WITHIN_SECONDS = 5.0
_DOUBT_SECONDS, _TRIALS = 2.0, 3


class Certificates:
    """`load`, then `attach` the keeper, then `run` and `follow_files` as parts. `endpoint` is what every lane connects to."""

    def __init__(self, settings: DelegateSettings, metrics: DelegateMetrics, *, clock: Clock = SYSTEM_CLOCK) -> None:
        link, identity = settings.link, settings.identity
        self._metrics = metrics
        self._pin = link.manager_ca_pin
        self._life_seconds = 2 * identity.rotate_interval
        self._keeper: SessionKeeper | None = None
        self._prepared: dict[int, ssl.SSLContext | None] = {}
        self._pinned = False
        self._unsettled_at: float | None = None
        self._doubted = False
        self.skew = ClockSkew(clock)
        self._contexts = Contexts(
            encrypted=link.url.startswith("https:"),
            authorities=settings.network.ssl_cert_file,
            manager_authorities=link.manager_ca_file,
        )
        self.endpoint = Endpoint(
            join=link.join,
            proxy=ProxyRules.from_settings(settings.network).address_for,
            contexts=lambda: self._contexts.current,
            on_answer=self.skew.hear,
            clock=clock,
            settled=self._is_settled,
        )
        self._authorities = settings.network.ssl_cert_file
        self._child_bundle = child_bundle(identity.state_dir, self._authorities)
        self._outside = OutsideDirectory(identity.cert_dir)
        self.holder = Holder(
            Generations(identity.cert_dir),
            HolderHooks(
                try_out=self._try_out,
                on_current=self._show,
                on_outcome=metrics.record_rotation,
                clock_error=lambda: self.skew.known_seconds,
            ),
            name=identity.name,
            clock=clock,
        )
        self.rotator = Rotator(
            self.holder,
            RotatorHooks(renew=self._renew, enrol=self._enrol, is_enrolled=self._is_enrolled),
            interval_seconds=identity.rotate_interval,
            outside=self._outside,
            kept=Generations(identity.state_dir / ADOPTED_DIRECTORY),
            clock=clock,
        )
        metrics.watch(metrics.clock_skew, lambda: self.skew.known_seconds)

    def load(self) -> None:
        """What is on disk, from now on. Blocking. Raises StateDirectoryError, AuthoritiesError."""
        self.rotator.load()
        self._write_child_bundle()

    def attach(self, keeper: SessionKeeper) -> None:
        """Who asks the manager."""
        self._keeper = keeper

    # Asked and told by the session keeper, in its thread.

    def signing_request(self) -> tuple[str, float | None]:
        """For an enrolment; none where somebody else writes the certificate."""
        return ("", None) if self._outside.is_in_use() else (self.holder.request(), self._life_seconds)

    async def keep(self, certificate: str, authorities: str) -> None:
        """What an enrolment brought. Raises DelegateErrors; then there is none yet."""
        await self.holder.accept(Issued(certificate, authorities), ENROLLED)

    async def find_authority(self) -> None:
        """Believes the manager's authority if it is the pinned one; once. Raises TransportError, UntrustedError."""
        told = self.holder.current is not None and not self._outside.is_in_use()  # the manager has said by now whom to believe
        if not self._pin or self._pinned or told or not self._contexts.encrypted:
            return
        try:
            found = read_bundle(await fetch_authorities(self.endpoint, _TRIAL_SECONDS))
        except PkiError as error:
            raise TransportError(f"what came instead of the manager's authorities: {error}") from error
        pinned = [each for each in found.certificates if each.fingerprint == self._pin]
        if not pinned:
            raise UntrustedError(
                f"the authority of what answers there is not the pinned one but {', '.join(found.fingerprints) or 'none'}",
                hint="compare DELEGATE_MANAGER_CA_PIN with the fingerprint that the manager logs at its start (manager.authority)",
            )
        await asyncio.to_thread(self._contexts.pin, pinned[0].to_pem())
        self._pinned = True
        log.info("connection.authority_pinned", sha256=self._pin)

    # In the main loop.

    async def run(self) -> None:
        await self.rotator.run()

    def doubt(self) -> None:
        """A connection was cut. For any thread."""
        self._doubted = True

    async def settle_doubts(self) -> None:
        """Finds out whether connections are cut over the certificate.

        One that an unknown authority signed is refused after the handshake, and the reason often gets lost with the connection.
        """
        while True:
            await asyncio.sleep(_DOUBT_SECONDS)
            current = self.holder.current
            if not self._doubted or current is None or not self._contexts.encrypted or not self.holder.is_good:
                continue
            self._doubted = False
            words = await self._find_rejection(current)
            if words and self.holder.current is current:
                self.rotator.refuse(words)

    async def _find_rejection(self, current: Generation) -> str:
        """What speaks against the certificate; empty where the manager answers with it, or does not answer without it either."""
        for _ in range(_TRIALS):
            try:
                await ping(self.endpoint, self._contexts.current, _TRIAL_SECONDS)
            except CertificateRejectedError as error:
                return str(error)
            except TransportError:
                continue
            return ""
        try:
            bare = await asyncio.to_thread(self._contexts.make, None, current.material.authorities.to_pem())
            await ping(self.endpoint, bare, _TRIAL_SECONDS)
        except (TransportError, AuthoritiesError):
            return ""
        return (
            "the manager answers without the certificate, and ends every connection with it; it may not know the authority that signed it"
        )

    async def follow_files(self) -> None:
        """Believes what the files of authorities say also when they change."""
        while True:
            await asyncio.sleep(_FILES_SECONDS)
            try:
                if await asyncio.to_thread(self._contexts.follow_files):
                    await asyncio.to_thread(self._write_child_bundle)
                    log.info("connection.authorities_reloaded")
            except (AuthoritiesError, TransportError) as error:
                log.warning("connection.authorities_not_reloaded", error=str(error), hint=error.hint)

    def _write_child_bundle(self) -> None:
        """Git and credential plugins believe whom we believe. Raises AuthoritiesError."""
        if self._authorities in (None, self._child_bundle):
            return
        try:
            write_bundle(self._child_bundle, self._authorities)
        except OSError as error:
            raise AuthoritiesError(
                f"the authorities of SSL_CERT_FILE can't be written to {self._child_bundle} for child processes: {error.strerror}",
                hint="let the user that runs this write to DELEGATE_STATE_DIR",
            ) from error

    # What the rotator and the holder ask.

    def _is_settled(self) -> bool:
        """Whether there is nothing to wait for: the certificate is good, or there is none, or another one does not come."""
        if self.holder.is_good:
            self._unsettled_at = None
            return True
        now = time.monotonic()
        if self._unsettled_at is None:
            self._unsettled_at = now
        return now - self._unsettled_at > _REPLACED_WITHIN_SECONDS

    def _is_enrolled(self) -> bool:
        return self._keeper is not None and self._keeper.current is not None

    async def _renew(self, asking: Asking) -> Issued:
        keeper = self._asked()
        try:
            answer = await keeper.renew_certificate(asking.csr, asking.life_seconds, asking.certificate, asking.proof)
        except CertificateRefusedError as error:
            raise RenewalRefusedError(str(error), hint=error.hint) from error
        except RevokedError as error:
            keeper.end(error)
            raise RenewalRefusedError(str(error), hint=error.hint) from error
        except InvalidError as error:
            if error.status == 404:
                raise UnsupportedError("the manager gives no certificates") from error
            raise
        return Issued(answer.certificate, answer.authorities)

    async def enrol_with(self, token: Secret) -> None:
        """Enrols this delegate with another token; its certificate is a new one then, where nobody else writes them.

        Raises RenewalRefusedError where the manager does not take the token, or another DelegateError; then nothing has changed.
        """
        try:
            if self._outside.is_in_use() or not self._gives_certificates():
                await self._known_keeper().enrol_for_certificate("", None, token)
            else:
                await self.rotator.enrol_again(lambda csr: self._enrol_by(csr, token))
        except (RevokedError, EnrolmentRefusedError) as error:  # the token's fault; what this delegate has is as good as before
            raise RenewalRefusedError(str(error), hint=error.hint) from error

    async def _enrol_by(self, csr: str, token: Secret) -> Issued:
        answer = await self._known_keeper().enrol_for_certificate(csr, self._life_seconds, token)
        return Issued(answer.certificate, answer.authorities)

    async def _enrol(self, csr: str) -> Issued:
        keeper = self._asked()
        try:
            answer = await keeper.enrol_for_certificate(csr, self._life_seconds)
        except RevokedError as error:
            keeper.end(error)
            raise RenewalRefusedError(str(error), hint=error.hint) from error
        except EnrolmentRefusedError as error:
            raise RenewalRefusedError(str(error), hint=error.hint) from error
        if not answer.certificate:
            raise UnsupportedError("the manager gives no certificates")
        return Issued(answer.certificate, answer.authorities)

    def _asked(self) -> SessionKeeper:
        if not self._gives_certificates():
            raise UnsupportedError("the manager gives no certificates")
        return self._known_keeper()

    def _gives_certificates(self) -> bool:
        """Whether the manager does, as far as it has said."""
        session = self._known_keeper().current
        return session is None or FEATURE in session.features

    def _known_keeper(self) -> SessionKeeper:
        assert self._keeper is not None, "attach() comes first"
        return self._keeper

    async def _try_out(self, generation: Generation) -> None:
        try:
            context = await asyncio.to_thread(self._contexts.make, *self._parts(generation))
            await ping(self.endpoint, context, _TRIAL_SECONDS)
        except (TransportError, AuthoritiesError) as error:
            raise TrialError(f"the manager was not reached with the new certificate: {error}", hint=error.hint) from error
        self._prepared = {generation.number: context}

    def _show(self, generation: Generation | None) -> None:
        parts = self._parts(generation)
        number = -1 if generation is None else generation.number
        context = self._prepared.pop(number) if number in self._prepared else self._contexts.make(*parts)
        self._contexts.show(context, *parts)
        certificate = self.holder.certificate
        self._metrics.set_certificate_expiry(None if certificate is None else certificate.not_after.timestamp())

    def _parts(self, generation: Generation | None) -> tuple[Path | None, str]:
        """What a context shows, and what the manager said to believe: that stays when the certificate has ended."""
        holding = generation or self.holder.current
        told = "" if holding is None else holding.material.authorities.to_pem()
        return (None if generation is None else generation.pair_file), told
