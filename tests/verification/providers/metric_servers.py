"""Prometheus and VictoriaMetrics as Debian packages them, scraping an exporter of the test on a free port."""

import asyncio
import contextlib
import os
import shutil
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

_DEADLINE_SECONDS = 50.0
_SCRAPE = """
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: wren
    static_configs: [{{targets: ["{target}"]}}]
"""


def require_server(name: str) -> str:
    """A server's path. Without it the test is skipped, on CI failed."""
    found = shutil.which(name)
    if found is None:
        words = f"{name} is missing: run `make services`, or install it"
        if os.environ.get("CI") == "true":
            pytest.fail(words)
        pytest.skip(words)
    return found


class Exporter:
    """What is scraped: the text is the test's to change. Counters rise with each scrape, so that a rate is there early."""

    def __init__(self) -> None:
        self.address = ""
        self.scrapes = 0
        self.failing = 0.0

    async def metrics(self, request: web.Request) -> web.Response:
        self.scrapes += 1
        served = 100.0 * self.scrapes
        lines = [
            f'req_total{{rev="7"}} {served}',
            f'req_failed{{rev="7"}} {served * self.failing}',
            'pod_ratio{pod="wren-a"} 0.14',
            'pod_ratio{pod="wren-b"} 0.002',
            "idle_total 0",
        ]
        return web.Response(text="\n".join(lines) + "\n")


@contextlib.asynccontextmanager
async def exporting() -> AsyncIterator[Exporter]:
    """An exporter on a free port."""
    exporter = Exporter()
    application = web.Application()
    application.router.add_get("/metrics", exporter.metrics)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    listening = socket.create_server(("127.0.0.1", 0))
    await web.SockSite(runner, listening).start()
    exporter.address = f"127.0.0.1:{listening.getsockname()[1]}"
    try:
        yield exporter
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def scraping(kind: str, directory: Path, target: str) -> AsyncIterator[str]:
    """The URL of a server of this kind that scrapes a target every second."""
    program = require_server({"prometheus": "prometheus", "victoriametrics": "victoria-metrics"}[kind])
    config = directory / "scrape.yml"
    config.write_text(_SCRAPE.format(target=target))
    port = _free_port()
    if kind == "prometheus":
        arguments = [f"--config.file={config}", f"--storage.tsdb.path={directory / 'data'}", f"--web.listen-address=127.0.0.1:{port}"]
        ready = "/-/ready"
    else:
        arguments = [f"-promscrape.config={config}", f"-storageDataPath={directory / 'data'}", f"-httpListenAddr=127.0.0.1:{port}"]
        arguments += ["-search.latencyOffset=1s", "-memory.allowedBytes=128MiB"]
        ready = "/health"
    with (directory / "server.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(program, *arguments, stdout=log, stderr=log)
        try:
            await _await_ready(f"http://127.0.0.1:{port}{ready}", process, directory / "server.log")
            yield f"http://127.0.0.1:{port}"
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def _await_ready(url: str, process: asyncio.subprocess.Process, log: Path) -> None:
    async with aiohttp.ClientSession() as session, asyncio.timeout(_DEADLINE_SECONDS):
        while True:
            if process.returncode is not None:
                pytest.fail(f"the server ended with {process.returncode}: {_end_of(log)}")
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get(url) as response:
                    if response.status == 200:
                        return
            await asyncio.sleep(0.05)


def _end_of(log: Path) -> str:
    return log.read_text()[-2000:]


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port
