"""The certificate that this delegate shows from now on, and what brings another one about: requests, checks, one switch.

An answer of the manager's is put in use in one order, whoever asked for it: checked against the key and the authorities that came
with it, written whole as a generation that is not current, tried in a handshake of its own, and only then switched to, on disk first.
Whatever fails on the way, nothing has changed.
"""

import asyncio
import datetime as dt
import random
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from delegate.daemon.identity.errors import RenewalFailedError
from delegate.daemon.identity.generations import Generation, Generations
from delegate.foundation.clocks import SYSTEM_CLOCK, Clock
from delegate.foundation.errors import DelegateError
from delegate.foundation.lifecycle.retrying import Dice
from delegate.protocol.pki.bundles import check_chain, read_bundle
from delegate.protocol.pki.certificates import Certificate, CertificateHealth, health_of, read_certificates
from delegate.protocol.pki.errors import KeyMismatchError
from delegate.protocol.pki.keys import PrivateKey, make_key
from delegate.protocol.pki.pairs import Material, check_dates, check_pair
from delegate.protocol.pki.proofs import prove
from delegate.protocol.pki.requests import make_request, read_request

log = structlog.get_logger(__name__)
ROTATED, ENROLLED, ADOPTED, FAILED, REJECTED = "rotated", "enrolled", "adopted", "failed", "rejected"
OUTCOMES = (ROTATED, ENROLLED, ADOPTED, FAILED, REJECTED)
"""Of a rotation: renewed; got by enrolling; taken over from outside or another process; failed; a pair from outside that is not whole."""
_REMEMBERED_KEYS = 4


@dataclass(frozen=True)
class Issued:
    """What the manager answered: the chain and the authorities, PEM."""

    certificate: str
    authorities: str


@dataclass(frozen=True, kw_only=True)
class HolderHooks:
    """For any thread. `try_out` reaches the manager with a new generation, and raises TrialError.

    `on_current` is told what is shown from now on; None: nothing is, because the certificate ended or is refused. `on_outcome` is told
    one of OUTCOMES. `clock_error`: by how many seconds this machine's clock is ahead of the manager's.
    """

    try_out: Callable[[Generation], Awaitable[None]]
    on_current: Callable[[Generation | None], None]
    on_outcome: Callable[[str], None]
    clock_error: Callable[[], float] = lambda: 0.0


class Holder:
    """Holds the current generation and the keys of requests under way. `load` first. For any thread, in any loop."""

    def __init__(
        self,
        generations: Generations,
        hooks: HolderHooks,
        *,
        name: str = "delegate",
        clock: Clock = SYSTEM_CLOCK,
        dice: Dice = random.random,
    ) -> None:
        self.generations = generations
        self.current: Generation | None = None
        self.jitter = 0.0
        self.refused = ""
        self.failure = ""
        self._hooks = hooks
        self._name = name
        self._clock = clock
        self._dice = dice
        self._keys: dict[str, PrivateKey] = {}
        self._pending = ""
        self._guard = threading.Lock()

    def now(self) -> dt.datetime:
        """The time by the manager's clock, as far as that is known."""
        return self._clock.now() - dt.timedelta(seconds=self._hooks.clock_error())

    @property
    def certificate(self) -> Certificate | None:
        current = self.current
        return None if current is None else current.material.certificate

    @property
    def health(self) -> CertificateHealth:
        """Good, too, where there is no certificate."""
        certificate = self.certificate
        return CertificateHealth.GOOD if certificate is None else health_of(certificate, self.now())

    @property
    def is_good(self) -> bool:
        """Whether the certificate may be accepted, as far as is known here; also where there is none."""
        return not self.refused and self.health is not CertificateHealth.EXPIRED

    def expires_in_seconds(self) -> float | None:
        certificate = self.certificate
        return None if certificate is None else (certificate.not_after - self.now()).total_seconds()

    def load(self) -> None:
        """What is on disk. Blocking. Raises StateDirectoryError."""
        self.use(self.generations.load_current())

    def use(self, generation: Generation | None) -> None:
        """From now on. One that has ended is not shown: no handshake would succeed with it."""
        self.current = generation
        self.jitter = 2 * self._dice() - 1
        self.refused = self.failure = ""
        self._hooks.on_current(None if self.health is CertificateHealth.EXPIRED else generation)

    def stop_showing(self) -> None:
        """It is still there to prove a renewal with, and what is said of it stays."""
        self._hooks.on_current(None)

    def request(self) -> str:
        """The request whose certificate has not come yet, or a new one. Its key stays here until it does."""
        with self._guard:
            if not self._pending:
                key = make_key()
                self._pending = make_request(key, self._name)
                self._keys[key.fingerprint] = key
                while len(self._keys) > _REMEMBERED_KEYS:
                    del self._keys[next(iter(self._keys))]
            return self._pending

    def prove(self, csr: str) -> tuple[str, str]:
        """The current certificate and the proof that its key is here, for a renewal with this request; empty where there is none."""
        current = self.current
        if current is None:
            return "", ""
        pair = current.material.pair
        try:
            return pair.certificate.to_pem(), prove(pair.key, read_request(csr).digest)
        except DelegateError:  # a key of another kind, from outside
            return "", ""

    async def accept(self, issued: Issued, outcome: str) -> Generation:
        """Puts an answer to one of the requests in use, if it is good. Raises DelegateErrors; then nothing has changed."""
        material = self._check(issued)
        generation = await self.install(material, outcome, newer=True)
        with self._guard:
            if list(self._keys)[-1:] == [material.pair.key.fingerprint]:
                self._pending = ""
        return generation

    async def install(self, material: Material, outcome: str, *, newer: bool = False, generations: Generations | None = None) -> Generation:
        """Puts a checked pair in use; with `newer`, only if nobody put a later one in use meanwhile.

        `generations` are kept from then on instead of those so far.

        Raises StateDirectoryError, TrialError, RenewalFailedError; then nothing has changed.
        """
        generations = generations or self.generations
        generation = await asyncio.to_thread(generations.write, material)
        try:
            await self._hooks.try_out(generation)
            current = generations.current_number()
            if newer and current is not None and current > generation.number:
                raise RenewalFailedError("a newer certificate is in use already")
            await asyncio.to_thread(generations.activate, generation)
        except BaseException:
            generations.discard(generation)  # a switch that reached the disk is not taken back
            raise
        self.generations = generations
        self.take_over(generation, outcome)
        return generation

    def take_over(self, generation: Generation, outcome: str) -> None:
        """Uses one that is the current one on disk already."""
        self.use(generation)
        self.count(outcome)
        certificate = generation.material.certificate
        log.info(
            "identity.certificate_in_use",
            outcome=outcome,
            serial=certificate.serial,
            ends_at=in_words(certificate.not_after),
            generation=generation.number,
        )

    def count(self, outcome: str) -> None:
        self._hooks.on_outcome(outcome)

    def _check(self, issued: Issued) -> Material:
        chain = read_certificates(issued.certificate)
        with self._guard:
            known = self._keys.get(chain[0].key_fingerprint)
        if known is None:
            raise KeyMismatchError("the manager sent a certificate for a key that is not ours")
        material = Material(check_pair(known, chain), read_bundle(issued.authorities))
        check_dates(material.certificate, self.now())
        if material.authorities.certificates:
            check_chain(chain, material.authorities)
        return material


def in_words(time: dt.datetime) -> str:
    return time.isoformat(timespec="seconds").replace("+00:00", "Z")
