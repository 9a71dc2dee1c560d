"""List, then watch, and keep at it: what happened meanwhile is never lost, and nothing is invented.

A watch breaks for many reasons: the server ends it every few minutes, a proxy cuts it, a resourceVersion is forgotten (410).
While the last version is still known to the server, the watch goes on from there. Otherwise it lists again and tells the
difference from what it told before. To know that difference it keeps uid and version of each object, and nothing else.
"""

import asyncio
import dataclasses
import enum
import random
from collections.abc import AsyncGenerator, AsyncIterator

import aiohttp
import msgspec
import structlog

from delegate.engine.clusters import errors
from delegate.engine.clusters.answers import explain_answer
from delegate.engine.clusters.calls import DEFAULT_TIMEOUT, Caller
from delegate.engine.clusters.listing import complete, list_pages
from delegate.engine.clusters.transport import Call
from delegate.foundation.lifecycle.retrying import Dice, Retrying
from delegate.model.resources import JsonObject, ResourceType

log = structlog.get_logger()

LARGEST_LINE_BYTES = 8 * 1024 * 1024
_SERVER_SECONDS = 300.0
_SILENCE_SECONDS = 150.0
"""Bookmarks come every minute; a connection that stays silent longer is taken for dead and made anew."""
_SHORT_LIVED_SECONDS = 1.0
_BACKOFF = Retrying(base_seconds=0.25, max_seconds=15.0)


class WatchEventKind(enum.Enum):
    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"
    SYNCED = "synced"
    """Once, after everything that existed at the beginning was told as added. Its object is empty."""


class WatchEvent(msgspec.Struct, frozen=True):
    """What happened to an object. Of one that vanished while nobody watched, DELETED carries only name, namespace and uid."""

    kind: WatchEventKind
    object: JsonObject = {}


class _Known(msgspec.Struct):
    uid: str
    version: str


class _Memory:
    """What has been told so far, by namespace and name."""

    def __init__(self, type: ResourceType) -> None:
        self._type = type
        self._known: dict[tuple[str, str], _Known] = {}
        self._listed: set[tuple[str, str]] = set()

    def begin_list(self) -> None:
        self._listed.clear()

    def listed(self, item: JsonObject) -> list[WatchEvent]:
        self._listed.add(_place(item))
        return self.changed(item)

    def end_list(self) -> list[WatchEvent]:
        gone = [place for place in self._known if place not in self._listed]
        self._listed.clear()
        return [self._vanished(place) for place in gone]

    def changed(self, item: JsonObject) -> list[WatchEvent]:
        metadata = item.get("metadata") or {}
        place = _place(item)
        uid, version = str(metadata.get("uid") or ""), str(metadata.get("resourceVersion") or "")
        known = self._known.get(place)
        if known is not None and known.uid == uid:
            if known.version == version:
                return []
            known.version = version
            return [WatchEvent(WatchEventKind.MODIFIED, item)]
        events = [self._vanished(place)] if known is not None else []
        self._known[place] = _Known(uid, version)
        return [*events, WatchEvent(WatchEventKind.ADDED, item)]

    def deleted(self, item: JsonObject) -> list[WatchEvent]:
        known = self._known.pop(_place(item), None)
        return [WatchEvent(WatchEventKind.DELETED, item)] if known is not None else []

    def _vanished(self, place: tuple[str, str]) -> WatchEvent:
        known = self._known.pop(place)
        namespace, name = place
        metadata = {"name": name, "uid": known.uid} | ({"namespace": namespace} if namespace else {})
        return WatchEvent(WatchEventKind.DELETED, complete({"metadata": metadata}, self._type))


class Watch:
    """One watch of a kind until `deadline` (of the clock's monotonic time). Iterate over `events()` once.

    `call` lists it; `accept` is the form in which single objects are wanted.
    """

    def __init__(self, caller: Caller, call: Call, type: ResourceType, *, accept: str, deadline: float, dice: Dice = random.random) -> None:
        self._caller = caller
        self._call = call
        self._type = type
        self._accept = accept
        self._deadline = deadline
        self._dice = dice
        self._memory = _Memory(type)
        self._synced = False
        self._version = ""
        self._failures = 0
        self._trouble: errors.ClusterError | None = None

    async def events(self) -> AsyncGenerator[WatchEvent, None]:
        """Events until the deadline, then the end.

        Raises the ClusterError that made it impossible: at once for one that waiting doesn't mend (no permission, the kind is
        gone), at the deadline where the server couldn't be reached by then. The first list follows the caller's retry policy.
        """
        while self._left() > 0:
            try:
                if not self._version:
                    async for event in self._list():
                        yield event
                async for event in self._follow():
                    yield event
            except errors.ClusterError as error:
                self._trouble = error
                await self._recover(error)
        if self._trouble is not None:
            raise self._trouble

    async def _list(self) -> AsyncIterator[WatchEvent]:
        policy = self._caller.policy
        hurried = dataclasses.replace(policy, max_duration_seconds=min(policy.max_duration_seconds, max(0.0, self._left())))
        version = ""
        self._memory.begin_list()
        async for page in list_pages(self._caller.viewed(policy=hurried), self._call, self._type):
            if page.restarted:
                self._memory.begin_list()
            for item in page.items:
                for event in self._memory.listed(item):
                    yield event
            version = page.resource_version
        for event in self._memory.end_list():
            yield event
        self._version = version
        if not self._synced:
            self._synced = True
            yield WatchEvent(WatchEventKind.SYNCED)

    async def _follow(self) -> AsyncIterator[WatchEvent]:
        """What one connection brings."""
        opened = self._caller.clock.monotonic()
        heard = False
        call = self._watch_call()
        async with self._caller.open_watch(call, min(DEFAULT_TIMEOUT, max(0.0, self._left()))) as reader:
            async for line in _lines(reader, self._caller, self._deadline):
                event = _decode(line, self._caller, call)
                item = event.get("object")
                if not isinstance(item, dict):
                    continue
                word = event.get("type")
                if word == "ERROR":
                    raise _fault(item, self._caller, call)
                heard = True
                self._failures = 0
                self._trouble = None
                self._version = _version_of(item) or self._version
                if word in ("ADDED", "MODIFIED"):
                    for told in self._memory.changed(complete(item, self._type)):
                        yield told
                elif word == "DELETED":
                    for told in self._memory.deleted(complete(item, self._type)):
                        yield told
        if heard or self._left() <= 0 or self._caller.clock.monotonic() - opened >= _SHORT_LIVED_SECONDS:
            self._trouble = None
        else:
            raise errors.UnreachableError(f"{self._caller.transport.host} ends each watch at once", object=call.question.subject)

    def _watch_call(self) -> Call:
        seconds = max(1, round(min(_SERVER_SECONDS, self._left())))
        watching = (
            ("watch", "1"),
            ("resourceVersion", self._version),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", str(seconds)),
        )
        question = self._call.question._replace(verb="watch")
        return msgspec.structs.replace(self._call, params=(*self._call.params, *watching), accept=self._accept, question=question)

    async def _recover(self, error: errors.ClusterError) -> None:
        """Waits as long as the fault asks for; raises it where waiting is in vain."""
        self._failures += 1
        forgotten = isinstance(error, errors.ExpiredError)
        refused_once = isinstance(error, errors.UnauthorizedError) and self._failures == 1
        if not self._synced or not (error.retryable or refused_once):
            raise error
        if forgotten:
            self._version = ""
        # The first 410 or 401 is no fault of the server: list again, or go on with the renewed token, at once.
        delay = (
            0.0
            if self._failures == 1 and (forgotten or refused_once)
            else _BACKOFF.wait_after(self._failures, error.retry_after, self._dice)
        )
        log.info("cluster.watch_broke", object=self._call.question.what, code=error.code, delay_seconds=round(delay, 3))
        if delay >= self._left():
            raise error
        if delay:
            await self._caller.clock.sleep(delay)

    def _left(self) -> float:
        return self._deadline - self._caller.clock.monotonic()


async def _lines(reader: aiohttp.StreamReader, caller: Caller, deadline: float) -> AsyncIterator[bytes]:
    """Whole lines, none longer than the limit, until the connection or the time ends."""
    pending = bytearray()
    while (left := deadline - caller.clock.monotonic()) > 0:
        try:
            async with asyncio.timeout(min(left, _SILENCE_SECONDS)):
                piece = await reader.readany()
        except TimeoutError:
            return
        if not piece:
            return
        pending += piece
        *lines, rest = pending.split(b"\n")
        for line in lines:
            if line.strip():
                yield bytes(line)
        pending = rest
        if len(pending) > LARGEST_LINE_BYTES:
            raise errors.AnswerTooLargeError(f"{caller.transport.host} sent an event of more than {LARGEST_LINE_BYTES} bytes")


def _decode(line: bytes, caller: Caller, call: Call) -> JsonObject:
    try:
        event = msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        raise errors.UnreachableError(f"{caller.transport.host} sent an event that is no JSON", object=call.question.subject) from error
    return event if isinstance(event, dict) else {}


def _fault(status: JsonObject, caller: Caller, call: Call) -> errors.ClusterError:
    code = status.get("code")
    question = call.question._replace(host=caller.transport.host, path=call.path)
    return explain_answer(code if isinstance(code, int) else 500, status, question)


def _version_of(item: JsonObject) -> str:
    return str((item.get("metadata") or {}).get("resourceVersion") or "")


def _place(item: JsonObject) -> tuple[str, str]:
    metadata = item.get("metadata") or {}
    return str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
