"""Several checks at once: their time, their ticks, and how one of them ends all."""

import asyncio
from typing import Any

import pytest

from delegate.engine.verification.answers import Answer, Query, Series
from delegate.engine.verification.errors import ProviderConfigurationError, ProviderUnavailableError
from delegate.model.verification.readings import Verdict
from delegate.model.verification.records import MOST_READINGS
from tests.verification.clocks import VirtualClock
from tests.verification.running import check, verification, verify
from tests.verification.sources import ScriptedProvider, at_window_end, scripted


def slow(clock: VirtualClock, name: str, seconds: float, value: float = 0.5) -> ScriptedProvider:
    return ScriptedProvider(name, clock, at_window_end(value), seconds=seconds)


async def test_three_checks_cost_the_time_of_the_slowest() -> None:
    """They run side by side."""
    clock = VirtualClock()
    providers = [slow(clock, name, seconds) for name, seconds in (("a", 3.0), ("b", 1.0), ("c", 0.5))]

    record = await verify(
        clock, [check(name=each.name, provider=each.name, every="10s", **{"for": "60s"}) for each in providers], *providers
    )

    assert record.verdict is Verdict.PASS
    assert clock.seconds == 63
    assert [each.tally.passes for each in record.checks] == [7, 7, 7]


@pytest.mark.parametrize(
    ("fields", "values", "nearest"),
    [
        ({}, [0.2, 0.7, 0.4], "it would have passed with <= 0.7 % too, and with nothing stricter"),
        ({}, [0.2, 9.0], "with <= 9 % it would not have failed"),
        ({"failsAllowed": 1}, [4.0, 0.2, 9.0], "with <= 4 % it would not have failed"),
        ({"threshold": ">= 0.1%"}, [0.2, 0.7, 0.4], "it would have passed with >= 0.2 % too, and with nothing stricter"),
        ({"threshold": "0.1%..1%"}, [0.2, 0.7, 0.4], ""),
    ],
)
async def test_how_near_the_other_verdict_was(fields: dict[str, Any], values: list[float], nearest: str) -> None:
    """The rule that the readings would have met or missed by nothing."""
    clock = VirtualClock()
    script = [
        {"from": 10 * number, "status": 200, "body": {"data": {"result": [{"metric": {}, "value": [0, value]}]}}}
        for number, value in enumerate(values)
    ]

    record = await verify(clock, [check(every="10s", **fields, **{"for": "20s"})], ScriptedProvider("prom", clock, scripted(script)))

    assert record.checks[0].nearest == nearest


async def test_ticks_do_not_drift() -> None:
    """Readings begin on the ticks from the start on, however long each takes; ticks that a reading has overrun are left out."""
    clock = VirtualClock()
    quick, long = slow(clock, "quick", 0.7), slow(clock, "long", 14.0)

    await verify(
        clock,
        [
            check(name="quick", provider="quick", every="10s", **{"for": "40s"}),
            check(name="long", provider="long", every="10s", readings=3, timeout="20s", **{"for": "40s"}),
        ],
        quick,
        long,
    )

    assert quick.times == [0, 10, 20, 30, 40]
    assert long.times == [0, 20, 40]


async def test_a_failed_check_ends_all() -> None:
    """What can't pass any more isn't waited for."""
    clock = VirtualClock()
    bad, good = slow(clock, "bad", 0.1, value=9.0), slow(clock, "good", 0.1)
    checks = [
        check(name="bad", provider="bad", every="10s", failsAllowed=1, **{"for": "60s"}),
        check(name="good", provider="good", every="10s", **{"for": "1h"}),
    ]

    record = await verify(clock, checks, bad, good)

    assert record.verdict is Verdict.FAIL
    assert clock.seconds < 12
    assert record.checks[1].verdict is Verdict.NO_DATA
    assert record.reason.startswith("bad: 2 of at most 1 fails: 9 % is not <= 1%")


async def test_a_fail_under_way_speaks_before_an_error() -> None:
    """An answer that is on its way when another check has failed by its source still counts: it is about the release."""
    clock = VirtualClock()
    bad = slow(clock, "bad", 0.5, value=9.0)
    gone = ScriptedProvider("gone", clock, lambda _, __: ProviderUnavailableError("refused", retryable=False))

    record = await verify(clock, [check(name="gone", provider="gone"), check(name="bad", provider="bad")], gone, bad)

    assert [each.verdict for each in record.checks] == [Verdict.ERROR, Verdict.FAIL]
    assert record.verdict is Verdict.FAIL


async def test_a_check_that_is_not_critical_ends_nothing() -> None:
    """As long as the score can be reached."""
    clock = VirtualClock()
    bad, good = slow(clock, "bad", 0.1, value=9.0), slow(clock, "good", 0.1)
    checks = [
        check(name="bad", provider="bad", critical=False),
        check(name="good", provider="good", every="10s", weight=3, **{"for": "60s"}),
    ]

    record = await verify(clock, checks, bad, good, pass_score=75)

    assert (record.verdict, record.score) == (Verdict.PASS, 75)
    assert record.checks[0].verdict is Verdict.FAIL


async def test_a_query_does_not_look_back_before_the_release() -> None:
    """`rate(x[1m])` is first asked when the new version has been there for a minute; a delay of one's own may be longer."""
    clock = VirtualClock()
    first, second = slow(clock, "a", 0.1), slow(clock, "b", 0.1)
    checks = [
        check(name="a", provider="a", query="rate(x[1m])"),
        check(name="b", provider="b", query="rate(x[1m])", initialDelay="2m"),
    ]

    await verify(clock, checks, first, second, since=clock.now().timestamp() - 20)

    assert (first.times, second.times) == ([40], [120])


async def test_evidence_from_before_the_release_is_left_out() -> None:
    """Points of the old version in the same answer don't count, and that is noted."""
    clock = VirtualClock()
    since = clock.now().timestamp() - 30

    def both(_: float, query: Query) -> Answer:
        return Answer((Series(((since - 10, 0.1), (query.window.end, 9.0))),))

    def old(_: float, query: Query) -> Answer:
        del query
        return Answer((Series(((since - 10, 0.1),)),))

    record = await verify(clock, [check(over="5m")], ScriptedProvider("prom", clock, both), since=since)
    assert record.verdict is Verdict.FAIL
    assert "1 points from outside" in record.checks[0].readings[0].notes[0]
    clock = VirtualClock()
    record = await verify(clock, [check(over="5m", noData="fail")], ScriptedProvider("prom", clock, old), since=since)
    assert record.verdict is Verdict.NO_DATA


async def test_a_bucket_is_evidence_once() -> None:
    """Asked twice within one bucket, the second answer is nothing new, and the unfinished one is never judged."""
    clock = VirtualClock()
    begin = clock.now().timestamp()

    def buckets(seconds: float, query: Query) -> Answer:
        del query
        numbers = range(int(seconds // 60) + 1)
        unfinished = int(seconds // 60)
        return Answer((Series(tuple((begin + 60.0 * number, 99.0 if number == unfinished else 0.5) for number in numbers)),))

    record = await verify(
        clock, [check(bucket="1m", every="30s", readings=3, deadline="10m", **{"for": "2m"})], ScriptedProvider("prom", clock, buckets)
    )

    (err,) = record.checks
    assert err.verdict is Verdict.PASS
    assert [reading.at - begin for reading in err.readings if reading.is_informative] == [60, 120, 180]
    assert "no new complete bucket" in err.readings[3].reason


async def test_a_source_with_buckets_of_its_own_is_asked_for_whole_ones() -> None:
    """Whatever the check says: its present minute is not over, and each is evidence once."""
    clock = VirtualClock()
    begin = clock.now().timestamp()
    provider = ScriptedProvider("prom", clock, at_window_end(0.5))
    provider.grain = 60.0

    record = await verify(clock, [check(every="25s", readings=3, deadline="10m", **{"for": "2m"})], provider, since=begin + 10)

    windows = [(query.window.start - begin, query.window.end - begin, query.window.step) for _, query in provider.asked]
    assert windows[0] == (60.0, 120.0, 0.0)
    assert all((start % 60, end % 60) == (0.0, 0.0) for start, end, _ in windows)
    assert [reading.end - begin for reading in record.checks[0].readings if reading.is_informative] == [120, 180, 240]


async def test_the_source_says_another_unit() -> None:
    """A check that calls seconds what its source calls milliseconds is wrong, and never judged."""
    clock = VirtualClock()
    answer = Answer((Series(((clock.now().timestamp(), 0.9),)),), unit="s")
    provider = ScriptedProvider("prom", clock, lambda _, __: answer)

    record = await verify(clock, [check(unit="ms", threshold="<= 400ms")], provider)

    assert record.verdict is Verdict.ERROR
    assert record.checks[0].configuration
    assert "the source answers in s, the check says ms" in record.reason


async def test_between_two_rules_nothing_is_decided() -> None:
    """A value that neither passes nor falls under `failWhen` is no data."""
    clock = VirtualClock()

    record = await verify(clock, [check(failWhen="> 5%", noData="fail")], slow(clock, "prom", 0.1, value=3.0))

    assert record.verdict is Verdict.NO_DATA
    assert "undecided" in record.reason


async def test_a_provider_that_is_not_there() -> None:
    """It is refused before anything is asked."""
    with pytest.raises(ProviderConfigurationError, match="there is no provider 'nobody'"):
        verification(VirtualClock(), [check(provider="nobody")])


async def test_cancelling_ends_every_query() -> None:
    """None goes on, each provider is closed, and the record is no success."""
    clock = VirtualClock()
    provider = ScriptedProvider("prom", clock, lambda _, __: None)
    running = verification(clock, [check(timeout="60s")], provider)

    async def body() -> None:
        run = asyncio.create_task(running.run())
        await clock.sleep(5)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    await clock.run(body())

    assert (len(provider.asked), provider.cancelled, provider.closed) == (1, 1, 1)
    assert running.record().verdict is Verdict.NO_DATA


async def test_records_are_bounded() -> None:
    """Of ten thousand readings the first and the latest are kept, and all are counted."""
    clock = VirtualClock()
    wide = Answer(tuple(Series(((clock.now().timestamp() + 1e9, 1.0),), {"pod": f"p{number}"}) for number in range(500)))

    def many(_: float, query: Query) -> Answer:
        return Answer(tuple(Series(((query.window.end, 0.5),), each.labels) for each in wide.series[:20]))

    record = await verify(
        clock, [check(every="1s", reduce="worst", deadline="2h", **{"for": "1000s"})], ScriptedProvider("prom", clock, many)
    )

    (err,) = record.checks
    assert (err.tally.passes, len(err.readings)) == (1001, MOST_READINGS)
    assert (len(err.readings[0].samples), err.readings[0].left_out) == (8, 12)
    assert (err.readings[0].at, err.readings[-1].at) == (record.began, record.began + 1000)


async def test_what_no_row_means_may_be_declared() -> None:
    """A source of logs that answers without a row for nothing found: 0 where the check says so, and no data by default."""
    clock = VirtualClock()
    nothing = ScriptedProvider("prom", clock, lambda _, __: Answer(()))
    null = ScriptedProvider("null", clock, lambda _, query: Answer((Series(((query.window.end, None),)),)))
    fields = {"unit": "count", "threshold": "<= 10 count", "noData": "fail"}

    declared = await verify(clock, [check(**fields, emptyIs=0)], nothing)
    silent = await verify(clock, [check(**fields)], nothing)
    empty = await verify(clock, [check(**fields, emptyIs=0, provider="null")], null)

    assert (declared.verdict, declared.checks[0].readings[0].value) == (Verdict.PASS, 0.0)
    assert (silent.verdict, empty.verdict) == (Verdict.NO_DATA, Verdict.NO_DATA)


async def test_no_errors_at_all_can_be_compared_where_no_row_means_none() -> None:
    """Requests are never taken for none."""
    fields = {"threshold": "", "unit": "count", "query": "new", "requests": "n", "every": "60s", "for": "900s", "emptyIs": 0}
    compare = {"baseline": "old", "requests": "m", "kind": "counts"}
    values = counting(0, 5)

    def script(_: float, query: Query) -> Answer:
        return Answer((Series(((query.window.end, values[query.text]),)),)) if values[query.text] else Answer(())

    clock = VirtualClock()
    record = await verify(clock, [check(**fields, compare=compare)], ScriptedProvider("prom", clock, script))
    values |= {"n": 0.0}
    clock = VirtualClock()
    without = await verify(clock, [check(**fields, compare=compare)], ScriptedProvider("prom", clock, script))

    assert record.verdict is Verdict.PASS
    assert record.checks[0].batches[0].new_events == 0
    assert without.verdict is Verdict.NO_DATA


def counting(new: float, old: float, requests: float = 100.0) -> dict[str, float]:
    return {"new": new, "old": old, "n": requests, "m": requests}


def comparing(clock: VirtualClock, name: str, values: dict[str, float]) -> ScriptedProvider:
    return ScriptedProvider(name, clock, lambda _, query: Answer((Series(((query.window.end, values[query.text]),)),)))


async def test_counts_stop_early_both_ways() -> None:
    """A rise is convicted long before its time, and an equal version acquitted."""
    fields = {
        "threshold": "",
        "unit": "count",
        "query": "new",
        "requests": "n",
        "every": "60s",
        "for": "900s",
        "compare": {"baseline": "old", "requests": "m", "kind": "counts"},
    }
    clock = VirtualClock()
    bad = await verify(clock, [check(**fields)], comparing(clock, "prom", counting(5, 0)))
    convicted_at = clock.seconds
    clock = VirtualClock()
    good = await verify(clock, [check(**fields)], comparing(clock, "prom", counting(4, 4)))

    assert (bad.verdict, convicted_at) == (Verdict.FAIL, 120)
    assert (good.verdict, clock.seconds) == (Verdict.PASS, 120)
    assert bad.checks[0].comparison is not None
    assert "15 of 300 against 0 of 300" in bad.checks[0].reason


async def test_a_count_below_zero_is_a_wrong_question() -> None:
    """And no crash: a gauge's difference is no number of events."""
    fields = {"threshold": "", "unit": "count", "query": "new", "requests": "n", "every": "60s", "for": "900s"}
    clock = VirtualClock()

    record = await verify(
        clock, [check(**fields, compare={"baseline": "old", "requests": "m", "kind": "counts"})], comparing(clock, "prom", counting(-3, 0))
    )

    assert record.verdict is Verdict.ERROR
    assert "query: -3 is no count" in record.reason


async def test_a_record_has_every_query_as_it_was_sent() -> None:
    """Also those of the baseline, or nobody could ask again what was compared."""
    compare = {"baseline": "old !$REV", "requests": "m !$REV", "kind": "counts"}
    fields = {"threshold": "", "unit": "count", "query": "new $REV", "requests": "n $REV", "every": "60s", "for": "900s"}
    clock = VirtualClock()
    values = {"new 7": 5.0, "old !7": 0.0, "n 7": 100.0, "m !7": 100.0}

    record = await verify(clock, [check(**fields, compare=compare)], comparing(clock, "prom", values))

    [asked] = record.checks
    assert asked.query == "new 7"
    assert asked.others == {"requests": "n 7", "baseline": "old !7", "baseline requests": "m !7"}


async def test_samples_are_compared_when_their_time_is_over() -> None:
    """By rank, and with an explanation that can be checked."""
    clock = VirtualClock()

    def latency(seconds: float, query: Query) -> Answer:
        wobble = (seconds * 7 % 11) / 100
        return Answer((Series(((query.window.end, (260 if query.text == "new" else 200) + wobble),)),))

    fields = {"unit": "ms", "threshold": "", "query": "new", "compare": {"baseline": "old", "allowedIncrease": "10%"}}
    record = await verify(clock, [check(every="10s", **fields, **{"for": "100s"})], ScriptedProvider("prom", clock, latency))

    (p95,) = record.checks
    assert (record.verdict, clock.seconds) == (Verdict.FAIL, 100)
    assert (len(p95.new), len(p95.old)) == (11, 11)
    assert p95.comparison is not None
    assert p95.comparison.test == "Mann-Whitney, exact"
    assert p95.comparison.relative == pytest.approx(0.3, abs=0.01)


async def test_too_few_samples_are_no_data() -> None:
    """Also where everything that was wanted came."""
    clock = VirtualClock()
    fields = {"unit": "ms", "threshold": "", "query": "new", "compare": {"baseline": "old"}}

    record = await verify(clock, [check(every="10s", **fields, **{"for": "20s"})], comparing(clock, "prom", counting(300, 200)))

    assert record.verdict is Verdict.NO_DATA
    assert "too few points: 3 of at least 5" in record.reason


async def test_samples_of_too_few_requests_are_none() -> None:
    """A latency of three requests is no sample beside one of thousands."""
    fields = {"unit": "ms", "threshold": "", "query": "new", "requests": "n", "minRequests": 50, "compare": {"baseline": "old"}}
    clock = VirtualClock()
    few = await verify(clock, [check(every="10s", **fields, **{"for": "60s"})], comparing(clock, "prom", counting(300, 200, requests=3)))
    clock = VirtualClock()
    enough = await verify(
        clock, [check(every="10s", **fields, **{"for": "60s"})], comparing(clock, "prom", counting(300, 200, requests=60))
    )

    assert few.verdict is Verdict.NO_DATA
    assert "3 requests of at least 50" in few.reason
    assert enough.verdict is Verdict.FAIL


async def test_holm_over_several_comparisons() -> None:
    """Two differences that neither Bonferroni's level grants alone are both convicted, the larger one first."""
    clock = VirtualClock()
    low = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]

    def one(name: str, new: list[float]) -> ScriptedProvider:
        def script(seconds: float, query: Query) -> Answer:
            index = int(seconds // 10)
            return Answer((Series(((query.window.end, (new if query.text == "new" else low)[index]),)),))

        return ScriptedProvider(name, clock, script)

    clear, close = [11.0, 12.0, 13.0, 14.0, 15.0, 16.0], [4.5, 5.5, 6.5, 7.5, 8.5, 9.5]
    fields = {"unit": "ms", "threshold": "", "query": "new", "compare": {"baseline": "old", "alpha": 0.02}}
    checks = [check(name=name, provider=name, every="10s", critical=False, **fields, **{"for": "50s"}) for name in ("clear", "close")]
    record = await verify(clock, checks, one("clear", clear), one("close", close), pass_score=1)

    found = [each.comparison for each in record.checks]
    assert [each.verdict for each in record.checks] == [Verdict.FAIL, Verdict.FAIL]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0].level == 0.01
    assert 0.01 < (found[1].p or 0) <= found[1].level == 0.02
