"""Starting and stopping: what keeps a manager from it is named, and two never share one state."""

import asyncio
import socket
import ssl
import stat
import time
from pathlib import Path

import aiohttp
import pytest
import trustme

from delegate.foundation.lifecycle import StopReason, StopRequests
from delegate.foundation.settings.loading import load
from delegate.foundation.settings.programs import ManagerSettings
from delegate.manager.errors import ManagerStartError
from delegate.manager.service import Manager, serve
from tests.manager.delegates import Caller, FakeDelegate
from tests.manager.operators import Operator
from tests.manager.waiting import eventually


async def test_two_managers_never_share_a_state_directory(tmp_path: Path) -> None:
    """The second one says that the first is at work; when that has stopped, it starts."""
    async with Manager(state_dir=tmp_path):
        with pytest.raises(ManagerStartError, match="another manager is at work in"):
            async with Manager(state_dir=tmp_path):
                pass
    async with Manager(state_dir=tmp_path) as manager:
        assert manager.url


async def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    """With what to do; nothing is left behind."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ManagerStartError, match=f"{address} can't be listened on") as refused:
            async with Manager(state_dir=tmp_path, listen=address):
                pass

    assert "DELEGATE_MANAGER_LISTEN" in refused.value.hint
    async with Manager(state_dir=tmp_path):
        pass


async def test_a_state_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """A file stands in its place."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ManagerStartError, match=r"the state directory .*/file/state can't be used"):
        async with Manager(state_dir=tmp_path / "file" / "state"):
            pass


async def test_the_state_is_for_its_owner_alone(tmp_path: Path) -> None:
    """The directory, and in it the database and the token."""
    async with Manager(state_dir=tmp_path / "state"):
        pass

    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "state" / "manager.db").stat().st_mode) & 0o077 == 0


async def test_the_admin_token_stays_the_same(tmp_path: Path) -> None:
    """It is made at the first start only."""
    async with Manager(state_dir=tmp_path) as first:
        token = first.admin_token
    async with Manager(state_dir=tmp_path) as second:
        assert second.admin_token == token


async def test_an_admin_token_is_made_when_none_lives(tmp_path: Path) -> None:
    """Whoever revoked the last one is not locked out for ever."""
    async with Manager(state_dir=tmp_path) as first, aiohttp.ClientSession() as session:
        token = first.admin_token
        await Operator(session, first.url, token).call("DELETE", "/api/v1/tokens/first-admin")
    async with Manager(state_dir=tmp_path) as second, aiohttp.ClientSession() as session:
        assert second.admin_token != token
        await Operator(session, second.url, second.admin_token).call("GET", "/api/v1/tasks")


async def test_it_serves_tls(tmp_path: Path) -> None:
    """With a certificate and a key; the address says so."""
    authority = trustme.CA()
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "server.pem"))
    trusting = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
    files = (tmp_path / "server.pem", tmp_path / "server.pem")
    async with Manager(state_dir=tmp_path / "state", tls_files=files) as manager, aiohttp.ClientSession() as session:
        assert manager.url.startswith("https://")
        async with session.get(manager.url + "/healthz", ssl=trusting) as response:
            assert response.status == 200


async def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    """Before anybody is served."""
    (tmp_path / "server.pem").write_text("nonsense")
    with pytest.raises(ManagerStartError, match=r"server\.pem and the key .* can't be used"):
        async with Manager(state_dir=tmp_path / "state", tls_files=(tmp_path / "server.pem", tmp_path / "server.pem")):
            pass


async def test_it_stops_when_it_is_asked(tmp_path: Path) -> None:
    """Open polls are answered, not cut."""
    settings = load(ManagerSettings, flags={"manager_state_dir": str(tmp_path), "manager_listen": "127.0.0.1:0"}, environment={}).settings
    stop = StopRequests()
    serving = asyncio.create_task(serve(settings, stop))
    await eventually((tmp_path / "admin-token").exists)
    stop.request(StopReason.SIGTERM)

    await asyncio.wait_for(serving, 10)


async def test_open_polls_are_answered_when_it_stops(tmp_path: Path) -> None:
    """With nothing, at once, so that nobody takes the stop for a cut connection."""
    manager = await Manager(state_dir=tmp_path).__aenter__()
    async with aiohttp.ClientSession() as session:
        operator = Operator(session, manager.url, manager.admin_token)
        delegate = await FakeDelegate(Caller(session, manager.url)).start(await operator.create_token())
        async with asyncio.TaskGroup() as group:
            poll = group.create_task(delegate.acquire(1, wait_seconds=30.0))
            commands = group.create_task(delegate.commands(wait_seconds=30.0))
            await eventually(lambda: manager.open_polls == 1 and manager.open_command_polls == 1)
            await manager.__aexit__(None, None, None)

    assert poll.result() == []
    assert commands.result().commands == ()


async def test_the_log_of_the_database_is_worked_off(tmp_path: Path) -> None:
    """By the sweep, beside the writing: what was committed goes into the database file."""
    async with Manager(state_dir=tmp_path) as manager, aiohttp.ClientSession() as session:
        operator = Operator(session, manager.url, manager.admin_token)
        for number in range(20):
            await operator.submit(application=f"app-{number}", annotations={"delegate.gitops/note": "x" * 20_000})
        before = (tmp_path / "manager.db").stat().st_size
        await manager.sweep()
        assert (tmp_path / "manager.db").stat().st_size > before + 400_000


async def test_what_was_said_survives_a_restart(tmp_path: Path) -> None:
    """Tokens, delegates, tasks, attempts."""
    async with Manager(state_dir=tmp_path) as manager, aiohttp.ClientSession() as session:
        operator = Operator(session, manager.url, manager.admin_token)
        delegate = await FakeDelegate(Caller(session, manager.url)).start(await operator.create_token())
        running, queued = await operator.submit(application="one"), await operator.submit(application="two")
        (task,) = await delegate.acquire()
        await operator.cancel(running)
    async with Manager(state_dir=tmp_path) as manager, aiohttp.ClientSession() as session:
        operator = Operator(session, manager.url, manager.admin_token)
        delegate.caller = Caller(session, manager.url)
        (command,) = (await delegate.commands()).commands
        assert command.data["attemptId"] == task.attempt_id
        assert await delegate.finish(task, "cancelled") == "accepted"
        (next_task,) = await delegate.acquire()
        assert (next_task.task_id, (await operator.task(running))["outcome"]) == (queued, "cancelled")


async def test_a_clock_that_was_set_back_makes_nothing_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A manager that starts an hour earlier than it stopped goes on from then: what was queued is handed out, what was leased expires."""
    real = time.time
    async with aiohttp.ClientSession() as http:
        monkeypatch.setattr(time, "time", lambda: real() + 3600.0)
        async with Manager(state_dir=tmp_path / "state") as manager:
            operator = Operator(http, manager.url, manager.admin_token)
            delegate = await FakeDelegate(Caller(http, manager.url)).start(await operator.create_token())
            first = await operator.submit()
            (held,) = await delegate.acquire(1)
            await delegate.release(held)
        monkeypatch.setattr(time, "time", real)
        async with Manager(state_dir=tmp_path / "state") as manager:
            operator.url = delegate.caller.url = manager.url
            await delegate.open()
            assert [task.task_id for task in await delegate.acquire(1)] == [first]
            moments = [entry["at"] for entry in await operator.history(first)]
    assert moments == sorted(moments)
