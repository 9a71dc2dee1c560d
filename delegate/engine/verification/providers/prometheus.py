"""Prometheus, and what speaks its API: Mimir, Thanos, Cortex (tenant by header), VictoriaMetrics.

Documented under "HTTP API", querying. Times are seconds; values are texts. With a step of 0 one instant query at the window's end is
asked; with a step a range, whose evaluations each look back over the bucket before: so a point is given the time at which that begins.
"""

from collections.abc import Mapping

from delegate.engine.verification.answers import Answer, Series
from delegate.engine.verification.errors import UnreadableAnswerError
from delegate.engine.verification.providers.calls import Calls, Request, refuse
from delegate.engine.verification.providers.kinds import Kind, Question
from delegate.engine.verification.providers.numbers import as_list, as_mapping, labels_of, read_number, texts_of

_LONGEST_GET = 2000
"""Characters; proxies on the way refuse longer addresses."""
_PASSING = ("timeout", "canceled", "internal", "unavailable")
_HISTOGRAM_HINT = "ask for a number of it: histogram_quantile, histogram_avg, histogram_count"


async def read(calls: Calls, question: Question) -> Answer:
    window, tenant = question.window, question.option("tenant")
    params = [("query", question.text), ("timeout", f"{max(1, int(calls.left_seconds * 1000))}ms")]
    if question.is_range:
        path = "/api/v1/query_range"
        params += [("start", seconds(window.start + window.step)), ("end", seconds(window.end)), ("step", seconds(window.step))]
    else:
        path = "/api/v1/query"
        params.append(("time", seconds(window.end)))
    method = question.choice("method", "POST" if len(question.text) > _LONGEST_GET else "GET", "GET", "POST").upper()
    headers = {"X-Scope-OrgID": tenant} if tenant else {}
    form = tuple(params) if method == "POST" else ()
    request = Request(method, path, () if form else tuple(params), form=form, headers=headers)
    return read_envelope(calls, await calls.ask(request), question)


def read_envelope(calls: Calls, document: object, question: Question) -> Answer:
    """The answer in Prometheus' envelope, which Loki uses too. Raises VerificationError."""
    envelope = as_mapping(document, "the answer")
    if envelope.get("status") != "success":
        kind, words = str(envelope.get("errorType", "")), str(envelope.get("error", "it does not say why"))
        raise refuse(f"{calls.source} could not answer: {words}", hint="correct the query", transient=kind in _PASSING)
    data = as_mapping(envelope.get("data"), "data")
    series = _series(data.get("resultType"), data.get("result"), question)
    warnings = texts_of(envelope.get("warnings"))
    return calls.answer(series, warnings=warnings, partial=bool(warnings), infos=texts_of(envelope.get("infos")))


def seconds(at: float) -> str:
    """Seconds since 1970 to the millisecond."""
    return f"{at:.3f}"


def _series(kind: object, result: object, question: Question) -> list[Series]:
    end = question.window.end
    if kind == "scalar":
        return [Series(((end, _value(result)),))]
    if kind == "vector":
        return [_instant(as_mapping(each, "a sample"), end) for each in as_list(result, "data.result")]
    if kind == "matrix":
        return [_range(as_mapping(each, "a series"), question.window.step) for each in as_list(result, "data.result")]
    if kind == "streams":
        raise UnreadableAnswerError("the query gives log lines, no number", hint="count them: sum(count_over_time({...}[5m]))")
    raise UnreadableAnswerError(f"the query gives a {kind}, no number", hint="write a query whose result is a number")


def _instant(sample: Mapping[str, object], end: float) -> Series:
    # The time of an instant sample is that of the evaluation, whatever the age of what was scraped.
    _no_histogram(sample, "histogram")
    return Series(((end, _value(sample.get("value"))),), labels_of(sample.get("metric")))


def _range(series: Mapping[str, object], step: float) -> Series:
    _no_histogram(series, "histograms")
    points = tuple((_time(pair) - step, _value(pair)) for pair in as_list(series.get("values"), "values"))
    return Series(points, labels_of(series.get("metric")))


def _no_histogram(body: Mapping[str, object], key: str) -> None:
    if key in body:
        raise UnreadableAnswerError("the query gives a native histogram, no number", hint=_HISTOGRAM_HINT)


def _value(pair: object) -> float | None:
    pair = as_list(pair, "a value")
    return read_number(pair[1], "a value") if len(pair) == 2 else read_number(pair, "a value")


def _time(pair: object) -> float:
    time = read_number(as_list(pair, "a value")[0], "a time")
    if time is None:
        raise UnreadableAnswerError("a value has no time")
    return time


KINDS = (Kind(("prometheus", "mimir", "thanos", "cortex", "victoriametrics"), read, settings=("tenant", "method"), right="query metrics"),)
