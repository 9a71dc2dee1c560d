"""A PostgreSQL server of the tests' own: initialized in a temporary directory, on a free port, by a user that is not root."""

import asyncio
import contextlib
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import asyncpg

from tests.manager.databases import migrate_now

_START_SECONDS = 30.0
_WITHOUT_SAFETY = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")  # a test's data may die with the machine


class Binaries(NamedTuple):
    initdb: str
    postgres: str


def find_postgres() -> Binaries | None:
    """Where the server is installed: on PATH, or where Debian puts it."""
    directories = [None, *sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    for directory in directories:
        path = str(directory) if directory is not None else None
        initdb, postgres = shutil.which("initdb", path=path), shutil.which("postgres", path=path)
        if initdb and postgres:
            return Binaries(initdb, postgres)
    return None


def _unprivileged() -> tuple[int | None, int | None]:
    """The user and group to run as: PostgreSQL refuses root. None for whom we are already."""
    if os.getuid() != 0:
        return None, None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return entry.pw_uid, entry.pw_gid
    raise AssertionError("there is no unprivileged user to run PostgreSQL as")


class PostgresServer:
    """A server for as long as the context is entered. Databases are made in it one a test."""

    def __init__(self, binaries: Binaries) -> None:
        self._binaries = binaries
        self._numbers = itertools.count(1)
        self._user, self._group = _unprivileged()
        self._process: subprocess.Popen[bytes] | None = None
        self._directory = Path()
        self._port = 0
        self._template = ""

    def __enter__(self) -> Self:
        # Not below pytest's own directory, which no other user may enter.
        self._directory = Path(tempfile.mkdtemp(prefix="delegate-postgres-"))
        if self._user is not None and self._group is not None:
            os.chown(self._directory, self._user, self._group)
        data = self._directory / "data"
        self._run([self._binaries.initdb, "-D", str(data), "-U", "delegate", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"])
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.start()
        return self

    def start(self) -> None:
        """Starts the server, for the first time or again."""
        options = [option for setting in _WITHOUT_SAFETY for option in ("-c", setting)]
        data = str(self._directory / "data")
        self._process = self._spawn(
            [self._binaries.postgres, "-D", data, "-p", str(self._port), "-k", str(self._directory), "-h", "127.0.0.1", *options]
        )
        self._wait()

    def stop(self) -> None:
        """Ends it, cutting all connections."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def _run(self, command: list[str]) -> None:
        subprocess.run(command, check=True, capture_output=True, cwd=self._directory, timeout=60, user=self._user, group=self._group)

    def _spawn(self, command: list[str]) -> subprocess.Popen[bytes]:
        log = (self._directory / "log").open("wb")
        with log:
            return subprocess.Popen(command, stdout=log, stderr=log, cwd=self._directory, user=self._user, group=self._group)

    def _wait(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        assert self._process is not None
        while time.monotonic() < deadline:
            assert self._process.poll() is None, (self._directory / "log").read_text()
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=1):
                if "ready to accept connections" in (self._directory / "log").read_text():
                    return
            time.sleep(0.05)
        raise AssertionError(f"PostgreSQL did not start within {_START_SECONDS:g} s")

    def create_database(self, *, migrated: bool = True) -> str:
        """The URL of a new database without data; with `migrated` the tables are there."""
        if migrated and not self._template:
            self._template = self.create_database(migrated=False).rpartition("/")[2]
            migrate_now(f"postgresql://delegate@127.0.0.1:{self._port}/{self._template}")
        name = f"test{next(self._numbers)}"
        template = self._template if migrated else "template1"

        async def create() -> None:
            connection = await asyncpg.connect(host="127.0.0.1", port=self._port, user="delegate", database="postgres")
            try:
                await connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
            finally:
                await connection.close()

        with asyncio.Runner() as runner:
            runner.run(create())
        return f"postgresql://delegate@127.0.0.1:{self._port}/{name}"

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.stop()
        shutil.rmtree(self._directory, ignore_errors=True)
