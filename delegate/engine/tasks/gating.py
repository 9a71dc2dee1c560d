"""Puts a plan before the policies: what would be written, made anew, run as a hook or pruned, each as one subject."""

from collections.abc import Iterable, Sequence

import msgspec

from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.discovery import Discovery
from delegate.engine.clusters.errors import NotFoundError
from delegate.engine.policies.gates import Gate, Verdict
from delegate.engine.tasks.concurrency import for_each
from delegate.model.hooks import Hook
from delegate.model.plan import PlannedChange
from delegate.model.policies.exemptions import exemptions_of
from delegate.model.policies.violations import Locate, Operation, Setting, Subject
from delegate.model.resources import JsonObject
from delegate.model.tasks import Task


class PolicyCheck:
    """Asks a gate about one plan."""

    def __init__(
        self, gate: Gate, client: ApiClient, discovery: Discovery, task: Task, *, namespace: str, locate: Locate | None = None
    ) -> None:
        self._gate = gate
        self._locate = locate
        self._client = client
        self._discovery = discovery
        exempted = exemptions_of(task.annotations)
        self._setting = Setting(task.application, task.environment, namespace, exempted)

    async def judge(self, changes: Iterable[PlannedChange], prunes: Iterable[PlannedChange], hooks: Iterable[Hook]) -> Verdict:
        """What is not written is not judged: a plan without writes goes through any gate."""
        await self._gate.refresh()
        writes = [change for change in changes if change.writes or change.error is not None]
        subjects = [_subject(change) for change in (*writes, *prunes)]
        if not subjects:
            return Verdict()
        manifests = {id(hook.manifest): hook.manifest for hook in hooks}
        subjects += [Subject(manifest.key, Operation.CREATE, manifest) for manifest in manifests.values()]
        if self._gate.reads_old_objects:
            subjects = await self._with_old(subjects, [*writes, *prunes])
        return await self._gate.judge(subjects, self._setting, self._locate)

    async def _with_old(self, subjects: list[Subject], changes: Sequence[PlannedChange]) -> list[Subject]:
        live = [change for change in changes if change.uid]
        found = await for_each(live, self._read)
        old = {change.key: body for change, body in zip(live, found, strict=True)}
        return [msgspec.structs.replace(subject, old=old.get(subject.key)) for subject in subjects]

    async def _read(self, change: PlannedChange) -> JsonObject | None:
        resource_type = await self._discovery.resource_for(change.key.group_kind, change.version)
        try:
            return await self._client.get(resource_type, change.key.namespace, change.key.name)
        except NotFoundError:
            return None


def _subject(change: PlannedChange) -> Subject:
    if change.manifest is None:
        return Subject(change.key, Operation.DELETE)
    return Subject(change.key, Operation.UPDATE if change.uid else Operation.CREATE, change.manifest)
