"""Elasticsearch and OpenSearch: `POST /<index>/_search`, a number of hits or of an aggregation.

Documented under "Search API". The query is a search body in JSON, or a query string. The window becomes a range on the time field
(milliseconds); partial results are refused by the server, and marked where it answers with them; hits are counted to the end.
"""

from collections.abc import Iterator, Mapping

import msgspec

from delegate.engine.verification.answers import Answer, Series
from delegate.engine.verification.errors import ProviderConfigurationError, UnreadableAnswerError
from delegate.engine.verification.providers.calls import Calls, Request, refuse
from delegate.engine.verification.providers.credentials import BASIC, BEARER, Login
from delegate.engine.verification.providers.kinds import Kind, Question, milliseconds
from delegate.engine.verification.providers.numbers import as_mapping, read_number, texts_of

_API_KEY = Login(("api_key",), lambda values: {"Authorization": f"ApiKey {values['api_key']}"})
_TIME_FIELD = "@timestamp"
_HITS = "hits.total.value"
_PASSING_STATUSES = (408, 429, 500, 502, 503, 504)


async def read(calls: Calls, question: Question) -> Answer:
    params = (("allow_partial_search_results", "false"), ("ignore_unavailable", "false"))
    path = f"/{question.in_path('index')}/_search"
    body = as_mapping(await calls.ask(Request("POST", path, params, json=_search(question))), "the answer")
    if body.get("error"):
        status = read_number(body.get("status"), "status") or 400
        words = "; ".join(texts_of(body["error"]))
        raise refuse(f"{calls.source} could not answer: {words}", hint="correct the query", transient=status in _PASSING_STATUSES)
    where = question.option("path", _HITS)
    warnings = (*_gaps(body), *_other_buckets(body, where))
    at_least = where == _HITS and _total(body).get("relation") == "gte"
    return calls.answer(_read_at(body, where, question), warnings=warnings, partial=bool(warnings), at_least=at_least)


def _search(question: Question) -> dict[str, object]:
    text = question.text.strip()
    body: dict[str, object] = {}
    if text.startswith("{"):
        try:
            body = dict(msgspec.json.decode(text, type=dict[str, object]))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ProviderConfigurationError("the query is no JSON object", hint="write a search body, or a query string") from error
        asked = body.get("query")
    else:
        asked = {"query_string": {"query": text}} if text else None
    window = question.window
    times = {"gte": milliseconds(window.start), "lt": milliseconds(window.end), "format": "epoch_millis"}
    within = {"range": {question.option("time_field", _TIME_FIELD): times}}
    body["query"] = {"bool": {"filter": [within], **({"must": [asked]} if asked else {})}}
    return {"size": 0, **body, "track_total_hits": True}


def _gaps(body: Mapping[str, object]) -> Iterator[str]:
    if body.get("timed_out"):
        yield "the search timed out, its result is partial"
    if body.get("terminated_early"):
        yield "the search was ended early, its result is partial"
    shards = body.get("_shards")
    failed = read_number(shards.get("failed"), "_shards.failed") if isinstance(shards, dict) else None
    if isinstance(shards, dict) and failed:
        yield f"{failed:g} of {shards.get('total')} shards failed"
    clusters = body.get("_clusters")
    for word in ("skipped", "partial", "failed"):
        count = read_number(clusters.get(word), f"_clusters.{word}") if isinstance(clusters, dict) else None
        if count:
            yield f"{count:g} clusters are {word}"


def _other_buckets(body: Mapping[str, object], where: str) -> Iterator[str]:
    """Terms of which only the largest buckets are in the answer: none of the others is looked at."""
    found: object = body
    for step in where.split("."):
        found = found.get(step) if isinstance(found, dict) else None
    others = read_number(found.get("sum_other_doc_count"), "sum_other_doc_count") if isinstance(found, dict) else None
    if others:
        yield f"{others:g} documents are in buckets that the answer leaves out: give the aggregation a larger size"


def _total(body: Mapping[str, object]) -> Mapping[str, object]:
    """`hits.total`, which older servers write as a number."""
    hits = body.get("hits")
    total = hits.get("total") if isinstance(hits, dict) else None
    return total if isinstance(total, dict) else {"value": total}


def _read_at(body: Mapping[str, object], where: str, question: Question) -> list[Series]:
    """A number at a path of names, or one for each bucket of an aggregation that the path leads to."""
    end = question.window.end
    if where == _HITS:
        return [Series(((end, read_number(_total(body).get("value"), _HITS)),))]
    found: object = body
    for step in where.split("."):
        if not isinstance(found, dict) or step not in found:
            raise UnreadableAnswerError(
                f"the answer has no {where}", hint=f"there is {', '.join(sorted(found)) if isinstance(found, dict) else 'a number'}"
            )
        found = found[step]
    if isinstance(found, dict) and isinstance(found.get("buckets"), list):
        return _of_buckets([as_mapping(each, "a bucket") for each in found["buckets"]], question)
    if isinstance(found, dict) and "value" in found:
        found = found["value"]
    return [Series(((end, read_number(found, where)),))]


def _of_buckets(buckets: list[Mapping[str, object]], question: Question) -> list[Series]:
    """Buckets of time (a date histogram has numbers as keys, and texts beside them) are points, others series."""
    window, inner = question.window, question.option("value", "doc_count")
    of_time = bool(buckets) and all("key_as_string" in each and isinstance(each.get("key"), int | float) for each in buckets)
    values = [read_number(_inner(each, inner), inner) for each in buckets]
    if not of_time:
        return [Series(((window.end, value),), {"key": str(each.get("key"))}) for each, value in zip(buckets, values, strict=True)]
    times = [(read_number(each.get("key"), "key") or 0.0) / 1000.0 for each in buckets]
    width = window.step or (times[1] - times[0] if len(times) > 1 else window.end - window.start)
    return [Series(tuple((at, value) for at, value in zip(times, values, strict=True) if window.start <= at and at + width <= window.end))]


def _inner(bucket: Mapping[str, object], path: str) -> object:
    found: object = bucket
    for step in path.split("."):
        found = found.get(step) if isinstance(found, dict) else None
    return found.get("value") if isinstance(found, dict) else found


KINDS = (
    Kind(
        ("elasticsearch", "opensearch"),
        read,
        logins=(BASIC, BEARER, _API_KEY),
        settings=("index", "time_field"),
        parameters=("index", "path", "value", "time_field"),
        right="the privilege read on the index",
    ),
)
