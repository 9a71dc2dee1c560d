"""systemd is told over a real datagram socket, if it asked."""

import os
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from delegate.foundation.telemetry.systemd import Notifier


@pytest.fixture(params=["path", "abstract"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "notify") if request.param == "path" else f"@delegate-test-{uuid.uuid4()}"


@pytest.fixture
def systemd(address: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind("\0" + address[1:] if address.startswith("@") else address)
        receiver.settimeout(30)
        yield receiver


def test_each_word_is_a_datagram(systemd: socket.socket, address: str) -> None:
    """In the form of sd_notify(3)."""
    notifier = Notifier.from_environment({"NOTIFY_SOCKET": address})

    notifier.ready("registered")
    notifier.alive()
    notifier.status("two\nlines")
    notifier.stopping()

    received = [systemd.recv(4096) for _ in range(4)]
    assert received == [b"READY=1\nSTATUS=registered", b"WATCHDOG=1", b"STATUS=two lines", b"STOPPING=1"]


def test_child_processes_cant_speak_for_us(address: str) -> None:
    """The variables are gone from the environment once they are read."""
    environment = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid()), "PATH": "/bin"}

    notifier = Notifier.from_environment(environment)

    assert environment == {"PATH": "/bin"}
    assert notifier.watchdog_seconds == 30


@pytest.mark.parametrize(
    "changed", [{"WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "x"}, {"WATCHDOG_USEC": ""}, {"NOTIFY_SOCKET": ""}]
)
def test_no_watchdog_unless_it_is_meant_for_us(changed: dict[str, str]) -> None:
    """Another process' watchdog, or none, or nowhere to answer."""
    environment = {"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "30000000", **changed}

    assert Notifier.from_environment(environment).watchdog_seconds is None


def test_without_systemd_nothing_happens(tmp_path: Path) -> None:
    """Neither without the variable nor with a socket that is gone."""
    for notifier in (Notifier.from_environment({}), Notifier(str(tmp_path / "gone"))):
        notifier.ready()
        notifier.alive()
        notifier.stopping()

    assert list(tmp_path.iterdir()) == []
