"""The rotator: a sidecar coroutine that keeps this delegate's certificate from ending.

It reads the time of day every few seconds instead of sleeping until the certificate's half life: a sleep does not count the time that
a machine was suspended. The clock is put right by what is known of the manager's, so a wrong clock neither misses a renewal nor makes
a good certificate look ended.

Whatever fails in a rotation, the old certificate stays in use, and it is tried again with full jitter, with the same request until it
succeeds: an answer that got lost is only asked for again. After the end, or when the manager refuses the certificate, a renewal is
proved by its key where the manager allows that; else the delegate enrols again.

Where somebody else writes certificates, the rotator watches them instead and asks for none. A generation that another process switched to
(`delegate certs rotate`) is taken over.
"""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

import structlog

from delegate.daemon.identity.errors import CertificateDamagedError, IdentityError, RenewalRefusedError, UnsupportedError
from delegate.daemon.identity.generations import Generation, Generations
from delegate.daemon.identity.holder import ADOPTED, ENROLLED, FAILED, REJECTED, ROTATED, Holder, Issued, in_words
from delegate.daemon.identity.outside import OutsideDirectory, Stamp
from delegate.daemon.identity.steps import Step, longest_wait, look_interval, next_step
from delegate.foundation.clocks import SYSTEM_CLOCK, Clock
from delegate.foundation.errors import DelegateError
from delegate.foundation.lifecycle import backoff
from delegate.foundation.lifecycle.retrying import Dice
from delegate.protocol.pki.certificates import Certificate, CertificateHealth

log = structlog.get_logger(__name__)
_FIRST_WAIT = 1.0
_UNSUPPORTED_SECONDS = 300.0


@dataclass(frozen=True)
class Asking:
    """A request for a certificate. `certificate` and `proof` show who had the one before, where there was one."""

    csr: str
    life_seconds: float
    certificate: str = ""
    proof: str = ""


@dataclass(frozen=True, kw_only=True)
class RotatorHooks:
    """`renew` and `enrol` ask the manager; they raise RenewalRefusedError, UnsupportedError, or another DelegateError where trying again
    may help. `is_enrolled`: whether the manager knows this delegate, so that there is somebody to ask for a first certificate."""

    renew: Callable[[Asking], Awaitable[Issued]]
    enrol: Callable[[str], Awaitable[Issued]]
    is_enrolled: Callable[[], bool] = lambda: True


class Rotator:
    """`run` beside other parts until cancelled."""

    def __init__(
        self,
        holder: Holder,
        hooks: RotatorHooks,
        *,
        interval_seconds: float,
        outside: OutsideDirectory,
        kept: Generations | None = None,
        clock: Clock = SYSTEM_CLOCK,
        dice: Dice = random.random,
    ) -> None:
        """`interval_seconds` is the wanted time between rotations; the life asked for is twice that.

        `kept` is where pairs from outside are kept instead of the holder's own generations: what somebody else writes is not ours to add
        to, and may be mounted for reading alone.
        """
        self._holder = holder
        self._hooks = hooks
        self._life_seconds = 2 * interval_seconds
        self._outside = outside
        self._kept = kept or holder.generations
        self._clock = clock
        self._dice = dice
        self._told: tuple[int, CertificateHealth] = (0, CertificateHealth.GOOD)
        self._adopted: Stamp = ()
        self._rejected: Stamp = ()
        self._passed_over: int | None = None
        self._one_at_a_time = asyncio.Lock()
        self._wake = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._retry_at = 0.0
        self._waits = self._new_waits()

    # For any thread.

    def reason(self) -> str:
        """Why this delegate is not ready for work as far as its certificate goes; empty when it is."""
        holder, certificate = self._holder, self._holder.certificate
        if certificate is None:
            return ""
        health = holder.health
        because = f": {holder.failure}" if holder.failure else ""
        if self._outside.is_in_use():
            repair = f"have its issuer write a new one into {self._outside.directory}"
        else:
            repair = "run `delegate certs rotate --delegate-token-file FILE` with a token that lives"
        if health is CertificateHealth.EXPIRED:
            return f"certificate_expired: the certificate ended at {in_words(certificate.not_after)}{because}; {repair}"
        if holder.refused:
            return f"certificate_refused: {holder.refused}{because}; {repair}"
        if health is CertificateHealth.DEGRADED:
            return f"certificate_old: the certificate ends at {in_words(certificate.not_after)} and was not renewed{because}"
        return ""

    def refuse(self, words: str) -> None:
        """The manager does not accept the certificate: get another one now."""
        if self._holder.certificate is None or self._holder.refused:
            return
        log.warning("identity.certificate_refused", error=words)
        self._holder.refused = words
        self.wake()

    def wake(self) -> None:
        """Has the rotator look at once."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._wake.set)

    # Blocking, before anything else.

    def load(self) -> None:
        """What is on disk; from outside, where nothing was ever used before. Raises StateDirectoryError."""
        in_use = self._outside.is_in_use()
        if in_use:
            self._holder.generations = self._kept
        self._holder.load()
        if self._holder.current is not None or not in_use:
            return
        with contextlib.suppress(CertificateDamagedError):
            look = self._outside.look(self._holder.now())
            generation = self._holder.generations.write(look.material)
            self._holder.generations.activate(generation)
            self._adopted = look.stamp
            self._holder.take_over(generation, ADOPTED)

    # In the main loop.

    async def run(self) -> None:
        self._loop = asyncio.get_running_loop()
        while True:
            try:
                await self._look()
            except DelegateError as error:
                self._fail(error)
            await self._pause(look_interval(self._holder.certificate))

    async def rotate(self) -> Generation:
        """One rotation, now. Raises DelegateErrors; then the old certificate stays in use."""
        step = self._next_step()
        return await self._carry_out(Step.RENEW if step is Step.WAIT else step)

    async def enrol_again(self, enrol: Callable[[str], Awaitable[Issued]]) -> Generation:
        """A certificate by another enrolment, now, whatever the age of this one. Raises DelegateErrors; then this one stays in use."""
        async with self._one_at_a_time:
            return await self._holder.accept(await enrol(self._holder.request()), ENROLLED)

    async def _look(self) -> None:
        await self._follow_switch()
        self._tell_age()
        if await asyncio.to_thread(self._outside.is_in_use):
            await self._adopt_outside()
            return
        step = self._next_step()
        if step is Step.WAIT or self._clock.monotonic() < self._retry_at:
            return
        if step is Step.OBTAIN and not self._hooks.is_enrolled():
            return
        await self._carry_out(step)

    def _next_step(self) -> Step:
        holder = self._holder
        return next_step(holder.certificate, holder.now(), jitter=holder.jitter, refused=bool(holder.refused))

    async def _carry_out(self, step: Step) -> Generation:
        if self._outside.is_in_use():
            raise IdentityError("somebody else writes the certificates here", hint=f"have them write into {self._outside.directory}")
        async with self._one_at_a_time:
            csr = self._holder.request()
            generation = await (self._recover(csr) if step is Step.RECOVER else self._renew(csr))
        self._retry_at = 0.0
        self._waits = self._new_waits()
        return generation

    async def _renew(self, csr: str) -> Generation:
        certificate, proof = self._holder.prove(csr)
        asking = Asking(csr, self._life_seconds, certificate, proof)
        return await self._holder.accept(await self._hooks.renew(asking), ROTATED)

    async def _recover(self, csr: str) -> Generation:
        """By the key of the certificate that ended, where the manager allows that; else by a token."""
        self._holder.stop_showing()
        try:
            return await self._renew(csr)
        except RenewalRefusedError as error:
            log.info("identity.enrolling_again", error=str(error))
        return await self._holder.accept(await self._hooks.enrol(csr), ENROLLED)

    async def _follow_switch(self) -> None:
        """Takes over what another process made the current one; one that can't be used is told once, and this one stays."""
        holder = self._holder
        number = await asyncio.to_thread(holder.generations.current_number)
        if number is None or number == self._passed_over or (holder.current is not None and number == holder.current.number):
            return
        try:
            generation = await asyncio.to_thread(holder.generations.load, number)
        except CertificateDamagedError as error:
            self._passed_over = number
            holder.count(REJECTED)
            log.error("identity.generation_damaged", generation=number, error=str(error))
            return
        holder.take_over(generation, ADOPTED)

    async def _adopt_outside(self) -> None:
        stamp = await asyncio.to_thread(self._outside.stamp)
        if stamp == self._adopted or self._clock.monotonic() < self._retry_at:
            return
        try:
            look = await asyncio.to_thread(self._outside.look, self._holder.now())
        except CertificateDamagedError as error:
            if stamp != self._rejected:
                self._rejected = stamp
                self._holder.failure = str(error)
                self._holder.count(REJECTED)
                log.warning("identity.certificate_rejected", error=str(error), hint=error.hint)
            return
        certificate = self._holder.certificate
        if certificate is None or look.material.certificate.fingerprint != certificate.fingerprint:
            await self._holder.install(look.material, ADOPTED, generations=self._kept)
        self._adopted = look.stamp

    def _fail(self, error: DelegateError) -> None:
        if isinstance(error, UnsupportedError):
            self._retry_at = self._clock.monotonic() + _UNSUPPORTED_SECONDS
            return
        wait = next(self._waits)
        self._retry_at = self._clock.monotonic() + wait
        self._holder.count(FAILED)
        if str(error) != self._holder.failure:
            self._holder.failure = str(error)
            log.warning("identity.rotation_failed", error=str(error), hint=error.hint, retry_in_seconds=round(wait, 2))

    def _tell_age(self) -> None:
        """Once for each threshold that a certificate passes."""
        current, health = self._holder.current, self._holder.health
        if current is None or health is CertificateHealth.GOOD or self._told == (current.number, health):
            return
        self._told = (current.number, health)
        certificate: Certificate = current.material.certificate
        facts = {"serial": certificate.serial, "ends_at": in_words(certificate.not_after), "error": self._holder.failure}
        match health:
            case CertificateHealth.AGEING:
                log.warning("identity.certificate_ageing", **facts)
            case CertificateHealth.DEGRADED:
                log.error("identity.certificate_degraded", **facts)
            case CertificateHealth.EXPIRED:
                log.error("identity.certificate_expired", **facts)
                self._holder.stop_showing()
                self._retry_at = 0.0

    def _new_waits(self) -> Iterator[float]:
        cap = longest_wait(self._holder.certificate)
        return backoff(min(_FIRST_WAIT, cap), cap, self._dice)

    async def _pause(self, seconds: float) -> None:
        sleeping = asyncio.ensure_future(self._clock.sleep(seconds))
        waking = asyncio.ensure_future(self._wake.wait())
        try:
            await asyncio.wait({sleeping, waking}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            waking.cancel()
        if self._wake.is_set():
            self._wake.clear()
            self._retry_at = 0.0
