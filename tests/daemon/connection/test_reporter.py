"""Results reach the manager whatever stands between, each with its own verdict, and leave the outbox only by a final one."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import pytest

from delegate.daemon.connection.journal import Kept
from delegate.daemon.connection.outbox import Outbox
from delegate.daemon.connection.reporter import Rejection, Reporter
from delegate.foundation.errors import DelegateError
from delegate.protocol import codec, routes
from delegate.protocol.blobs import BlobReference
from delegate.protocol.work import ResultItem
from tests.daemon.connection.harness import Link, linked
from tests.daemon.connection.test_outbox import kept
from tests.daemon.waiting import eventually
from tests.fakes.scripted_manager import STRANGE_ANSWERS, Json, answer, problem, raw


@dataclass
class Buried:
    """What was made a dead letter of; nothing while there is no room."""

    has_room: bool = True
    refused: int = 0
    letters: dict[str, tuple[Kept, Rejection]] = field(default_factory=dict)
    tasks: list[str] = field(default_factory=list)

    async def bury(self, record: Kept, rejection: Rejection) -> None:
        if not self.has_room:
            self.refused += 1
            raise DelegateError("no room")
        self.letters[record.item.attempt_id] = (record, rejection)

    async def bury_task(self, record: Kept) -> None:
        if not self.has_room:
            self.refused += 1
            raise DelegateError("no room")
        self.tasks.append(record.item.attempt_id)

    def reasons(self) -> dict[str, Rejection]:
        """Without the errors, which have no equals."""
        return {attempt: replace(rejection, error=None) for attempt, (_, rejection) in self.letters.items()}


@dataclass
class Reporting:
    link: Link
    outbox: Outbox
    reporter: Reporter
    buried: Buried
    settled: dict[str, str] = field(default_factory=dict)

    @property
    def sent(self) -> list[list[str]]:
        return [[item["attemptId"] for item in each.body["results"]] for each in self.link.manager.at(routes.RESULTS)]


@asynccontextmanager
async def reporting(directory: Path, *before: Kept) -> AsyncIterator[Reporting]:
    """A running reporter; the results of `before` are in the outbox already."""
    outbox = Outbox(directory, "first")
    outbox.open()
    for each in before:
        await outbox.keep(each)
    settled: dict[str, str] = {}
    async with linked() as link:
        buried = Buried()
        reporter = Reporter(
            outbox, link.keeper, link.transport, link.faults, bury=buried.bury, bury_task=buried.bury_task, on_settled=settled.__setitem__
        )
        running = asyncio.create_task(reporter.run())
        try:
            yield Reporting(link, outbox, reporter, buried, settled)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await outbox.close()


async def test_results_go_in_batches_and_leave_the_outbox_when_accepted(tmp_path: Path) -> None:
    """What waited and what comes is sent with its attempt's token, and settled by its verdict."""
    async with reporting(tmp_path, kept("a"), kept("b")) as state:
        await state.outbox.keep(kept("c"))
        await eventually(lambda: len(state.settled) == 3)

        assert state.sent[0] == ["a", "b"]
        item = state.link.manager.results["a"]
        assert (item["attemptToken"], item["digest"]) == ("token", codec.result_digest(item["result"]))
        assert state.outbox.entries == 0


async def test_each_result_has_a_verdict_of_its_own(tmp_path: Path) -> None:
    """Case 11: a lost one is buried, a duplicate is done, one that is put off holds nobody up."""
    async with reporting(tmp_path) as state:
        state.link.manager.result_verdicts |= {"lost": "lease_lost", "again": "duplicate", "later": "retry", "new": "a_new_word"}
        await asyncio.gather(*(state.outbox.keep(kept(name)) for name in ("lost", "again", "later", "new", "good")))
        await eventually(lambda: len(state.settled) == 3)

        assert state.buried.reasons() == {"lost": Rejection(verdict="lease_lost", message="")}
        assert state.buried.letters["lost"][0] == kept("lost")
        assert state.settled == {"lost": "lease_lost", "again": "duplicate", "good": "accepted"}
        assert set(state.outbox.unsent()) == {"later", "new"}
        del state.link.manager.result_verdicts["later"], state.link.manager.result_verdicts["new"]
        await eventually(lambda: len(state.settled) == 5)


@pytest.mark.parametrize("name", STRANGE_ANSWERS)
async def test_nothing_strange_takes_a_result_out_of_the_outbox(tmp_path: Path, name: str) -> None:
    """Case 36: a result counts as delivered only by an answer of the manager that names its attempt."""
    async with reporting(tmp_path) as state:
        state.link.manager.on(routes.RESULTS, *[STRANGE_ANSWERS[name]] * 2)
        await state.outbox.keep(kept("a"))
        await eventually(lambda: len(state.sent) == 2)
        assert state.outbox.entries == 1

        await eventually(lambda: state.settled == {"a": "accepted"})


@pytest.mark.parametrize(
    "refusal",
    [
        problem(429, "overloaded", Retry_After="0.1"),
        problem(503, "overloaded"),
        problem(500, "internal"),
        problem(401, "unauthorized"),
        problem(409, "session_unknown"),
        answer(results=[]),
        answer(results=[{"attemptId": "another", "verdict": "accepted"}]),
    ],
    ids=["429", "503", "500", "401", "session unknown", "no verdict", "another's verdict"],
)
async def test_a_refused_result_stays(tmp_path: Path, refusal: object) -> None:
    """Case 09: it stays in the outbox until it is accepted."""
    async with reporting(tmp_path) as state:
        state.link.manager.on(routes.RESULTS, refusal)  # type: ignore[arg-type]
        await state.outbox.keep(kept("a"))

        await eventually(lambda: state.settled == {"a": "accepted"})
        assert len(state.sent) >= 2


async def test_a_batch_that_is_refused_as_a_whole_is_halved_until_the_culprit_is_alone(tmp_path: Path) -> None:
    """One unreadable result costs its neighbours nothing."""

    def refuse_the_bad(request: object, body: Json) -> object:
        names = [item["attemptId"] for item in body["results"]]
        if "bad" in names:
            return problem(422, "invalid")(request, body)  # type: ignore[arg-type]
        decisions = [{"attemptId": name, "verdict": "accepted"} for name in names]
        return answer(results=decisions)(request, body)  # type: ignore[arg-type]

    async with reporting(tmp_path, *(kept(name) for name in ("a", "b", "bad", "c", "d"))) as state:
        state.link.manager.always[routes.RESULTS] = refuse_the_bad  # type: ignore[assignment]
        await eventually(lambda: len(state.settled) == 5)

        assert state.settled == {"a": "accepted", "b": "accepted", "c": "accepted", "d": "accepted", "bad": "invalid"}
        [rejection] = [rejection for _, rejection in state.buried.letters.values()]
        assert (rejection.verdict, rejection.too_large) == ("invalid", False)
        assert "422" in str(rejection.error)


RESULT: Json = {
    "outcome": "succeeded",
    "kind": "sync",
    "resources": [{"name": f"web-{number}", "note": "x" * 100} for number in range(100)],
}
TOO_LARGE = raw(413, b"<h1>Too large</h1>", Content_Type="text/html")


def item_of(attempt: str, result: Json) -> ResultItem:
    return ResultItem(attempt_id=attempt, task_id="t", fence=1, attempt_token="token", digest=codec.result_digest(result), result=result)


async def keep_as_large(outbox: Outbox, attempt: str, result: Json) -> BlobReference:
    """Keeps a result the way that one over the limit of a call is kept."""
    blob = await outbox.keep_large(lambda: codec.canonical_pieces(result))
    short = {"outcome": result["outcome"], "whole": {"sha256": blob.sha256}}
    await outbox.keep(Kept(replace_item(item_of(attempt, result), short, blob), kind="sync"))
    return blob


def replace_item(item: ResultItem, short: Json, blob: BlobReference) -> ResultItem:
    return msgspec.structs.replace(item, result=short, blob=blob)


async def test_a_result_that_is_refused_for_its_size_goes_in_pieces(tmp_path: Path) -> None:
    """Case 24: a 413 is final for that form; the whole goes ahead, and the short form names it."""
    async with reporting(tmp_path) as state:
        state.link.manager.on(routes.RESULTS, TOO_LARGE)
        await state.outbox.keep(Kept(item_of("large", RESULT)))
        await eventually(lambda: state.settled == {"large": "accepted"})

        arrived = state.link.manager.results["large"]
        digest = codec.result_digest(RESULT)
        assert (arrived["digest"], arrived["blob"]["sha256"]) == (digest, digest)
        assert json.loads(state.link.manager.blobs[digest]) == RESULT
        assert len(arrived["result"]["resources"]) < 100
        assert digest in arrived["result"]["notices"][0]


async def test_a_large_result_goes_from_its_file_in_pieces(tmp_path: Path) -> None:
    """Never as a whole; pieces get smaller on a way that takes no more, go on after faults, and the file goes with the result."""
    result = RESULT | {"resources": RESULT["resources"] * 100}

    def take_small(request: object, body: Json) -> object:
        if len(body["data"]) > 300_000:
            return TOO_LARGE(request, body)  # type: ignore[arg-type]
        return answer(**state.link.manager.take_piece(body))(request, body)  # type: ignore[arg-type]

    async with reporting(tmp_path) as state:
        state.link.manager.on(routes.BLOBS, problem(503, "overloaded"), problem(500, "internal"))
        state.link.manager.always[routes.BLOBS] = take_small  # type: ignore[assignment]
        blob = await keep_as_large(state.outbox, "large", result)
        await state.outbox.keep(kept("small"))
        await eventually(lambda: state.settled == {"small": "accepted", "large": "accepted"}, within=20.0)

        assert json.loads(state.link.manager.blobs[blob.sha256]) == result
        assert state.link.manager.results["large"]["digest"] == blob.sha256
        assert state.outbox.stored_bytes == 0
        await eventually(lambda: list((tmp_path / "large").iterdir()) == [])


async def test_a_large_result_outlives_the_process(tmp_path: Path) -> None:
    """The next process finds the file that its journal names, and sends it."""
    first = Outbox(tmp_path, "zero")
    first.open()
    blob = await keep_as_large(first, "large", RESULT)
    await first.close()

    async with reporting(tmp_path) as state:
        assert state.outbox.stored_bytes > blob.size
        await eventually(lambda: state.settled == {"large": "accepted"})
        assert json.loads(state.link.manager.blobs[blob.sha256]) == RESULT


@pytest.mark.parametrize("refusal", [problem(404, "not_found"), problem(413, "too_large")], ids=["an older manager", "its limit"])
async def test_a_large_result_that_nobody_takes_goes_short_and_is_buried_whole(tmp_path: Path, refusal: object) -> None:
    """Case 24, over the hard limit: the outcome is kept, and all of the body is a dead letter."""
    async with reporting(tmp_path) as state:
        state.link.manager.always[routes.BLOBS] = refusal  # type: ignore[assignment]
        await keep_as_large(state.outbox, "large", RESULT)
        await eventually(lambda: state.settled == {"large": "accepted"})

        arrived = state.link.manager.results["large"]
        assert (arrived["blob"], arrived["digest"]) == (None, codec.result_digest(arrived["result"]))
        record, rejection = state.buried.letters["large"]
        assert record.item.result == RESULT
        assert rejection.too_large


async def test_a_result_that_fits_in_no_way_is_buried_whole(tmp_path: Path) -> None:
    """Too large also in its short form: what is kept is all of it, and the reason is its size."""
    item = item_of("large", RESULT)
    async with reporting(tmp_path) as state:
        state.link.manager.always |= {routes.RESULTS: TOO_LARGE, routes.BLOBS: TOO_LARGE}
        await state.outbox.keep(Kept(item))
        await eventually(lambda: state.settled == {"large": "invalid"})

        record, rejection = state.buried.letters["large"]
        assert record.item == item
        assert rejection.too_large
        assert "413" in str(rejection.error)


async def test_a_task_that_nobody_tries_again_is_buried_when_its_result_is_taken(tmp_path: Path) -> None:
    """Not before; and while it can't be, the result is owed, and holds nobody up."""
    async with reporting(tmp_path) as state:
        state.buried.has_room = False
        await state.outbox.keep(msgspec.structs.replace(kept("spent"), task={"kind": "sync"}))
        await state.outbox.keep(kept("good"))
        await eventually(lambda: state.buried.refused and state.settled == {"good": "accepted"})
        assert state.outbox.unsent() == ["spent"]

        state.buried.has_room = True

        await eventually(lambda: state.settled == {"good": "accepted", "spent": "accepted"})
        assert state.buried.tasks == ["spent"]
        assert state.buried.letters == {}


async def test_a_result_stays_in_the_outbox_while_it_can_not_be_buried(tmp_path: Path) -> None:
    """A full spool loses nothing: the result is owed until there is room, and a drain does not wait for that."""
    async with reporting(tmp_path) as state:
        state.link.manager.result_verdicts["lost"] = "lease_lost"
        state.buried.has_room = False
        await state.outbox.keep(kept("lost"))
        await eventually(lambda: state.buried.refused)

        assert not await state.reporter.wait_until_delivered(unreachable_seconds=30.0)
        assert state.outbox.unsent() == ["lost"]
        assert state.settled == {}

        state.buried.has_room = True

        await eventually(lambda: state.settled == {"lost": "lease_lost"})
        assert state.buried.reasons() == {"lost": Rejection(verdict="lease_lost", message="", tries=2)}
        assert state.outbox.entries == 0


async def test_a_large_result_holds_up_no_small_one(tmp_path: Path) -> None:
    """While a large upload is under way, small results are delivered."""
    gate = asyncio.Event()

    async def hold_the_large(request: object, body: Json) -> object:
        if any(item["attemptId"] == "large" for item in body["results"]):
            await gate.wait()
        return answer(results=[{"attemptId": item["attemptId"], "verdict": "accepted"} for item in body["results"]])(request, body)  # type: ignore[arg-type]

    async with reporting(tmp_path, kept("large", "x" * 2**20)) as state:
        state.link.manager.always[routes.RESULTS] = hold_the_large  # type: ignore[assignment]
        await eventually(lambda: state.sent)
        await state.outbox.keep(kept("small"))
        await eventually(lambda: state.settled == {"small": "accepted"})

        gate.set()

        await eventually(lambda: state.settled == {"small": "accepted", "large": "accepted"})


async def test_results_need_no_session(tmp_path: Path) -> None:
    """Case 08: while no session can be had, results go with their attempt tokens."""
    async with reporting(tmp_path) as state:
        state.link.manager.always[routes.SESSION] = problem(503, "overloaded")
        state.link.manager.always[routes.HEARTBEAT] = problem(409, "session_unknown")
        await eventually(lambda: state.link.keeper.current is None)

        await state.outbox.keep(kept("a"))

        await eventually(lambda: state.settled == {"a": "accepted"})


async def test_waiting_for_delivery_ends_when_the_manager_is_away(tmp_path: Path) -> None:
    """A drain does not wait for ever: what is left stays for the next start."""
    async with reporting(tmp_path) as state:
        state.link.manager.always[routes.RESULTS] = raw(502, b"bad gateway", Content_Type="text/plain")
        await state.outbox.keep(kept("a"))

        assert not await state.reporter.wait_until_delivered(unreachable_seconds=0.3)

        del state.link.manager.always[routes.RESULTS]
        assert await state.reporter.wait_until_delivered(unreachable_seconds=30.0)
