"""The journal of a canary: all that another attempt needs to go on where this one stopped, and how it ended.

One a workload, in a ConfigMap beside the Applications' records: as long as it is open, it is the workload's lock too.
"""

from collections.abc import Iterable

import msgspec

from delegate.model.inventory import APPLICATION_LABEL
from delegate.model.resources import JsonObject
from delegate.model.rollouts.errors import CorruptJournalError
from delegate.model.rollouts.loads import HeaderRoute, Load
from delegate.model.rollouts.states import ENDED, Move, Phase, after
from delegate.model.rollouts.steps import CanaryScale
from delegate.model.rollouts.storms import BadVersion

JOURNAL_LABEL = "delegate.gitops/canary"
RESUME_ANNOTATION = "delegate.gitops/resume"
_DATA_KEY = "journal.json"
_FORMAT = 1
_MOST_ENTRIES = 200
_LONGEST_WORDS = 500


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """What happened: at which step (-1: none), when (RFC 3339), in words."""

    step: int
    at: str
    words: str


class Journal(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """`step` is the one in work. `since`: when what is waited for began (a pause, a hold, a drain), empty before. `gate` counts the pauses
    and holds, up to the one that it stands at, or stood at last. `count` new pods are wanted, for `replicas` of the stable set; `scale`:
    where a step says how many there have to be whatever the weight. `weight` and `header_routes` are what leads to them.

    `release` names what the new version is, whoever brings it; `template` is the pod template that the stable version had (and `strategy`
    the update strategy of a StatefulSet), `promotes` says whether promotion may have changed it; `routes` is what the router's objects
    were before the first weight, `autoscalers` the behavior of those that are kept from scaling the stable set down. `copies` are config
    objects of the canary's own (kind, name), `kept` the copies of what the stable version reads (kind, its name, the copy's name),
    `smoke_job` is the Job of its smoke test, where it has one. `fails`: how many readings of its checks have failed, by place and check.
    `taken_back_by`: the rollback task that had it taken back, if one did. `loaded`: since when (RFC 3339) the new version has the load that
    it has. `bad` are the versions that were convicted, by this canary and ones before. `entries` say how it came about, oldest first.
    """

    application: str
    task: str
    attempt: str
    fence: int
    workload: str
    uid: str
    release: str
    phase: Phase = Phase.STARTING
    step: int = 0
    since: str = ""
    gate: int = 0
    count: int = 0
    replicas: int = 0
    weight: float = 0.0
    canary: str = ""
    promotes: bool = False
    routes: JsonObject = {}
    routing: JsonObject = {}
    template: JsonObject = {}
    strategy: JsonObject = {}
    copies: tuple[tuple[str, str], ...] = ()
    kept: tuple[tuple[str, str, str], ...] = ()
    header_routes: tuple[HeaderRoute, ...] = ()
    scale: CanaryScale | None = None
    autoscalers: dict[str, JsonObject] = {}
    drain_seconds: float = 30.0
    smoke_job: str = ""
    fails: dict[str, int] = {}
    taken_back_by: str = ""
    loaded: str = ""
    bad: tuple[BadVersion, ...] = ()
    reason: str = ""
    entries: tuple[Entry, ...] = ()
    format: int = _FORMAT

    @property
    def is_open(self) -> bool:
        return self.phase not in ENDED

    @property
    def load(self) -> Load:
        return Load(self.weight, self.header_routes)

    @property
    def told(self) -> tuple[str, ...]:
        """How it came about, step by step."""
        return tuple(
            f"{entry.at} step {entry.step}: {entry.words}" if entry.step >= 0 else f"{entry.at} {entry.words}" for entry in self.entries
        )

    def moved(self, move: Move, at: str, words: str = "") -> "Journal":
        """After a move of the state machine. Raises IllegalMoveError."""
        changed = msgspec.structs.replace(self, phase=after(self.phase, move), since="")
        return changed.noted(at, words) if words else changed

    def stepped(self, at: str, words: str) -> "Journal":
        """With the step in work done, and the next one begun."""
        changed = self.noted(at, words)
        return msgspec.structs.replace(changed, phase=after(self.phase, Move.STEP), step=self.step + 1, since="")

    def paused(self, at: str, words: str) -> "Journal":
        """At a further pause or hold."""
        return msgspec.structs.replace(self.noted(at, words), since=at, gate=self.gate + 1)

    def noted(self, at: str, words: str) -> "Journal":
        entry = Entry(self.step if self.phase in (Phase.STEPPING, Phase.HELD) else -1, at, words[:_LONGEST_WORDS])
        return msgspec.structs.replace(self, entries=bounded((*self.entries, entry)))


def bounded(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """The first and the newest of too many."""
    held = tuple(entries)
    return held if len(held) <= _MOST_ENTRIES else (*held[:10], *held[len(held) - _MOST_ENTRIES + 10 :])


def journal_name(kind: str, name: str) -> str:
    """No inventory has such a name: theirs begins with `delegate-`."""
    return f"delegate.canary.{kind.lower()}.{name}"


def journal_config_map(namespace: str, kind: str, name: str, journal: Journal) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": journal_name(kind, name),
            "namespace": namespace,
            "labels": {APPLICATION_LABEL: journal.application, JOURNAL_LABEL: "journal"},
        },
        "data": {_DATA_KEY: msgspec.json.encode(journal).decode(), "phase": journal.phase.value},
    }


def read_journal(config_map: JsonObject) -> Journal:
    """Raises CorruptJournalError."""
    metadata = config_map.get("metadata") or {}
    place = f"ConfigMap {metadata.get('namespace')}/{metadata.get('name')}"
    text = (config_map.get("data") or {}).get(_DATA_KEY, "")
    try:
        journal = msgspec.json.decode(text, type=Journal)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise CorruptJournalError(
            f"{place} holds no journal of a canary: {error}", hint="look at the workload, then delete it", object=place
        ) from error
    if journal.format > _FORMAT:
        raise CorruptJournalError(f"{place} is of a newer delegate (format {journal.format})", hint="use that delegate", object=place)
    return journal


def resume_mark(config_map: JsonObject) -> str:
    """The pause that somebody says is over, as an annotation of the journal; empty for none."""
    annotations = (config_map.get("metadata") or {}).get("annotations") or {}
    return str(annotations.get(RESUME_ANNOTATION, ""))
