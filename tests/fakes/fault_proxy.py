"""An HTTP proxy in the tests' own process that does to a call what bad networks do.

It stands between a delegate and a manager, reads each request whole, and by default passes it on and the answer back. `inject` has
the next calls of a route meet a fault, at one of three points: BEFORE (the manager never sees the request), AFTER (the manager has
answered, and so committed, but the answer does not come through whole), MIDDLE (the answer breaks off after some bytes). `partition`
does it to everything until `heal`.
"""

import asyncio
import contextlib
import enum
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import NamedTuple


class Fault(enum.StrEnum):
    CUT = "cut"  # the connection is closed
    RESET = "reset"  # the connection is reset
    FREEZE = "freeze"  # no byte in either direction, the connection stays open
    DELAY = "delay"
    TRICKLE = "trickle"  # byte by byte
    DUPLICATE = "duplicate"  # the manager gets the request twice
    GATEWAY_TIMEOUT = "504"  # a proxy's page in place of the answer
    HTML = "html"  # a login page with status 200
    HALF_CLOSE = "half_close"  # nothing more is sent to the client, which may go on sending


class Point(enum.StrEnum):
    BEFORE = "before"
    AFTER = "after"
    MIDDLE = "middle"


class Passed(NamedTuple):
    """A call that went through the proxy, and what was done to it."""

    route: str
    body: bytes
    fault: Fault | None
    point: Point | None


@dataclass
class Rule:
    fault: Fault
    point: Point
    matches: Callable[[str], bool]
    count: int
    seconds: float
    after_bytes: int


class _Request(NamedTuple):
    route: str
    raw: bytes
    body: bytes


_PAGE = b"<!doctype html><title>Sign in</title>"
_FOREVER = 3600.0


@dataclass
class FaultProxy:
    """`url` is where delegates go. Use it as `async with fault_proxy(manager_url) as proxy`."""

    upstream: tuple[str, int]
    url: str = ""
    rules: list[Rule] = field(default_factory=list)
    passed: list[Passed] = field(default_factory=list)
    _partition: Fault | None = None
    _serving: set[asyncio.Task[None]] = field(default_factory=set)

    def inject(
        self,
        fault: Fault,
        route: str = "",
        *,
        point: Point = Point.BEFORE,
        count: int = 1,
        seconds: float = 0.3,
        after_bytes: int = 40,
    ) -> Rule:
        """Has the next `count` calls whose path ends so (all paths where empty) meet the fault; `seconds` is for delays."""
        rule = Rule(fault, point, lambda path: path.endswith(route), count, seconds, after_bytes)
        self.rules.append(rule)
        return rule

    def partition(self, fault: Fault = Fault.CUT) -> None:
        """Until `heal` no call gets through: connections are cut, or frozen."""
        self._partition = fault
        if fault is not Fault.FREEZE:
            for task in self._serving:
                task.cancel()

    def heal(self) -> None:
        """Calls get through again; what was frozen is cut, as after a long outage."""
        self._partition = None
        for task in self._serving:
            task.cancel()

    def injected(self, route: str = "") -> int:
        """How many calls of a route met a fault."""
        return sum(each.fault is not None and each.route.endswith(route) for each in self.passed)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            while (request := await _read_request(reader)) is not None:
                if not await self._pass(request, reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # either side went away, or the proxy ends
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()
            self._serving.discard(task)  # only now: whoever closes the proxy waits for what is still closing

    async def close(self) -> None:
        tasks = list(self._serving)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _choose(self, route: str) -> Rule | None:
        if self._partition is not None:
            return Rule(self._partition, Point.BEFORE, lambda path: True, 1, 0.0, 0)
        for rule in self.rules:
            if rule.count and rule.matches(route):
                rule.count -= 1
                return rule
        return None

    async def _pass(self, request: _Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Whether the connection lives on."""
        rule = self._choose(request.route)
        self.passed.append(Passed(request.route, request.body, rule.fault if rule else None, rule.point if rule else None))
        if rule is None:
            answer = await self._ask(request, reader)
            writer.write(answer)
            await writer.drain()
            return bool(answer)
        return await self._spoil(rule, request, reader, writer)

    async def _spoil(self, rule: Rule, request: _Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        match rule.fault:
            case Fault.DELAY | Fault.TRICKLE | Fault.DUPLICATE:
                return await self._hinder(rule, request, reader, writer)
            case _:
                answer = b"" if rule.point is Point.BEFORE else await self._ask(request, reader)
        if rule.point is Point.MIDDLE:
            writer.write(answer[: rule.after_bytes])
            await writer.drain()
        return await _end(rule.fault, reader, writer)

    async def _hinder(self, rule: Rule, request: _Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Faults that only take time, or double what is asked."""
        before = rule.point is Point.BEFORE
        if rule.fault is Fault.DELAY and before:
            await asyncio.sleep(rule.seconds)
        first = await self._ask(request, reader, slowly=rule.fault is Fault.TRICKLE and before)
        answer = await self._ask(request, reader) if rule.fault is Fault.DUPLICATE else first
        if rule.fault is Fault.DUPLICATE and before:
            answer = first
        if rule.fault is Fault.DELAY and not before:
            await asyncio.sleep(rule.seconds)
        if rule.fault is Fault.TRICKLE and not before:
            await _write_slowly(writer, answer)
        else:
            writer.write(answer)
            await writer.drain()
        return bool(answer)

    async def _ask(self, request: _Request, client: asyncio.StreamReader, *, slowly: bool = False) -> bytes:
        """The manager's answer as it came; empty when the client or the manager went away before."""
        try:
            reader, writer = await asyncio.open_connection(*self.upstream)
        except OSError:
            return b""
        gone = asyncio.ensure_future(client.read(1))
        answer = asyncio.ensure_future(_exchange(request, reader, writer, slowly=slowly))
        try:
            await asyncio.wait({gone, answer}, return_when=asyncio.FIRST_COMPLETED)
            return answer.result() if answer.done() else b""
        except (ConnectionError, asyncio.IncompleteReadError):
            return b""
        finally:
            writer.close()
            for each in (gone, answer):
                each.cancel()
            await asyncio.gather(gone, answer, return_exceptions=True)
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


@asynccontextmanager
async def fault_proxy(manager_url: str) -> AsyncIterator[FaultProxy]:
    """A proxy on a free port of this machine."""
    host, _, port = manager_url.removeprefix("http://").partition(":")
    proxy = FaultProxy((host, int(port)))
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, limit=2**24)
    proxy.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        await _let_connections_begin()
        server.close()
        await _let_connections_begin()
        await proxy.close()
        await _let_connections_begin()


async def _let_connections_begin() -> None:
    """What was accepted last gets its task, and so is closed in the end."""
    for _ in range(5):
        await asyncio.sleep(0)


async def _read_request(reader: asyncio.StreamReader) -> _Request | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    body = await reader.readexactly(_content_length(head))
    return _Request(head.split(b" ", 2)[1].decode(), head + body, body)


async def _exchange(request: _Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, slowly: bool) -> bytes:
    if slowly:
        await _write_slowly(writer, request.raw)
    else:
        writer.write(request.raw)
        await writer.drain()
    head = await reader.readuntil(b"\r\n\r\n")
    return head + await reader.readexactly(_content_length(head))


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


async def _write_slowly(writer: asyncio.StreamWriter, data: bytes) -> None:
    """In 20 pieces: long enough to be seen, short enough for a test."""
    size = max(1, len(data) // 20)
    for start in range(0, len(data), size):
        writer.write(data[start : start + size])
        await writer.drain()
        await asyncio.sleep(0.005)


async def _end(fault: Fault, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    match fault:
        case Fault.RESET:
            connection = writer.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        case Fault.FREEZE:
            await asyncio.sleep(_FOREVER)
        case Fault.HALF_CLOSE:
            writer.write_eof()
            while await reader.read(2**16):
                pass
        case Fault.HTML:
            await _answer(writer, b"200 OK")
            return True
        case Fault.GATEWAY_TIMEOUT:
            await _answer(writer, b"504 Gateway Timeout")
            return True
        case _:
            pass  # cut: whoever called closes the connection
    return False


async def _answer(writer: asyncio.StreamWriter, status: bytes) -> None:
    head = b"HTTP/1.1 %b\r\nContent-Type: text/html\r\nVia: 1.1 portal\r\nContent-Length: %d\r\n\r\n" % (status, len(_PAGE))
    writer.write(head + _PAGE)
    await writer.drain()
