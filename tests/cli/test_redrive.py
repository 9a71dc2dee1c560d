"""`delegate dlq redrive` and `--at-manager`: dead letters as the manager knows them, and sent round again."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from delegate.manager.service import Manager
from tests.cli.programs import Ended, run
from tests.manager.delegates import Caller, FakeDelegate, make_notice
from tests.manager.operators import Operator


@dataclass
class Desk:
    manager: Manager
    operator: Operator
    delegate: FakeDelegate

    async def dlq(self, *arguments: str) -> Ended:
        """The program, while the manager goes on."""
        env = {"DELEGATE_MANAGER_URL": self.manager.url, "DELEGATE_API_TOKEN": self.manager.admin_token}
        return await asyncio.to_thread(run, "dlq", *arguments, env=env)


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    """A manager that knows three letters, one of them about a result that came too late."""
    async with Manager(state_dir=tmp_path / "manager") as manager, aiohttp.ClientSession() as http:
        operator = Operator(http, manager.url, manager.admin_token)
        delegate = await FakeDelegate(Caller(http, manager.url)).start(await operator.create_token())
        for name in ("shop", "blog", "till"):
            await operator.submit(application=name)
        for task in await delegate.acquire(3):
            await delegate.finish(task, "failed")
            reason = "superseded" if task.application == "till" else "retries_exhausted"
            await delegate.letters(make_notice(task, reason=reason, error_code="git.unreachable"))
        yield Desk(manager, operator, delegate)


async def test_letters_are_sent_round_again(desk: Desk) -> None:
    """A dry run says what would be done; done, each is a new task, and the list says which."""
    dry = await desk.dlq("redrive", "--all", "--dry-run")
    assert (dry.code, dry.stdout) == (0, "would queue 2 of 3 letters again within 1 s, 1 skipped: has_another_result\n")

    ended = await desk.dlq("redrive", "--error-code", "git.unreachable", "--rate", "100", "-o", "json")

    assert (ended.code, ended.document["moved"], ended.document["state"]) == (0, 2, "finished")
    listed = await desk.dlq("list", "--at-manager", "-o", "json")
    assert [bool(each["redrivenAs"]) for each in listed.document["items"]] == [True, True, False]
    again = await desk.dlq("redrive", "--list")
    assert "finished" in again.stdout
    shown = await desk.dlq("redrive", "--show", ended.document["id"])
    assert shown.stdout.startswith(f"redrive {ended.document['id']} is finished: 2 of 3")


async def test_a_redrive_can_be_cancelled(desk: Desk) -> None:
    """A second one is refused meanwhile, with the id of the first; cancelled, the exit code is 1."""
    begun = await desk.dlq("redrive", "--all", "--rate", "0.01", "--no-wait", "-o", "json")
    redrive = begun.document["id"]

    second = await desk.dlq("redrive", "--all")
    cancelled = await desk.dlq("redrive", "--cancel", redrive)

    assert second.code != 0
    assert redrive in second.stderr
    assert (cancelled.code, cancelled.stdout.startswith(f"redrive {redrive} is cancelled")) == (1, True)


async def test_vague_orders_are_not_taken(desk: Desk) -> None:
    """Nothing is sent round or purged that nobody chose."""
    for arguments in (("redrive",), ("redrive", "--all", "--app", "shop"), ("purge", "--at-manager")):
        assert (await desk.dlq(*arguments)).code == 2


async def test_the_index_is_purged(desk: Desk) -> None:
    """By what the letters are."""
    assert (await desk.dlq("purge", "--at-manager", "--app", "blog")).stdout == "purged 1 letters at the manager\n"

    listed = await desk.dlq("list", "--at-manager", "-o", "json")
    assert [each["application"] for each in listed.document["items"]] == ["shop", "till"]
