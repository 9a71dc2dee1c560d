"""A manager or a delegate as people start it, whose machine's clock stands where a file says: `child.py manager|delegate CLOCK-FILE`.

The file holds seconds to add to the time of day, and is looked at again and again; monotonic time is left alone, as by a person who sets
the clock, or by NTP.
"""

import datetime as dt
import sys
import time
from pathlib import Path

_real = time.time
_LOOK_SECONDS = 0.2


class ShiftedClock:
    """The time of day, moved."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._shift = 0.0
        self._looked_at = 0.0

    def __call__(self) -> float:
        now = time.monotonic()
        if now - self._looked_at > _LOOK_SECONDS:
            self._looked_at = now
            try:
                self._shift = float(self._file.read_text() or 0)
            except (OSError, ValueError):
                self._shift = 0.0
        return _real() + self._shift


def main(role: str, clock_file: str) -> None:
    time.time = ShiftedClock(Path(clock_file))  # before anything of ours is imported
    from delegate.cli import program, running
    from delegate.foundation import clocks

    clocks.SystemClock.now = lambda self: dt.datetime.fromtimestamp(time.time(), dt.UTC)  # type: ignore[method-assign]
    if role == "manager":
        program.main(["manager", "serve"])
    from tests.process.child import ChildEngine

    running._build_engine = lambda settings, metrics: ChildEngine()
    program.main(["run"])


if __name__ == "__main__":
    main(*sys.argv[1:])
