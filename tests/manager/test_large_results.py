"""Case 24: a result over the limit of one call goes ahead in pieces, by digest, and nothing of it is lost."""

import hashlib
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from delegate.manager.service import Manager
from delegate.manager.settings import Limits
from delegate.manager.store.blobs import forget_abandoned
from delegate.protocol import codec
from delegate.protocol.work import LeasedTask, ProgressEvent, ResultItem
from tests.manager.clocks import FakeClock
from tests.manager.conftest import RHYTHM
from tests.manager.delegates import Caller, FakeDelegate, RefusedCallError, make_result, shortened
from tests.manager.operators import Operator

PIECE = 100_000


def large_result(task: LeasedTask, resources: int = 3000) -> tuple[ResultItem, bytes]:
    """A result with a long list of resources, and its canonical bytes."""
    item = make_result(task, resources=[{"kind": "ConfigMap", "name": f"c-{number}", "note": "x" * 100} for number in range(resources)])
    return item, b"".join(codec.canonical_pieces(item.result))


async def send(delegate: FakeDelegate, task: LeasedTask, whole: bytes) -> None:
    for offset in range(0, len(whole), PIECE):
        answer = await delegate.send_piece(task, whole, offset, offset + PIECE)
        assert answer.received == min(offset + PIECE, len(whole))


async def leased(operator: Operator, delegate: FakeDelegate) -> LeasedTask:
    await operator.submit()
    (task,) = await delegate.acquire(1)
    return task


async def test_the_whole_of_a_large_result_can_be_had(operator: Operator, delegate: FakeDelegate, http: aiohttp.ClientSession) -> None:
    """The task shows the short form; the bytes with the result's digest are the whole of it."""
    task = await leased(operator, delegate)
    item, whole = large_result(task)
    assert hashlib.sha256(whole).hexdigest() == item.digest

    await send(delegate, task, whole)
    [decision] = await delegate.report(shortened(item, whole))

    assert decision.verdict == "accepted"
    assert "resources" not in (await operator.show(task.task_id))["result"]
    assert await operator.call("GET", f"/api/v1/blobs/{item.digest}") == item.result
    [again] = await delegate.report(shortened(item, whole))
    assert again.verdict == "duplicate"


async def test_an_upload_goes_on_where_it_stopped(operator: Operator, delegate: FakeDelegate) -> None:
    """Pieces that come twice, or out of turn, change nothing; each answer says where to go on."""
    task = await leased(operator, delegate)
    item, whole = large_result(task)

    assert (await delegate.send_piece(task, whole, 0, PIECE)).received == PIECE
    assert (await delegate.send_piece(task, whole, 0, PIECE)).received == PIECE
    assert (await delegate.send_piece(task, whole, 2 * PIECE, 3 * PIECE)).received == PIECE
    assert (await delegate.send_piece(task, whole, 0, 0)).received == PIECE
    await send_rest(delegate, task, whole, PIECE)

    [decision] = await delegate.report(shortened(item, whole))
    assert decision.verdict == "accepted"


async def send_rest(delegate: FakeDelegate, task: LeasedTask, whole: bytes, received: int) -> None:
    while received < len(whole):
        received = (await delegate.send_piece(task, whole, received, received + PIECE)).received


async def test_a_result_whose_whole_is_not_there_is_put_off(operator: Operator, delegate: FakeDelegate) -> None:
    """Until the last piece is there, and is what the digest says."""
    task = await leased(operator, delegate)
    item, whole = large_result(task)
    await delegate.send_piece(task, whole, 0, PIECE)

    [decision] = await delegate.report(shortened(item, whole))

    assert (decision.verdict, decision.message) == ("retry", "the whole of the result is not here yet")


async def test_bytes_that_are_not_what_their_digest_says_are_not_kept(operator: Operator, delegate: FakeDelegate) -> None:
    """The upload begins anew."""
    task = await leased(operator, delegate)
    item, whole = large_result(task, 10)
    changed = whole[:-1] + b" "

    answer = await delegate.send_piece(task, changed, 0, len(changed), sha256=item.digest)

    assert (answer.received, answer.complete) == (0, False)
    assert (await delegate.send_piece(task, whole, 0, len(whole))).complete


async def test_only_the_attempt_itself_may_send(operator: Operator, delegate: FakeDelegate) -> None:
    """A token that does not fit, a digest that is none, a piece that can't be."""
    task = await leased(operator, delegate)
    _, whole = large_result(task, 10)
    for wrong, sha256, end in ((msgspec.structs.replace(task, attempt_token="dgx_no"), "", 10), (task, "../../etc", 10)):
        with pytest.raises(RefusedCallError) as refused:
            await delegate.send_piece(wrong, whole, 0, end, sha256=sha256)
        assert refused.value.problem.status == 422


async def test_there_are_limits(tmp_path: Path, database_url: str, http: aiohttp.ClientSession, clock: FakeClock) -> None:
    """Of one result, and of all together: 413, so that the delegate keeps the whole."""
    limits = Limits(blob_bytes=200_000, all_blob_bytes=300_000)
    async with Manager(state_dir=tmp_path / "state", database_url=database_url, rhythm=RHYTHM, clock=clock, limits=limits) as manager:
        operator = Operator(http, manager.url, manager.admin_token)
        delegate = await FakeDelegate(Caller(http, manager.url)).start(await operator.create_token())
        await operator.submit(application="first")
        await operator.submit(application="second")
        first, second = await delegate.acquire(2)
        with pytest.raises(RefusedCallError) as refused:
            await delegate.send_piece(first, b"x" * 200_001, 0, 10)
        assert (refused.value.problem.status, refused.value.problem.code) == (413, "too_large")

        await delegate.send_piece(first, b"x" * 200_000, 0, 200_000)
        with pytest.raises(RefusedCallError) as refused:
            await delegate.send_piece(second, b"y" * 150_000, 0, 150_000)
        assert refused.value.problem.status == 413


async def test_what_nobody_reported_is_forgotten(manager: Manager, operator: Operator, delegate: FakeDelegate, clock: FakeClock) -> None:
    """A day after its last piece, when its attempt can't report any more."""
    task = await leased(operator, delegate)
    _, whole = large_result(task, 10)
    await delegate.send_piece(task, whole, 0, len(whole))
    clock.advance(RHYTHM.attempt_token_seconds + 1)

    database = manager._services.database
    assert await database.write(forget_abandoned) == 1

    with pytest.raises(RefusedCallError) as refused:
        await operator.call("GET", f"/api/v1/blobs/{hashlib.sha256(whole).hexdigest()}")
    assert refused.value.problem.status == 404


async def test_steps_that_arrive_after_the_result_are_kept(operator: Operator, delegate: FakeDelegate) -> None:
    """They travel by themselves, and the result may be faster."""
    task = await leased(operator, delegate)
    await delegate.finish(task)

    kept = await delegate.events(ProgressEvent(attempt_id=task.attempt_id, fence=task.fence, sequence=1, event="sync.applied", data={}))

    assert kept == 1
    events: Any = await operator.call("GET", f"/api/v1/tasks/{task.task_id}/events")
    assert [event["event"] for event in events["items"]] == ["sync.applied"]


async def test_large_tasks_come_in_answers_that_can_be_read(operator: Operator, delegate: FakeDelegate) -> None:
    """However many slots are free, an answer stays below what a delegate reads of one; the rest comes with the next poll."""
    for number in range(9):
        source = {"repoURL": "https://git.example/config.git", "helm": {"values": "x" * 900_000}}
        await operator.submit(application=f"app-{number}", spec={"source": source})

    batches = []
    while batch := await delegate.acquire(16):
        batches.append(len(batch))

    assert sum(batches) == 9
    assert max(batches) == 4
