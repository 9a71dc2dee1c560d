"""A manager's part, in one object: issues, loses answers, refuses, and is reached or not, as a test says."""

import asyncio
import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from delegate.daemon.identity.errors import RenewalFailedError, TrialError
from delegate.daemon.identity.generations import Generation, Generations
from delegate.daemon.identity.holder import Holder, HolderHooks, Issued
from delegate.daemon.identity.outside import OutsideDirectory
from delegate.daemon.identity.rotator import Asking, Rotator, RotatorHooks
from delegate.protocol.pki.certificates import read_certificates
from delegate.protocol.pki.issuing import Signer
from delegate.protocol.pki.proofs import is_proved
from delegate.protocol.pki.requests import read_request
from tests.foundation.clocks import ManualClock
from tests.protocol.pki.authorities import authority


class TurningClock(ManualClock):
    """Sleeps take no time but what they say; `jump` is what a suspend does: the time of day goes on, nothing else.

    `ahead` is by how much it is wrong; `truth` is what others have. With `allowed` set, so many sleeps come to their end.
    """

    def __init__(self) -> None:
        super().__init__()
        self.suspended = 0.0
        self.ahead = 0.0
        self.allowed: asyncio.Semaphore | None = None

    async def sleep(self, seconds: float) -> None:
        if self.allowed is not None:
            await self.allowed.acquire()
        await super().sleep(seconds)

    def now(self) -> dt.datetime:
        return self.truth() + dt.timedelta(seconds=self.ahead)

    def truth(self) -> dt.datetime:
        return super().now() + dt.timedelta(seconds=self.suspended)

    def jump(self, seconds: float) -> None:
        self.suspended += seconds


@dataclass
class Issuer:
    """`faults` are raised by the next calls, in order; `trial_faults` by the next trials. `proved` counts renewals with a good proof."""

    clock: TurningClock
    signer: Signer = field(default_factory=lambda: authority(at=dt.datetime.fromtimestamp(1000, dt.UTC)))
    life_seconds: float | None = None
    faults: list[Exception | None] = field(default_factory=list)
    trial_faults: list[Exception | None] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    enrolments: list[str] = field(default_factory=list)
    proved: int = 0
    lose_answers: int = 0
    issued: dict[str, Issued] = field(default_factory=dict)

    async def renew(self, asking: Asking) -> Issued:
        self.requests.append(asking.csr)
        if self.faults and (fault := self.faults.pop(0)) is not None:
            raise fault
        if asking.proof:
            (old,) = read_certificates(asking.certificate)
            self.proved += is_proved(old, asking.proof, read_request(asking.csr).digest)
        answer = self.issue(asking.csr, asking.life_seconds)
        if self.lose_answers:
            self.lose_answers -= 1
            raise RenewalFailedError("the answer got lost")
        return answer

    async def enrol(self, csr: str) -> Issued:
        self.enrolments.append(csr)
        return self.issue(csr, 100.0)

    def issue(self, csr: str, life_seconds: float) -> Issued:
        request = read_request(csr)
        if request.digest not in self.issued:
            now = self.clock.truth()
            ends = now + dt.timedelta(seconds=self.life_seconds or life_seconds)
            certificate = self.signer.issue_for_delegate(request, "d-1", begins=now, ends=ends)
            self.issued[request.digest] = Issued(certificate.to_pem(), self.signer.certificate.to_pem())
        return self.issued[request.digest]

    async def try_out(self, generation: Generation) -> None:
        if self.trial_faults and (fault := self.trial_faults.pop(0)) is not None:
            raise fault


@dataclass
class Bench:
    """A rotator with its holder, on a clock that the test turns; `shown` are the serials that were shown, empty for none."""

    directory: Path
    clock: TurningClock
    issuer: Issuer
    holder: Holder
    rotator: Rotator
    shown: list[str]
    outcomes: list[str]

    @property
    def serial(self) -> str:
        assert self.holder.certificate is not None
        return self.holder.certificate.serial

    def serial_on_disk(self) -> str:
        found = Generations(self.directory / "own").load_current()
        assert found is not None
        return found.material.certificate.serial

    async def look(self) -> None:
        """What the rotator does each time."""
        try:
            await self.rotator._look()
        except Exception as error:
            if not isinstance(error, RenewalFailedError | TrialError):
                raise
            self.rotator._fail(error)


def bench(
    directory: Path,
    *,
    interval: float = 50.0,
    generations: Generations | None = None,
    dice: Callable[[], float] = lambda: 0.5,
    clock_error: Callable[[], float] = lambda: 0.0,
    enrolled: Callable[[], bool] = lambda: True,
) -> Bench:
    clock = TurningClock()
    issuer = Issuer(clock)
    shown: list[str] = []
    outcomes: list[str] = []

    def show(generation: Generation | None) -> None:
        shown.append("" if generation is None else generation.material.certificate.serial)

    holder = Holder(
        generations or Generations(directory / "own"),
        HolderHooks(try_out=issuer.try_out, on_current=show, on_outcome=outcomes.append, clock_error=clock_error),
        clock=clock,
        dice=dice,
    )
    outside = OutsideDirectory(directory / "outside")
    rotator = Rotator(
        holder,
        RotatorHooks(renew=issuer.renew, enrol=issuer.enrol, is_enrolled=enrolled),
        interval_seconds=interval,
        outside=outside,
        clock=clock,
        dice=dice,
    )
    return Bench(directory, clock, issuer, holder, rotator, shown, outcomes)
