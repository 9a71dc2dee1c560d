"""What is in a spool, as the names of its files tell: `<written at>_<reason>_<id>_<sha256>.json`. Pure."""

import datetime as dt
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from delegate.daemon.deadletters.letter import Reason
from delegate.daemon.deadletters.sealing import Sealed

_TIME = "%Y%m%dT%H%M%S.%fZ"
_NAME = re.compile(r"(\d{8}T\d{6}\.\d{6}Z)_([a-z_]{1,40})_([0-9a-f]{32})_([0-9a-f]{64})\.json", re.ASCII)


class Entry(NamedTuple):
    """A letter in the spool. Sorts by age."""

    name: str
    created: str
    reason: str
    id: str
    sha256: str
    size: int

    @property
    def created_at(self) -> dt.datetime:
        return dt.datetime.strptime(self.created, _TIME).replace(tzinfo=dt.UTC)

    @property
    def gives_way(self) -> bool:
        """Whether it may be given up for the sake of others: another attempt's result stands for a superseded one."""
        return self.reason == Reason.SUPERSEDED


def entry_of(name: str, size: int) -> Entry | None:
    """The entry that a file's name tells; None where it is no letter's."""
    match = _NAME.fullmatch(name)
    return Entry(name, match[1], match[2], match[3], match[4], size) if match else None


def entry_for(sealed: Sealed) -> Entry:
    """The entry that a letter is going to be."""
    letter = sealed.letter
    created = letter.created.astimezone(dt.UTC).strftime(_TIME)
    name = f"{created}_{letter.reason}_{letter.id}_{sealed.sha256}.json"
    entry = entry_of(name, len(sealed.body))
    if entry is None:
        raise ValueError(f"{name!r} can't be the name of a dead letter's file")
    return entry


class Index:
    """The entries of a spool with their sums, kept up as they come and go."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._by_name: dict[str, Entry] = {}
        self._by_id: dict[str, str] = {}
        self.bytes = 0
        self.yielding = 0
        self.yielding_bytes = 0
        for entry in entries:
            self.add(entry)

    def __len__(self) -> int:
        return len(self._by_name)

    @property
    def by_name(self) -> Mapping[str, Entry]:
        return self._by_name

    def holds(self, letter_id: str) -> bool:
        return letter_id in self._by_id

    def add(self, entry: Entry) -> None:
        self.discard(entry)
        self._by_name[entry.name] = entry
        self._by_id[entry.id] = entry.name
        self._sum(entry, 1)

    def discard(self, entry: Entry) -> None:
        known = self._by_name.pop(entry.name, None)
        if known is not None:
            if self._by_id.get(known.id) == known.name:
                del self._by_id[known.id]
            self._sum(known, -1)

    def _sum(self, entry: Entry, sign: int) -> None:
        self.bytes += sign * entry.size
        if entry.gives_way:
            self.yielding += sign
            self.yielding_bytes += sign * entry.size
