"""Grafana: what its data sources know, by its query API, or by its proxy in the data source's own language.

Documented under "Data source HTTP API". The query API (`POST /api/ds/query`) takes milliseconds and answers with frames, a column of
which is the number; faults of a query are inside a 200, 207 or 400. The proxy (`/api/datasources/proxy/uid/<uid>/...`) hands a
request on: the entry's `backend` says which type is asked there, and that type's own settings and parameters hold.
"""

from collections.abc import Mapping, Sequence

import msgspec

from delegate.engine.verification.answers import Answer, Series
from delegate.engine.verification.errors import ProviderConfigurationError, UnreadableAnswerError
from delegate.engine.verification.providers import elasticsearch, loki, prometheus
from delegate.engine.verification.providers.calls import Calls, Request, refuse
from delegate.engine.verification.providers.kinds import Kind, Question, Read, milliseconds
from delegate.engine.verification.providers.numbers import as_list, as_mapping, labels_of, read_number, texts_of

_BACKENDS: Mapping[str, Read] = {
    name: kind.read for kinds in (prometheus.KINDS, loki.KINDS, elasticsearch.KINDS) for kind in kinds for name in kind.types
}
_RIGHT = "the permission datasources:query, a service account's token"
_MOST_POINTS = 11_000
_ENTITIES = {"Inf": float("inf"), "NegInf": float("-inf")}


async def read_proxied(calls: Calls, question: Question) -> Answer:
    backend = question.option("backend", "prometheus")
    read = _BACKENDS.get(backend)
    if read is None:
        raise ProviderConfigurationError(
            f"{calls.source}: there is no backend {backend!r}", hint=f"known are: {', '.join(sorted(_BACKENDS))}"
        )
    return await read(calls.below(f"/api/datasources/proxy/uid/{question.in_path('datasource')}"), question)


async def read_queried(calls: Calls, question: Question) -> Answer:
    window = question.window
    body = {"from": str(milliseconds(window.start)), "to": str(milliseconds(window.end)), "queries": [_query(question)]}
    request = Request("POST", "/api/ds/query", json=body, answers=frozenset({207, 400}))
    reply = await calls.send(request)
    document = as_mapping(await reply.document(), "the answer")
    results = document.get("results")
    if not isinstance(results, dict) or "A" not in results:
        words = "; ".join(texts_of(document.get("message") or document.get("error"))) or "no results"
        raise refuse(f"{calls.source} answered {reply.status}: {words}", hint="correct the query, or check datasource")
    result = as_mapping(results["A"], "results.A")
    status = read_number(result.get("status"), "status") or 200
    if result.get("error") or status >= 400:
        words = str(result.get("error") or f"status {status:g}")
        raise refuse(
            f"{calls.source}: the query failed: {words}", hint="correct the query", transient=status >= 500 or status in (408, 429)
        )
    frames = [as_mapping(each, "a frame") for each in as_list(result.get("frames") or [], "frames")]
    warnings = _notices(frames)
    series = [one for frame in frames for one in _series(frame, question)]
    return calls.answer(series, unit=_unit(frames), warnings=warnings, partial=bool(warnings))


def _query(question: Question) -> dict[str, object]:
    text, window = question.text.strip(), question.window
    model: dict[str, object] = {"expr": text}
    if text.startswith("{") and text.endswith("}"):
        try:
            model = dict(msgspec.json.decode(text, type=dict[str, object]))
        except (msgspec.DecodeError, UnicodeDecodeError):
            model = {"expr": text}  # a selector of PromQL or LogQL
    width = milliseconds(window.step or window.end - window.start)
    kind = {"instant": not question.is_range, "range": question.is_range, "queryType": "range" if question.is_range else "instant"}
    fixed = {"refId": "A", "datasource": {"uid": question.needed("datasource")}, "intervalMs": width, "maxDataPoints": _MOST_POINTS}
    return {**kind, **model, **fixed}


def _series(frame: Mapping[str, object], question: Question) -> list[Series]:
    """Each column of numbers is a series, by the column of times where there is one, else a row of it each."""
    schema, data = as_mapping(frame.get("schema"), "schema"), as_mapping(frame.get("data"), "data")
    fields = [as_mapping(each, "a field") for each in as_list(schema.get("fields"), "fields")]
    columns = [as_list(each, "a column") for each in as_list(data.get("values"), "values")]
    if len(columns) not in (0, len(fields)):
        raise UnreadableAnswerError(f"a frame has {len(fields)} fields and {len(columns)} columns")
    columns = columns or [[] for _ in fields]
    times = next((column for field, column in zip(fields, columns, strict=True) if field.get("type") == "time"), None)
    texts = [(str(field.get("name")), column) for field, column in zip(fields, columns, strict=True) if field.get("type") == "string"]
    entities = data.get("entities")
    found: list[Series] = []
    for index, (field, column) in enumerate(zip(fields, columns, strict=True)):
        if field.get("type") != "number":
            continue
        values = _with_entities(column, entities[index] if isinstance(entities, list) and index < len(entities) else None)
        labels = labels_of(field.get("labels"))
        if times is None or not question.is_range:
            end = question.window.end
            found += [Series(((end, value),), labels | {name: str(text[row]) for name, text in texts}) for row, value in enumerate(values)]
        else:
            found.append(Series(_within(times, values, question), labels))
    if not found and columns and any(columns):
        raise UnreadableAnswerError("the answer has no column of numbers", hint="write a query whose result is a number")
    return found


def _within(times: Sequence[object], values: Sequence[float | None], question: Question) -> tuple[tuple[float, float | None], ...]:
    window = question.window
    points = [((read_number(time, "a time") or 0.0) / 1000.0, value) for time, value in zip(times, values, strict=True)]
    return tuple((at, value) for at, value in points if window.start <= at and at + window.step <= window.end)


def _with_entities(column: Sequence[object], entities: object) -> list[float | None]:
    """Infinities stand beside the values, which have null in their place (NaN too, which stays nothing)."""
    values = [read_number(value, "a value") for value in column]
    for name, number in _ENTITIES.items():
        for row in (entities.get(name) or ()) if isinstance(entities, dict) else ():
            values[row] = number
    return values


def _notices(frames: Sequence[Mapping[str, object]]) -> tuple[str, ...]:
    found: list[object] = []
    for frame in frames:
        schema = frame.get("schema")
        meta = schema.get("meta") if isinstance(schema, dict) else None
        notices = meta.get("notices") if isinstance(meta, dict) else None
        found += [each for each in notices or () if isinstance(each, dict) and each.get("severity") in ("warning", "error")]
    return texts_of(found)


def _unit(frames: Sequence[Mapping[str, object]]) -> str:
    for frame in frames:
        for field in as_list(as_mapping(frame.get("schema"), "schema").get("fields"), "fields"):
            config = field.get("config") if isinstance(field, dict) else None
            if isinstance(config, dict) and config.get("unit"):
                return str(config["unit"])
    return ""


KINDS = (
    Kind(("grafana",), read_queried, settings=("datasource",), parameters=("datasource",), right=_RIGHT),
    Kind(
        ("grafana-proxy",),
        read_proxied,
        settings=("datasource", "backend", "tenant", "index", "time_field"),
        parameters=("datasource", "index", "path", "value", "time_field"),
        right=_RIGHT,
    ),
)
