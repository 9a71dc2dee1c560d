"""Two writers of one field: noticed, named, and not fought.

A field of ours that somebody else changed is set back. Where it is changed again, and again, setting it back helps nobody: after
`PATIENCE` times in a row it is left to the other, for longer each time; then it is tried once more. A new version of the object
begins anew, for somebody may have settled it there.
"""

from collections.abc import Iterable, Mapping

import msgspec

from delegate.model.resources import ResourceKey

PATIENCE = 3
"""How often in a row a field is set back before it is left alone."""

FIRST_TRUCE_SECONDS = 300.0
LONGEST_TRUCE_SECONDS = 24 * 3600.0
FORGOTTEN_AFTER_SECONDS = 2 * LONGEST_TRUCE_SECONDS
"""Longer than any truce: a change that comes after it is a new one."""

MOST_CONTESTS = 200


class Contest(msgspec.Struct, frozen=True, array_like=True):
    """How often fields of an object were taken back from whom; `last` in seconds since 1970, `wanted` the hash of what was applied."""

    group: str
    kind: str
    namespace: str
    name: str
    wanted: str
    managers: tuple[str, ...]
    count: int
    last: float

    @property
    def key(self) -> ResourceKey:
        return ResourceKey(self.group, self.kind, self.namespace, self.name)

    @property
    def until(self) -> float:
        """When the next try is due; 0 while patience lasts."""
        if self.count < PATIENCE:
            return 0.0
        return self.last + min(LONGEST_TRUCE_SECONDS, FIRST_TRUCE_SECONDS * 2.0 ** (self.count - PATIENCE))


def standing(contest: Contest | None, wanted: str, managers: Iterable[str], now: float) -> Contest | None:
    """The contest, where it still keeps us from taking fields from these managers."""
    if contest is None or contest.wanted != wanted or now >= contest.until:
        return None
    return contest if set(managers) & set(contest.managers) else None


def note_taken(contests: Iterable[Contest], taken: Mapping[ResourceKey, tuple[str, tuple[str, ...]]], now: float) -> tuple[Contest, ...]:
    """What to remember once fields were taken back: `taken` holds the hash of what was applied and from whom. The oldest are forgotten."""
    known = {contest.key: contest for contest in contests if now - contest.last < FORGOTTEN_AFTER_SECONDS}
    for key, (wanted, managers) in taken.items():
        before = known.get(key)
        if before is not None and before.wanted == wanted and now < before.until and not set(managers) & set(before.managers):
            continue  # taken from somebody else meanwhile: the truce with the first goes on
        goes_on = before is not None and before.wanted == wanted and set(managers) & set(before.managers)
        count = before.count + 1 if before is not None and goes_on else 1
        everybody = tuple(sorted({*managers, *(before.managers if before is not None and goes_on else ())}))
        known[key] = Contest(*key, wanted, everybody, count, now)
    latest = sorted(known.values(), key=lambda contest: contest.last)[-MOST_CONTESTS:]
    return tuple(sorted(latest, key=lambda contest: contest.key))
