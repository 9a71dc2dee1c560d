"""Keeps the journal of a canary in its ConfigMap: one a workload, so that it is the workload's lock too.

Each write names the resourceVersion that was read and carries the writer's fence. Whoever comes too late is refused by the server, or by
the fence, and changes nothing.
"""

import contextlib

import msgspec

from delegate.engine.clusters import errors as cluster_errors
from delegate.engine.clusters.client import ApiClient
from delegate.engine.records.errors import JournalChangedError, LateWriterError
from delegate.model.resource_types import CONFIG_MAPS
from delegate.model.resources import JsonObject
from delegate.model.rollouts.errors import CorruptJournalError
from delegate.model.rollouts.journals import (
    JOURNAL_LABEL,
    RESUME_ANNOTATION,
    Journal,
    journal_config_map,
    journal_name,
    read_journal,
)
from delegate.model.rollouts.permissions import kind_of_journal
from delegate.model.rollouts.storms import CLEARED_ANNOTATION

_MOST_TRIES = 4
_RACES = (
    cluster_errors.StaleObjectError,
    cluster_errors.RecreatedObjectError,
    cluster_errors.AlreadyExistsError,
    cluster_errors.NotFoundError,
)


async def list_journals(client: ApiClient, namespace: str) -> list[tuple[str, Journal]]:
    """The journals of all workloads of a namespace, with the kind of each. One that can't be read is nobody's. Raises ClusterError."""
    found = []
    for body in (await client.list(CONFIG_MAPS, namespace, labels=f"{JOURNAL_LABEL}=journal")).items:
        kind = kind_of_journal(str(body["metadata"]["name"]))
        with contextlib.suppress(CorruptJournalError):
            found.append((kind, read_journal(body)))
    return found


class StoredJournal(msgspec.Struct, frozen=True):
    """A journal as it was read or written, and the ConfigMap around it. None where there is none yet."""

    journal: Journal | None = None
    config_map: JsonObject = {}


class JournalStore:
    """The journal of one workload."""

    def __init__(self, client: ApiClient, namespace: str, kind: str, name: str) -> None:
        self._client = client
        self._namespace = namespace
        self._kind = kind
        self._workload = name

    async def read(self) -> StoredJournal:
        """Raises CorruptJournalError, ClusterError."""
        try:
            config_map = await self._client.get(CONFIG_MAPS, self._namespace, journal_name(self._kind, self._workload))
        except cluster_errors.NotFoundError:
            return StoredJournal()
        return StoredJournal(read_journal(config_map), config_map)

    async def write(self, stored: StoredJournal, journal: Journal, *, keep_resume: bool = True) -> StoredJournal:
        """Replaces what was read or written before and returns what is stored now.

        Raises LateWriterError where a newer fence has written, JournalChangedError where anybody else has; nothing was changed then.
        """
        for _ in range(_MOST_TRIES):
            self._refuse_late(stored, journal)
            try:
                return StoredJournal(journal, await self._put(stored, journal, keep_resume=keep_resume))
            except cluster_errors.ClusterError as error:
                if not isinstance(error, _RACES) and not error.retryable:
                    raise
                current = await self.read()
                if current.journal == journal:
                    return current  # our own write, whose answer was lost
                self._refuse_late(current, journal)
                if current.journal != stored.journal:
                    raise JournalChangedError(
                        f"{self._place} was changed by somebody else since it was read",
                        hint="let one canary at a time run",
                        object=self._place,
                    ) from error
                stored = current
        raise JournalChangedError(f"{self._place} changes faster than it can be written", object=self._place)

    @property
    def _place(self) -> str:
        return f"ConfigMap {self._namespace}/{journal_name(self._kind, self._workload)}"

    def _refuse_late(self, current: StoredJournal, journal: Journal) -> None:
        other = current.journal
        if other is not None and other.application == journal.application and other.fence > journal.fence:
            raise LateWriterError(
                f"{self._place} was written by a newer attempt (fence {other.fence}, ours is {journal.fence})",
                hint="nothing to do: the newer attempt goes on",
                object=self._place,
            )

    async def _put(self, stored: StoredJournal, journal: Journal, *, keep_resume: bool) -> JsonObject:
        wanted = journal_config_map(self._namespace, self._kind, self._workload, journal)
        if stored.journal is None:
            return await self._client.create(CONFIG_MAPS, wanted)
        metadata = dict(stored.config_map.get("metadata") or {})
        metadata["labels"] = {**(metadata.get("labels") or {}), **wanted["metadata"]["labels"]}
        spent = set() if keep_resume else {RESUME_ANNOTATION}
        if not stored.journal.is_open and journal.is_open:
            spent.add(CLEARED_ANNOTATION)
        metadata["annotations"] = {key: value for key, value in (metadata.get("annotations") or {}).items() if key not in spent}
        metadata.pop("managedFields", None)
        return await self._client.replace(CONFIG_MAPS, {**stored.config_map, "metadata": metadata, "data": wanted["data"]})
