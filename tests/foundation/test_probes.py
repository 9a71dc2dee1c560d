"""Probes answer on a real port, with reasons, also while the main loop is stuck."""

import asyncio
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from delegate.foundation.settings import Probes
from delegate.foundation.telemetry.metrics import DelegateMetrics
from delegate.foundation.telemetry.probes import HealthReport, ProbeServer, ProbesUnavailableError, listen_on

WELL = HealthReport(registered=True)


class Daemon:
    """What the probes ask."""

    def __init__(self) -> None:
        self.report = WELL
        self.metrics = DelegateMetrics("edge-1")


@pytest.fixture
def daemon() -> Daemon:
    return Daemon()


@contextmanager
def serving(daemon: Daemon, host: str = "127.0.0.1") -> Iterator[int]:
    with ProbeServer(Probes(port=0, host=host), lambda: daemon.report, daemon.metrics.expose) as server:
        yield server.port


def get(port: int, path: str, host: str = "127.0.0.1", method: str = "GET") -> tuple[int, bytes, str]:
    connection = http.client.HTTPConnection(host, port, timeout=30)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.getheader("Content-Type", "")
    finally:
        connection.close()


def get_json(port: int, path: str) -> tuple[int, Any]:
    status, body, content_type = get(port, path)
    assert content_type.startswith("application/json")
    return status, json.loads(body)


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/api/v1/healthz", "/api/health"])
def test_health_fails_only_for_what_a_restart_mends(daemon: Daemon, path: str) -> None:
    """Not being ready is no reason to be restarted."""
    with serving(daemon) as port:
        daemon.report = HealthReport(unready=("the link is stale",))
        assert get_json(port, path) == (200, {"status": "healthy"})

        daemon.report = HealthReport(unhealthy=("the loop has been stuck for 40 s",))
        assert get_json(port, path) == (503, {"status": "unhealthy", "reasons": ["the loop has been stuck for 40 s"]})


def test_readiness_tells_every_reason(daemon: Daemon) -> None:
    """What makes it unhealthy makes it unready too."""
    with serving(daemon) as port:
        assert get_json(port, "/readyz") == (200, {"status": "ready"})

        daemon.report = HealthReport(unhealthy=("dead",), unready=("not registered", "spool full"))
        assert get_json(port, "/readyz") == (503, {"status": "not ready", "reasons": ["dead", "not registered", "spool full"]})


def test_registration_has_an_address_of_its_own(daemon: Daemon) -> None:
    """200 once the manager knows the delegate."""
    with serving(daemon) as port:
        assert get_json(port, "/api/v1/register") == (200, {"status": "registered"})

        daemon.report = HealthReport()
        assert get_json(port, "/api/v1/register")[0] == 503


@pytest.mark.parametrize("path", ["/metrics", "/api/metrics"])
def test_metrics_are_served_beside(daemon: Daemon, path: str) -> None:
    """In Prometheus' text form."""
    daemon.metrics.up.set(1)
    with serving(daemon) as port:
        status, body, content_type = get(port, path)

    assert (status, content_type.partition(";")[0]) == (200, "text/plain")
    assert b"\nharness_delegate_up 1.0\n" in body


def test_nothing_else_is_served(daemon: Daemon) -> None:
    """No page, no write."""
    with serving(daemon) as port:
        assert get(port, "/")[0] == 404
        assert get(port, "/healthz", method="POST")[0] == 405


def test_a_report_that_fails_is_no_good_sign(daemon: Daemon) -> None:
    """A fault in finding out how it is answers 500, and the next probe is answered again."""
    faults = [RuntimeError("bug")]

    def report() -> HealthReport:
        if faults:
            raise faults.pop()
        return WELL

    with ProbeServer(Probes(port=0, host="127.0.0.1"), report, daemon.metrics.expose) as server:
        assert get(server.port, "/healthz")[0] == 500
        assert get(server.port, "/healthz")[0] == 200


async def test_they_answer_while_the_main_loop_is_stuck(daemon: Daemon) -> None:
    """Which is when it matters."""
    answers = list[tuple[int, Any]]()
    asked = threading.Event()

    with serving(daemon) as port:

        def ask() -> None:
            daemon.report = HealthReport(unhealthy=("stuck",))
            answers.append(get_json(port, "/healthz"))
            asked.set()

        asking = asyncio.get_running_loop().run_in_executor(None, ask)
        assert asked.wait(30)  # blocks the loop
        await asking

    assert answers == [(503, {"status": "unhealthy", "reasons": ["stuck"]})]


def test_every_interface_is_the_default(daemon: Daemon) -> None:
    """IPv4 and, where the machine has it, IPv6 on one port."""
    with serving(daemon, host="") as port:
        assert get(port, "/healthz")[0] == 200
        if socket.has_dualstack_ipv6():
            assert get(port, "/healthz", host="::1")[0] == 200


def test_an_ipv6_address_can_be_chosen(daemon: Daemon) -> None:
    """Without brackets, as an address is written alone."""
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    with serving(daemon, host="::1") as port:
        assert get(port, "/healthz", host="::1")[0] == 200


@pytest.mark.parametrize("host", ["", "127.0.0.1"])
def test_a_port_that_is_taken_is_refused_by_name(host: str) -> None:
    """The remedy names the variable."""
    with listen_on(Probes(port=0, host=host)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(ProbesUnavailableError, match=f"{port}: Address already in use") as raised:
            listen_on(Probes(port=port, host=host))

    assert "DELEGATE_HTTP_PORT" in raised.value.hint
    assert raised.value.category.value == "input"


def test_a_host_that_is_not_ours_is_refused() -> None:
    """Neither an address of another machine nor a name that means nothing."""
    for host in ("203.0.113.1", "no-such-host.invalid"):
        with pytest.raises(ProbesUnavailableError, match=host):
            listen_on(Probes(port=0, host=host))


def test_the_port_is_free_again_afterwards(daemon: Daemon) -> None:
    """Thread and socket end with the block."""
    before = threading.active_count()
    with serving(daemon) as port:
        get(port, "/healthz")

    with listen_on(Probes(port=port, host="127.0.0.1")):
        assert threading.active_count() == before
