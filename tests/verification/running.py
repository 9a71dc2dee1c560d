"""Runs checks against scripted sources in virtual time."""

from collections.abc import Sequence
from typing import Any

import msgspec

from delegate.engine.verification.running import Circumstances, Verification
from delegate.model.verification.checks import Check, VerifySpec, faults_of_verification
from delegate.model.verification.records import VerificationRecord
from tests.verification.clocks import VirtualClock
from tests.verification.sources import ScriptedProvider, ScriptedProviders

PROMETHEUS = {"type": "prometheus", "provider": "prom", "query": "q", "unit": "%", "threshold": "<= 1%"}


def check(**fields: Any) -> Check:
    """A check as a document would have it, faults and all refused."""
    read = msgspec.convert({"name": "err", **PROMETHEUS, **fields}, Check)
    faults = list(faults_of_verification(VerifySpec(verification=(read,)), known=("REV",)))
    assert faults == []
    return read


def verification(
    clock: VirtualClock,
    checks: Sequence[Check],
    *providers: ScriptedProvider,
    since: float | None = None,
    deadline: float | None = None,
    pass_score: float = 100.0,
) -> Verification:
    circumstances = Circumstances(since=since, deadline=deadline, variables={"REV": "7"}, pass_score=pass_score, clock=clock, limits=clock)
    return Verification(checks, ScriptedProviders(*providers), circumstances)


async def verify(
    clock: VirtualClock,
    checks: Sequence[Check],
    *providers: ScriptedProvider,
    since: float | None = None,
    deadline: float | None = None,
    pass_score: float = 100.0,
) -> VerificationRecord:
    return await clock.run(verification(clock, checks, *providers, since=since, deadline=deadline, pass_score=pass_score).run())
