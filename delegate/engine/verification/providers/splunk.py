"""Splunk: a search job made, waited for, read and deleted. Documented under "Search endpoint descriptions" of the REST API.

Times are seconds. Values are texts. Preview rows are not final, so only the results of a job that is done count; a row is one number
(the parameter `field`, else the only one that is), `_time` its bucket, and the other fields its labels. No row is no data.
"""

import contextlib
import datetime as dt
from collections.abc import AsyncIterator, Mapping
from urllib.parse import quote

from delegate.engine.verification.answers import Answer, Series
from delegate.engine.verification.errors import UnreadableAnswerError
from delegate.engine.verification.providers.calls import Calls, Request, pause, refuse
from delegate.engine.verification.providers.credentials import BASIC, BEARER, Login
from delegate.engine.verification.providers.kinds import Kind, Question
from delegate.engine.verification.providers.numbers import as_list, as_mapping, is_number, only_number, read_number, texts_of
from delegate.engine.verification.providers.tidying import tidy

_SESSION = Login(("access_key",), lambda values: {"Authorization": f"Splunk {values['access_key']}"})
_JOBS = "/services/search/jobs"
_JSON = (("output_mode", "json"),)
_MOST_ROWS = 10_000
_FIRST_POLL_SECONDS, _LONGEST_POLL_SECONDS = 0.1, 2.0
_BAD = ("FATAL", "ERROR")


async def read(calls: Calls, question: Question) -> Answer:
    async with _job(calls, question) as job:
        warnings = await _wait(calls, job)
        params = (*_JSON, ("count", str(_MOST_ROWS)))
        body = as_mapping(await calls.ask(Request("GET", f"{job}/results", params)), "the results")
    if body.get("preview") is True:
        raise UnreadableAnswerError(f"{calls.source} gave a preview of the results, which is not final")
    messages = _messages(body.get("messages"))
    _raise_bad(calls, messages)
    rows = [as_mapping(each, "a result") for each in as_list(body.get("results"), "results")]
    warnings += _warnings(messages)
    return calls.answer(_series(rows, question), warnings=warnings, partial=bool(warnings))


@contextlib.asynccontextmanager
async def _job(calls: Calls, question: Question) -> AsyncIterator[str]:
    """The path of a job, which is deleted in the end, whatever comes between."""
    window = question.window
    form = (
        *_JSON,
        ("search", _command(question.text)),
        ("exec_mode", "normal"),
        ("earliest_time", f"{window.start:.3f}"),
        ("latest_time", f"{window.end:.3f}"),
    )
    made = as_mapping(await calls.ask(Request("POST", _JOBS, form=form, repeatable=False)), "the new job")
    sid = made.get("sid")
    if not isinstance(sid, str | int) or not str(sid):
        raise UnreadableAnswerError(f"{calls.source} named no search job (sid)")
    path = f"{_JOBS}/{quote(str(sid), safe='')}"
    try:
        yield path
    finally:
        await tidy(calls.discard(Request("DELETE", path, _JSON, answers=frozenset({404}))))


async def _wait(calls: Calls, job: str) -> tuple[str, ...]:
    """What a job that is done warns of: also that somebody, or a limit, has finished it before its time."""
    wait = _FIRST_POLL_SECONDS
    while True:
        body = as_mapping(await calls.ask(Request("GET", job, _JSON)), "the job")
        entries = as_list(body.get("entry"), "entry")
        content = as_mapping(as_mapping(entries[0] if entries else None, "entry").get("content"), "entry.content")
        messages = _messages(content.get("messages"))
        if content.get("isFailed") or content.get("dispatchState") == "FAILED":
            words = "; ".join(texts_of(messages)) or "it does not say why"
            raise refuse(f"{calls.source}: the search failed: {words}", hint="correct the search")
        _raise_bad(calls, messages)
        if content.get("isZombie"):
            words = f"{calls.source}: the search's process has died"
            raise refuse(words, hint="look at the search head; this says nothing about the release", transient=True)
        if content.get("isDone"):
            cut = ("the search was finalized before it was done",) if content.get("isFinalized") else ()
            return cut + _warnings(messages)
        await pause(calls, wait)
        wait = min(_LONGEST_POLL_SECONDS, wait * 1.5)


def _command(text: str) -> str:
    """A search begins with a command: `search`, or one that generates events, after a pipe."""
    text = text.strip()
    return text if text.startswith("|") or text.split(maxsplit=1)[:1] == ["search"] else f"search {text}"


def _messages(found: object) -> list[dict[str, object]]:
    """Of a job or its results: a list of type and text, or (as older servers write them) the texts by their type."""
    if isinstance(found, dict):
        return [{"type": kind, "text": str(text)} for kind, texts in found.items() for text in as_list(texts, f"messages.{kind}")]
    return [each for each in as_list(found or [], "messages") if isinstance(each, dict)]


def _warnings(messages: list[dict[str, object]]) -> tuple[str, ...]:
    return texts_of([each for each in messages if str(each.get("type")).upper() == "WARN"])


def _raise_bad(calls: Calls, messages: list[dict[str, object]]) -> None:
    if bad := [each for each in messages if str(each.get("type")).upper() in _BAD]:
        raise refuse(f"{calls.source}: the search failed: {'; '.join(texts_of(bad))}", hint="correct the search")


def _series(rows: list[Mapping[str, object]], question: Question) -> list[Series]:
    """Rows with a time are points of the series that their other fields name."""
    window, field = question.window, question.option("field")
    points: dict[tuple[tuple[str, str], ...], list[tuple[float, float | None]]] = {}
    for row in rows:
        name = field or only_number(row, (name for name in row if not name.startswith("_")), "result")
        if field and field not in row:
            raise UnreadableAnswerError(f"the results have no field {field!r}", hint=f"they have {', '.join(sorted(row)) or 'none'}")
        labels = tuple(sorted((key, str(value)) for key, value in row.items() if key != name and not key.startswith("_")))
        at = _time(row.get("_time"))
        of_series = points.setdefault(labels, [])
        if at is None or not question.is_range:
            of_series.append((window.end, read_number(row.get(name), name)))
        elif window.start <= at and at + window.step <= window.end:
            of_series.append((at, read_number(row.get(name), name)))
    return [Series(tuple(found), dict(labels)) for labels, found in points.items()]


def _time(value: object) -> float | None:
    """`_time` is written as seconds, or as a date with its offset."""
    if value is None:
        return None
    if is_number(value):
        return float(str(value))
    try:
        when = dt.datetime.fromisoformat(str(value))
    except ValueError as error:
        raise UnreadableAnswerError(f"_time is {value!r}, which is no time") from error
    return (when if when.tzinfo is not None else when.replace(tzinfo=dt.UTC)).timestamp()


KINDS = (Kind(("splunk",), read, logins=(BASIC, BEARER, _SESSION), parameters=("field",), right="the capability search, and the index"),)
