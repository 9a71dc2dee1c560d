"""Checks that run beside a canary's steps, from its first weight until its promotion: the moment they convict, the canary goes back.

Of what they saw the journal keeps the fails alone: whoever goes on after a crash, or with another weight, begins them anew, needs evidence
of their own again, and allows no more fails than were allowed in the first place.
"""

import asyncio
from collections.abc import Mapping

from delegate.engine.tasks.canarying_plans import Evidence
from delegate.engine.tasks.canarying_verifying import CanaryChecks
from delegate.engine.tasks.errors import CanaryFailedError
from delegate.engine.verification.running import Verification
from delegate.foundation.clocks import Clock

_CONCLUDE_SECONDS = 30.0


class BackgroundChecks:
    """Those that the canary's spec names as `background`; with none all of this does nothing."""

    def __init__(self, checks: CanaryChecks | None, names: tuple[str, ...], clock: Clock) -> None:
        self._checks = checks
        self._names = names
        self._clock = clock
        self._patience = checks.patience(names) if checks is not None else 0.0
        self._asked_since = 0.0
        self._verification: Verification | None = None
        self._task: asyncio.Task[str] | None = None
        self.is_any = bool(names)

    @property
    def fails(self) -> Mapping[str, int]:
        """How many each check of the canary has had, those of its verify steps among them."""
        return self._checks.fails if self._checks is not None else {}

    def carry(self, fails: Mapping[str, int]) -> None:
        """From now on these are what it has had."""
        if self._checks is not None:
            self._checks.carry(fails)

    def begin(self, evidence: Evidence) -> None:
        """Runs them from now on, unless they run already."""
        if not self._names or self._task is not None:
            return
        if self._checks is None:
            raise CanaryFailedError("this delegate runs no checks, so nothing is verified", hint="leave `background` out")
        self._asked_since = self._clock.monotonic()
        self._task = asyncio.create_task(self._run(self._checks, evidence))

    def check(self) -> None:
        """Raises NotVerifiedError where they have come to something else than good, DelegateError where they can't be run."""
        if self._task is not None and self._task.done():
            self._task.result()

    def has_evidence(self) -> bool:
        """Whether each of them has been answered, or has had the time for it."""
        if not self._names or self._clock.monotonic() - self._asked_since > self._patience:
            return True
        return self._verification is not None and all(each.tally.informative for each in self._verification.record().checks)

    async def conclude(self) -> str:
        """Ends them, and says what they came to. Raises as `check`: also where there is no evidence, for that is no good news."""
        if not self._names:
            return ""
        self.check()
        if self._task is None or self._verification is None:
            raise CanaryFailedError("the background checks have not been answered once", hint="give the steps more time")
        self._verification.finish()
        try:
            async with asyncio.timeout(_CONCLUDE_SECONDS):
                return await self._task
        except TimeoutError as error:
            words = f"the background checks have not ended {_CONCLUDE_SECONDS:g} s after they were told to"
            raise CanaryFailedError(words, hint="look at their sources") from error

    async def stop(self) -> None:
        """They are of no more interest; begun again, they begin anew."""
        task, self._task, self._verification = self._task, None, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self, checks: CanaryChecks, evidence: Evidence) -> str:
        self._verification = await checks.prepare(self._names, evidence, until_stopped=True)
        return await checks.carry_out(self._verification)
