"""A running manager, an operator and delegates for each test."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import aiohttp
import pytest

from delegate.manager.service import Manager
from delegate.manager.settings import Rhythm
from tests.manager.clocks import FakeClock
from tests.manager.databases import empty_sqlite
from tests.manager.delegates import Caller, FakeDelegate
from tests.manager.operators import Operator
from tests.manager.postgres import PostgresServer, find_postgres

RHYTHM = Rhythm(
    lease_seconds=45.0, heartbeat_seconds=10.0, poll_seconds=5.0, grace_seconds=0.0, requeue_base_seconds=1.0, sweep_seconds=0.2
)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """A PostgreSQL server for the session."""
    binaries = find_postgres()
    if binaries is None:
        if os.environ.get("CI"):
            pytest.fail("PostgreSQL (initdb, postgres) is not installed; CI has to have it")
        pytest.skip("PostgreSQL (initdb, postgres) is not installed")
    with PostgresServer(binaries) as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of each dialect, with its tables."""
    if request.param == "sqlite":
        (tmp_path / "manager.db").write_bytes(empty_sqlite())
        return f"sqlite:///{tmp_path / 'manager.db'}"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.create_database()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def manager(tmp_path: Path, database_url: str, clock: FakeClock) -> AsyncIterator[Manager]:
    async with Manager(state_dir=tmp_path / "state", database_url=database_url, rhythm=RHYTHM, clock=clock) as manager:
        yield manager


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session:
        yield session


@pytest.fixture
async def operator(manager: Manager, http: aiohttp.ClientSession) -> Operator:
    return Operator(http, manager.url, manager.admin_token)


@pytest.fixture
async def token(operator: Operator) -> str:
    return await operator.create_token()


@pytest.fixture
async def delegate(manager: Manager, http: aiohttp.ClientSession, token: str) -> FakeDelegate:
    """A delegate with an open session."""
    return await FakeDelegate(Caller(http, manager.url)).start(token)


@pytest.fixture
def other(manager: Manager, http: aiohttp.ClientSession, token: str) -> Callable[..., Awaitable[FakeDelegate]]:
    """Starts further delegates."""

    async def start(name: str = "d-2", **more: object) -> FakeDelegate:
        return await FakeDelegate(Caller(http, manager.url), name, **more).start(token)  # type: ignore[arg-type]

    return start


@pytest.fixture
def swept(manager: Manager) -> Callable[[], Awaitable[None]]:
    """Runs a sweep."""
    return manager.sweep
