"""The store: one commit for many, none spoiled by another, and the same tables on every dialect."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from delegate.manager.effects import Effects
from delegate.manager.errors import NotFoundError, OverloadedError
from delegate.manager.settings import Limits, Rhythm
from delegate.manager.store.database import Database
from delegate.manager.store.engines import Engine, open_engine
from delegate.manager.store.errors import StoreError, StoreUnavailableError
from delegate.manager.store.flows import _OPEN, _RUN_BY_KEY, _WAIT_FOR_KEY
from delegate.manager.store.handouts import _NEXT_OF_FLOW, _SUSPECTS
from delegate.manager.store.histories import Entry, record
from delegate.manager.store.migrating import migrate
from delegate.manager.store.tables import history, metadata
from delegate.manager.store.transactions import Operation, Transaction
from tests.manager.clocks import FakeClock

ON_SQLITE = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


class Store:
    """A migrated database with its writer running; effects are collected."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.effects: list[Effects] = []
        self.database = Database(engine, clock=FakeClock(), rhythm=Rhythm(), limits=Limits(), on_commit=self.effects.append)

    async def operations(self) -> list[str]:
        return await self.database.read(lambda tx: [row.operation for row in tx.rows(sa.select(history).order_by(history.c.id))])


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    engine = open_engine(database_url)
    await migrate(engine)
    store = Store(engine)
    writer = asyncio.create_task(store.database.run())
    yield store
    writer.cancel()
    await asyncio.gather(writer, return_exceptions=True)
    await engine.close()


def write(operation: str, *, failing: bool = False) -> Operation[str]:
    def work(transaction: Transaction) -> str:
        record(transaction, Entry("test", operation))
        transaction.effects.commands_for.add(operation)
        if failing:
            raise NotFoundError(f"{operation} failed")
        return operation

    return work


async def test_one_failure_spoils_nothing_for_its_neighbours(store: Store) -> None:
    """In one commit with it they succeed; what it wrote and what it would have told are gone."""
    answers = await asyncio.gather(
        *(store.database.write(write(f"op-{number}", failing=number % 5 == 2)) for number in range(20)), return_exceptions=True
    )

    failed = {number for number, answer in enumerate(answers) if isinstance(answer, NotFoundError)}
    assert failed == {2, 7, 12, 17}
    assert [answer for number, answer in enumerate(answers) if number not in failed] == [
        f"op-{number}" for number in range(20) if number not in failed
    ]
    assert sorted(await store.operations()) == sorted(f"op-{number}" for number in range(20) if number not in failed)
    told = set().union(*(effects.commands_for for effects in store.effects))
    assert told == {f"op-{number}" for number in range(20) if number not in failed}


@ON_SQLITE
async def test_operations_that_wait_share_a_commit(store: Store) -> None:
    """A hundred at once take far fewer than a hundred commits of the one writer; PostgreSQL groups those of several lanes itself."""
    await asyncio.gather(*(store.database.write(write(f"op-{number}")) for number in range(100)))

    assert store.database.operations == 100
    assert store.database.commits <= 3


async def test_a_fault_of_a_statement_is_translated(store: Store) -> None:
    """In words of ours, to the one whose it is, with nothing of the statement."""
    bad = asyncio.ensure_future(store.database.write(lambda tx: tx.execute(sa.text("INSERT INTO nowhere VALUES ('a secret')"))))
    good = asyncio.ensure_future(store.database.write(write("good")))
    await asyncio.wait([bad, good])

    assert isinstance(bad.exception(), StoreError)
    assert "secret" not in str(bad.exception())
    assert good.result() == "good"


async def test_an_operation_nobody_waits_for_is_left_out(store: Store) -> None:
    """Its caller went away before its turn came: it was never promised."""
    async with asyncio.TaskGroup() as group:
        group.create_task(store.database.write(write("first")))
        gone = group.create_task(store.database.write(write("gone")))
        await asyncio.sleep(0)
        gone.cancel()

    assert await store.operations() == ["first"]


async def test_nobody_waits_for_a_writer_that_has_ended(database_url: str) -> None:
    """Who came too late for the last commit is told to come again."""
    engine = open_engine(database_url)
    await migrate(engine)
    store = Store(engine)
    early = asyncio.create_task(store.database.write(write("early")))
    writer = asyncio.create_task(store.database.run())
    await early
    writer.cancel()
    waiting = asyncio.create_task(store.database.write(write("too late")))
    await asyncio.wait([writer, waiting], timeout=10)
    with pytest.raises(OverloadedError, match="the manager is stopping"):
        await waiting
    with pytest.raises(OverloadedError, match="the manager is stopping"):
        await store.database.write(write("later still"))
    await engine.close()


@ON_SQLITE
async def test_a_full_disk_is_said_and_survived(store: Store) -> None:
    """The operation fails as one that may succeed later, and does when there is space again."""

    def limit(pages: int) -> Operation[None]:
        return lambda transaction: transaction.scalar(sa.text(f"PRAGMA max_page_count = {pages}"))

    async def fill() -> None:
        for _ in range(100):
            await store.database.write(write("x" * 3000))

    await store.database.write(limit(1))  # SQLite takes the present size as the least
    with pytest.raises(StoreUnavailableError, match="the database can't be used: database or disk is full") as refused:
        await fill()
    assert refused.value.retryable

    await store.database.write(limit(1_000_000))
    await store.database.write(write("after"))
    assert (await store.operations())[-1] == "after"


async def test_migrations_make_the_tables_of_the_code(store: Store) -> None:
    """Nothing is missing from the migrations, and running them again changes nothing."""
    before, after = await migrate(store.engine)
    differences = await store.engine.read(lambda connection: compare_metadata(MigrationContext.configure(connection), metadata))

    assert before == after
    assert differences == []


async def test_a_database_of_a_newer_version_is_left_alone(store: Store) -> None:
    """It is said, with what to do."""

    def age(connection: sa.Connection) -> None:
        with connection.begin():
            connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))

    await store.engine.write(age)
    with pytest.raises(StoreError, match="the database is at revision 9999, which this version doesn't know"):
        await migrate(store.engine)


@ON_SQLITE
@pytest.mark.parametrize(
    ("statement", "parameters", "index"),
    [
        (_NEXT_OF_FLOW, {"now": 1.0, "flow": 1, "full": ["a"], "rank": 0.0, "sequence": 0, "limit": 5}, "ix_tasks_flow"),
        (_SUSPECTS, {"now": 1.0, "flows": [1], "full": [], "limit": 1}, "ix_tasks_suspects"),
        (_OPEN, {"now": 1.0, "kinds": ["sync"], "selectors": [1], "clusters": ["c"]}, "ix_tasks_flow"),
        (_RUN_BY_KEY, {}, "ix_tasks_holders"),
        (_WAIT_FOR_KEY, {"name": "a", "most": 1}, "ix_tasks_keyed"),
    ],
    ids=["next of a flow", "suspects", "open flows", "holders of keys", "waiting for a key"],
)
async def test_hand_outs_look_at_eligible_tasks_alone(
    store: Store, statement: sa.Select[Any], parameters: dict[str, object], index: str
) -> None:
    """The queries are answered from indexes of eligible tasks, however many others there are. PostgreSQL goes by statistics."""
    seen: list[tuple[str, object]] = []

    def plan(connection: sa.Connection) -> str:
        sa.event.listen(connection, "before_cursor_execute", lambda *told: seen.append((told[2], told[3])))
        connection.execute(statement, parameters)
        text, bound = seen[-1]
        return " ".join(row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", bound))  # type: ignore[arg-type]

    told = await store.engine.read(plan)
    assert f"INDEX {index}" in told, told
    assert "SCAN tasks " not in told.replace(f"SCAN tasks USING INDEX {index}", ""), told


@pytest.mark.parametrize("url", ["mysql://host/name", "sqlite://", "nonsense"])
def test_a_database_that_is_not_supported(url: str) -> None:
    """It is said, with what is."""
    with pytest.raises(StoreError) as refused:
        open_engine(url)

    assert "sqlite" in refused.value.hint.lower()


async def test_a_database_that_cannot_be_reached() -> None:
    """The message says so, without the password."""
    engine = open_engine("postgresql://somebody:a-secret@127.0.0.1:1/name")
    with pytest.raises(StoreUnavailableError) as refused:
        await migrate(engine)
    await engine.close()

    assert "a-secret" not in str(refused.value)


@ON_SQLITE
async def test_what_can_wait_a_moment_shares_commits(store: Store) -> None:
    """Many signs of life of one moment are one commit or two; a single one waits for nothing."""
    assert await store.database.write_soon(lambda tx: 1) == 1
    before = store.database.commits

    answers = await asyncio.gather(*(later(store, number) for number in range(40)))

    assert answers == list(range(40))
    assert store.database.commits - before <= 12


async def later(store: Store, number: int) -> int:
    await asyncio.sleep(number * 0.001)
    return await store.database.write_soon(lambda tx: number)
