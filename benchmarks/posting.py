"""The raw limit of a durable queue: what the same libraries do at best when every post is on disk before it is answered.

aiohttp in front of SQLite, in WAL mode with synchronous=FULL, and nothing else: no tasks, no leases, no tokens.
"""

import asyncio
import functools
import sqlite3
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

from aiohttp import web


class _Committer:
    """Group commit: what comes while one commit is under way goes into the next one together."""

    def __init__(self, path: str) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._path = path
        self._waiting: list[tuple[bytes, asyncio.Future[None]]] = []
        self._busy = False

    def open(self) -> None:
        self._thread.submit(self._open).result()

    def _open(self) -> None:
        self._database = sqlite3.connect(self._path, isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=FULL")
        self._database.execute("CREATE TABLE posts (id INTEGER PRIMARY KEY, body BLOB NOT NULL)")

    async def keep(self, body: bytes) -> None:
        """Returns when the body is on disk."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((body, done))
        if not self._busy:
            self._write_on()
        await done

    def _write_on(self) -> None:
        if not self._waiting:
            return
        batch, self._waiting = self._waiting, []
        self._busy = True
        written = asyncio.get_running_loop().run_in_executor(self._thread, self._commit, [body for body, _ in batch])
        written.add_done_callback(functools.partial(self._written, batch))

    def _commit(self, bodies: list[bytes]) -> None:
        self._database.execute("BEGIN IMMEDIATE")
        self._database.executemany("INSERT INTO posts (body) VALUES (?)", [(body,) for body in bodies])
        self._database.execute("COMMIT")

    def _written(self, batch: list[tuple[bytes, "asyncio.Future[None]"]], written: "asyncio.Future[None]") -> None:
        written.result()
        self._busy = False
        for _, done in batch:
            done.set_result(None)
        self._write_on()


@asynccontextmanager
async def serving(database: str) -> AsyncIterator[str]:
    """The URL that takes posts."""
    committer = _Committer(database)
    committer.open()

    async def take(request: web.Request) -> web.Response:
        await committer.keep(await request.read())
        return web.Response(status=201, body=b"{}", content_type="application/json")

    application = web.Application()
    application.router.add_post("/posts", take)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}/posts"
    finally:
        await runner.cleanup()
