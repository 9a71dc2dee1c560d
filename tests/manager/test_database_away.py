"""A PostgreSQL server that goes away: calls are refused as ones that may succeed later, and do when it is back."""

import asyncio
import os
from pathlib import Path

import aiohttp
import pytest

from delegate.manager.service import Manager
from delegate.manager.settings import Rhythm
from delegate.protocol.work import LeasedTask
from tests.manager.delegates import Caller, FakeDelegate, RefusedCallError
from tests.manager.operators import Operator
from tests.manager.postgres import PostgresServer, find_postgres


async def test_a_restart_of_the_database(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    """Nothing has to be restarted but the database; what was accepted before is there afterwards."""
    binaries = find_postgres()
    if binaries is None and not os.environ.get("CI"):
        pytest.skip("PostgreSQL (initdb, postgres) is not installed")
    assert binaries is not None, "PostgreSQL (initdb, postgres) is not installed; CI has to have it"
    with PostgresServer(binaries) as server:
        url = await asyncio.to_thread(server.create_database)
        async with Manager(state_dir=tmp_path, database_url=url, rhythm=Rhythm(sweep_seconds=0.1)) as manager:
            operator = Operator(http, manager.url, manager.admin_token)
            delegate = await FakeDelegate(Caller(http, manager.url)).start(await operator.create_token())
            task_id = await operator.submit()
            (task,) = await delegate.acquire(1, 5.0)

            await asyncio.to_thread(server.stop)
            with pytest.raises(RefusedCallError) as refused:
                await delegate.finish(task)
            assert (refused.value.problem.status, refused.value.problem.code) == (503, "overloaded")
            assert refused.value.problem.retryable
            assert refused.value.headers["Retry-After"]
            async with http.get(manager.url + "/readyz") as response:
                assert response.status == 503
            async with http.get(manager.url + "/healthz") as response:
                assert response.status == 200  # a restart of the manager would mend nothing

            await asyncio.to_thread(server.start)
            async with asyncio.timeout(20):
                assert await _insist(delegate, task) == "accepted"
            assert (await operator.task(task_id))["outcome"] == "succeeded"


async def _insist(delegate: FakeDelegate, task: LeasedTask) -> str:
    """The verdict, when there is one."""
    while True:
        try:
            return await delegate.finish(task)
        except RefusedCallError as error:
            if not error.problem.retryable:
                raise
        await asyncio.sleep(0.05)
