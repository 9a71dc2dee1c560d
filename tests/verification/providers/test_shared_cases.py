"""Cases 11 and 26 from the bytes on the wire to the verdict: each source's own format, and what a verification makes of it."""

import time
from pathlib import Path
from typing import Any

import pytest

from delegate.engine.verification.providers.registry import Providers, load_providers
from delegate.engine.verification.running import Circumstances, Verification
from delegate.model.verification.checks import Check
from delegate.model.verification.readings import Verdict
from delegate.model.verification.records import CheckRecord
from tests.verification.cases import case
from tests.verification.providers.dialects import (
    APPDYNAMICS,
    ELASTICSEARCH,
    ENVIRONMENT,
    GRAFANA,
    HTTP,
    NEW_RELIC,
    PROMETHEUS,
    SUMO_LOGS,
    SUMO_METRICS,
    Dialect,
)
from tests.verification.providers.sources import Source, knowing, raw, serving, status
from tests.verification.running import check

BROKEN = case("26")
CACHED = case("11")


async def judged(wanted: Check, providers: Providers, *, since: float | None = None) -> CheckRecord:
    """What one check comes to, in real time."""
    try:
        return (await Verification([wanted], providers, Circumstances(since=since)).run()).checks[0]
    finally:
        await providers.close()


async def broken(source: str, dialect: Dialect, directory: Path, **fields: Any) -> CheckRecord:
    """A check of the case against its answer."""
    entry = BROKEN["answers"][source][0]
    routes = dialect.served(entry["body"])
    if source == "sumo_logs":
        routes |= {"GET /api/v1/search/jobs/2F1": entry["body"], dialect.answering: {"records": []}}
    async with serving(routes) as served:
        if source == "login":
            served.fault = raw(entry["body"].encode(), entry["headers"]["Content-Type"])
        async with knowing(directory, dialect.entry(served.url), environment=ENVIRONMENT) as providers:
            wanted = {
                "type": dialect.type,
                "provider": "source",
                "query": dialect.query,
                "unit": "count",
                "threshold": "<= 10count",
                "every": "100ms",
                "over": "2m",
                "for": "100ms",
                "deadline": "1s",
                "consecutiveErrors": 0,
                "parameters": dict(dialect.parameters) if source not in ("search", "search_cap") else {},
            }
            return await judged(check(**wanted | fields), providers, since=time.time() - 300)


@pytest.mark.parametrize(
    ("source", "dialect", "wanted"),
    [
        ("prom", PROMETHEUS, (Verdict.ERROR, "one store did not answer; result may be partial")),
        ("search", ELASTICSEARCH, (Verdict.ERROR, "2 of 5 shards failed")),
        ("search_cap", ELASTICSEARCH, (Verdict.FAIL, "at least 10000 count is not <= 10count")),
        ("nerd", NEW_RELIC, (Verdict.ERROR, "configuration: provider 'source'")),
        ("grafana", GRAFANA, (Verdict.ERROR, "timeout")),
        ("sumo_metrics", SUMO_METRICS, (Verdict.ERROR, "metrics:limit")),
        ("sumo_logs", SUMO_LOGS, (Verdict.NO_DATA, "no series")),
        ("appd", APPDYNAMICS, (Verdict.NO_DATA, "no series")),
        ("login", HTTP, (Verdict.ERROR, "configuration: ")),
    ],
)
async def test_no_broken_answer_passes(source: str, dialect: Dialect, wanted: tuple[Verdict, str], tmp_path: Path) -> None:
    """Case 26, its table: a verdict of its own for each, with the source's words."""
    record = await broken(source, dialect, tmp_path)

    assert (record.verdict, wanted[1] in record.reason) == (wanted[0], True), record.reason
    assert record.configuration == (source in ("nerd", "login", "sumo_metrics"))


async def test_what_is_declared_passes(tmp_path: Path) -> None:
    """Case 26: a part is taken where the check takes parts, and no record is 0 where it says so; a bound decides only what it can."""
    partial = await broken("prom", PROMETHEUS, tmp_path, partial="accept")
    counted = await broken("sumo_logs", SUMO_LOGS, tmp_path, emptyIs=0)
    unknown = await broken("search_cap", ELASTICSEARCH, tmp_path, threshold=">= 20000count")

    assert partial.verdict is Verdict.PASS
    assert "one store did not answer" in partial.readings[0].notes[0]
    assert counted.verdict is Verdict.PASS
    assert unknown.verdict is Verdict.NO_DATA


async def health(served: Source, **fields: Any) -> CheckRecord:
    """The check of case 11, of a release that was ready ten seconds ago."""
    policy = CACHED["tasks"][0]["policy"]["checks"][0]
    wanted = {
        "name": policy["name"],
        "type": "http",
        "provider": "",
        "url": f"{served.url}/healthz",
        "query": "",
        "unit": "count",
        "threshold": "== 200 count",
        "every": "100ms",
        "for": "200ms",
        "deadline": "600ms",
        "failsAllowed": policy["fails_allowed"],
        "parameters": {"expect.build": policy["expect_json"]["build"]},
    }
    return await judged(check(**wanted | fields), load_providers(None, {}), since=time.time() - 10)


@pytest.mark.parametrize("parameters", [{"expect.build": "25.5"}, {}], ids=["build", "no_build_field"])
async def test_a_cached_answer_is_no_data_until_the_broken_version_shows(parameters: dict[str, str]) -> None:
    """Case 11: what was made before the release is discarded by its age; then two fails of one allowed end it."""
    cached, _, fresh = CACHED["answers"]["http"]
    async with serving({"GET /healthz": cached["body"]}) as served:
        served.headers = {"Age": "540", "Cache-Control": "max-age=600"}
        old = await health(served, parameters=parameters)
        served.headers, served.routes = {}, {"GET /healthz": fresh["body"]}
        served.statuses = {"GET /healthz": fresh["status"]}
        new = await health(served, parameters=parameters)

    assert (old.verdict, old.tally.passes, old.tally.fails) == (Verdict.NO_DATA, 0, 0)
    assert "540 s old, from before what is verified" in old.reason
    assert (new.verdict, new.tally.fails) == (Verdict.FAIL, 2)
    assert all(asked.headers["Cache-Control"] == "no-cache" for asked in served.asked)


@pytest.mark.parametrize(
    ("variant", "threshold", "words"),
    [
        ("redirect", "== 200 count", "302 count"),
        ("error_page_200", "== 200 count", "answered 200 with a page"),
        ("error_page_200", "!= 503 count", "answered 200 with a page"),
    ],
)
async def test_what_stands_in_the_way_fails(variant: str, threshold: str, words: str) -> None:
    """Case 11: a redirect is not followed, and a page is no answer of the version, whatever the rule."""
    async with serving({"GET /login": {"build": "25.5"}}) as served:
        served.fault = {
            "redirect": status(302, headers={"Location": "/login"}),
            "error_page_200": raw(b"<html>maintenance</html>", "text/html"),
        }[variant]
        record = await health(served, threshold=threshold)

    assert (record.verdict, words in record.reason) == (Verdict.FAIL, True), record.reason
    assert {asked.path for asked in served.asked} == {"/healthz"}


async def test_a_stale_answer_is_no_data() -> None:
    """Case 11: a cache that could not ask says so."""
    async with serving({"GET /healthz": {"ok": True, "build": "25.5"}}) as served:
        served.headers = CACHED["variants"]["stale_if_error"]["headers"]
        record = await health(served)

    assert record.verdict is Verdict.NO_DATA
    assert "stale" in record.reason
