"""Ctrl-C during a sync: the first stops it in order and says what was done; the second hurries."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from delegate.simulator.faults import Fault
from tests.cli.clusters import Bench
from tests.cli.manifests import EXTRA, WEB

NEVER_READY = WEB.replace("web:1.0.0", "web:never-ready")
SECONDS = 40.0


@asynccontextmanager
async def _syncing(bench: Bench, tmp_path: Path, *options: str) -> AsyncIterator[asyncio.subprocess.Process]:
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / "web.yaml").write_text(NEVER_READY)
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "delegate", "sync", str(shop), *options),
        env=bench.environment(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield child
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()


async def _read_until(child: asyncio.subprocess.Process, words: str) -> None:
    assert child.stderr is not None
    async with asyncio.timeout(SECONDS):
        while line := await child.stderr.readline():
            if words in line.decode():
                return
    pytest.fail(f"it never said {words!r}")


async def _end(child: asyncio.subprocess.Process) -> tuple[str, str]:
    async with asyncio.timeout(SECONDS):
        stdout, stderr = await child.communicate()
    assert b"Traceback" not in stderr
    return stdout.decode(), stderr.decode()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_the_first_signal_stops_in_order(bench: Bench, tmp_path: Path, number: signal.Signals) -> None:
    """3, with a result that says what stands; the Lease in the cluster is given back, so that the next sync doesn't wait for it."""
    async with _syncing(bench, tmp_path) as child:
        await _read_until(child, "default/web is Progressing")
        child.send_signal(number)
        stdout, stderr = await _end(child)

    assert child.returncode == 3
    assert "stopping; once more to hurry" in stderr
    assert "error: interrupted" in stderr
    assert "created  Progressing  apps/Deployment default/web" in stdout
    assert stdout.splitlines()[-1].startswith("interrupted: 3 resources, 3 changed")

    (tmp_path / "shop" / "web.yaml").write_text(EXTRA)
    again = await bench.run("sync", str(tmp_path / "shop"), "--app", "shop", "--prune", "-o", "json")
    assert again.document["summary"]["pruned"] == 3


async def test_an_interrupted_sync_is_a_result_for_programs(bench: Bench, tmp_path: Path) -> None:
    """One document, outcome interrupted."""
    async with _syncing(bench, tmp_path, "-o", "json") as child:
        async with asyncio.timeout(SECONDS):
            while await bench.read("/apis/apps/v1/namespaces/default/deployments/web") is None:  # noqa: ASYNC110 - it is another process
                await asyncio.sleep(0.05)
        child.send_signal(signal.SIGINT)
        stdout, _ = await _end(child)

    assert child.returncode == 3
    assert json.loads(stdout)["outcome"] == "interrupted"


async def test_the_second_signal_hurries(bench: Bench, tmp_path: Path) -> None:
    """Where putting things in order takes its time, it is not waited for any longer."""
    async with _syncing(bench, tmp_path) as child:
        await _read_until(child, "default/web is Progressing")
        bench.simulator.faults.add(Fault(kind="hang", resources=("leases",)))
        child.send_signal(signal.SIGINT)
        await _read_until(child, "stopping")
        child.send_signal(signal.SIGINT)
        _, stderr = await _end(child)

    assert child.returncode == 3, stderr
    assert "error: interrupted twice" in stderr
    assert "hint: run the same command again" in stderr
