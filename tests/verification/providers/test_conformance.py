"""Every source against the same table: what is a number, what is none, what stops at once, what is tried again, and what is no answer."""

import contextlib
import math
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import msgspec
import pytest
import structlog

from delegate.engine.verification.answers import Answer
from delegate.engine.verification.errors import (
    ProviderQuestionError,
    ProviderRefusedError,
    ProviderUnavailableError,
    UnreadableAnswerError,
    VerificationError,
)
from delegate.engine.verification.providers.registry import Providers
from delegate.foundation.errors import Category
from tests.verification.providers.dialects import DIALECTS, ENVIRONMENT, SECRET, Dialect
from tests.verification.providers.sources import (
    Asked,
    Fault,
    Source,
    dropping,
    knowing,
    raw,
    read,
    serving,
    silent,
    status,
    trickling,
    values_of,
)

every_source = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)


def sources_with(field: str) -> pytest.MarkDecorator:
    """Those that can answer so."""
    found = [dialect for dialect in DIALECTS if getattr(dialect, field) is not None]
    assert found
    return pytest.mark.parametrize("dialect", found, ids=lambda dialect: dialect.name)


@contextlib.asynccontextmanager
async def asked(dialect: Dialect, directory: Path) -> AsyncIterator[tuple[Source, Providers]]:
    """A source of this kind with a good answer, and providers that know it."""
    async with (
        serving(dialect.served(dialect.good)) as source,
        knowing(directory, dialect.entry(source.url), environment=ENVIRONMENT) as providers,
    ):
        yield source, providers


async def ask(
    dialect: Dialect, directory: Path, document: object, *, fault: Fault | None = None, timeout: float = 20.0, source: Source | None = None
) -> Answer:
    """One reading of a source of this kind that would answer with this document."""
    async with serving(dialect.served(document)) as served:
        target = source or served
        target.fault = fault
        if source is not None:
            source.url, source.routes = served.url, served.routes
            served.fault, served.asked, served.headers = source.fault, source.asked, source.headers
        async with knowing(directory, dialect.entry(served.url), environment=ENVIRONMENT) as providers:
            return await read(providers, dialect.query, parameters=dialect.parameters, timeout=timeout)


async def refusal(
    dialect: Dialect, directory: Path, fault: Fault, *, timeout: float = 20.0, source: Source | None = None
) -> VerificationError:
    """What a reading raises that goes wrong in this way."""
    with pytest.raises(VerificationError) as raised:
        await ask(dialect, directory, dialect.good, fault=fault, timeout=timeout, source=source)
    assert SECRET not in f"{raised.value} {raised.value.hint} {raised.value!r}"
    return raised.value


@every_source
async def test_reads_the_number_of_a_good_answer(dialect: Dialect, tmp_path: Path) -> None:
    """A good answer is one series with one point, whose time lies in the window; raw bytes have their digest."""
    answer = await ask(dialect, tmp_path, dialect.good)
    assert values_of(answer) == [dialect.value]
    assert not answer.partial
    assert not answer.warnings
    assert not answer.stale
    assert not answer.at_least
    assert answer.age_seconds is None
    assert answer.digest.startswith("sha256:")


@every_source
async def test_presents_itself_and_asks_for_no_cached_answer(dialect: Dialect, tmp_path: Path) -> None:
    """Each request carries the source's own form of credentials, and asks caches to ask."""
    source = Source()
    await ask(dialect, tmp_path, dialect.good, source=source)
    request = next(each for each in source.asked if each.method == dialect.answering.split()[0] and "oauth" not in each.path)
    for name, value in dialect.authorization.items():
        assert request.headers[name] == value
    assert all(each.headers["Cache-Control"] == "no-cache" for each in source.asked)


@every_source
async def test_asks_for_the_window_in_the_sources_unit(dialect: Dialect, tmp_path: Path) -> None:
    """Seconds, milliseconds or nanoseconds: exactly what the source documents."""
    if dialect.times is None:
        assert dialect.type == "http"  # knows no window
        return
    source = Source()
    await ask(dialect, tmp_path, dialect.good, source=source)
    where, key, begin, end = dialect.times
    found = {find_time(each, where, key) for each in source.asked} - {None}
    assert len(found) == 1, found
    value = found.pop()
    if where == "nrql":
        assert str(value).endswith(str(begin))
    elif begin is not None:
        assert value == begin
    else:
        assert value == end


def find_time(asked: Asked, where: str, key: str) -> Any:
    if where == "query":
        return asked.query.get(key)
    if where == "form":
        return parse_qs(asked.body.decode()).get(key, [None])[0]
    if not asked.body.startswith(b"{"):
        return None
    found: Any = asked.json
    if where == "nrql":
        return found.get("variables", {}).get("nrql")
    for step in key.split(".") if "@" not in key else ("query", "bool", "filter", 0, "range", "@timestamp", "gte"):
        try:
            found = found[step]
        except (KeyError, IndexError):
            return None
    return found


@every_source
async def test_takes_no_rows_for_no_data(dialect: Dialect, tmp_path: Path) -> None:
    """Nothing found is no series: never a zero."""
    answer = await ask(dialect, tmp_path, dialect.empty)
    assert answer.series == ()


@sources_with("null")
async def test_takes_null_and_nan_for_nothing_measured(dialect: Dialect, tmp_path: Path) -> None:
    """A null or NaN is a point without a value: never a zero, and no error."""
    answer = await ask(dialect, tmp_path, dialect.null)
    assert values_of(answer) == [None]


@sources_with("infinite")
async def test_keeps_infinity(dialect: Dialect, tmp_path: Path) -> None:
    """A numerator without a denominator is evidence."""
    answer = await ask(dialect, tmp_path, dialect.infinite)
    assert values_of(answer) == [math.inf]


@every_source
async def test_keeps_many_series_apart(dialect: Dialect, tmp_path: Path) -> None:
    """Several series stay several, each with labels that tell it from the others."""
    answer = await ask(dialect, tmp_path, dialect.many)
    assert len(answer.series) >= 2
    labels = [tuple(sorted(series.labels.items())) for series in answer.series]
    assert all(labels)
    assert len(set(labels)) == len(labels)


@sources_with("partial")
async def test_marks_a_part_of_an_answer(dialect: Dialect, tmp_path: Path) -> None:
    """Warnings, failed shards and peers that did not answer make the answer partial, with the words of the source."""
    answer = await ask(dialect, tmp_path, dialect.partial)
    assert answer.partial
    assert answer.warnings
    assert values_of(answer) == [3.0]


@sources_with("refused")
async def test_takes_an_error_inside_a_200_for_an_error(dialect: Dialect, tmp_path: Path) -> None:
    """An error in the body of a 200 is not read past, is an error of the question, and not asked again."""
    source = Source()
    with pytest.raises(ProviderQuestionError) as raised:
        await ask(dialect, tmp_path, dialect.refused, source=source)
    assert not raised.value.retryable
    assert len([each for each in source.asked if f"{each.method} {each.path}" == dialect.answering]) == 1


@every_source
async def test_stops_at_once_for_good(dialect: Dialect, tmp_path: Path) -> None:
    """What will never be answered is asked once, named with its status, and says what to do."""
    async with asked(dialect, tmp_path) as (source, providers):
        for code in (400, 401, 403, 404, 422):
            source.asked.clear()
            source.fault = status(code, {"errors": [f"no, {SECRET}"], "message": f"no, {SECRET}"})
            with pytest.raises(ProviderRefusedError) as raised:
                await read(providers, dialect.query, parameters=dialect.parameters)
            error = raised.value
            assert error.category is (Category.PERMISSION if code in (401, 403) else Category.INPUT)
            assert str(code) in error.message
            assert not error.retryable
            assert error.hint
            assert SECRET not in error.message
            assert len(source.asked) == 1


@every_source
async def test_obeys_a_limit_of_calls(dialect: Dialect, tmp_path: Path) -> None:
    """A 429 whose time is beyond the reading's ends it, saying when, and nobody asks before that."""
    async with serving(dialect.served(dialect.good)) as source:
        source.fault = status(429, {"errors": ["Rate limit"]}, headers={"X-RateLimit-Reset": "30", "X-RateLimit-Remaining": "0"})
        async with knowing(tmp_path, dialect.entry(source.url), environment=ENVIRONMENT) as providers:
            waits = []
            for _ in range(2):
                with pytest.raises(ProviderUnavailableError) as raised:
                    await read(providers, dialect.query, parameters=dialect.parameters)
                assert raised.value.retryable
                waits.append(raised.value.retry_after)
    assert len(source.asked) == 1
    assert waits[0] == 30.0
    assert waits[1] is not None
    assert 0 < waits[1] <= 30.0


@every_source
async def test_tries_again_what_may_pass(dialect: Dialect, tmp_path: Path) -> None:
    """A source that fails once and is well then has answered."""
    headers = {"Retry-After": "0"}  # without it, what makes a job is not sent twice
    async with asked(dialect, tmp_path) as (source, providers):
        for code in (408, 500, 502, 503):
            source.fault = status(code, headers=headers, times=1)
            assert values_of(await read(providers, dialect.query, parameters=dialect.parameters)) == [dialect.value]


@every_source
async def test_asks_a_source_that_is_down_once_a_reading(dialect: Dialect, tmp_path: Path) -> None:
    """Tries inside a reading end; in the next one, a source that was down is asked once, and is trusted again when it answers."""
    async with serving(dialect.served(dialect.good)) as source:
        source.fault = status(500)
        async with knowing(tmp_path, dialect.entry(source.url), environment=ENVIRONMENT) as providers:
            counts = []
            for _ in range(2):
                source.asked.clear()
                with pytest.raises(ProviderUnavailableError):
                    await read(providers, dialect.query, parameters=dialect.parameters)
                counts.append(len(source.asked))
            source.fault = None
            answer = await read(providers, dialect.query, parameters=dialect.parameters)
    assert counts[0] <= 3
    assert counts[1] == 1
    assert values_of(answer) == [dialect.value]


@pytest.mark.parametrize("fault", [silent(), trickling()], ids=["silent", "trickling"])
@every_source
async def test_ends_with_its_time(dialect: Dialect, fault: Fault, tmp_path: Path) -> None:
    """A source that says nothing, or a byte at a time, is unavailable when the reading's time is over."""
    error = await refusal(dialect, tmp_path, fault, timeout=0.3)
    assert isinstance(error, ProviderUnavailableError)
    assert "0.3 s" in error.message


@every_source
async def test_names_a_connection_that_breaks(dialect: Dialect, tmp_path: Path) -> None:
    """A connection that is cut is the network's fault, and may pass."""
    error = await refusal(dialect, tmp_path, dropping())
    assert isinstance(error, ProviderUnavailableError)
    assert error.retryable


@every_source
async def test_takes_a_page_for_no_answer(dialect: Dialect, tmp_path: Path) -> None:
    """A login page under a 200 is no number and no data: an error that will not go away."""
    error = await refusal(dialect, tmp_path, raw(b"<html>sign in</html>", "text/html"))
    assert isinstance(error, UnreadableAnswerError)
    assert not error.retryable
    assert "login" in error.hint


@every_source
async def test_follows_no_redirect_to_another_host(dialect: Dialect, tmp_path: Path) -> None:
    """Credentials go nowhere else, and what is there is not read."""
    async with serving() as elsewhere:
        location = elsewhere.url.replace("127.0.0.1", "localhost") + f"/login?next={SECRET}"
        fault = status(302, headers={"Location": location})
        error = await refusal(dialect, tmp_path, fault)
    assert isinstance(error, UnreadableAnswerError)
    assert "localhost" in error.message
    assert elsewhere.asked == []


@every_source
async def test_reads_no_more_than_a_bound(dialect: Dialect, tmp_path: Path) -> None:
    """An answer without an end is broken off."""
    error = await refusal(dialect, tmp_path, raw(b'{"data": "' + b"x" * 200_000 + b'"}'))
    assert isinstance(error, UnreadableAnswerError)
    assert "65536 bytes" in error.message


@every_source
async def test_takes_what_is_no_document_for_no_answer(dialect: Dialect, tmp_path: Path) -> None:
    """Cut off, empty, of other types: never a number, never no data, and no crash."""
    async with asked(dialect, tmp_path) as (source, providers):
        for content in (b'{"status": "succ', b"", b"[1, 2", b'"text"', b"null", b"{}", b'{"data": 7}', b"\xff\xfe"):
            source.fault = raw(content)
            with pytest.raises((UnreadableAnswerError, ProviderQuestionError)):
                await read(providers, dialect.query, parameters=dialect.parameters)


@every_source
async def test_says_how_old_an_answer_is(dialect: Dialect, tmp_path: Path) -> None:
    """A cache's Age becomes the answer's, and its warning that it could not ask makes it stale."""
    source = Source(headers={"Age": "540", "Warning": '110 - "Response is Stale"'})
    answer = await ask(dialect, tmp_path, dialect.good, source=source)
    assert answer.age_seconds == 540.0
    assert answer.stale


@pytest.fixture
def log() -> Iterator[list[Any]]:
    with structlog.testing.capture_logs() as entries:
        yield entries


@every_source
async def test_shows_no_credentials(dialect: Dialect, tmp_path: Path, log: list[Any]) -> None:
    """Not in a repr, an error that repeats what was sent, or a line of the log."""
    async with serving(dialect.served(dialect.good)) as source:
        source.fault = status(403, {"message": f"key {SECRET} of {dialect.authorization} may not"})
        async with knowing(tmp_path, dialect.entry(source.url), environment=ENVIRONMENT) as providers:
            provider = providers.get("source")
            with pytest.raises(ProviderRefusedError) as raised:
                await read(providers, dialect.query, parameters=dialect.parameters)
            shown = f"{provider!r} {providers._links!r} {raised.value} {raised.value.hint} {raised.value.__dict__} {log}"
    assert SECRET not in shown
    assert "another-secret" not in shown
    assert msgspec.json.encode(str(raised.value))
