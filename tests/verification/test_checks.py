"""Checks as documents have them: what can't be meant is refused before anything is asked."""

from typing import Any

import pytest

from delegate.foundation.errors import flatten
from delegate.model.tasks import TaskDocumentError, TaskKind, read_task
from delegate.model.verification.checks import UnknownVariableError, substitute
from delegate.model.verification.windows import (
    Span,
    complete_points,
    evidence_span,
    parse_time,
    settling_seconds,
)
from tests.verification.running import check

GOOD: dict[str, Any] = {
    "name": "error-ratio",
    "type": "prometheus",
    "provider": "prom",
    "query": "q",
    "unit": "ratio",
    "threshold": "<= 1%",
    "every": "30s",
    "for": "5m",
    "timeout": "10s",
}


def task(*checks: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"kind": "verify", "application": "checkout", "spec": {"verification": list(checks), **spec}}


def faults(document: dict[str, Any]) -> dict[str, str]:
    """By field."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - a single fault or a group of them
        read_task(document)
    errors = flatten(caught.value)  # type: ignore[arg-type]
    assert all(isinstance(error, TaskDocumentError) for error in errors)
    return {error.field: error.message for error in errors if isinstance(error, TaskDocumentError)}


def test_the_documented_form_is_read() -> None:
    """With the defaults that were not said."""
    spec = read_task(task(GOOD)).verify_spec()

    (found,) = spec.verification
    assert (found.every_seconds, found.for_seconds, found.wanted_readings) == (30, 300, 11)
    assert (found.fails_allowed, found.consecutive_errors, found.no_data, found.partial) == (0, 4, "hold", "error")


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"unit": ""}, "unit", "without one can't be judged"),
        ({"unit": "Mb"}, "unit", "no unit"),
        ({"threshold": "<= 0.01"}, "threshold", "no unit"),
        ({"threshold": ""}, "threshold", "neither a threshold nor a comparison"),
        ({"threshold": "<= 200ms"}, "threshold", "is about time and the source answers with a ratio"),
        ({"failWhen": "> 5"}, "failWhen", "no unit"),
        ({"failWhen": "fail if > 5%"}, "failWhen", "twice"),
        ({"provider": ""}, "provider", "nobody is asked"),
        ({"url": "http://prom:9090"}, "url", "both `provider` and `url`"),
        ({"query": ""}, "query", "nothing is asked"),
        ({"query": 'q{rev="$REV"}'}, "query", "$REV is no variable here"),
        ({"every": "30"}, "every", "no duration"),
        ({"every": "1ms"}, "every", "too often"),
        ({"for": "0s"}, "for", "has to last"),
        ({"deadline": "4m"}, "deadline", "over before"),
        ({"timeout": "0s"}, "timeout", "no time"),
        ({"name": "a b"}, "name", "no name"),
        ({"where": {"pod": "("}}, "where.pod", "no regular expression"),
        ({"requests": "count"}, "minRequests", "go together"),
        ({"minRequests": 50}, "minRequests", "go together"),
        ({"compare": {"baseline": "old"}}, "compare", "either a threshold or a comparison"),
        ({"threshold": "", "compare": {"baseline": ""}}, "compare.baseline", "nothing to compare with"),
        ({"threshold": "", "compare": {"baseline": "o", "allowedIncrease": "5"}}, "compare.allowedIncrease", "no unit"),
        ({"threshold": "", "compare": {"baseline": "o", "kind": "counts"}}, "compare.requests", "how many requests"),
        ({"threshold": "", "where": {"pod": "a"}, "compare": {"baseline": "o"}}, "compare", "the baseline has others"),
        ({"threshold": "", "failWhen": "> 5%", "compare": {"baseline": "o"}}, "compare", "belongs to a threshold"),
        ({"threshold": "", "emptyIs": 0, "compare": {"baseline": "o"}}, "emptyIs", "a sample that isn't there is none"),
        (
            {"threshold": "", "requests": "n", "compare": {"baseline": "increase(x[1m])", "requests": "m", "kind": "counts"}},
            "compare",
            "the baseline counts 60 s and is asked every 30 s",
        ),
    ],
)
def test_what_can_not_be_meant(changes: dict[str, Any], field: str, words: str) -> None:
    """Each fault names its field."""
    found = faults(task(GOOD | changes))

    assert list(found) == [f"spec.verification[0].{field}"]
    assert words in found[f"spec.verification[0].{field}"]


@pytest.mark.parametrize(
    ("query", "unit", "said"),
    [
        ("histogram_quantile(0.95, sum by (le) (rate(http_request_duration_seconds_bucket[5m])))", "ms", "is in s by its name"),
        ("max(pod_latency_milliseconds)", "s", "is in ms by its name"),
        ("job:errors_ratio", "%", "is in ratio by its name"),
        ("container_memory_working_set_bytes", "MiB", "is in B by its name"),
        ("histogram_quantile(0.95, sum by (le) (rate(http_request_duration_seconds_bucket[5m]))) * 1000", "ms", ""),
        ("1000 * max(latency_seconds)", "ms", ""),
        ("max(latency_seconds)", "s", ""),
        ("sum(rate(latency_seconds_count[5m]))", "1/s", ""),
        ('max(latency{unit="x_seconds"})', "ms", ""),
        ("latency_seconds - wait_milliseconds", "ms", ""),
    ],
)
def test_a_unit_that_the_metrics_own_name_contradicts(query: str, unit: str, said: str) -> None:
    """Seconds taken for milliseconds would pass for ever. Who converts in the query knows what they do."""
    document = task(GOOD | {"query": query, "unit": unit, "threshold": f"<= 300 {unit}"})
    if not said:
        assert read_task(document).kind is TaskKind.VERIFY
        return
    assert said in faults(document)["spec.verification[0].unit"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"noData": "pass"}, "noData"),
        ({"partial": "ignore"}, "partial"),
        ({"treshold": "<= 1%"}, "unknown field `treshold`"),
        ({"failsAllowed": -1}, "failsAllowed"),
        ({"weight": 0}, "weight"),
    ],
)
def test_there_is_no_permissive_word(changes: dict[str, Any], words: str) -> None:
    """No data can't be declared good, and a misspelt rule is not left out silently."""
    (message,) = faults(task(GOOD | changes)).values()

    assert words in message or any(words in field for field in faults(task(GOOD | changes)))


def test_nothing_to_verify_is_refused() -> None:
    """An empty list would be verified by nobody."""
    assert "nothing verified is no success" in faults(task())["spec.verification"]


def test_two_checks_of_one_name() -> None:
    """Are refused: steps name them."""
    assert "two checks" in faults(task(GOOD, GOOD))["spec.verification[1].name"]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"since": "2026-03-02T10:00:00"}, "since"),
        ({"since": "yesterday"}, "since"),
        ({"variables": {"rev": "7"}}, "variables.rev"),
        ({"variables": {"REV": '7"} or vector(0) #'}}, "variables.REV"),
        ({"deadline": "5"}, "deadline"),
        ({"deadline": "5m"}, "verification[0].for"),
        ({"window": {"from": "2026-03-02T10:00:00Z", "to": "2026-03-02T09:00:00Z"}}, "window.to"),
    ],
)
def test_faults_of_the_whole(spec: dict[str, Any], field: str) -> None:
    """Times without a zone, values that could change a query."""
    assert list(faults(task(GOOD, **spec))) == [f"spec.{field}"]


def test_substitution() -> None:
    """Capital names are filled in; dollars of the query's own stay."""
    assert substitute('x{r="$REV",p=~"${PODS}"} $1 ^a$', {"REV": "7", "PODS": "(a|b)"}) == 'x{r="7",p=~"(a|b)"} $1 ^a$'
    assert substitute("$$REV", {}) == "$REV"
    with pytest.raises(UnknownVariableError, match="REV"):
        substitute("$OTHER", {"REV": "7"})


def test_a_check_of_one_reading() -> None:
    """Without `for`, one reading is enough."""
    once = check()

    assert (once.wanted_readings, once.for_seconds, once.until_stopped) == (1, 0, False)


def test_the_window_begins_with_the_release_and_ends_with_the_last_complete_bucket() -> None:
    """Nothing from before, nothing unfinished."""
    assert evidence_span(now=1000, since=970, over=60, bucket=0) == Span(970, 1000)
    assert evidence_span(now=1000, since=0, over=60, bucket=0) == Span(940, 1000)
    assert evidence_span(now=1039, since=965, over=600, bucket=60) == Span(1020, 1020)
    assert evidence_span(now=1010, since=965, over=600, bucket=60).is_empty(60)
    assert evidence_span(now=1039, since=965, over=600, bucket=60).is_empty(60)
    assert not evidence_span(now=1000, since=1000, over=60, bucket=0).is_empty(0)


def test_unfinished_and_older_buckets_do_not_count() -> None:
    """The newest bucket is complete when its time is over; one that began before the release counts the old version too."""
    points = [(900.0, 1.0), (960.0, 2.0), (1020.0, 3.0), (1080.0, 4.0)]
    span = evidence_span(now=1100, since=930, over=600, bucket=60)

    assert complete_points(points, span, 60) == [(960.0, 2.0), (1020.0, 3.0)]


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        ("x", 0),
        ("rate(x[5m]) / rate(y[1m])", 300),
        ("max_over_time(x[1h30m:1m])", 5400),
        ('x{a="[z]"}', 0),
        ("x[1w]", 604800),
        ("max_over_time(rate(x[5m])[30m:1m])", 2100),
        ("rate(x[5m] offset 10m)", 900),
        ("SELECT count(*) FROM Transaction SINCE 30 minutes ago", 1800),
        ("index=shop earliest=-15m | stats count", 900),
    ],
)
def test_how_far_a_query_looks_back(query: str, seconds: float) -> None:
    """The longest of its ranges, with what stands around them; and what other languages call it."""
    assert settling_seconds(query) == seconds


def test_times() -> None:
    """As RFC 3339 has them."""
    assert parse_time("2026-03-02T10:00:00Z") == 1772445600
    assert parse_time("2026-03-02T11:00:00+01:00") == 1772445600
