"""The word to systemd (sd_notify(3)): one datagram each to the socket that NOTIFY_SOCKET names; nothing without it."""

import contextlib
import os
import socket
from collections.abc import MutableMapping
from typing import Self

_SEND_SECONDS = 1.0


class Notifier:
    """Tells systemd how the service is. Every method does nothing where systemd didn't ask, and never raises."""

    def __init__(self, address: str = "", watchdog_seconds: float | None = None) -> None:
        # "@" stands for the abstract namespace, whose names begin with a NUL.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self.watchdog_seconds = watchdog_seconds
        """How often at least `alive` must be called; None where no watchdog runs. Call it twice as often."""

    @classmethod
    def from_environment(cls, environment: MutableMapping[str, str] = os.environ) -> Self:
        """Takes the variables out of the environment, so that child processes can't speak for us."""
        address = environment.pop("NOTIFY_SOCKET", "")
        microseconds = environment.pop("WATCHDOG_USEC", "")
        meant_for = environment.pop("WATCHDOG_PID", "") or str(os.getpid())
        watched = microseconds.isdigit() and int(microseconds) > 0 and meant_for == str(os.getpid())
        return cls(address, int(microseconds) / 1_000_000 if watched and address else None)

    def ready(self, status: str = "") -> None:
        """The service has started."""
        self._send("READY=1", status)

    def stopping(self, status: str = "") -> None:
        """The service drains."""
        self._send("STOPPING=1", status)

    def alive(self) -> None:
        """The watchdog's sign of life."""
        self._send("WATCHDOG=1")

    def status(self, text: str) -> None:
        """A line for `systemctl status`."""
        self._send("", text)

    def _send(self, state: str, status: str = "") -> None:
        if not self._address:
            return
        lines = [state] if state else []
        if status:
            lines.append("STATUS=" + status.replace("\n", " "))
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.settimeout(_SEND_SECONDS)
            sender.connect(self._address)
            sender.sendall("\n".join(lines).encode())
