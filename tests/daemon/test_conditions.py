"""Probes, metrics and logs say how the delegate is, and why it takes no work."""

import asyncio
import errno
import os
import socket
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from structlog.testing import capture_logs

from delegate.daemon.conditions import Conditions, Watchdog
from delegate.daemon.directories import write_all
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.stopping import outcome_of
from delegate.foundation.lifecycle import LoopMonitor
from delegate.foundation.telemetry.systemd import Notifier
from delegate.model.results import TaskResult
from delegate.model.tasks import Task
from delegate.protocol import routes
from tests.daemon.harness import Running, TestEngine, result_of, running_behind_proxy, running_daemon, settings_for
from tests.daemon.waiting import eventually
from tests.fakes.fault_proxy import Fault
from tests.fakes.scripted_manager import scripted_manager


async def probe(running: Running, path: str) -> tuple[int, dict[str, Any]]:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{running.daemon.port}{path}") as response:
        return response.status, await response.json()


async def metric(running: Running, name: str) -> float:
    body, _ = running.daemon.metrics.expose()
    [line] = [line for line in body.decode().splitlines() if line.startswith(name + " ")]
    return float(line.rpartition(" ")[2])


async def test_a_working_delegate_is_ready(tmp_path: Path) -> None:
    """Registered, link fresh: healthy, ready, up; and the token's end is known."""
    async with running_behind_proxy(tmp_path, TestEngine()) as (operator, _, running):
        await operator.finished(await operator.submit("shop"))

        assert await probe(running, "/healthz") == (200, {"status": "healthy"})
        assert await probe(running, "/readyz") == (200, {"status": "ready"})
        assert (await probe(running, "/api/v1/register"))[0] == 200
        assert await metric(running, "harness_delegate_up") == 1.0
        assert await metric(running, "harness_delegate_task_capacity") == 4.0
        assert await metric(running, 'harness_delegate_tasks_total{kind="sync",outcome="succeeded"}') == 1.0
        assert await metric(running, "harness_delegate_token_expiry_timestamp_seconds") > time.time()


async def test_a_lost_link_is_told_and_found_again(tmp_path: Path) -> None:
    """Case 02: while the manager is away the delegate is healthy and not ready, with the reason; then it is back."""
    async with running_behind_proxy(tmp_path, TestEngine()) as (_, proxy, running):
        proxy.partition()
        await eventually(lambda: not running.daemon.conditions.link_fresh)

        status, body = await probe(running, "/readyz")
        assert status == 503
        assert "the manager has not answered lately" in body["reasons"][0]
        assert "was cut" in body["reasons"][0]
        assert await probe(running, "/healthz") == (200, {"status": "healthy"})
        assert await metric(running, "harness_delegate_up") == 0.0

        proxy.heal()

        await eventually(lambda: running.daemon.conditions.report().unready == ())


async def test_a_full_disk_stops_the_taking_of_tasks_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result of what ran stays in memory until there is room, readiness says why, and then it all goes on by itself."""
    full = False

    def write(descriptor: int, data: bytes) -> None:
        if full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write_all(descriptor, data)

    engine = TestEngine()
    async with running_behind_proxy(tmp_path, engine) as (operator, _, running):
        file = running.daemon._outbox._file
        assert file is not None
        monkeypatch.setattr(file._disk, "write", write)
        full = True
        first = await operator.submit("shop")
        await eventually(lambda: running.daemon._outbox.full_reason)

        status, body = await probe(running, "/readyz")
        assert status == 503
        [reason] = [each for each in body["reasons"] if "No space left on device" in each]
        assert str(tmp_path) in reason
        assert "free some space" in reason
        await eventually(lambda: running.daemon._lanes.poller._blocked_by)
        second = await operator.submit("store")
        await operator.until(second, lambda shown: shown["task"]["state"] == "queued")
        assert (await operator.show(first))["task"]["state"] == "running"

        full = False

        for task in (first, second):
            shown = await operator.finished(task)
            assert shown["task"]["outcome"] == "succeeded"
            assert shown["task"]["attempts"] == 1


async def test_a_stuck_loop_is_seen_from_outside() -> None:
    """Case 13: late is not ready after ten seconds, and beyond the limit it is what a restart mends."""
    clock = [0.0]
    conditions = Conditions(stall_limit=300.0)
    conditions.registered = True
    conditions.touch()
    with LoopMonitor(monotonic=lambda: clock[0]) as monitor:
        conditions.monitor = monitor
        clock[0] += 20.0
        report = conditions.report()
        assert report.unhealthy == ()
        assert any("20 s late" in reason for reason in report.unready)

        clock[0] += 400.0

        assert any("stuck" in reason for reason in conditions.report().unhealthy)


async def test_the_watchdog_is_fed_only_while_the_loop_lives(tmp_path: Path) -> None:
    """systemd hears a sign of life as long as the main loop is not given up."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(5.0)
        conditions = Conditions(stall_limit=300.0)
        with Watchdog(Notifier(str(tmp_path / "notify"), 0.1), conditions):
            assert await asyncio.to_thread(listening.recv, 100) == b"WATCHDOG=1"
            conditions.stall_limit = -1.0
            listening.settimeout(0.5)
            with pytest.raises(TimeoutError):
                await asyncio.to_thread(receive_all, listening)


def receive_all(listening: socket.socket) -> None:
    while True:
        listening.recv(100)


async def test_what_a_login_page_did_is_logged_once(tmp_path: Path) -> None:
    """Case 36: during the time of the page the result waits; the log says once who answered."""
    with capture_logs() as logs:
        async with running_behind_proxy(tmp_path, TestEngine()) as (operator, proxy, _):
            proxy.inject(Fault.HTML, routes.RESULTS, count=3)
            shown = await operator.finished(await operator.submit("shop"))
    assert shown["task"]["outcome"] == "succeeded"
    told = [entry for entry in logs if entry["event"] == "connection.failed" and entry["route"] == routes.RESULTS]
    assert [(entry["status"], entry["content_type"], entry["via"]) for entry in told] == [(200, "text/html", "1.1 portal")]


async def test_no_token_is_ever_logged(tmp_path: Path) -> None:
    """Neither the bootstrap token nor those of session, refresh and attempts are in any log line, nor in the metrics."""
    with capture_logs() as logs:
        async with running_behind_proxy(tmp_path, TestEngine()) as (operator, proxy, running):
            proxy.inject(Fault.CUT, routes.HEARTBEAT)
            await operator.finished(await operator.submit("shop"))
            session = running.daemon._lanes.keeper.current
            assert session is not None
            secrets = [session.token.reveal(), running.daemon._lanes.keeper._credentials.refresh_token.reveal()]
            bodies = b"".join(each.body for each in proxy.passed if each.route == routes.RESULTS).decode()
            secrets.append(bodies.partition('"attemptToken":"')[2].partition('"')[0])
            metrics, _ = running.daemon.metrics.expose()
            told = f"{logs} {metrics.decode()} {session!r}"
    assert all(len(secret) > 20 for secret in secrets)
    assert not [secret for secret in secrets if secret in told]


async def test_a_cancel_reaches_a_running_task_at_once(tmp_path: Path) -> None:
    """Case 44: within two seconds, with the poll open; sent twice it is one ending; a queued one is never handed out."""
    told_at: list[float] = []

    async def until_stopped(task: Task, context: AttemptContext) -> TaskResult:
        verdict = await context.stop.wait()
        told_at.append(time.monotonic())
        return result_of(task, context, outcome_of(verdict))

    engine = TestEngine(until_stopped)
    async with running_behind_proxy(tmp_path, engine) as (operator, _, _):
        running_task = await operator.submit("shop")
        await eventually(lambda: engine.began)
        queued = await operator.submit("shop")
        sent_at = time.monotonic()
        for task in (queued, queued, running_task, running_task):
            await operator.ask("POST", f"/tasks/{task}/cancel", {})

        shown = await operator.finished(running_task)

        assert told_at[0] - sent_at < 2.0
        assert shown["task"]["outcome"] == "cancelled"
        assert (await operator.finished(queued))["task"]["outcome"] == "cancelled"
        assert len(engine.began) == 1


async def test_the_skew_of_versions_is_told_by_the_manager(tmp_path: Path) -> None:
    """Unknown before anybody was asked; the manager of another version says which one it is."""
    async with scripted_manager(version="0.0.1") as manager:
        settings = settings_for(manager.url, "bootstrap", tmp_path / "delegate")
        async with running_daemon(settings, TestEngine()) as running:
            await running.registered()

            await eventually(lambda: 'skew="newer"' in running.daemon.metrics.expose()[0].decode())
            assert 'skew="unknown"' not in running.daemon.metrics.expose()[0].decode()
