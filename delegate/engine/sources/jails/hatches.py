"""A hatch: the one thing that a jailed program may talk to, whatever address it believes to be talking to.

The program's calls of socket(2) are answered from here (seccomp_unotify(2)): it gets one end of a pair that we made, already
connected, and its connect(2) does nothing. So no address, name or port that it chooses is ever looked at, and there is
nothing to listen on that others on this machine could reach.
"""

import asyncio
import contextlib
import errno
import fcntl
import os
import select
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable

import structlog

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""Answers one connection."""

_RECEIVE, _SEND, _ADD = 0xC0502100, 0xC0182101, 0x40182103
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
"""struct seccomp_notif: id, pid, flags, then the call: number, architecture, instruction pointer, arguments."""
_STREAM_TYPES = 0xF
_MOST_CONNECTIONS = 256


@contextlib.asynccontextmanager
async def open_hatch(serve: Serve | None) -> AsyncIterator[int | None]:
    """The descriptor for the launcher, while the program runs; None without `serve`. Ends every connection afterwards."""
    if serve is None:
        yield None
        return
    ours, theirs = socket.socketpair()
    hatch = _Hatch(ours, serve)
    try:
        yield theirs.fileno()
    finally:
        theirs.close()
        await hatch.close()


class _Hatch:
    def __init__(self, channel: socket.socket, serve: Serve) -> None:
        self._loop = asyncio.get_running_loop()
        self._channel = channel
        self._serve = serve
        self._listener: int | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._sockets: set[socket.socket] = set()
        channel.setblocking(False)
        self._loop.add_reader(channel.fileno(), self._take_listener)

    async def close(self) -> None:
        self._loop.remove_reader(self._channel.fileno())
        self._channel.close()
        self._drop_listener()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        for each in self._sockets:
            each.close()  # also of those whose turn never came

    def _take_listener(self) -> None:
        """The launcher sends it once, and closes its end when it becomes the program."""
        self._loop.remove_reader(self._channel.fileno())
        with contextlib.suppress(OSError):
            _, descriptors, _, _ = socket.recv_fds(self._channel, 1, 1)
            if descriptors:
                self._listener = descriptors[0]
                self._loop.add_reader(self._listener, self._answer)

    def _drop_listener(self) -> None:
        if self._listener is not None:
            self._loop.remove_reader(self._listener)
            os.close(self._listener)
            self._listener = None

    def _answer(self) -> None:
        """One call of socket(2). Asked first whether there is one: receiving waits, and nobody may be left to wait for."""
        listener = self._listener
        if listener is None:
            return
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        events = dict(poll.poll(0)).get(listener, 0)
        if not events & select.POLLIN:
            if events:
                self._drop_listener()  # the program has ended
            return
        notification = bytearray(_NOTIFICATION.size)
        try:
            fcntl.ioctl(listener, _RECEIVE, notification)
            call_id, _, _, _, _, _, family, kind, *_ = _NOTIFICATION.unpack(notification)
            value, fault = self._hand_in(listener, call_id, family, kind)
            fcntl.ioctl(listener, _SEND, struct.pack("=QqiI", call_id, value, -fault, 0))
        except OSError as error:
            if error.errno != errno.ENOENT:  # killed while it waited
                log.warning("jail.hatch_failed", error=os.strerror(error.errno or 0))
                self._drop_listener()

    def _hand_in(self, listener: int, call_id: int, family: int, kind: int) -> tuple[int, int]:
        if family != socket.AF_INET or kind & _STREAM_TYPES != socket.SOCK_STREAM:
            return 0, errno.EAFNOSUPPORT
        if len(self._sockets) >= _MOST_CONNECTIONS:
            return 0, errno.EMFILE
        theirs, ours = _pair()
        theirs.setblocking(not kind & socket.SOCK_NONBLOCK)
        self._sockets.add(ours)
        with theirs:
            request = bytearray(struct.pack("=QIIII", call_id, 0, theirs.fileno(), 0, os.O_CLOEXEC))
            descriptor = fcntl.ioctl(listener, _ADD, request)  # its number in the program
        task = self._loop.create_task(self._converse(ours))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        return descriptor, 0

    async def _converse(self, connection: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=connection)
        try:
            await self._serve(reader, writer)
        except (OSError, EOFError, asyncio.LimitOverrunError):
            pass  # the program has hung up, or talks nonsense
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            self._sockets.discard(connection)


def _pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of a TCP connection on this machine, and nobody else's: a program may ask its socket what it is."""
    with socket.create_server(("127.0.0.1", 0), backlog=1) as server:
        theirs = socket.create_connection(server.getsockname(), timeout=5)
        while True:
            ours, peer = server.accept()
            if peer == theirs.getsockname():
                break
            ours.close()
    ours.setblocking(False)
    return theirs, ours
