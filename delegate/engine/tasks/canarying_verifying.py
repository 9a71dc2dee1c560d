"""The verify steps of a canary: evidence of the new pods alone, from when their share was in force."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from delegate.engine.clusters.client import ApiClient
from delegate.engine.tasks.canarying_plans import Evidence
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.new_versions import await_new_version
from delegate.engine.tasks.verifying import error_of
from delegate.engine.verification.answers import Providers
from delegate.engine.verification.running import Circumstances, Verification
from delegate.foundation.quantities import parse_duration
from delegate.model.rollouts.specs import CanarySpec
from delegate.model.verification.checks import UNTIL_STOPPED, Check, Workload
from delegate.model.verification.readings import Reading, Verdict
from delegate.model.verification.records import VerificationRecord
from delegate.model.verification.windows import parse_time

_TO_CONCLUDE_SECONDS = 1.0
_OF_STABLE_SECONDS = 20.0


class CanaryChecks:
    """Runs named checks of one canary. `records`: what each step came to, in order. `fails`: failed readings, by place and name."""

    def __init__(self, spec: CanarySpec, application: str, context: AttemptContext, providers: Providers, client: ApiClient) -> None:
        self._spec = spec
        self._application = application
        self._context = context
        self._providers = providers
        self._client = client
        self.records: list[VerificationRecord] = []
        self.fails: dict[str, int] = {}

    def carry(self, fails: Mapping[str, int]) -> None:
        """Has what an attempt before has seen count."""
        self.fails = dict(fails)

    async def run(self, names: tuple[str, ...], evidence: Evidence) -> str:
        """The verdict in words. Raises NotVerifiedError for every one but pass, DelegateError."""
        return await self.carry_out(await self.prepare(names, evidence))

    def patience(self, names: tuple[str, ...]) -> float:
        """Seconds in which each of these checks has had time for an answer."""
        wanted = [check for check in self._spec.verification if check.name in names]
        return max((4 * check.every_seconds + parse_duration(check.timeout) for check in wanted), default=0.0)

    async def prepare(self, names: tuple[str, ...], evidence: Evidence, *, until_stopped: bool = False) -> Verification:
        """`until_stopped`: they have no end of their own."""
        workload = Workload(kind=evidence.kind, name=evidence.canary)
        version = await await_new_version(self._client, workload, evidence.namespace, self._context.deadline, evidence.count)
        variables = {
            "APPLICATION": self._application,
            "NAMESPACE": evidence.namespace,
            "WORKLOAD": evidence.workload,
            "CANARY": evidence.canary,
            "REVISION": version.revision,
            "PODS": version.pods,
            **({"PREVIEW": evidence.preview} if evidence.preview else {}),
        }
        place = "background" if until_stopped else f"step {evidence.step}"
        left = self._context.deadline - asyncio.get_running_loop().time() - _TO_CONCLUDE_SECONDS
        circumstances = Circumstances(
            since=max(parse_time(evidence.since), version.ready_since),
            deadline=max(0.0, left),
            variables=variables,
            carried={name: self.fails.get(f"{place}/{name}", 0) for name in names},
        )
        checks = [check for check in self._spec.verification if check.name in names]
        if until_stopped:
            checks = [msgspec.structs.replace(check, duration=UNTIL_STOPPED) for check in checks]
        return Verification(checks, self._providers, circumstances, on_reading=self._teller(place))

    async def carry_out(self, verification: Verification) -> str:
        """As `run`."""
        record = await verification.run()
        self.records.append(record)
        if record.verdict is not Verdict.PASS:
            raise error_of(record)
        return record.reason

    async def of_stable(self, evidence: Evidence) -> str:
        """What the checks that were convicted last say of the stable version, where each of them fails of it too; empty where one does not.

        They are asked once more each, with its pods in place of the new ones. Only checks that name pods can be asked of others, and only
        where the stable version is a set of its own.
        """
        last = self.records[-1] if self.records else None
        failed = {each.check.name for each in last.checks if each.verdict is Verdict.FAIL} if last is not None else set()
        checks = [check for check in self._spec.verification if check.name in failed and check.names_pods and check.compare is None]
        if last is None or not failed or len(checks) < len(failed) or evidence.canary == evidence.workload:
            return ""
        stable = Workload(kind=evidence.kind, name=evidence.workload)
        deadline = min(self._context.deadline, asyncio.get_running_loop().time() + _OF_STABLE_SECONDS)
        version = await await_new_version(self._client, stable, evidence.namespace, deadline)
        variables = {
            "APPLICATION": self._application,
            "NAMESPACE": evidence.namespace,
            "WORKLOAD": evidence.workload,
            "CANARY": evidence.workload,
            "REVISION": version.revision,
            "PODS": version.pods,
        }
        circumstances = Circumstances(since=last.since, deadline=_OF_STABLE_SECONDS, variables=variables)
        asked = [msgspec.structs.replace(check.asked_once(), name=f"{check.name} of the stable version") for check in checks]
        record = await Verification(asked, self._providers, circumstances).run()
        self.records.append(record)
        if any(each.verdict is not Verdict.FAIL for each in record.checks):
            return ""
        return "; ".join(f"{each.check.name}: {each.reason}" for each in record.checks)

    def _teller(self, place: str) -> Callable[[Check, Reading], None]:
        def tell(check: Check, reading: Reading) -> None:
            if reading.verdict is Verdict.FAIL:
                self.fails[f"{place}/{check.name}"] = self.fails.get(f"{place}/{check.name}", 0) + 1
            data: dict[str, Any] = {"check": check.name, "verdict": reading.verdict.value, "reason": reading.reason}
            self._context.report("check.read", data)

        return tell
