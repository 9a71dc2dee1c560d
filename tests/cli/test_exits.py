"""Why the daemon stopped decides what it ends with."""

import pytest

from delegate.cli.exits import ExitCode, exit_code_of_stop
from delegate.foundation.lifecycle import StopReason, StopRequest


@pytest.mark.parametrize(
    ("reason", "interrupted", "code"),
    [
        (None, False, ExitCode.DONE),
        (StopReason.SIGTERM, False, ExitCode.DONE),
        (StopReason.SIGTERM, True, ExitCode.INTERRUPTED),
        (StopReason.SIGINT, True, ExitCode.INTERRUPTED),
        (StopReason.REVOKED, True, ExitCode.REVOKED),
        (StopReason.SUPERSEDED, False, ExitCode.SUPERSEDED),
        (StopReason.OUTDATED, False, ExitCode.OUTDATED),
        (StopReason.PART_FAILED, True, ExitCode.PART_FAILED),
    ],
)
def test_a_stop_has_its_code(reason: StopReason | None, interrupted: bool, code: ExitCode) -> None:
    """Reasons of the manager's or of a part's outrank interrupted work."""
    assert exit_code_of_stop(StopRequest(reason) if reason else None, interrupted=interrupted) is code
