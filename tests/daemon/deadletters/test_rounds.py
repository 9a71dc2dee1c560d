"""The whole round: a task that failed becomes a letter, the manager lists it, and it is sent round again; and large results."""

import asyncio
from pathlib import Path
from typing import Any

from delegate.daemon.deadletters.bucket import BucketAddress
from delegate.daemon.deadletters.letter import Reason
from delegate.engine.tasks.contexts import AttemptContext
from delegate.foundation.errors import Category, DelegateError
from delegate.manager.settings import Limits
from delegate.model.results import Action, Outcome, ResourceResult, TaskResult
from delegate.model.tasks import Task
from tests.daemon.deadletters.test_daemon import exposed, letters_in, looking_into, probe, registered
from tests.daemon.harness import Operator, TestEngine, list_letters, result_of, running_manager
from tests.daemon.waiting import eventually
from tests.fakes.s3_server import FaultyS3


class UnreachableError(DelegateError):
    default_code = "git.unreachable"
    category = Category.TRANSIENT
    default_retryable = True


async def fail_for_now(task: Task, context: AttemptContext) -> TaskResult:
    raise UnreachableError("git.example can't be reached", hint="check the network")


async def letters_of(operator: Operator, query: str = "") -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await operator.ask("GET", f"/dead-letters?{query}"))["items"]
    return items


async def until_listed(operator: Operator, count: int) -> list[dict[str, Any]]:
    async with asyncio.timeout(20.0):
        while len(found := await letters_of(operator)) != count:  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.03)
    return found


async def test_a_task_whose_retries_are_exhausted_goes_round(tmp_path: Path, s3: FaultyS3, address: BucketAddress) -> None:
    """Its letter holds the task and why it failed, reaches bucket and index, and sent round again it succeeds."""
    engine = TestEngine(fail_for_now)
    async with running_manager(tmp_path) as operator:
        token = await operator.token()
        async with registered(operator.manager.url, token, tmp_path / "d", engine, DLQ_BUCKET=address.url(address.prefix)) as running:
            task = await operator.submit("shop")
            assert (await operator.finished(task))["task"]["outcome"] == "failed"
            [known] = await until_listed(operator, 1)
            assert (known["reason"], known["task"], known["errorCode"]) == ("retries_exhausted", task, "git.unreachable")
            assert 'reason="retries_exhausted"} 1.0' in await exposed(running)
            async with looking_into(address) as bucket:
                [letter] = await letters_in(bucket)
                assert known["url"].startswith(bucket.address.url("team/edge/v1/"))
            assert (letter.outcome, [error.code for error in letter.errors]) == ("failed", ["git.unreachable"])
            assert letter.payload.content == (await operator.show(task))["document"]

            async def succeed(task: Task, context: AttemptContext) -> TaskResult:
                return result_of(task, context)

            engine.execute = succeed
            await operator.ask("POST", "/redrives", {"filter": {"errorCode": "git.unreachable"}, "rate": 100})

            async with asyncio.timeout(20.0):
                while not (found := await letters_of(operator, "state=redriven")):  # noqa: ASYNC110
                    await asyncio.sleep(0.03)
            shown = await operator.finished(found[0]["redrivenAs"])
            assert (shown["task"]["outcome"], shown["task"]["retryOf"]) == ("succeeded", task)


async def test_a_full_spool_keeps_failed_tasks_with_their_results(tmp_path: Path) -> None:
    """Case 20: letters that find no room wait in the outbox, no further task is taken, health says why; with room all of them are kept."""

    async def fail_at_length(task: Task, context: AttemptContext) -> TaskResult:
        raise UnreachableError("git.example can't be reached")

    engine = TestEngine(fail_at_length)
    async with running_manager(tmp_path) as operator:
        token, spool = await operator.token(), tmp_path / "d" / "dead-letters"
        async with registered(operator.manager.url, token, tmp_path / "d", engine, DELEGATE_DLQ_MAX_BYTES="1Mi") as running:
            values = {"source": {"repoURL": "https://git.example/c.git", "helm": {"values": "x" * 300_000}}}
            tasks = [await operator.submit(f"app-{number}", spec=values) for number in range(4)]
            await eventually(lambda: running.daemon.conditions.spool_full() and running.daemon._outbox.entries)
            await eventually(lambda: running.daemon._lanes.poller._blocked_by)
            status, body = await probe(running)
            assert (status, body["reasons"][0].partition(":")[0]) == (503, "spool_full")

            tasks += [await operator.submit(f"app-{number}", spec=values) for number in range(4, 8)]
            for task in tasks[4:]:
                assert (await operator.show(task))["task"]["state"] == "queued"
            assert len(engine.began) == 4
            kept = {letter.task for letter in list_letters(spool)}
            async with asyncio.timeout(40.0):
                while len(kept) < 8:  # somebody who looks after them makes room
                    for path in spool.glob("*.json"):
                        path.unlink()
                    await asyncio.sleep(0.1)
                    kept |= {letter.task for letter in list_letters(spool)}

            assert kept == set(tasks)
            await eventually(lambda: running.daemon._outbox.entries == 0)


async def change_much(task: Task, context: AttemptContext) -> TaskResult:
    resources = tuple(
        ResourceResult("", "ConfigMap", "shop", f"c-{number}-{'x' * 80}", Action.CONFIGURED, origin="y" * 80) for number in range(12_000)
    )
    return TaskResult(
        task=context.task_id,
        attempt=context.attempt_id,
        kind=task.kind.value,
        application=task.application,
        outcome=Outcome.SUCCEEDED,
        resources=resources if task.application == "large" else (),
    )


async def test_a_large_result_arrives_whole(tmp_path: Path) -> None:
    """Case 24: the task shows its short form, and nothing of its resources is lost."""

    async with (
        running_manager(tmp_path) as operator,
        registered(operator.manager.url, await operator.token(), tmp_path / "d", TestEngine(change_much)) as running,
    ):
        shown = await operator.finished(await operator.submit("large"), within=30.0)

        result = shown["result"]
        assert (result["outcome"], result["whole"]["size"] > 3 * 2**20) == ("succeeded", True)
        whole = await operator.ask("GET", f"/blobs/{result['whole']['sha256']}")
        assert [each["name"].split("-")[1] for each in whole["resources"]] == [str(number) for number in range(12_000)]
        await eventually(lambda: running.daemon._outbox.entries == 0)
        assert list_letters(tmp_path / "d" / "dead-letters") == []


async def test_a_result_that_is_too_large_for_everybody_ends_short(tmp_path: Path) -> None:
    """Case 24: neither the manager nor the spool has room for the whole: both have its short form, with size and digest, and nothing waits
    behind it."""
    async with (
        running_manager(tmp_path, limits=Limits(blob_bytes=2**21)) as operator,
        registered(
            operator.manager.url, await operator.token(), tmp_path / "d", TestEngine(change_much), DELEGATE_DLQ_MAX_BYTES="1Mi"
        ) as running,
    ):
        shown = await operator.finished(await operator.submit("large"), within=30.0)
        other = await operator.finished(await operator.submit("small"))

        await eventually(lambda: running.daemon._outbox.entries == 0)
        [letter] = list_letters(tmp_path / "d" / "dead-letters")
        kept = letter.payload.content
        assert isinstance(kept, dict)
        assert (other["task"]["outcome"], shown["task"]["outcome"], letter.reason) == ("succeeded", "succeeded", Reason.PAYLOAD_TOO_LARGE)
        assert kept["whole"] == shown["result"]["whole"]
        assert str(kept["whole"]["size"]) in kept["notices"][-1]
        assert "too large" in letter.message
        assert running.daemon.conditions.spool_full() == ""
