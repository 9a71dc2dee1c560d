"""A real haproxy that cuts quiet ways: learned by both lanes, counted as no fault, and no task waits for it."""

from pathlib import Path

import msgspec
import pytest
from structlog.testing import capture_logs

from delegate.daemon.connection.transport import Limits
from tests.daemon.harness import QUICK_RHYTHM, QUICK_RULES, TestEngine, running_daemon, running_manager, settings_for
from tests.daemon.networks.servers import haproxy
from tests.daemon.secured import faults
from tests.daemon.waiting import eventually


@pytest.mark.parametrize("mode", ["tcp", "http"])
async def test_a_proxy_that_cuts_quiet_polls_is_learned(tmp_path: Path, mode: str) -> None:
    """Case 01: in TCP mode the way is closed, in HTTP mode a 504 page comes; after two of them polls are shorter than that."""
    rhythm = msgspec.structs.replace(QUICK_RHYTHM, poll_seconds=8.0, lease_seconds=20.0)
    rules = QUICK_RULES.__class__(pool=QUICK_RULES.pool, limits=Limits(connect=5.0, stall=10.0, slack=10.0))
    with capture_logs() as logs:
        async with running_manager(tmp_path, rhythm=rhythm) as operator:
            with haproxy(int(operator.manager.url.rpartition(":")[2]), mode=mode, idle_milliseconds=1300) as port:
                settings = settings_for(f"http://127.0.0.1:{port}", await operator.token(), tmp_path / "delegate")
                async with running_daemon(settings, TestEngine(), rules=rules) as running:
                    await running.registered()

                    def learned() -> set[str]:
                        return {each["lane"] for each in logs if each["event"] == "connection.poll_shortened"}

                    await eventually(lambda: learned() == {"work", "control"})
                    shown = await operator.finished(await operator.submit("shop"))

                    assert shown["task"]["outcome"] == "succeeded"
                    assert len(shown["attempts"]) == 1
                    assert faults(running.daemon) == 0
    told = [each for each in logs if each["event"] == "connection.poll_shortened"]
    assert all(each["wait_seconds"] < 1.3 for each in told)
    assert sorted(each["lane"] for each in told) == ["control", "work"]
