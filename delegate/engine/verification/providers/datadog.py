"""Datadog: v1 (`/api/v1/query`, times in seconds, points in milliseconds) and v2 (`/api/v2/query/scalar` and `timeseries`, milliseconds).

Documented under "Metrics" of the API reference. The newest bucket is not complete, and left out, as is one that began before the window;
a scalar of version 2 is asked of whole buckets, of 20 s as Datadog makes them for the last hour.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from delegate.engine.verification.answers import Answer, Series, Window
from delegate.engine.verification.errors import ProviderConfigurationError
from delegate.engine.verification.providers.calls import Calls, Request, refuse
from delegate.engine.verification.providers.credentials import Login
from delegate.engine.verification.providers.kinds import Kind, Question, milliseconds
from delegate.engine.verification.providers.numbers import as_list, as_mapping, read_number, texts_of

_KEYS = Login(
    ("api_key", "application_key"),
    lambda values: {"DD-API-KEY": values["api_key"], "DD-APPLICATION-KEY": values["application_key"]},
)
_RIGHT = "the scope timeseries_query"
_AGGREGATORS = ("avg", "min", "max", "sum", "last", "percentile", "mean", "l2norm", "area")
_HINT_QUERIES = 'write a metric query, or {"queries": {"a": "sum:...", "b": "sum:..."}, "formula": "a / b"}'


async def read_v1(calls: Calls, question: Question) -> Answer:
    window = question.window
    begin = math.floor(window.start)
    end = max(begin + 1, math.ceil(window.end))  # whole seconds; buckets beyond the window are left out below
    params = (("from", str(begin)), ("to", str(end)), ("query", question.text))
    body = as_mapping(await calls.ask(Request("GET", "/api/v1/query", params)), "the answer")
    if body.get("status", "ok") != "ok" or body.get("error"):
        words = "; ".join(texts_of(body.get("error") or body.get("message"))) or "it does not say why"
        raise refuse(f"{calls.source} could not answer: {words}", hint="correct the query")
    found = [as_mapping(each, "a series") for each in as_list(body.get("series"), "series")]
    warnings = texts_of(body.get("warnings"))
    return calls.answer([_series_v1(each, window) for each in found], unit=_unit(found), warnings=warnings, partial=bool(warnings))


async def read_v2(calls: Calls, question: Question) -> Answer:
    queries, formula = _queries(question)
    window = question.window
    attributes: dict[str, object] = {
        "from": milliseconds(window.start),
        "to": milliseconds(window.end),
        "queries": queries,
        "formulas": [{"formula": formula}],
    }
    kind = "timeseries" if question.is_range else "scalar"
    if question.is_range:
        attributes["interval"] = milliseconds(window.step)
    body = {"data": {"type": f"{kind}_request", "attributes": attributes}}
    document = as_mapping(await calls.ask(Request("POST", f"/api/v2/query/{kind}", json=body)), "the answer")
    if document.get("errors"):
        raise refuse(f"{calls.source} could not answer: {'; '.join(texts_of(document['errors']))}", hint="correct the query")
    found = as_mapping(as_mapping(document.get("data"), "data").get("attributes"), "data.attributes")
    if question.is_range:
        return calls.answer(_series_of_times(found, window))
    columns = [as_mapping(each, "a column") for each in as_list(found.get("columns"), "columns")]
    return calls.answer(_series_of_columns(columns, window.end), unit=_unit([each.get("meta") for each in columns]))


def _queries(question: Question) -> tuple[list[dict[str, object]], str]:
    source = question.option("data_source", "metrics")
    aggregator = question.choice("aggregator", *_AGGREGATORS)
    if not question.text.lstrip().startswith("{"):
        return [_query("a", question.text, source, aggregator, question)], question.option("formula", "a")
    try:
        body = msgspec.json.decode(question.text)
        texts, formula = dict(body["queries"]), str(body["formula"])
    except (msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
        raise ProviderConfigurationError("the query is no metric query, and no queries with their formula", hint=_HINT_QUERIES) from error
    return [_query(name, str(text), source, aggregator, question) for name, text in texts.items()], formula


def _query(name: str, text: str, source: str, aggregator: str, question: Question) -> dict[str, object]:
    query: dict[str, object] = {"data_source": source, "query": text, "name": name}
    return query if question.is_range else query | {"aggregator": aggregator}


def _series_v1(body: Mapping[str, object], window: Window) -> Series:
    interval = read_number(body.get("interval"), "interval") or window.step
    pairs = [as_list(pair, "a point") for pair in as_list(body.get("pointlist"), "pointlist")]
    points = ((_time(pair[0]), read_number(pair[1], "a point")) for pair in pairs if len(pair) == 2)
    labels = _tags(body.get("tag_set"))
    scope = str(body.get("scope") or "")
    if not labels and scope not in ("", "*"):
        labels = {"scope": scope}
    return Series(_complete(points, interval, window), labels)


def _series_of_columns(columns: Sequence[Mapping[str, object]], end: float) -> list[Series]:
    groups = [(str(each.get("name")), as_list(each.get("values"), "values")) for each in columns if each.get("type") == "group"]
    found = []
    for column in columns:
        if column.get("type") != "number":
            continue
        for row, value in enumerate(as_list(column.get("values"), "values")):
            labels = {name: _group_value(values[row]) for name, values in groups if row < len(values)}
            found.append(Series(((end, read_number(value, "a value")),), labels))
    return found


def _series_of_times(attributes: Mapping[str, object], window: Window) -> list[Series]:
    times = [_time(each) for each in as_list(attributes.get("times"), "times")]
    heads = as_list(attributes.get("series"), "series")
    found = []
    for index, column in enumerate(as_list(attributes.get("values"), "values")):
        values = (read_number(value, "a value") for value in as_list(column, "values"))
        head = heads[index] if index < len(heads) else {}
        tags = head.get("group_tags") if isinstance(head, dict) else None
        found.append(Series(_complete(zip(times, values, strict=False), window.step, window), _tags(tags)))
    return found


def _complete(points: Iterable[tuple[float, float | None]], interval: float, window: Window) -> tuple[tuple[float, float | None], ...]:
    return tuple(point for point in points if window.start <= point[0] and point[0] + interval <= window.end)


def _time(value: object) -> float:
    return (read_number(value, "a time") or 0.0) / 1000.0


def _tags(value: object) -> dict[str, str]:
    pairs = (str(tag).partition(":") for tag in value) if isinstance(value, list) else ()
    return {name: text or "true" for name, _, text in pairs}


def _group_value(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _unit(bodies: Sequence[object]) -> str:
    """The short name of the first series' unit, with what it is per; empty where it has none."""
    for body in bodies:
        units = body.get("unit") if isinstance(body, dict) else None
        names = [str(unit.get("short_name") or unit.get("name") or "") for unit in units or () if isinstance(unit, dict)]
        if names and all(names):
            return "/".join(names)
    return ""


def _address(settings: Mapping[str, str]) -> str:
    return f"https://api.{settings['site'] or 'datadoghq.com'}"


KINDS = (
    Kind(("datadog", "datadog-v1"), read_v1, logins=(_KEYS,), settings=("site",), address=_address, right=_RIGHT),
    Kind(
        ("datadog-v2",),
        read_v2,
        logins=(_KEYS,),
        settings=("site",),
        parameters=("aggregator", "data_source", "formula"),
        address=_address,
        right=_RIGHT,
        grain=20.0,
    ),
)
