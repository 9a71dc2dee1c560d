"""What a delegate can't deliver or can't read becomes a dead letter, and reaches the bucket; a full spool stops the taking of tasks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from delegate.daemon.connection.reporter import Rejection
from delegate.daemon.deadletters.bucket import Bucket, BucketAddress
from delegate.daemon.deadletters.letter import Letter, RedactionState
from delegate.daemon.deadletters.rules import BucketRules
from delegate.daemon.deadletters.sealing import read
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.stopping import outcome_of
from delegate.model.results import TaskResult
from delegate.model.tasks import Task
from delegate.protocol import routes
from tests.daemon.connection.test_outbox import kept
from tests.daemon.harness import (
    Operator,
    Running,
    TestEngine,
    list_letters,
    result_of,
    running_daemon,
    running_manager,
    settings_for,
)
from tests.daemon.waiting import eventually
from tests.fakes.fault_proxy import fault_proxy
from tests.fakes.s3_server import FaultyS3, answered
from tests.fakes.scripted_manager import ScriptedManager, scripted_manager, task


async def until_stopped(task: Task, context: AttemptContext) -> TaskResult:
    verdict = await context.stop.wait()
    return result_of(task, context, outcome_of(verdict), "too late")


@asynccontextmanager
async def registered(url: str, token: str, state: Path, engine: TestEngine | None = None, **variables: str) -> AsyncIterator[Running]:
    async with running_daemon(settings_for(url, token, state, **variables), engine or TestEngine()) as running:
        await running.registered()
        yield running


async def give(running: Running, attempt: str, text: str = "") -> None:
    """A dead letter about a result, as the reporter gives it."""
    await running.daemon._mailroom.keep_result(kept(attempt, text), Rejection(verdict="conflict", message="another one was sent"))


async def letters_in(bucket: Bucket) -> list[Letter]:
    found, _ = await bucket.list_objects()
    return [read(await bucket.get(each.key)) for each in found]


@asynccontextmanager
async def looking_into(address: BucketAddress) -> AsyncIterator[Bucket]:
    bucket = Bucket(address, rules=BucketRules())
    try:
        yield bucket
    finally:
        await bucket.close()


async def probe(running: Running) -> tuple[int, dict[str, Any]]:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{running.daemon.port}/readyz") as response:
        return response.status, await response.json()


async def exposed(running: Running) -> str:
    body, _ = running.daemon.metrics.expose()
    return body.decode()


async def lose_a_lease(operator: Operator, token: str, directory: Path, **variables: str) -> tuple[str, str, Running]:
    """A delegate that is cut off while another one does its task; the task, the first one's attempt, and the first one, stopped."""
    first = TestEngine(until_stopped)
    async with fault_proxy(operator.manager.url) as proxy, registered(proxy.url, token, directory / "first", first, **variables) as cut_off:
        task_id = await operator.submit("shop")
        await eventually(lambda: first.began)
        proxy.partition()
        async with registered(operator.manager.url, token, directory / "second"):
            await operator.finished(task_id)
        proxy.heal()
        await eventually(lambda: 'reason="superseded"} 1.0' in cut_off.daemon.metrics.expose()[0].decode())
        await cut_off.stop()
    return task_id, first.began[0], cut_off


async def test_a_result_that_lost_its_lease_reaches_the_bucket(tmp_path: Path, s3: FaultyS3, address: BucketAddress) -> None:
    """Its letter is durable, moved, counted, and gone from this disk; the outbox owes nothing."""
    async with running_manager(tmp_path) as operator:
        task_id, attempt, running = await lose_a_lease(
            operator, await operator.token(), tmp_path, DLQ_BUCKET=address.url(address.prefix), DELEGATE_NAME="edge"
        )
    async with looking_into(address) as bucket:
        [letter] = await letters_in(bucket)
    assert (letter.reason, letter.delegate, letter.task, letter.attempt) == ("superseded", "edge", task_id, attempt)
    assert isinstance(letter.payload.content, dict)
    assert letter.payload.content["message"] == "too late"
    assert list_letters(tmp_path / "first" / "dead-letters") == []
    metrics = await exposed(running)
    assert 'dlq_entries_total{delegate="edge",reason="superseded"} 1.0' in metrics
    assert 'harness_delegate_dlq_endings_total{ending="sent"} 1.0' in metrics
    assert running.daemon._outbox.entries == 0


async def test_the_same_result_given_again_is_one_letter(tmp_path: Path) -> None:
    """A crash between the letter and the settlement repeats both: the second one changes nothing."""
    async with running_manager(tmp_path) as operator, registered(operator.manager.url, await operator.token(), tmp_path / "d") as running:
        await give(running, "a")
        await give(running, "a")

        [letter] = list_letters(tmp_path / "d" / "dead-letters")
        assert (letter.reason, letter.attempt, letter.application) == ("conflict", "a", "shop")
        assert 'reason="conflict"} 1.0' in await exposed(running)


async def test_a_stopping_delegate_sends_its_letters_first(tmp_path: Path, s3: FaultyS3, address: BucketAddress) -> None:
    """A pod's disk goes with the pod: the process ends when the bucket has them, also where it failed once."""
    s3.add(answered(503, "SlowDown"), times=2)
    async with running_manager(tmp_path) as operator:
        token = await operator.token()
        async with registered(operator.manager.url, token, tmp_path / "d", DLQ_BUCKET=address.url(address.prefix)) as running:
            await asyncio.gather(*(give(running, f"a-{number}") for number in range(6)))
            await running.stop()
    async with looking_into(address) as bucket:
        assert len(await letters_in(bucket)) == 6
    assert list_letters(tmp_path / "d" / "dead-letters") == []


async def test_a_bucket_that_is_away_does_not_hold_the_stop_up(tmp_path: Path, s3: FaultyS3, address: BucketAddress) -> None:
    """The letters stay on disk, and the next process moves them."""
    s3.add(answered(503, "SlowDown"), times=1000)
    async with running_manager(tmp_path) as operator:
        token = await operator.token()
        async with registered(operator.manager.url, token, tmp_path / "d", DLQ_BUCKET=address.url(address.prefix)) as running:
            await give(running, "a")
            async with asyncio.timeout(12.0):
                await running.stop()
        assert len(list_letters(tmp_path / "d" / "dead-letters")) == 1
        s3.forget()

        async with registered(operator.manager.url, token, tmp_path / "d", DLQ_BUCKET=address.url(address.prefix)):
            await eventually(lambda: list_letters(tmp_path / "d" / "dead-letters") == [])


async def test_a_full_spool_stops_the_taking_of_tasks(tmp_path: Path) -> None:
    """Readiness says that it is full and why letters don't leave; when some were purged it goes on by itself."""
    async with running_manager(tmp_path) as operator:
        token, spool = await operator.token(), tmp_path / "d" / "dead-letters"
        async with registered(operator.manager.url, token, tmp_path / "d", DELEGATE_DLQ_MAX_BYTES="1Mi") as running:
            await give(running, "a", "x" * 1_000_000)

            await eventually(lambda: len(running.daemon.conditions.report().unready) == 1)
            status, body = await probe(running)
            assert status == 503
            [reason] = body["reasons"]
            assert reason.startswith(f"spool_full: the dead-letter spool {spool} holds ")
            assert "no bucket is set (DLQ_BUCKET)" in reason
            await eventually(lambda: running.daemon._lanes.poller._blocked_by == reason)
            async with asyncio.timeout(20.0):
                while not (told := (await operator.delegates())[0]["reasons"]):  # noqa: ASYNC110 - the next heartbeat tells it
                    await asyncio.sleep(0.03)
            assert told == [f"it takes no task: {reason}"[: len(told[0])]]
            waiting = await operator.submit("shop")
            await operator.until(waiting, lambda shown: shown["task"]["state"] == "queued")
            assert running.engine.began == []

            for path in spool.glob("*.json"):
                path.unlink()

            assert (await operator.finished(waiting))["task"]["outcome"] == "succeeded"
            assert (await probe(running))[0] == 200


def released(manager: ScriptedManager) -> list[tuple[str, str]]:
    return [(each["attemptId"], each["reason"]) for call in manager.at(routes.RELEASE) for each in call.body["attempts"]]


@pytest.mark.parametrize("again", [False, True], ids=["once", "and again"])
async def test_a_task_that_can_not_be_read_becomes_a_letter(tmp_path: Path, again: bool) -> None:
    """Case 25: it is given back, and kept once, without the token that came with it, however often it comes; its neighbour runs."""
    async with scripted_manager() as manager, registered(manager.url, "bootstrap", tmp_path / "d") as running:
        unreadable = {**task("bad"), "leaseSeconds": "long"}
        manager.hand_out(unreadable, task("good"))
        await eventually(lambda: released(manager) == [("bad", "unsupported")] and "good" in manager.results)
        if again:
            manager.hand_out({**unreadable, "attemptId": "worse", "fence": 2})
            await eventually(lambda: ("worse", "unsupported") in released(manager))

        [letter] = list_letters(tmp_path / "d" / "dead-letters")
        assert (letter.reason, letter.task, letter.attempt, letter.fence) == ("undecodable", "task-bad", "bad", 1)
        assert "leaseSeconds" in letter.message
        assert letter.payload.content == {**unreadable, "attemptToken": "(hidden)"}
        assert letter.redaction == RedactionState(masked=1)
        assert 'reason="undecodable"} 1.0' in await exposed(running)


async def test_a_task_that_finds_no_room_stays_with_the_manager(tmp_path: Path) -> None:
    """It is given back all the same, and becomes a letter when it comes again and there is room."""
    async with scripted_manager() as manager, registered(manager.url, "b", tmp_path / "d", DELEGATE_DLQ_MAX_BYTES="1Mi") as running:
        unreadable = {**task("bad"), "leaseSeconds": "long"}
        manager.hand_out({**unreadable, "document": {"text": "x" * 1_100_000}})
        await eventually(lambda: released(manager) == [("bad", "unsupported")])
        assert list_letters(tmp_path / "d" / "dead-letters") == []

        manager.hand_out({**unreadable, "attemptId": "again"})

        await eventually(lambda: [each.attempt for each in list_letters(tmp_path / "d" / "dead-letters")] == ["again"])
        assert running.daemon.conditions.report().unready == ()
