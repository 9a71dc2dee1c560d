"""A real Prometheus that scrapes an exporter of the test's own, and a server that never answers."""

import asyncio
import contextlib
import json
import os
import shutil
import socket
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

SCRAPE_SECONDS = 0.25
_DEADLINE = 40.0


class _Exporter(BaseHTTPRequestHandler):
    """Counts requests of two releases with every scrape; one in ten of the bad release's is an error."""

    requests = 0

    def do_GET(self) -> None:
        _Exporter.requests += 20
        requests = _Exporter.requests
        lines = [
            f'http_requests_total{{release="good",code="200"}} {requests}',
            'http_requests_total{release="good",code="500"} 0',
            f'http_requests_total{{release="bad",code="200"}} {requests * 9 // 10}',
            f'http_requests_total{{release="bad",code="500"}} {requests // 10}',
            *(f'pod_latency_seconds{{pod="wren-{name}"}} {value}' for name, value in (("a", 0.9), ("b", 0.1), ("c", 0.1))),
        ]
        body = ("\n".join(lines) + "\n").encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@contextlib.contextmanager
def running_prometheus(directory: Path) -> Iterator[str]:
    """Its address, once it has scraped often enough for a rate. Skips the test where it isn't installed; on CI that fails."""
    program = shutil.which("prometheus")
    if program is None:
        words = "prometheus is not installed"
        if os.environ.get("CI"):
            pytest.fail(f"{words}; CI has to have it")
        pytest.skip(words)
    with _exporting() as port:
        config = directory / "prometheus.yml"
        config.write_text(
            f"global: {{scrape_interval: {int(SCRAPE_SECONDS * 1000)}ms, scrape_timeout: {int(SCRAPE_SECONDS * 1000)}ms}}\n"
            f"scrape_configs: [{{job_name: shop, static_configs: [{{targets: ['127.0.0.1:{port}']}}]}}]\n"
        )
        listen = f"127.0.0.1:{_free_port()}"
        storage = ("--storage.tsdb.path", str(directory / "data"))
        command = [program, f"--config.file={config}", "=".join(storage), f"--web.listen-address={listen}", "--log.level=error"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            _await_scrapes(f"http://{listen}", process)
            yield f"http://{listen}"
        finally:
            process.terminate()
            process.wait(timeout=20)


def _await_scrapes(url: str, process: "subprocess.Popen[bytes]") -> None:
    query = urllib.parse.urlencode({"query": "min(count_over_time(http_requests_total[2s]))"})
    until = time.monotonic() + _DEADLINE
    while time.monotonic() < until:
        assert process.poll() is None, "prometheus ended by itself"
        with (
            contextlib.suppress(OSError, KeyError, IndexError),
            urllib.request.urlopen(f"{url}/api/v1/query?{query}", timeout=5) as answer,
        ):
            if float(json.load(answer)["data"]["result"][0]["value"][1]) >= 4:
                return
        time.sleep(0.05)
    pytest.fail("prometheus has not scraped in time")


@contextlib.contextmanager
def _exporting() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Exporter)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextlib.asynccontextmanager
async def silent_server() -> AsyncIterator[str]:
    """Takes connections and never answers."""
    held: list[asyncio.StreamWriter] = []

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)
        with contextlib.suppress(ConnectionError):
            await reader.read()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in held:
            writer.close()
        await server.wait_closed()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
