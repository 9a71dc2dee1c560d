"""The shared cases of verification (canary 01, 07, 09, 11, 17, 26), played in virtual time."""

import asyncio
import math
from typing import Any

import pytest

from delegate.engine.verification.answers import Answer, Query, Series
from delegate.engine.verification.errors import UnreadableAnswerError
from delegate.model.verification.checks import Check
from delegate.model.verification.readings import Verdict
from delegate.model.verification.records import CheckRecord
from tests.verification.cases import case
from tests.verification.clocks import VirtualClock
from tests.verification.running import check, verification, verify
from tests.verification.sources import Script, ScriptedProvider, scripted


def verdicts(record: CheckRecord) -> list[Verdict]:
    return [reading.verdict for reading in record.readings]


class TestNoTraffic:
    """01: an error ratio of 0/0."""

    CASE = case("01")
    POLICY = CASE["tasks"][0]["policy"]["checks"][0]

    def check(self, **fields: Any) -> Check:
        wanted = {
            "query": self.POLICY["query"],
            "requests": "count",
            "minRequests": self.POLICY["min_requests"],
            "every": self.POLICY["every"],
            "for": "120s",
            "unit": "percent",
            "threshold": "<= 1percent",
            "deadline": "600s",
        }
        return check(**wanted | fields)

    def provider(self, clock: VirtualClock, *, ratio: Script | None = None, requests: Script | None = None) -> ScriptedProvider:
        ratios = ratio or scripted(self.CASE["answers"]["prom"])
        counts = requests or scripted(self.CASE["answers"]["prom_requests"])
        return ScriptedProvider("prom", clock, lambda at, query: (counts if query.text == "count" else ratios)(at, query))

    async def test_the_hold_counts_from_the_first_window_with_data(self) -> None:
        """NaN is no data; 120 s of evidence begin at 240 and end at 360."""
        clock = VirtualClock()

        record = await verify(clock, [self.check()], self.provider(clock))

        (err,) = record.checks
        assert record.verdict is Verdict.PASS
        assert clock.seconds == 360
        assert verdicts(err)[:8] == [Verdict.NO_DATA] * 8
        assert (err.tally.passes, err.tally.fails, err.tally.no_data) == (5, 0, 8)
        assert 'rev="7"' in err.query

    async def test_never_any_data(self) -> None:
        """At the deadline it is no data, neither success nor a failed metric."""
        clock, entries = VirtualClock(), self.CASE["answers"]["prom"][:1]

        record = await verify(clock, [self.check()], self.provider(clock, ratio=scripted(entries)))

        assert record.verdict is Verdict.NO_DATA
        assert clock.seconds == 600
        assert "no data" in record.reason

    async def test_a_rule_turned_round(self) -> None:
        """`NaN > 1` is false, and that is not read as good."""
        clock = VirtualClock()

        record = await verify(clock, [self.check(threshold="fail if > 1percent")], self.provider(clock))

        assert (record.verdict, clock.seconds) == (Verdict.PASS, 360)
        assert record.checks[0].tally.no_data == 8

    @pytest.mark.parametrize(("requests", "verdict", "seconds"), [(310.0, Verdict.FAIL, 0), (49.0, Verdict.NO_DATA, 600)])
    async def test_infinity_is_evidence_where_there_were_requests(self, requests: float, verdict: Verdict, seconds: float) -> None:
        """Errors without requests in the denominator fail at the first reading, unless there were too few requests."""
        clock = VirtualClock()
        infinite = [{"from": 0, "status": 200, "body": {"data": {"result": [{"metric": {}, "value": [0, "+Inf"]}]}}}]

        def count(_: float, query: Query) -> Answer:
            return Answer((Series(((query.window.end, requests),)),))

        record = await verify(clock, [self.check()], self.provider(clock, ratio=scripted(infinite), requests=count))

        assert (record.verdict, clock.seconds) == (verdict, seconds)
        assert record.checks[0].readings[0].samples[0].value == "+Inf"


class TestStopped:
    """07: a background verification that is stopped early."""

    CASE = case("07")

    def check(self, **fields: Any) -> Check:
        policy = self.CASE["tasks"][0]["policy"]["checks"][0]
        wanted = {
            "every": policy["every"],
            "failsAllowed": policy["fails_allowed"],
            "consecutiveErrors": policy["errors_allowed_in_a_row"],
            "for": "until-stopped",
        }
        return check(**wanted | fields)

    async def stopped(self, clock: VirtualClock, wanted: Check, provider: ScriptedProvider, at: float = 45.0) -> tuple[CheckRecord, float]:
        running = verification(clock, [wanted], provider)

        async def body() -> CheckRecord:
            run = asyncio.create_task(running.run())
            await clock.sleep(at)
            running.finish()
            return (await run).checks[0]

        return await clock.run(body()), clock.seconds

    async def test_without_a_pass_it_is_no_success(self) -> None:
        """Three fails of three allowed and two errors below the limit make no success."""
        clock = VirtualClock()
        provider = ScriptedProvider("prom", clock, scripted(self.CASE["answers"]["prom"]))

        record, _ = await self.stopped(clock, self.check(), provider)

        assert verdicts(record) == [Verdict.ERROR] * 2 + [Verdict.FAIL] * 3
        assert record.verdict is Verdict.FAIL
        assert record.reason == "stopped with 0 passes, 3 fails, 2 errors"
        assert provider.times == [0, 10, 20, 30, 40]

    async def test_stopped_before_the_first_reading(self) -> None:
        """There is no evidence, and that is said."""
        clock = VirtualClock()
        provider = ScriptedProvider("prom", clock, scripted(self.CASE["answers"]["prom"]))

        record, seconds = await self.stopped(clock, self.check(initialDelay="30s"), provider, at=3)

        assert (record.verdict, seconds, provider.asked) == (Verdict.NO_DATA, 3, [])
        assert "evidence none" in record.reason

    async def test_a_hanging_query_is_given_up(self) -> None:
        """The outcome is there within 2 s of the stop, the call is cancelled, and no other follows."""
        clock = VirtualClock()
        answers = scripted([*self.CASE["answers"]["prom"], {"from": 40, "after": "hang"}])
        provider = ScriptedProvider("prom", clock, answers)

        record, seconds = await self.stopped(clock, self.check(timeout="30s"), provider)

        assert seconds <= 47
        assert (provider.times[-1], provider.cancelled, provider.closed) == (40, 1, 1)
        assert record.verdict is Verdict.FAIL

    async def test_with_passes_to_the_end_it_has_passed(self) -> None:
        """The other way round: what saw good evidence until it was stopped is good."""
        clock = VirtualClock()
        good = [{"from": 0, "status": 200, "body": {"data": {"result": [{"metric": {}, "value": [0, "0.5"]}]}}}]

        record, _ = await self.stopped(clock, self.check(), ScriptedProvider("prom", clock, scripted(good)))

        assert (record.verdict, record.tally.passes) == (Verdict.PASS, 5)


class TestErrors:
    """09: a source that throttles, then breaks."""

    CASE = case("09")
    GOOD = {"status": 200, "body": {"data": {"result": [{"metric": {}, "value": [0, "300"]}]}}}

    def check(self) -> Check:
        policy = self.CASE["tasks"][0]["policy"]
        wanted = policy["checks"][0]
        return check(
            name="lat",
            unit="ms",
            threshold="<= 400ms",
            every=wanted["every"],
            consecutiveErrors=wanted["errors_allowed_in_a_row"],
            deadline=policy["deadline"],
            backoff={"first": "5s", "factor": 2, "cap": "60s"},
            **{"for": policy["for"]},
        )

    async def test_the_wall_clock_wins(self) -> None:
        """The source's own wait first, then growing waits; at 300 s it is over, though 20 errors were not reached."""
        clock = VirtualClock()
        provider = ScriptedProvider("prom", clock, scripted(self.CASE["answers"]["dd"]))

        record = await verify(clock, [self.check()], provider)

        assert provider.times == [0, 30, 35, 45, 65, 105, 165, 225, 285]
        assert (record.verdict, clock.seconds) == (Verdict.ERROR, 300)
        assert "source unavailable" in record.reason
        assert record.checks[0].tally.fails == 0

    @pytest.mark.parametrize("variant", ["denied", "bad_query"])
    async def test_a_question_that_will_never_be_answered(self, variant: str) -> None:
        """It is asked once, and the fault is the configuration's."""
        clock, entry = VirtualClock(), {"from": 0, **self.CASE["variants"][variant]}
        provider = ScriptedProvider("prom", clock, scripted([entry]))

        record = await verify(clock, [self.check()], provider)

        assert (record.verdict, len(provider.asked)) == (Verdict.ERROR, 1)
        assert clock.seconds < 10
        assert record.checks[0].configuration
        assert "configuration" in record.reason

    async def test_a_source_that_never_answers(self) -> None:
        """Each call has its own time, and the whole still ends at 300 s."""
        clock = VirtualClock()
        provider = ScriptedProvider("prom", clock, lambda _, __: None)

        record = await verify(clock, [self.check()], provider)

        assert (record.verdict, clock.seconds) == (Verdict.ERROR, 300)
        assert provider.cancelled == len(provider.asked)
        assert all(reading.seconds <= 10 for reading in record.checks[0].readings)

    async def test_a_source_that_recovers_too_late(self) -> None:
        """The errors are forgotten, but good evidence of less than 240 s is not enough."""
        clock = VirtualClock()
        provider = ScriptedProvider("prom", clock, scripted([*self.CASE["answers"]["dd"], {"from": 100, **self.GOOD}]))

        record = await verify(clock, [self.check()], provider)

        assert (record.verdict, clock.seconds) == (Verdict.NO_DATA, 300)
        assert provider.times[5:] == [105, 120, 180, 240]
        assert "incomplete evidence" in record.reason
        assert record.checks[0].tally.errors_in_a_row == 0


class TestCached:
    """11: a proxy that serves yesterday's answer."""

    CASE = case("11")

    def script(self, entries: list[dict[str, Any]]) -> Script:
        def answer(seconds: float, query: Query) -> Answer:
            entry = max((each for each in entries if each["from"] <= seconds), key=lambda each: each["from"])
            headers = entry["headers"]
            expected = (query.parameters or {}).get("build", "")
            build = expected in ("", (entry["body"] or {}).get("build"))
            value = float(entry["status"]) if build or entry["status"] != 200 else 599.0
            age = float(headers["Age"]) if "Age" in headers else None
            return Answer((Series(((query.window.end, value),)),), age_seconds=age, stale="Warning" in headers)

        return answer

    def check(self, **fields: Any) -> Check:
        policy = self.CASE["tasks"][0]["policy"]
        wanted = {
            "name": "health",
            "type": "http",
            "unit": "count",
            "threshold": "== 200 count",
            "every": policy["checks"][0]["every"],
            "failsAllowed": policy["checks"][0]["fails_allowed"],
            "for": policy["for"],
        }
        return check(**wanted | fields)

    @pytest.mark.parametrize("build", ["25.5", ""])
    async def test_answers_from_before_the_release_are_none(self, build: str) -> None:
        """Their age discards them, whether they name a build or not; then two fails of one allowed decide."""
        clock = VirtualClock()
        provider = ScriptedProvider("prom", clock, self.script(self.CASE["answers"]["http"]))

        record = await verify(clock, [self.check(parameters={"build": build})], provider)

        assert (record.verdict, clock.seconds) == (Verdict.FAIL, 75)
        assert verdicts(record.checks[0]) == [Verdict.NO_DATA] * 4 + [Verdict.FAIL] * 2

    async def test_a_stale_answer_is_none(self) -> None:
        """A cache that says itself that it could not ask proves nothing, however young its answer."""
        clock = VirtualClock()
        entry = {"from": 0, "status": 200, "body": {"build": "25.5"}, **self.CASE["variants"]["stale_if_error"]}
        provider = ScriptedProvider("prom", clock, self.script([entry]))

        record = await verify(clock, [self.check(deadline="200s")], provider)

        assert record.verdict is Verdict.NO_DATA
        assert {reading.verdict for reading in record.checks[0].readings} == {Verdict.NO_DATA}


class TestManySeries:
    """17: one series a pod, one of them bad."""

    CASE = case("17")

    async def verify(self, *, answers: Any = None, **fields: Any) -> tuple[CheckRecord, float]:
        clock = VirtualClock()
        provider = ScriptedProvider("prom", clock, scripted(answers or self.CASE["answers"]["prom"]))
        wanted = {"unit": "percent", "threshold": "<= 1percent", "every": "30s", "for": "30s"}
        record = await verify(clock, [check(**wanted | fields)], provider)
        return record.checks[0], clock.seconds

    def answers(self, *more: dict[str, Any], **values: str) -> list[dict[str, Any]]:
        (entry,) = self.CASE["answers"]["prom"]
        result = [
            {"metric": each["metric"], "value": [0, values.get(each["metric"]["pod"].replace("-", "_"), each["value"][1])]}
            for each in entry["body"]["data"]["result"]
        ]
        return [{**entry, "body": {"data": {"result": [*result, *more]}}}]

    async def test_without_a_reducer_nothing_is_picked(self) -> None:
        """Neither the first, nor the last, nor a sum: an error, at once."""
        record, seconds = await self.verify()

        assert (record.verdict, seconds) == (Verdict.ERROR, 0)
        assert "3 series, no reducer declared" in record.reason

    async def test_the_worst_is_named(self) -> None:
        """It fails, and the record says whose value it was."""
        record, _ = await self.verify(reduce="worst")

        assert (record.verdict, record.readings[0].value) == (Verdict.FAIL, 14.0)
        assert "wren-a" in record.reason

    async def test_the_mean(self) -> None:
        """Of three, and that is written."""
        record, _ = await self.verify(reduce="mean")

        assert record.verdict is Verdict.FAIL
        assert record.readings[0].value == pytest.approx(4.8333, abs=1e-3)
        assert "mean of 3" in record.reason

    async def test_series_without_a_value_are_left_out_and_counted(self) -> None:
        """One NaN changes nothing about the others; only NaN is no data."""
        record, _ = await self.verify(reduce="worst", answers=self.answers(wren_b="NaN"))
        none, _ = await self.verify(reduce="worst", noData="fail", answers=self.answers(wren_a="NaN", wren_b="NaN", wren_c="NaN"))

        assert (record.verdict, record.readings[0].value) == (Verdict.FAIL, 14.0)
        assert "1 of 3 series had no value (NaN)" in record.readings[0].notes
        assert none.verdict is Verdict.NO_DATA

    async def test_a_foreign_series_is_dropped(self) -> None:
        """A pod of the old version is none of ours."""
        foreign = {"metric": {"pod": "wren-old-1"}, "value": [0, "55"]}
        record, _ = await self.verify(reduce="worst", where={"pod": "wren-[abc]"}, answers=self.answers(foreign))

        assert record.readings[0].value == 14.0
        assert "1 series are not of the new version and were left out" in record.readings[0].notes


class TestBrokenAnswers:
    """26: status 200, and no whole answer; what each source's own format says is up to its provider."""

    CASE = case("26")

    async def verify(self, answer: Answer | Exception, **fields: Any) -> tuple[Verdict, int, str]:
        clock = VirtualClock()
        wanted = {"unit": "count", "threshold": "<= 10count", "every": "30s", "for": "30s", "consecutiveErrors": 1, "deadline": "200s"}
        provider = ScriptedProvider("prom", clock, lambda _, query: _stamped(answer, query))
        record = await verify(clock, [check(**wanted | fields)], provider)
        return record.verdict, len(provider.asked), record.reason

    async def test_warnings(self) -> None:
        """They are errors, with their words, unless partial answers are accepted."""
        entries = self.CASE["answers"]["prom"]
        clock = VirtualClock()
        fields: dict[str, Any] = {"unit": "count", "threshold": "<= 10count", "every": "30s", "for": "30s", "consecutiveErrors": 1}
        strict = await verify(clock, [check(**fields)], ScriptedProvider("prom", clock, scripted(entries)))
        clock = VirtualClock()
        lenient = await verify(clock, [check(**fields, partial="accept")], ScriptedProvider("prom", clock, scripted(entries)))

        assert strict.verdict is Verdict.ERROR
        assert "one store did not answer" in strict.reason
        assert lenient.verdict is Verdict.PASS
        assert "one store did not answer" in lenient.checks[0].readings[0].notes[0]

    async def test_missing_shards(self) -> None:
        """A partial answer is an error without any warning too."""
        verdict, _, _ = await self.verify(Answer((Series(((0, 3.0),)),), partial=True))

        assert verdict is Verdict.ERROR

    @pytest.mark.parametrize(("threshold", "verdict"), [("<= 10count", Verdict.FAIL), (">= 20000 count", Verdict.NO_DATA)])
    async def test_a_count_that_stopped(self, threshold: str, verdict: Verdict) -> None:
        """At least 10,000 is more than 10, and may or may not be 20,000."""
        found, _, _ = await self.verify(Answer((Series(((0, 10_000.0),)),), at_least=True), threshold=threshold, noData="fail")

        assert found is verdict

    @pytest.mark.parametrize("answer", [Answer(()), Answer((Series(((0, None),)),)), Answer((Series(((0, math.nan),)),))])
    async def test_nothing_is_not_zero(self, answer: Answer) -> None:
        """No row, a row without a value and NaN are no data."""
        verdict, asked, _ = await self.verify(answer)

        assert verdict is Verdict.NO_DATA
        assert asked > 1

    async def test_a_login_page(self) -> None:
        """It is a fault of the configuration, and not asked for again."""
        verdict, asked, reason = await self.verify(UnreadableAnswerError("it answered 200 with a page"))

        assert (verdict, asked) == (Verdict.ERROR, 1)
        assert "configuration" in reason


def _stamped(answer: Answer | Exception, query: Query) -> Answer | Exception:
    """Numbers over the window, as providers stamp them."""
    if isinstance(answer, Exception):
        return answer
    series = tuple(Series(tuple((query.window.end, value) for _, value in each.points), each.labels) for each in answer.series)
    return Answer(series, partial=answer.partial, at_least=answer.at_least)
