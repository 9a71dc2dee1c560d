"""Operators' commands against a real manager: what they print, for people and for programs, and how they end."""

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import msgspec
import pytest

from delegate.manager.service import Manager
from tests.manager.delegates import Caller, FakeDelegate, make_result
from tests.manager.operators import Operator

DOCUMENT = """
kind: sync
application: checkout
destination: {name: in-cluster, namespace: shop}
spec:
  source: {repoURL: https://git.example/config.git}
"""


class Ending(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return msgspec.json.decode(self.out)


class Terminal:
    """Runs `delegate` as an operator would."""

    def __init__(self, directory: Path, url: str, token: str) -> None:
        self.directory = directory
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(directory),
            "DELEGATE_MANAGER_URL": url,
            "DELEGATE_API_TOKEN": token,
        }

    async def run(self, *arguments: str, **environment: str) -> Ending:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "delegate",
            *arguments,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self.environment | {"PYTHONPATH": str(Path(__file__).parents[2])} | environment,
            cwd=self.directory,
        )
        async with asyncio.timeout(40):
            out, err = await process.communicate()
        assert process.returncode is not None
        return Ending(process.returncode, out.decode(), err.decode())


@pytest.fixture
async def manager(tmp_path: Path) -> AsyncIterator[Manager]:
    """With real time, as commands have it."""
    async with Manager(state_dir=tmp_path / "state") as manager:
        yield manager


@pytest.fixture
def terminal(tmp_path: Path, manager: Manager) -> Terminal:
    (tmp_path / "task.yaml").write_text(DOCUMENT)
    return Terminal(tmp_path, manager.url, manager.admin_token)


async def test_a_token_from_creation_to_revocation(terminal: Terminal) -> None:
    """The secret alone is on standard output, so that a script can keep it; the list never has it."""
    created = await terminal.run("token", "create", "--name", "edge", "--scope", "GITOPS", "--labels", "env=dev,zone=b")
    listed = await terminal.run("token", "list")
    revoked = await terminal.run("token", "revoke", "edge")
    after = await terminal.run("token", "list", "-o", "json")

    assert created.code == 0
    assert created.out.startswith("dgt_")
    assert created.out.count("\n") == 1
    assert "not shown again" in created.err
    assert created.out.strip() not in listed.out
    assert "env=dev, zone=b" in listed.out
    assert revoked.code == 0
    assert {token["name"]: token["state"] for token in after.document["items"]} == {"first-admin": "active", "edge": "revoked"}


async def test_a_task_is_submitted_shown_and_cancelled(terminal: Terminal) -> None:
    """The id alone is on standard output; why it waits is told beside."""
    submitted = await terminal.run("task", "submit", "task.yaml")
    task_id = submitted.out.strip()
    listed = await terminal.run("task", "list", "--state", "queued")
    shown = await terminal.run("task", "show", task_id)
    cancelled = await terminal.run("task", "cancel", task_id, "--reason", "not today")
    again = await terminal.run("task", "retry", task_id, "-o", "json")
    watched = await terminal.run("task", "watch", task_id)

    assert (submitted.code, len(task_id)) == (0, 20)
    assert submitted.err == "no delegate is connected\n"
    assert task_id in listed.out
    assert "why queued   no delegate is connected" in shown.out
    assert cancelled.out == f"task {task_id} is cancelled\n"
    assert again.document["task"]["retryOf"] == task_id
    assert (watched.code, watched.out) == (1, "cancelled: cancelled by first-admin: not today\n")


@pytest.mark.parametrize(("outcome", "code"), [("succeeded", 0), ("failed", 1), ("timed_out", 1)])
async def test_waiting_for_a_task(terminal: Terminal, manager: Manager, outcome: str, code: int) -> None:
    """The exit code is that of the task, its result is printed, its progress told."""
    async with aiohttp.ClientSession() as session:
        operator = Operator(session, manager.url, manager.admin_token)
        delegate = await FakeDelegate(Caller(session, manager.url)).start(await operator.create_token())
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(terminal.run("task", "submit", "task.yaml", "--wait"))
            (task,) = await delegate.acquire(1, wait_seconds=30.0)
            await delegate.report(make_result(task, outcome, "as it was", revision="9f3c0a1b", sync="Synced", health="Healthy"))
    ending = waiting.result()

    assert ending.code == code
    assert outcome.replace("_", " ") in ending.out
    assert f"task {task.task_id} is queued" in ending.err


async def test_waiting_for_programs_prints_one_document(terminal: Terminal, manager: Manager) -> None:
    """And nothing else on standard output."""
    async with aiohttp.ClientSession() as session:
        operator = Operator(session, manager.url, manager.admin_token)
        delegate = await FakeDelegate(Caller(session, manager.url)).start(await operator.create_token())
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(terminal.run("task", "submit", "task.yaml", "--wait", "-o", "json"))
            (task,) = await delegate.acquire(1, wait_seconds=30.0)
            await delegate.finish(task)

    assert waiting.result().document["task"]["outcome"] == "succeeded"
    assert waiting.result().document["result"]["attempt"] == task.attempt_id


async def test_delegates_are_listed(terminal: Terminal, manager: Manager) -> None:
    """With health and connection in words."""
    before = await terminal.run("delegates", "list")
    async with aiohttp.ClientSession() as session:
        operator = Operator(session, manager.url, manager.admin_token)
        await FakeDelegate(Caller(session, manager.url), "edge-1", labels={"env": "dev"}).start(await operator.create_token())
    listed = await terminal.run("delegates", "list")

    assert before.out == "no delegate has enrolled\n"
    for words in ("edge-1", "Healthy", "Connected", "0/16", "in-cluster", "env=dev"):
        assert words in listed.out


@pytest.mark.parametrize(
    ("arguments", "environment", "code", "words"),
    [
        (("task", "show", "none"), {}, 2, "error: there is no task none\nhint: delegate task list shows the tasks\n"),
        (("task", "list"), {"DELEGATE_API_TOKEN": "dga_wrong"}, 1, "error: the token is unknown here"),
        (("task", "list"), {"DELEGATE_API_TOKEN": ""}, 2, "error: DELEGATE_API_TOKEN is not set"),
        (("task", "list"), {"DELEGATE_MANAGER_URL": "http://127.0.0.1:1"}, 1, "error: nothing answers at 127.0.0.1:1"),
        (("task", "submit", "none.yaml"), {}, 2, "error: none.yaml: it can't be read: No such file or directory"),
        (("task", "retry", "none"), {}, 2, "error: there is no task none"),
        (("token", "create", "--name", "x", "--scope", "all"), {}, 2, "error: scope: 'all' is no scope"),
        (
            ("token", "create", "--name", "x", "--scope", "sync", "--expires-in", "soon"),
            {},
            2,
            "error: --expires-in: 'soon' is no duration",
        ),
        (("token", "revoke", "none"), {}, 2, "error: there is no token 'none'"),
    ],
)
async def test_faults_name_the_thing_and_the_remedy(
    terminal: Terminal, arguments: tuple[str, ...], environment: dict[str, str], code: int, words: str
) -> None:
    """2 for what was given wrong, 1 for what went wrong; nothing on standard output."""
    ending = await terminal.run(*arguments, **environment)

    assert (ending.code, ending.out) == (code, "")
    assert words in ending.err
    assert "hint: " in ending.err or code == 2


async def test_a_port_that_answers_html(terminal: Terminal) -> None:
    """Something between here and the manager answered, or the address is another's."""

    async def page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 13\r\nConnection: close\r\n\r\n<html></html>")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(page, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        ending = await terminal.run("task", "list", DELEGATE_MANAGER_URL=f"http://127.0.0.1:{port}")

    assert ending.code == 1
    assert f"what answers at http://127.0.0.1:{port} is not the manager: status 200, text/html" in ending.err


async def test_the_manager_as_a_program(tmp_path: Path) -> None:
    """It migrates, serves until SIGTERM, and says in its log where it listens; a second one is told that the first is at work."""
    terminal = Terminal(tmp_path, "", "")
    terminal.environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "DELEGATE_MANAGER_STATE_DIR": str(tmp_path / "state")}
    migrated = await terminal.run("manager", "migrate")
    again = await terminal.run("manager", "migrate", "-o", "json")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "delegate",
        "manager",
        "serve",
        stderr=asyncio.subprocess.PIPE,
        env=terminal.environment | {"DELEGATE_MANAGER_LISTEN": "127.0.0.1:0", "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert process.stderr is not None
    async with asyncio.timeout(40):
        while b"manager.started" not in (line := await process.stderr.readline()):
            assert line, "it ended before it started"
        second = await terminal.run("manager", "serve")
        process.terminate()
        rest = await process.stderr.read()
        code = await process.wait()

    assert migrated.out.startswith("migrated from nothing to revision ")
    assert again.document["before"] == again.document["after"] == migrated.out.split()[-1]
    assert msgspec.json.decode(line)["url"].startswith("http://127.0.0.1:")
    assert second.code == 2
    assert "another manager is at work in" in second.err
    assert code == 0
    assert b"manager.stopped" in rest
    assert stat.S_IMODE((tmp_path / "state" / "admin-token").stat().st_mode) == 0o600


async def test_limits_from_set_to_removed(terminal: Terminal, manager: Manager) -> None:
    """An operator sets a limit, sees what runs under it, and takes it away; a kind that has none is wrong usage."""
    assert (await terminal.run("limits", "list")).out == "no limit is set\n"
    told = await terminal.run("limits", "set", "environment", "prod", "1")
    assert (told.code, told.out) == (0, "environment prod: at most 1 at once, 0 running\n")

    listed = await terminal.run("limits", "list", "-o", "json")

    assert [(each["name"], each["maxParallel"]) for each in listed.document["items"]] == [("prod", 1)]
    assert "environment prod has no limit any more" in (await terminal.run("limits", "remove", "environment", "prod")).out
    assert (await terminal.run("limits", "remove", "environment", "prod")).code == 2
    assert (await terminal.run("limits", "set", "planet", "x", "1")).code == 2


async def test_a_task_signed_with_a_new_key(terminal: Terminal, tmp_path: Path) -> None:
    """A key is made once, 0600; a task that is submitted with it carries its signature, and gets the id that was signed."""
    made = await terminal.run("task", "make-key", "key.pem")
    assert made.out.startswith("ed25519:")
    assert stat.S_IMODE((tmp_path / "key.pem").stat().st_mode) == 0o600
    assert (await terminal.run("task", "make-key", "key.pem")).code == 2

    signed = await terminal.run("task", "sign", "task.yaml", "--sign-key", "key.pem", "--sign-for", "2h")
    (tmp_path / "signed.json").write_text(signed.out)
    first = await terminal.run("task", "submit", "signed.json", "-o", "json")
    second = await terminal.run("task", "submit", "task.yaml", "--sign-key", "key.pem", "-o", "json")

    assert first.document["task"]["id"] == signed.document["signature"]["id"]
    assert second.document["document"]["signature"]["id"] == second.document["task"]["id"]
    assert (await terminal.run("task", "submit", "task.yaml", "--sign-key", "none.pem")).code == 2
