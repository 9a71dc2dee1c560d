"""Results judged again from what they hold."""

from pathlib import Path

import msgspec
import pytest

from delegate.cli.program import run_program
from delegate.engine.verification.answers import Answer, Query, Series
from delegate.engine.verification.replaying import replay
from delegate.model.results import TaskResult
from delegate.model.verification.readings import Verdict
from delegate.model.verification.records import VerificationRecord
from tests.verification.clocks import VirtualClock
from tests.verification.running import check, verify
from tests.verification.sources import ScriptedProvider, at_window_end


def through_json(record: VerificationRecord) -> VerificationRecord:
    """As a result carries it."""
    return msgspec.json.decode(msgspec.json.encode(record), type=VerificationRecord)


async def test_the_same_rules_make_the_same_record() -> None:
    """Also with values that JSON has no number for."""
    clock = VirtualClock()
    values = iter([0.5, float("nan"), 0.7, float("inf"), 0.5, 9.0, 0.5, 0.5])

    def script(_: float, query: Query) -> Answer:
        return Answer((Series(((query.window.end, next(values)),)),), digest="d")

    wanted = check(every="10s", failsAllowed=3, **{"for": "60s"})
    record = await verify(clock, [wanted], ScriptedProvider("prom", clock, script))

    assert (record.verdict, record.checks[0].tally.fails) == (Verdict.PASS, 2)
    assert through_json(record) == record
    assert replay(through_json(record)) == record


async def test_a_stricter_rule() -> None:
    """Would have failed at the first reading; a looser one can't pass on readings that were never made."""
    clock = VirtualClock()
    good = await verify(clock, [check(every="10s", **{"for": "60s"})], ScriptedProvider("prom", clock, at_window_end(0.5)))
    stricter = replay(good, {"err": msgspec.structs.replace(good.checks[0].check, threshold="<= 0.1%")})
    assert (stricter.verdict, stricter.checks[0].tally.fails) == (Verdict.FAIL, 1)

    clock = VirtualClock()
    bad = await verify(clock, [check(every="10s", **{"for": "60s"})], ScriptedProvider("prom", clock, at_window_end(9.0)))
    looser = replay(bad, {"err": msgspec.structs.replace(bad.checks[0].check, threshold="<= 10%")})
    assert looser.verdict is Verdict.NO_DATA
    assert "incomplete evidence" in looser.reason


async def test_what_was_not_kept_can_not_be_judged() -> None:
    """Of a long run that passed, another rule can be said to fail, but not to pass."""
    clock = VirtualClock()
    wanted = check(every="1s", **{"for": "300s"})
    record = await verify(clock, [wanted], ScriptedProvider("prom", clock, at_window_end(0.5)))

    again = replay(record, {"err": msgspec.structs.replace(wanted, threshold="<= 0.9%")})

    assert again.verdict is Verdict.NO_DATA
    assert "181 of 301 readings were not kept" in again.reason


async def test_a_comparison_is_made_again() -> None:
    """From the values that it kept."""
    clock = VirtualClock()

    def latency(seconds: float, query: Query) -> Answer:
        return Answer((Series(((query.window.end, (250 if query.text == "new" else 200) + seconds % 7),)),))

    compare = {"baseline": "old", "allowedIncrease": "10%"}
    wanted = check(unit="ms", threshold="", query="new", every="10s", compare=compare, **{"for": "100s"})
    record = await verify(clock, [wanted], ScriptedProvider("prom", clock, latency))
    assert wanted.compare is not None

    assert record.verdict is Verdict.FAIL
    assert replay(through_json(record)) == record
    lenient = msgspec.structs.replace(wanted, compare=msgspec.structs.replace(wanted.compare, allowed_increase="50%"))
    assert replay(record, {"err": lenient}).verdict is Verdict.PASS


def test_a_result_is_judged_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same way from its record alone, and otherwise by another rule."""
    path = tmp_path / "result.json"
    path.write_bytes(msgspec.json.encode(_stored()))

    assert run_program(["verify", "--replay", str(path)]) == 1
    assert "as before" in capsys.readouterr().out
    assert run_program(["verify", "--replay", str(path), "--threshold", "error-ratio=<= 20%", "-o", "json"]) == 0
    again = msgspec.json.decode(capsys.readouterr().out, type=VerificationRecord)
    assert (again.verdict, again.checks[0].readings[0].verdict) == (Verdict.PASS, Verdict.PASS)
    assert run_program(["verify", "--replay", str(path), "--threshold", "error-ratio=<= 0.2"]) == 2
    assert run_program(["verify", "--replay", str(path), "--threshold", "other=<= 1%"]) == 2
    assert "error-ratio" in capsys.readouterr().err


def _stored() -> TaskResult:
    return msgspec.convert(
        {
            "task": "t",
            "attempt": "a",
            "kind": "verify",
            "application": "checkout",
            "outcome": "failed",
            "verification": {
                "verdict": "fail",
                "reason": "error-ratio: 1 of at most 0 fails",
                "checks": [
                    {
                        "check": {
                            "name": "error-ratio",
                            "type": "prometheus",
                            "provider": "prom",
                            "query": "q",
                            "unit": "ratio",
                            "threshold": "<= 1%",
                        },
                        "verdict": "fail",
                        "reason": "1 of at most 0 fails",
                        "query": "q",
                        "tally": {"fails": 1, "firstAt": 10.0, "lastAt": 10.0, "last": "fail"},
                        "readings": [{"verdict": "fail", "at": 10.0, "value": 10.0, "unit": "%", "samples": [[10.0, 0.1, {}]]}],
                    }
                ],
            },
        },
        TaskResult,
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is it"),
        ('{"kind": "verify", "application": "a", "spec": {}}', "no check"),
        ('{"outcome": "succeeded", "task": "t", "attempt": "a", "kind": "sync", "application": "a"}', "nothing was verified"),
        ('{"checks": [{}], "verdict": "pass"}', "holds no verification"),
        ('{"kind": "diff", "application": "a"}', "neither a stored result"),
    ],
)
def test_what_can_not_be_judged_again(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, words: str) -> None:
    """Ends with 2, in words."""
    path = tmp_path / "file.json"
    path.write_text(text)

    assert run_program(["verify", "--replay", str(path)]) == 2
    assert words in capsys.readouterr().err or text == "{"
