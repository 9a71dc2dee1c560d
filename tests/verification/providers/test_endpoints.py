"""The status of an endpoint, and numbers in its document: caches, redirects and pages of something in between (case 11)."""

import contextlib
import datetime as dt
import email.utils

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegate.engine.verification.answers import Answer, Query
from delegate.engine.verification.errors import ProviderConfigurationError, ProviderUnavailableError, UnreadableAnswerError
from delegate.engine.verification.providers.freshness import freshness_of, seconds_until
from delegate.engine.verification.providers.json_paths import find
from delegate.engine.verification.providers.registry import load_providers
from tests.verification.providers.sources import WHOLE, raw, serving, status, values_of

_NOW = dt.datetime(2026, 3, 2, 10, 0, tzinfo=dt.UTC)


async def look(url: str, query: str = "", *, timeout: float = 20.0, **parameters: str) -> Answer:
    """A reading of a task's own url; `build` is what the document must hold."""
    providers = load_providers(None, {})
    provider = providers.open(type="http", provider="", url=url)
    options = {f"expect.{key}": value for key, value in parameters.items()}
    try:
        return await provider.read(Query(query, WHOLE, options), timeout=timeout)
    finally:
        await provider.close()
        await providers.close()


@pytest.mark.parametrize("code", [200, 204, 302, 404, 429, 503])
async def test_takes_any_status_for_the_number(code: int) -> None:
    """A 503 is 503 and a redirect 302: neither is an error of the source, and nothing is followed or tried again."""
    async with serving() as source:
        source.fault = status(code, {"ok": False}, headers={"Location": f"{source.url}/login"})
        answer = await look(f"{source.url}/healthz?deep=1")
    assert values_of(answer) == [float(code)]
    assert [(each.path, each.query) for each in source.asked] == [("/healthz", {"deep": "1"})]
    assert source.asked[0].headers["Cache-Control"] == "no-cache"
    assert "Authorization" not in source.asked[0].headers


async def test_takes_another_builds_answer_for_no_data() -> None:
    """An answer of the old build says nothing of the new one; of the right build, the status counts."""
    async with serving({"GET /healthz": {"ok": True, "build": "25.4"}}) as source:
        old = await look(f"{source.url}/healthz", build="25.5")
        source.routes["GET /healthz"] = {"ok": False, "build": "25.5"}
        source.statuses["GET /healthz"] = 503
        new = await look(f"{source.url}/healthz", build="25.5")
    assert old.series == ()
    assert values_of(new) == [503.0]


async def test_takes_a_page_for_no_good_status() -> None:
    """A maintenance page under a 200 where a document is expected is wrong whatever the rule, and says what it is."""
    async with serving() as source:
        source.fault = raw(b"<html>we are back soon</html>", "text/html")
        answer = await look(f"{source.url}/healthz", build="25.5")
    assert "answered 200 with a page, where a document with build was expected" in answer.wrong


async def test_says_how_old_a_cached_answer_is() -> None:
    """Age, an old Date, and a cache that could not ask."""
    async with serving({"GET /healthz": {"ok": True}}) as source:
        source.headers = {"Age": "540", "Cache-Control": "max-age=600"}
        assert (await look(f"{source.url}/healthz")).age_seconds == 540.0
        source.headers = {"Date": email.utils.format_datetime(dt.datetime.now(dt.UTC) - dt.timedelta(seconds=300), usegmt=True)}
        age = (await look(f"{source.url}/healthz")).age_seconds
        source.headers = {"Age": "30", "Warning": '110 - "Response is Stale"'}
        assert (await look(f"{source.url}/healthz")).stale
    assert age is not None
    assert 299 <= age < 360


async def test_names_what_can_not_be_reached() -> None:
    """Nothing that listens is an error of the source, which may pass."""
    async with serving() as source:
        url = source.url
    with pytest.raises(ProviderUnavailableError) as raised:
        await look(f"{url}/healthz")
    assert "can't be reached" in raised.value.message


async def test_follows_a_redirect_to_the_same_origin_for_numbers() -> None:
    """Where a document has moved on the same host, it is read there; a circle ends."""
    async with serving({"GET /new": {"ratio": 0.5}}) as source:
        source.fault = status(302, headers={"Location": "/new"}, times=1)
        assert values_of(await look(f"{source.url}/old", "$.ratio")) == [0.5]
        source.fault = status(302, headers={"Location": "/old"})
        with pytest.raises(UnreadableAnswerError):
            await look(f"{source.url}/old", "$.ratio")


async def test_wants_something_at_a_path() -> None:
    """A path to nothing is an error, not no data; a truth value is 1 or 0."""
    async with serving({"GET /": {"ok": True, "name": "wren"}}) as source:
        assert values_of(await look(f"{source.url}/", "{$.ok}")) == [1.0]
        for path in ("$.missing", "$.name"):
            with pytest.raises(UnreadableAnswerError):
                await look(f"{source.url}/", path)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://a.example/",
        "https://user:secret-word@a.example/",
        "https://a.example/stats?api_key=secret-word",
        "https://a.example/stats?from=now&access_token=secret-word",
        "http://169.254.169.254/latest/meta-data",
        "http://metadata.google.internal/",
        "https:///x",
        "nonsense",
    ],
)
def test_refuses_what_no_task_may_ask(url: str) -> None:
    """No other schemes, no credentials in a task, and not the machine's own metadata."""
    with pytest.raises(ProviderConfigurationError) as raised:
        load_providers(None, {}).open(type="http", provider="", url=url)
    assert "secret-word" not in str(raised.value)


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("$", [{"a": [{"b c": 1}, {"b c": 2}], "d": {"e": None}}]),
        ("$.a[0]['b c']", [1]),
        ("a[-1]['b c']", [2]),
        ('$.a[*]["b c"]', [1, 2]),
        ("{.d.e}", [None]),
        ("$.d.*", [None]),
        ("$.a[7]", []),
        ("$.a.b", []),
    ],
)
def test_finds_values_by_their_path(path: str, wanted: list[object]) -> None:
    """Names, indices from either end, and all of them."""
    assert [found.value for found in find({"a": [{"b c": 1}, {"b c": 2}], "d": {"e": None}}, path)] == wanted


@pytest.mark.parametrize("path", ["$..a", "$.a[?(@.b > 1)]", "$.a[0:2]", "$.a[", "$a.b", "$.", "$.a b"])
def test_refuses_paths_that_it_does_not_know(path: str) -> None:
    """A path that is understood in part is not understood."""
    with pytest.raises(ProviderConfigurationError):
        find({"a": []}, path)


@given(st.text(max_size=30))
def test_never_crashes_on_a_path(path: str) -> None:
    """Any text is a path that is found or refused."""
    with contextlib.suppress(ProviderConfigurationError):
        assert isinstance(find({"a": [1, {"b": 2}]}, path), list)


@given(st.dictionaries(st.sampled_from(["age", "date", "warning"]), st.text(max_size=40)))
def test_never_crashes_on_headers(headers: dict[str, str]) -> None:
    """Whatever a proxy writes there."""
    age, _ = freshness_of(headers, _NOW)
    assert age is None or age >= 0


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("30", 30.0),
        ("1.5", 1.5),
        (str(_NOW.timestamp() + 20), 20.0),
        ("Mon, 02 Mar 2026 10:01:00 GMT", 60.0),
        ("soon", None),
        ("-1", None),
        ("nan", None),
        (None, None),
    ],
)
def test_reads_when_to_come_back(text: str | None, wanted: float | None) -> None:
    """Seconds, a date, or a time since 1970."""
    assert seconds_until(text, _NOW) == wanted


def test_takes_no_notice_of_clocks_that_differ_a_little() -> None:
    """A Date of a few seconds ago is a clock, no cache."""
    assert freshness_of({"date": "Mon, 02 Mar 2026 09:59:57 GMT"}, _NOW).age_seconds is None
    assert freshness_of({"date": "Mon, 02 Mar 2026 09:51:00 GMT", "age": "30"}, _NOW).age_seconds == 540.0
