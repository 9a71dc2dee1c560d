"""`delegate probe` asks the daemon on this machine, and tells who else answers there."""

import http.server
import socket
import threading
from collections.abc import Iterator

import pytest

from delegate.foundation.settings import Probes
from delegate.foundation.telemetry.probes import HealthReport, ProbeServer
from tests.cli.programs import run


class Daemon:
    def __init__(self) -> None:
        self.report = HealthReport(registered=True)
        self.server = ProbeServer(Probes(port=0), lambda: self.report, lambda accept: (b"", "text/plain"))


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    daemon = Daemon()
    with daemon.server:
        yield daemon


def test_a_daemon_that_is_well_is_0(daemon: Daemon) -> None:
    """By variable or flag, in words or as the daemon's own document."""
    env = {"DELEGATE_HTTP_PORT": str(daemon.server.port)}

    healthy = run("probe", "healthz", env=env)
    ready = run("probe", "readyz", "-o", "json", "--http-port", str(daemon.server.port))

    assert (healthy.code, healthy.stdout) == (0, "healthy\n")
    assert (ready.code, ready.document) == (0, {"status": "ready"})


def test_a_daemon_that_is_not_is_1_with_its_reasons(daemon: Daemon) -> None:
    """Unready is not unhealthy."""
    daemon.report = HealthReport(unready=("not registered", "spool full"))
    env = {"DELEGATE_HTTP_PORT": str(daemon.server.port)}

    ready = run("probe", "readyz", env=env)

    assert (ready.code, ready.stdout) == (1, "not ready\nnot registered\nspool full\n")
    assert run("probe", "livez", env=env).code == 0


def test_no_daemon_is_1_with_the_remedy() -> None:
    """The port is named."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])

    ended = run("probe", "healthz", env={"DELEGATE_HTTP_PORT": port})

    assert ended.code == 1
    assert f"nothing answers on 127.0.0.1:{port}" in ended.stderr
    assert "DELEGATE_HTTP_PORT" in ended.stderr


def test_somebody_else_on_the_port_is_told() -> None:
    """A page with status 200 is no healthy daemon."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>hello</html>")

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Page) as server:
        serving = threading.Thread(target=server.handle_request)
        serving.start()
        ended = run("probe", "healthz", env={"DELEGATE_HTTP_PORT": str(server.server_address[1])})
        serving.join()

    assert ended.code == 1
    assert "is not the delegate" in ended.stderr
