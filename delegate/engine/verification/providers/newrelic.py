"""New Relic by NerdGraph (`POST /graphql`): one NRQL query of one account.

Documented under "NerdGraph" and "NRQL". Errors come with status 200. A query without SINCE gets the window in milliseconds; TIMESERIES
answers with buckets (seconds), FACET with one row for each value. Without a `field` in the parameters, a row must hold one number.
"""

import math
import re
from collections.abc import Mapping

from delegate.engine.verification.answers import Answer, Series
from delegate.engine.verification.errors import UnreadableAnswerError
from delegate.engine.verification.providers.calls import Calls, Request, refuse
from delegate.engine.verification.providers.credentials import Login
from delegate.engine.verification.providers.kinds import Kind, Question, milliseconds
from delegate.engine.verification.providers.numbers import as_list, as_mapping, read_number, texts_of

_KEY = Login(("api_key",), lambda values: {"API-Key": values["api_key"]})
_DOCUMENT = (
    "query ($account: Int!, $nrql: Nrql!, $timeout: Seconds) { actor { account(id: $account) "
    "{ nrql(query: $nrql, timeout: $timeout) { results } } } }"
)
_SINCE = re.compile(r"\b(SINCE|UNTIL)\b", re.IGNORECASE)
_TIMESERIES = re.compile(r"\bTIMESERIES\b", re.IGNORECASE)
_PASSING = ("TIMEOUT", "SERVER_ERROR", "TOO_MANY_REQUESTS", "SERVICE_UNAVAILABLE")
_NO_NUMBERS = ("beginTimeSeconds", "endTimeSeconds", "facet", "inspectedCount")
_LONGEST_SECONDS = 120


async def read(calls: Calls, question: Question) -> Answer:
    account = read_number(question.needed("account"), "account")
    variables = {
        "account": int(account or 0),
        "nrql": _windowed(question),
        "timeout": min(_LONGEST_SECONDS, max(1, math.floor(calls.left_seconds))),
    }
    path = "/graphql"
    body = as_mapping(await calls.ask(Request("POST", path, json={"query": _DOCUMENT, "variables": variables})), "the answer")
    if body.get("errors"):
        errors = body["errors"]
        words = "; ".join(texts_of(errors))
        raise refuse(
            f"{calls.source} could not answer: {words}", hint="correct the NRQL, or check account and key", transient=_passes(errors)
        )
    found: object = body.get("data")
    for step in ("actor", "account", "nrql"):
        found = as_mapping(found, "data").get(step)
    results = [as_mapping(each, "a result") for each in as_list(as_mapping(found, "nrql").get("results"), "results")]
    return calls.answer(_series(results, question))


def _windowed(question: Question) -> str:
    text, window = question.text.strip().rstrip(";"), question.window
    if not _SINCE.search(text):
        text += f" SINCE {milliseconds(window.start)} UNTIL {milliseconds(window.end)}"
    if question.is_range and not _TIMESERIES.search(text):
        text += f" TIMESERIES {max(1, round(window.step))} seconds"
    return text


def _series(results: list[Mapping[str, object]], question: Question) -> list[Series]:
    """One for each facet; a bucket that reaches beyond the window is not complete."""
    window = question.window
    points: dict[str, list[tuple[float, float | None]]] = {}
    for row in results:
        value = _number(row, question.option("field"))
        begin, end = (read_number(row.get(key), key) for key in ("beginTimeSeconds", "endTimeSeconds"))
        at = window.end if begin is None or not question.is_range else begin
        of_facet = points.setdefault(_facet(row), [])
        if question.is_range and begin is not None and not (window.start <= begin and (end or begin) <= window.end):
            continue
        of_facet.append((at, value))
    return [Series(tuple(found), {"facet": facet} if facet else {}) for facet, found in points.items()]


def _number(row: Mapping[str, object], field: str) -> float | None:
    """`field` may lead into a percentile's map: `percentile.duration/95`."""
    if field:
        key, _, inner = field.partition("/")
        value = row.get(key)
        if isinstance(value, dict):
            value = value.get(inner) if inner else _only(value, field)
        elif key not in row:
            raise UnreadableAnswerError(f"the result has no {key!r}", hint=f"it has {', '.join(sorted(row)) or 'nothing'}")
        return read_number(value, field)
    facets = row.get("facet")
    names = row.keys() - set(_NO_NUMBERS)
    candidates = {key: row[key] for key in names if not (isinstance(row[key], str) and row[key] in _texts(facets))}
    value = _only(candidates, "the result")
    return read_number(_only(value, "the result") if isinstance(value, dict) else value, "the result")


def _only(values: Mapping[str, object], where: str) -> object:
    if len(values) != 1:
        hint = f"name one in the parameter field: {', '.join(sorted(values)) or 'there is none'}"
        raise UnreadableAnswerError(f"{where} holds {len(values)} values where one is wanted", hint=hint)
    return next(iter(values.values()))


def _facet(row: Mapping[str, object]) -> str:
    return ", ".join(_texts(row.get("facet")))


def _texts(facets: object) -> list[str]:
    if facets is None:
        return []
    return [str(each) for each in facets] if isinstance(facets, list) else [str(facets)]


def _passes(errors: object) -> bool:
    classes = (
        [each.get("extensions", {}).get("errorClass", "") for each in errors if isinstance(each, dict)] if isinstance(errors, list) else []
    )
    return bool(classes) and all(str(each) in _PASSING for each in classes)


def _address(settings: Mapping[str, str]) -> str:
    return "https://api.eu.newrelic.com" if settings["region"].lower() == "eu" else "https://api.newrelic.com"


KINDS = (
    Kind(
        ("newrelic",),
        read,
        logins=(_KEY,),
        settings=("account", "region"),
        parameters=("account", "field"),
        address=_address,
        right="a user key with access to the account",
    ),
)
