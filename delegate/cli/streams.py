"""Standard error as it is when something is written, not as it was when logging was set up.

While progress is redrawn on a terminal, `sys.stderr` is what keeps other lines above the drawing.
"""

import io
import sys
from typing import Any


class LateStandardError(io.BytesIO):
    """A binary stream whose bytes go through `sys.stderr`; it keeps nothing."""

    def write(self, data: Any) -> int:
        written = bytes(data)
        sys.stderr.write(written.decode(errors="replace"))
        return len(written)

    def flush(self) -> None:
        sys.stderr.flush()

    def isatty(self) -> bool:
        return sys.stderr.isatty()
