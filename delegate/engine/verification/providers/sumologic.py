"""Sumo Logic: logs by a search job, metrics by `metricsQueries`. Documented under "Search Job API" and "Metrics Query API".

Times and quantization are milliseconds. A job lives while it is polled, and its cookies are given back. Four requests a second
are allowed, ten at once. A record's values are texts; no record is no data, never zero.
"""

import contextlib
from collections.abc import AsyncIterator, Mapping
from urllib.parse import quote

from delegate.engine.verification.answers import Answer, Series, Window
from delegate.engine.verification.errors import ProviderUnavailableError, UnreadableAnswerError
from delegate.engine.verification.providers.calls import Calls, Request, pause, refuse
from delegate.engine.verification.providers.credentials import Login, basic_header
from delegate.engine.verification.providers.kinds import Kind, Question, milliseconds
from delegate.engine.verification.providers.numbers import as_list, as_mapping, only_number, read_number, texts_of
from delegate.engine.verification.providers.tidying import tidy

_KEY = Login(("access_id", "access_key"), lambda values: basic_header(values["access_id"], values["access_key"]))
_JOBS = "/api/v1/search/jobs"
_DONE = "DONE GATHERING RESULTS"
_ENDED = ("CANCELLED", "FORCE PAUSED")
_MOST_RECORDS = 1000
_FIRST_POLL_SECONDS, _LONGEST_POLL_SECONDS = 0.3, 3.0
_SLICE = "_timeslice"


async def read_logs(calls: Calls, question: Question) -> Answer:
    async with _job(calls, question) as job:
        count, warnings = await _wait(calls, job)
        if count == 0:
            return calls.answer((), warnings=warnings, partial=bool(warnings))
        params = (("offset", "0"), ("limit", str(_MOST_RECORDS)))
        body = as_mapping(await calls.ask(Request("GET", f"{job}/records", params)), "the records")
    rows = [as_mapping(as_mapping(each, "a record").get("map"), "map") for each in as_list(body.get("records"), "records")]
    if count > len(rows):
        warnings += (f"{count:g} records, of which {len(rows)} were read",)
    return calls.answer(_log_series(rows, question), warnings=warnings, partial=bool(warnings))


@contextlib.asynccontextmanager
async def _job(calls: Calls, question: Question) -> AsyncIterator[str]:
    """The path of a job, which is deleted in the end: an organisation has 200 of them."""
    window = question.window
    body = {"query": question.text, "from": milliseconds(window.start), "to": milliseconds(window.end), "timeZone": "UTC"}
    made = as_mapping(await calls.ask(Request("POST", _JOBS, json=body, repeatable=False)), "the new job")
    identity = made.get("id")
    if not isinstance(identity, str) or not identity:
        raise UnreadableAnswerError(f"{calls.source} named no search job")
    path = f"{_JOBS}/{quote(identity, safe='')}"
    try:
        yield path
    finally:
        await tidy(calls.discard(Request("DELETE", path, answers=frozenset({404}))))


async def _wait(calls: Calls, job: str) -> tuple[float, tuple[str, ...]]:
    """How many records there are in the end, and what was warned of."""
    wait = _FIRST_POLL_SECONDS
    while True:
        body = as_mapping(await calls.ask(Request("GET", job)), "the job")
        state = body.get("state")
        if errors := texts_of(body.get("pendingErrors")):
            raise refuse(f"{calls.source}: the search failed: {'; '.join(errors)}", hint="correct the query")
        if state in _ENDED:
            raise ProviderUnavailableError(
                f"{calls.source}: the search job ended as {state}", hint="narrow the query, or run fewer at once"
            )
        if state == _DONE:
            count = read_number(body.get("recordCount"), "recordCount") or 0.0
            if not count and read_number(body.get("messageCount"), "messageCount"):
                raise UnreadableAnswerError("the query gives messages, no records", hint="aggregate them: ... | count")
            return count, texts_of(body.get("pendingWarnings"))
        await pause(calls, wait)
        wait = min(_LONGEST_POLL_SECONDS, wait * 1.5)


def _log_series(rows: list[Mapping[str, object]], question: Question) -> list[Series]:
    window, field = question.window, question.option("field")
    points: dict[tuple[tuple[str, str], ...], list[tuple[float, float | None]]] = {}
    for row in rows:
        # Fields that the query makes begin with an underscore (`_count`), as do those that Sumo adds.
        name = field or only_number(row, (name for name in row if name != _SLICE), "record")
        if name not in row:
            raise UnreadableAnswerError(f"the records have no field {field!r}", hint=f"they have {', '.join(sorted(row)) or 'none'}")
        labels = tuple(sorted((key, str(value)) for key, value in row.items() if key not in (name, _SLICE)))
        value, began = read_number(row[name], name), read_number(row.get(_SLICE), _SLICE)
        of_series = points.setdefault(labels, [])
        if began is None or not question.is_range:
            of_series.append((window.end, value))
        elif _is_complete(began / 1000.0, window):
            of_series.append((began / 1000.0, value))
    return [Series(tuple(found), dict(labels)) for labels, found in points.items()]


async def read_metrics(calls: Calls, question: Question) -> Answer:
    window = question.window
    width = window.step or window.end - window.start
    body = {
        "queries": [{"rowId": "A", "query": question.text, "quantization": milliseconds(width), "rollup": _rollup(question)}],
        "timeRange": {
            "type": "BeginBoundedTimeRange",
            "from": {"type": "EpochTimeRangeBoundary", "epochMillis": milliseconds(window.start)},
            "to": {"type": "EpochTimeRangeBoundary", "epochMillis": milliseconds(window.end)},
        },
    }
    found = as_mapping(await calls.ask(Request("POST", "/api/v1/metricsQueries", json=body)), "the answer")
    errors = found.get("errors")
    words = texts_of(errors.get("errors") if isinstance(errors, dict) else errors)
    if words:
        raise refuse(f"{calls.source} could not answer: {'; '.join(words)}", hint="correct the query, or narrow it")
    rows = [as_mapping(each, "a result") for each in as_list(found.get("queryResult"), "queryResult")]
    series = []
    for row in rows:
        listed = as_mapping(row.get("timeSeriesList"), "timeSeriesList").get("timeSeries")
        series += [_metric_series(as_mapping(each, "a series"), question) for each in as_list(listed, "timeSeries")]
    return calls.answer(series)


def _rollup(question: Question) -> str:
    return question.choice("rollup", "Avg", "Sum", "Min", "Max", "Count")


def _metric_series(body: Mapping[str, object], question: Question) -> Series:
    points = as_mapping(body.get("points"), "points")
    times = [(read_number(each, "a timestamp") or 0.0) / 1000.0 for each in as_list(points.get("timestamps"), "timestamps")]
    values = [read_number(each, "a value") for each in as_list(points.get("values"), "values")]
    definition = body.get("metricDefinition")
    dimensions = definition.get("dimensions") if isinstance(definition, dict) else None
    pairs = [as_mapping(each, "a dimension") for each in dimensions] if isinstance(dimensions, list) else []
    labels = {str(each.get("key")): str(each.get("value")) for each in pairs}
    found = zip(times, values, strict=True) if len(times) == len(values) else None
    if found is None:
        raise UnreadableAnswerError(f"a series has {len(times)} times and {len(values)} values")
    if not question.is_range:
        return Series(tuple((question.window.end, value) for _, value in found), labels)
    return Series(tuple(point for point in found if _is_complete(point[0], question.window)), labels)


def _is_complete(at: float, window: Window) -> bool:
    return window.start <= at and at + window.step <= window.end


def _address(settings: Mapping[str, str]) -> str:
    deployment = settings["deployment"].lower()
    return f"https://api.{deployment}.sumologic.com" if deployment not in ("", "us1") else "https://api.sumologic.com"


_SETTINGS = ("deployment",)
KINDS = (
    Kind(("sumologic", "sumologic-logs"), read_logs, (_KEY,), _SETTINGS, ("field",), _address, "the capability Run Log Search"),
    Kind(("sumologic-metrics",), read_metrics, (_KEY,), _SETTINGS, ("rollup",), _address, "the capability View Metrics"),
)
