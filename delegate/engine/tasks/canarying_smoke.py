"""Runs the smoke test of a canary in a Job of its own, once for each release, and takes the Job away."""

from delegate.engine.clusters.access import Access, may
from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.errors import AlreadyExistsError, ClusterError, RbacError
from delegate.engine.tasks.canarying_patience import may_pass
from delegate.engine.tasks.canarying_sets import Authority, delete_made
from delegate.engine.tasks.errors import CanaryFailedError, ForeignSetError
from delegate.model.resource_types import JOBS, PODS
from delegate.model.resources import JsonObject
from delegate.model.rollouts.journals import JOURNAL_LABEL
from delegate.model.rollouts.permissions import OF_A_SMOKE_TEST
from delegate.model.rollouts.smoke import SmokeTest, container_of, failure_of, has_passed, smoke_job, what_keeps_it

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0


async def check_smoke_test(client: ApiClient, namespace: str, template: JsonObject, test: SmokeTest) -> None:
    """Before anything is written: whether there is such a container, and whether we may make its Job, read it, and take it away again.

    Raises CanarySpecError, RbacError, ClusterError.
    """
    container_of(template, test)
    if test.verify:
        return
    group, resource, verbs = OF_A_SMOKE_TEST
    missing = [verb for verb in verbs if not await may(client, Access(verb, group, resource, namespace))]
    if missing:
        rule = f'{{apiGroups: ["{group}"], resources: ["{resource}"], verbs: [{", ".join(missing)}]}}'
        raise RbacError(f"the smoke test needs to {', '.join(missing)} Jobs in {namespace}", hint=f"add to a Role in {namespace}: {rule}")


class SmokeJob:
    """The Job of one release, by its name: one that a dead attempt has begun goes on, and is not begun again.

    It stays until the journal, its `owner`, holds what it came to.
    """

    def __init__(self, client: ApiClient, authority: Authority, *, namespace: str, name: str, application: str, owner: JsonObject) -> None:
        self._client = client
        self._authority = authority
        self.name = name
        self._namespace = namespace
        self._application = application
        self._owner = owner

    async def run(self, template: JsonObject, test: SmokeTest) -> str:
        """What was tested, in words. Raises CanaryFailedError where it doesn't pass in time, in the words of its pod."""
        clock = self._client.clock
        await self._ensure(template, test)
        ends_at, pause = clock.monotonic() + test.timeout_seconds, _SHORTEST_PAUSE
        while True:
            self._authority.check()
            is_over = clock.monotonic() >= ends_at
            try:
                await self._look()
                if await self._has_passed():
                    return f"Job {self.name}"
            except ClusterError as error:
                if is_over or not may_pass(error):
                    raise
            if is_over:
                raise self._failed(f"it has not ended within {test.timeout_seconds:g} s")
            await clock.sleep(min(pause, max(0.0, ends_at - clock.monotonic())))
            pause = min(pause * 1.3, _LONGEST_PAUSE)

    async def clear(self) -> None:
        """Deletes it and its pod, where it is ours."""
        await delete_made(self._client, self._authority, JOBS, self._namespace, self.name)

    async def _ensure(self, template: JsonObject, test: SmokeTest) -> None:
        body = smoke_job(template, test, name=self.name, namespace=self._namespace, application=self._application, owner=self._owner)
        self._authority.check()
        try:
            await self._client.create(JOBS, body)
        except AlreadyExistsError:
            found = await self._client.get(JOBS, self._namespace, self.name)
            if JOURNAL_LABEL not in (found["metadata"].get("labels") or {}):
                words = f"Job {self._namespace}/{self.name} stands where the smoke test would, and is not of our making"
                raise ForeignSetError(words, hint="rename or remove it", object=f"batch/Job {self._namespace}/{self.name}") from None

    async def _has_passed(self) -> bool:
        job = await self._client.get(JOBS, self._namespace, self.name)
        passed = has_passed(job)
        if passed is False:
            raise self._failed(failure_of(job, await self._pods()))
        return bool(passed)

    async def _look(self) -> None:
        if kept := what_keeps_it(await self._pods()):
            raise self._failed(f"its pod can't start: {kept}")

    async def _pods(self) -> list[JsonObject]:
        return list((await self._client.list(PODS, self._namespace, labels=f"job-name={self.name}")).items)

    def _failed(self, words: str) -> CanaryFailedError:
        place = f"batch/Job {self._namespace}/{self.name}"
        return CanaryFailedError(f"the smoke test did not pass: {words}", hint="the new version got no load", object=place)
