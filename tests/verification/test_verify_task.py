"""Verify tasks from the document to the result, against a real Prometheus; and judged again from the result alone."""

import asyncio
import datetime as dt
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from delegate.engine.clusters.registry import ClusterSettings
from delegate.engine.tasks.building import Engine, build_engine
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.stopping import StopSignal, StopVerdict
from delegate.foundation.lifecycle.retrying import Retrying
from delegate.model.results import Outcome, TaskResult
from delegate.model.tasks import TaskDocumentError, read_task
from delegate.model.verification.readings import Verdict
from delegate.model.verification.records import VerificationRecord
from tests.cli.programs import Ended, run
from tests.verification.prometheus import running_prometheus, silent_server

RATIO = 'sum(rate(http_requests_total{{release="{release}",code="500"}}[2s])) / sum(rate(http_requests_total{{release="{release}"}}[2s]))'


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("verify")


@pytest.fixture
async def engine(scratch: Path) -> AsyncIterator[Engine]:
    settings = ClusterSettings(kubeconfig=str(scratch / "none"), directory=scratch / "keys", policy=Retrying(max_attempts=1))
    built = build_engine(cache_dir=scratch / "cache", clusters=settings, retrying=Retrying(max_attempts=1), environment={})
    yield built
    await built.close()


@pytest.fixture(scope="module")
def prometheus(scratch: Path) -> Iterator[str]:
    with running_prometheus(scratch) as url:
        yield url


def document(url: str, query: str, *, spec: dict[str, Any] | None = None, lasts: str = "500ms", **fields: Any) -> dict[str, Any]:
    check = {
        "name": "error-ratio",
        "type": "prometheus",
        "url": url,
        "query": query,
        "unit": "ratio",
        "threshold": "<= 1%",
        "every": "250ms",
        "for": lasts,
        "timeout": "5s",
        "deadline": "20s",
    }
    return {"kind": "verify", "application": "checkout", "timeout": "30s", "spec": {"verification": [check | fields], **(spec or {})}}


async def verify(engine: Engine, body: dict[str, Any], *, stop: StopSignal | None = None) -> TaskResult:
    task = read_task(body)
    deadline = asyncio.get_running_loop().time() + task.timeout_seconds
    return await engine.run(task, AttemptContext(task_id="t", attempt_id="a", deadline=deadline, stop=stop or StopSignal()))


def record_of(result: TaskResult) -> VerificationRecord:
    assert isinstance(result.verification, VerificationRecord), result
    return result.verification


async def test_a_good_and_a_bad_release_are_told_apart(engine: Engine, prometheus: str) -> None:
    """By the same check, and the result explains both."""
    good, bad = [await verify(engine, document(prometheus, RATIO.format(release=release))) for release in ("good", "bad")]

    assert (good.outcome, good.error) == (Outcome.SUCCEEDED, None)
    assert (bad.outcome, bad.error.code if bad.error else "") == (Outcome.FAILED, "dependency.check_failed")
    (err,) = record_of(bad).checks
    assert 'release="bad"' in err.query
    reading = err.readings[0]
    assert (reading.unit, reading.verdict) == ("%", Verdict.FAIL)
    assert 5 < float(reading.value or 0) < 15
    assert "ratio at the source" in reading.reason
    assert reading.digest
    assert reading.samples


@pytest.mark.parametrize(
    ("query", "fields", "ending"),
    [
        ('http_requests_total{release="none"}', {"noData": "fail"}, ("dependency.no_evidence", "no series")),
        ("vector(0) / vector(0)", {"noData": "fail"}, ("dependency.no_evidence", "NaN")),
        ("pod_latency_seconds", {"unit": "s", "threshold": "<= 400ms"}, ("input.check", "3 series, no reducer declared")),
        ("pod_latency_seconds", {"unit": "s", "threshold": "<= 400ms", "reduce": "worst"}, ("dependency.check_failed", "pod=wren-a")),
        ("sum(", {}, ("input.check", "configuration")),
        ("vector(1)/vector(0)", {"unit": "count", "threshold": "<= 1 count"}, ("dependency.check_failed", "inf count is not <= 1 count")),
    ],
)
async def test_each_answer_that_is_not_good_has_its_own_end(
    engine: Engine, prometheus: str, query: str, fields: dict[str, Any], ending: tuple[str, str]
) -> None:
    """Empty, NaN, many series, a question that can't be read, infinity: none succeeds."""
    result = await verify(engine, document(prometheus, query, **fields))

    assert result.outcome is Outcome.FAILED
    assert result.error is not None
    assert (result.error.code, ending[1] in result.error.message) == (ending[0], True), result.error


async def test_a_check_in_buckets_waits_for_the_first_whole_one(engine: Engine, prometheus: str) -> None:
    """No range without a bucket in it is asked for, which a server would call a wrong question."""
    result = await verify(engine, document(prometheus, RATIO.format(release="good"), bucket="1s", lasts="1s"))

    assert result.outcome is Outcome.SUCCEEDED, result
    first, *_ = record_of(result).checks[0].readings
    assert (first.verdict, first.reason) == (Verdict.NO_DATA, "no complete bucket since the release")


async def test_sources_that_do_not_answer(engine: Engine) -> None:
    """One that can't be reached and one that is silent: nothing is known of the release, within the time given."""
    gone = await verify(engine, document("http://127.0.0.1:1", "up", consecutiveErrors=1))
    async with silent_server() as url:
        silent = await verify(engine, document(url, "up", timeout="200ms", consecutiveErrors=1))

    for result in (gone, silent):
        assert result.outcome is Outcome.FAILED
        assert result.error is not None
        assert result.error.code == "dependency.source_unavailable"
    assert "no answer within 0.2 s" in silent.message


def test_a_wrong_unit_is_refused(prometheus: str) -> None:
    """Before the task is anybody's: one that the metric's name contradicts, and one that no rule about a ratio can have."""
    for unit, threshold, words in (("ms", "<= 400ms", "is in s by its name"), ("s", "<= 1%", "about a ratio")):
        with pytest.raises(TaskDocumentError, match=words):
            read_task(document(prometheus, "max(pod_latency_seconds)", unit=unit, threshold=threshold))


async def test_an_unknown_provider_is_refused(engine: Engine) -> None:
    """Before anything is asked."""
    result = await verify(engine, document("", "up", provider="nobody"))

    assert result.outcome is Outcome.REFUSED
    assert result.error is not None
    assert result.error.code == "input.provider"


async def stopped_after_a_reading(engine: Engine, body: dict[str, Any]) -> TaskResult:
    stop, seen = StopSignal(), asyncio.Event()
    context = AttemptContext(
        task_id="t",
        attempt_id="a",
        deadline=asyncio.get_running_loop().time() + 30,
        stop=stop,
        report=lambda event, _: seen.set() if event == "check.read" else None,
    )
    running = asyncio.create_task(engine.run(read_task(body), context))
    async with asyncio.timeout(20):
        await seen.wait()
    stop.request(StopVerdict.CANCEL, "enough")
    return await running


async def test_a_stop_is_no_success(engine: Engine, prometheus: str) -> None:
    """Whatever was seen until then; the evidence is kept."""
    result = await stopped_after_a_reading(engine, document(prometheus, RATIO.format(release="good"), deadline="", lasts="29s"))

    assert result.outcome is Outcome.CANCELLED
    assert "stopped with" in result.message
    assert record_of(result).checks[0].tally.passes >= 1
    assert record_of(result).verdict is Verdict.NO_DATA


async def test_a_stop_of_what_lasts_until_then_is_judged(engine: Engine, prometheus: str) -> None:
    """Without one good reading it has failed; with good ones alone it is cancelled, and not verified."""
    bad, good = [
        await stopped_after_a_reading(
            engine, document(prometheus, RATIO.format(release=release), deadline="", failsAllowed=100, lasts="until-stopped")
        )
        for release in ("bad", "good")
    ]

    assert (bad.outcome, bad.error.code if bad.error else "") == (Outcome.FAILED, "dependency.check_failed")
    assert "stopped with 0 passes" in bad.message
    assert (good.outcome, good.error) == (Outcome.CANCELLED, None)


async def test_the_tasks_own_deadline_comes_with_the_evidence(engine: Engine, prometheus: str) -> None:
    """A task whose time is over while a check has none says what was missing."""
    body = document(prometheus, 'absent_metric{a="b"}', deadline="")
    body["timeout"] = "1600ms"

    result = await verify(engine, body)

    assert result.outcome is Outcome.FAILED
    assert result.error is not None
    assert result.error.code == "dependency.no_evidence"
    assert record_of(result).checks[0].tally.no_data >= 2


async def test_a_past_window(engine: Engine, prometheus: str) -> None:
    """Judged at once, at its own moments."""
    now = dt.datetime.now(dt.UTC)
    window = {"from": (now - dt.timedelta(seconds=1)).isoformat(), "to": now.isoformat()}
    result = await verify(engine, document(prometheus, RATIO.format(release="bad"), spec={"window": window}, over="5s", failsAllowed=2))

    (err,) = record_of(result).checks
    assert result.outcome is Outcome.FAILED
    times = [reading.at - err.readings[0].at for reading in err.readings]
    assert times == pytest.approx([0, 0.25, 0.5])


async def test_the_command_from_the_document_to_the_exit_code(scratch: Path, prometheus: str) -> None:
    """`exec` without a cluster: one JSON document, its code, and a result that `verify --replay` takes."""
    file, stored = scratch / "verify.json", scratch / "result.json"
    spec = {"variables": {"RELEASE": "bad"}}
    file.write_text(json.dumps(document(prometheus, RATIO.format(release="$RELEASE"), spec=spec)))
    home = {"HOME": str(scratch)}

    ended: Ended = await asyncio.to_thread(run, "exec", str(file), "-o", "json", env=home)
    stored.write_text(ended.stdout)
    again: Ended = await asyncio.to_thread(run, "verify", "--replay", str(stored), env=home)
    other: Ended = await asyncio.to_thread(run, "verify", "--replay", str(stored), "--threshold", "error-ratio=<= 50%", env=home)

    assert ended.code == 1
    assert ended.document["verification"]["checks"][0]["verdict"] == "fail"
    assert again.code == 1
    assert "as before" in again.stdout
    assert other.code == 1
    assert "incomplete evidence when its time was over" in other.stdout
