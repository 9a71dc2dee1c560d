"""What child processes print, kept within a budget: the beginning and the end, with a marker for what was dropped."""

from collections import deque

LONGEST_LINE_BYTES = 64 * 1024
DEFAULT_BUDGET_BYTES = 64 * 1024 * 1024
_CONTINUATION = 0b1000_0000
_CONTINUATION_MASK = 0b1100_0000


class BoundedOutput:
    """Collects output of any length in bounded memory.

    The first half of the budget keeps the beginning; the rest keeps the end (always at least the last 64 KiB). Lines
    longer than 64 KiB are cut there, between characters of UTF-8.
    """

    def __init__(self, budget_bytes: int = DEFAULT_BUDGET_BYTES) -> None:
        self._head_room = budget_bytes // 2
        self._tail_room = max(budget_bytes - budget_bytes // 2, LONGEST_LINE_BYTES)
        self._head: list[bytes] = []
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._partial = b""
        self.received_bytes = 0
        self.dropped_bytes = 0

    def feed(self, chunk: bytes) -> None:
        self.received_bytes += len(chunk)
        data = self._partial + chunk
        while True:
            end = data.find(b"\n", 0, LONGEST_LINE_BYTES)
            if end < 0 and len(data) > LONGEST_LINE_BYTES:
                cut = _character_boundary(data, LONGEST_LINE_BYTES)
                self._keep(data[:cut] + b"\n")
                data = data[cut:]
                continue
            # Everything up to the last line end goes at once where no line in it can be too long.
            whole = data.rfind(b"\n", 0, LONGEST_LINE_BYTES) + 1
            if not whole:
                break
            self._keep(data[:whole])
            data = data[whole:]
        self._partial = data

    def close(self) -> None:
        """The stream has ended: what is left is a line without an end."""
        if self._partial:
            self._keep(self._partial)
            self._partial = b""

    def text(self) -> str:
        """What was kept, so far; bytes that are no UTF-8 read as U+FFFD."""
        parts = list(self._head)
        if self.dropped_bytes:
            parts.append(b"[... %d bytes dropped ...]\n" % self.dropped_bytes)
        return b"".join([*parts, *self._tail, self._partial]).decode(errors="replace")

    def _keep(self, block: bytes) -> None:
        if self._head_room:
            if len(block) <= self._head_room:
                self._head.append(block)
                self._head_room -= len(block)
                return
            whole = block.rfind(b"\n", 0, self._head_room) + 1
            self._head.append(block[:whole])
            self._head_room, block = 0, block[whole:]
        self._tail.append(block)
        self._tail_bytes += len(block)
        while self._tail_bytes - len(self._tail[0]) >= self._tail_room:
            dropped = self._tail.popleft()
            self._tail_bytes -= len(dropped)
            self.dropped_bytes += len(dropped)


def _character_boundary(data: bytes, position: int) -> int:
    """The last place at or before `position` where no character of UTF-8 is cut."""
    for candidate in range(position, position - 4, -1):
        if data[candidate] & _CONTINUATION_MASK != _CONTINUATION:
            return candidate
    return position
