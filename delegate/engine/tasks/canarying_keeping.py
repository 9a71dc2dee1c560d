"""The journal of a canary as one attempt keeps it: under its Lease, told as it moves, with the times that waits are measured by."""

import datetime as dt
from collections.abc import Sequence

from delegate.engine.records.journals import JournalStore, StoredJournal
from delegate.engine.tasks.canarying_patience import repeated
from delegate.engine.tasks.canarying_sets import Authority
from delegate.engine.tasks.contexts import AttemptContext
from delegate.foundation.clocks import Clock
from delegate.model.rollouts.journals import Journal, resume_mark
from delegate.model.rollouts.pauses import pause_of
from delegate.model.rollouts.steps import Step


class JournalKeeper:
    """Whoever works on a canary reads its `journal` here, and has it changed by `record` alone.

    Others are shown where it pauses, and a word that a pause is over opens the one that it is meant for.
    """

    def __init__(
        self,
        store: JournalStore,
        stored: StoredJournal,
        authority: Authority,
        context: AttemptContext,
        *,
        clock: Clock,
        steps: Sequence[Step],
    ) -> None:
        assert stored.journal is not None
        self._store = store
        self._stored = stored
        self._authority = authority
        self._context = context
        self._clock = clock
        self._steps = steps
        self.journal: Journal = stored.journal

    async def record(self, journal: Journal) -> None:
        """Raises LateWriterError, JournalChangedError, ClusterError, LeaseLostError."""
        self._authority.check()
        stored, before = self._stored, self.journal
        keep_resume = (journal.gate, journal.step, journal.phase) == (before.gate, before.step, before.phase)
        self._stored = await repeated(self._clock, lambda: self._store.write(stored, journal, keep_resume=keep_resume))
        if journal.entries != before.entries:
            last = journal.entries[-1].words
            self._context.report("canary.moved", {"phase": journal.phase.value, "step": journal.step, "words": last})
        self.journal = journal
        self.show()

    async def pause(self, journal: Journal, words: str) -> None:
        """Begins a further pause or hold: what was said before is about another, maybe said twice. Raises as `record`."""
        self._context.resume.clear()
        await self.record(journal.paused(self.now(), words))

    def show(self) -> None:
        """Tells where the canary pauses now, if it does."""
        self._context.paused(pause_of(self.journal, self._steps))

    async def is_resumed(self) -> bool:
        """By a command of the manager, or by the annotation of the journal: the number of the pause, or `now`. Raises ClusterError."""
        if self._context.resume.take(self.journal.gate):
            return True
        current = await self._store.read()
        return resume_mark(current.config_map) in ("now", str(self.journal.gate))

    def now(self) -> str:
        return self._clock.now().isoformat()

    def since(self) -> float:
        """Seconds since what is being waited for began, by the clock of the day: it may have begun in another process."""
        if not self.journal.since:
            return 0.0
        return max(0.0, (self._clock.now() - dt.datetime.fromisoformat(self.journal.since)).total_seconds())
