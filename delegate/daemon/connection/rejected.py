"""Results that the manager will never take, kept for a person: one file each, the oldest given up first. Blocks; called in a thread."""

import datetime as dt
import hashlib
import re
from pathlib import Path

import msgspec
import structlog

from delegate.daemon.directories import PRIVATE_DIRECTORY, replace_file
from delegate.protocol.work import ResultItem, ResultVerdict

log = structlog.get_logger(__name__)
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Rejection(msgspec.Struct, frozen=True, rename="camel"):
    """`reason`: superseded (another attempt has the authority), or the manager's verdict."""

    reason: str
    message: str
    rejected_at: str
    item: ResultItem


class RejectedResults:
    """A bounded directory of rejections."""

    def __init__(self, directory: Path, *, most_entries: int, most_bytes: int) -> None:
        self._directory = directory
        self._most_entries = most_entries
        self._most_bytes = most_bytes

    def add(self, item: ResultItem, verdict: str, message: str) -> None:
        """Keeps one, without the token that authorized it. Raises OSError."""
        reason = "superseded" if verdict == ResultVerdict.LEASE_LOST else verdict
        bare = msgspec.structs.replace(item, attempt_token="")
        rejection = Rejection(reason, message, dt.datetime.now(dt.UTC).isoformat(timespec="seconds"), bare)
        self._directory.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)
        replace_file(self._directory / f"{_file_name(item.attempt_id)}.json", msgspec.json.encode(rejection))
        self._make_room()

    def _make_room(self) -> None:
        files = sorted(((path.stat().st_mtime_ns, path.stat().st_size, path) for path in self._directory.glob("*.json")), reverse=True)
        total = 0
        for number, (_, size, path) in enumerate(files, start=1):
            total += size
            if number > 1 and (number > self._most_entries or total > self._most_bytes):
                path.unlink()
                log.warning("outbox.rejection_given_up", file=path.name)


def _file_name(attempt_id: str) -> str:
    return attempt_id if _PLAIN_NAME.fullmatch(attempt_id) else hashlib.sha256(attempt_id.encode()).hexdigest()
