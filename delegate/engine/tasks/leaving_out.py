"""What a sync leaves alone because a canary is at work on it: the workload, and the configuration that its stable pods read.

Its journal is the workload's lock. A sync that wrote the new version there would complete the canary behind its back, unverified.
"""

from collections.abc import Iterable

from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.errors import ForbiddenError
from delegate.engine.records.journals import list_journals
from delegate.engine.tasks.errors import CanaryBusyError
from delegate.model.resource_types import VERSIONED
from delegate.model.resources import ResourceKey
from delegate.model.rollouts.journals import Journal
from delegate.model.rollouts.versions import config_references


async def held_by_canaries(client: ApiClient, objects: Iterable[ResourceKey], task: str) -> dict[ResourceKey, str]:
    """Of these objects, those that a canary of another task has at work, with its task and Application in words. Raises ClusterError."""
    members = set(objects)
    kinds = {type.group_kind for type in VERSIONED.values()}
    held: dict[ResourceKey, str] = {}
    for namespace in sorted({key.namespace for key in members if key.group_kind in kinds}):
        try:
            journals = await list_journals(client, namespace)
        except ForbiddenError:
            continue  # who may not list them gets no canary either: its records need it
        for kind, journal in journals:
            if journal.is_open and journal.task != task and kind:
                words = f"the canary of task {journal.task} of {journal.application} is at work on it"
                held |= {key: words for key in _keys(kind, journal, namespace) if key in members}
    return held


async def refuse_held(client: ApiClient, objects: Iterable[ResourceKey], task: str) -> None:
    """Raises CanaryBusyError where a canary has begun since the plan was made."""
    for key, words in (await held_by_canaries(client, objects, task)).items():
        raise CanaryBusyError(f"{key}: {words}, since the plan was made", hint="sync again: it will be left out", object=str(key))


def _keys(kind: str, journal: Journal, namespace: str) -> Iterable[ResourceKey]:
    yield ResourceKey(VERSIONED[kind].group, kind, namespace, journal.workload)
    for reference, name in config_references(journal.template):
        yield ResourceKey("", reference, namespace, name)
