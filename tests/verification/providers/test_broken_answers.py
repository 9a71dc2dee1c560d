"""Traps of single sources: what is complete, what is a bound, what is a preview, and what a 200 may hide (case 26)."""

from pathlib import Path

import pytest

from delegate.engine.verification.answers import Answer, Window
from delegate.engine.verification.errors import (
    ProviderConfigurationError,
    ProviderQuestionError,
    ProviderUnavailableError,
    UnreadableAnswerError,
    VerificationError,
)
from tests.verification.providers.dialects import (
    APPDYNAMICS,
    APPDYNAMICS_CLIENT,
    DATADOG_V1,
    DATADOG_V2,
    ELASTICSEARCH,
    ENVIRONMENT,
    GRAFANA,
    GRAFANA_PROXY,
    LOKI,
    NEW_RELIC,
    PROMETHEUS,
    SPLUNK,
    SUMO_LOGS,
    SUMO_METRICS,
    Dialect,
    hits,
    metric_data,
    nrql,
    points_v1,
    rows,
    splunk_job,
    sumo_job,
    sumo_series,
    vector,
)
from tests.verification.providers.sources import BUCKETS, START, WHOLE, Source, knowing, read, serving, values_of


async def ask(
    dialect: Dialect,
    directory: Path,
    document: object = None,
    *,
    query: str | None = None,
    window: Window = WHOLE,
    parameters: dict[str, str] | None = None,
    routes: dict[str, object] | None = None,
    seen: Source | None = None,
    timeout: float = 20.0,
) -> Answer:
    """A reading of a source that answers with a document, or by routes."""
    async with serving({**dialect.served(document), **(routes or {})}) as source:
        if seen is not None:
            seen.asked = source.asked
        async with knowing(directory, dialect.entry(source.url), environment=ENVIRONMENT) as providers:
            options = dialect.parameters if parameters is None else parameters
            return await read(providers, dialect.query if query is None else query, window=window, parameters=options, timeout=timeout)


async def fault(
    dialect: Dialect, directory: Path, document: object = None, *, routes: dict[str, object] | None = None
) -> VerificationError:
    with pytest.raises(VerificationError) as raised:
        await ask(dialect, directory, document, routes=routes)
    return raised.value


# Prometheus and Loki


async def test_gives_a_point_of_a_range_the_time_at_which_its_bucket_begins(tmp_path: Path) -> None:
    """An evaluation at a bucket's end looks back over it; the range that is asked for begins with the first bucket's end."""
    matrix = {
        "status": "success",
        "data": {"resultType": "matrix", "result": [{"metric": {}, "values": [[START + 20, "1"], [START + 40, "NaN"]]}]},
    }
    seen = Source()
    answer = await ask(PROMETHEUS, tmp_path, window=BUCKETS, routes={"GET /api/v1/query_range": matrix}, seen=seen)
    assert answer.series[0].points == ((START, 1.0), (START + 20, None))
    assert seen.asked[0].query["start"] == f"{START + 20:.3f}"
    assert seen.asked[0].query["step"] == "20.000"


@pytest.mark.parametrize(
    "data",
    [
        {"resultType": "string", "result": [START, "text"]},
        {"resultType": "streams", "result": [{"stream": {}, "values": [["1", "a line"]]}]},
        {"resultType": "vector", "result": [{"metric": {}, "histogram": [START, {"count": "1"}]}]},
        {"resultType": "vector", "result": [{"metric": {}, "value": [START, "many"]}]},
        {"resultType": "vector", "result": [{"metric": {}, "value": [START, True]}]},
    ],
    ids=["string", "streams", "histogram", "word", "truth"],
)
async def test_takes_what_is_no_number_for_an_error(data: object, tmp_path: Path) -> None:
    """Texts, log lines, native histograms and truth values are no numbers."""
    error = await fault(LOKI, tmp_path, {"status": "success", "data": data})
    assert isinstance(error, UnreadableAnswerError)


async def test_sends_a_long_query_as_a_form(tmp_path: Path) -> None:
    """Proxies refuse long addresses, so a long query is posted."""
    seen = Source()
    await ask(PROMETHEUS, tmp_path, vector("1"), query="x" * 3000, routes={"POST /api/v1/query": vector("1")}, seen=seen)
    assert [each.method for each in seen.asked] == ["POST"]
    assert b"query=xxx" in seen.asked[0].body


async def test_keeps_what_a_source_remarks(tmp_path: Path) -> None:
    """Infos make an answer no worse, unlike warnings."""
    answer = await ask(PROMETHEUS, tmp_path, vector("1", infos=["metric might not be a counter"]))
    assert (answer.infos, answer.partial) == (("metric might not be a counter",), False)


async def test_takes_an_error_envelope_that_may_pass_for_one(tmp_path: Path) -> None:
    """A time-out inside the envelope may pass, a wrong query doesn't."""
    error = await fault(
        PROMETHEUS, tmp_path, {"status": "error", "errorType": "timeout", "error": "query timed out in expression evaluation"}
    )
    assert isinstance(error, ProviderUnavailableError)


# Datadog


async def test_leaves_out_datadogs_newest_bucket_and_one_from_before(tmp_path: Path) -> None:
    """Only buckets that lie in the window as a whole count."""
    body = points_v1(1.0, 2.0, 3.0, 99.0)
    body["pointlist"] = [[(START - 20) * 1000, 77.0], *body["pointlist"]]  # type: ignore[misc]  # a list, made just above
    answer = await ask(DATADOG_V1, tmp_path, {"status": "ok", "series": [body]})
    assert values_of(answer) == [1.0, 2.0, 3.0]


async def test_says_datadogs_unit(tmp_path: Path) -> None:
    """Where the source knows its unit, the answer bears it."""
    unit = [{"family": "time", "short_name": "ms", "name": "millisecond"}, None]
    answer = await ask(DATADOG_V1, tmp_path, {"status": "ok", "series": [points_v1(1.0) | {"unit": unit}]})
    assert answer.unit == "ms"


async def test_reads_datadogs_series_of_buckets(tmp_path: Path) -> None:
    """With buckets wanted, version 2 is asked for a time series: times in milliseconds, one column for each series."""
    times = [(START + 20 * index) * 1000 for index in range(4)]
    attributes = {
        "series": [{"group_tags": ["pod:a"]}, {"group_tags": ["pod:b"]}],
        "times": times,
        "values": [[1, 2, None, 9], [4, 5, 6, 9]],
    }
    body = {"data": {"type": "timeseries_response", "attributes": attributes}}
    seen = Source()
    answer = await ask(DATADOG_V2, tmp_path, window=BUCKETS, routes={"POST /api/v2/query/timeseries": body}, seen=seen)
    assert [series.labels for series in answer.series] == [{"pod": "a"}, {"pod": "b"}]
    assert answer.series[0].points == ((START, 1.0), (START + 20, 2.0), (START + 40, None))
    assert seen.asked[0].json["data"]["attributes"]["interval"] == 20_000  # type: ignore[index]  # what we sent


async def test_gives_datadog_an_aggregator_for_every_query(tmp_path: Path) -> None:
    """A formula over several queries, each with the aggregator that version 2 insists on."""
    seen = Source()
    text = '{"queries": {"a": "sum:failed{*}", "b": "sum:total{*}"}, "formula": "a / b"}'
    await ask(DATADOG_V2, tmp_path, DATADOG_V2.good, query=text, parameters={"aggregator": "sum"}, seen=seen)
    attributes = seen.asked[0].json["data"]["attributes"]  # type: ignore[index]  # what we sent
    assert [each["aggregator"] for each in attributes["queries"]] == ["sum", "sum"]
    assert attributes["formulas"] == [{"formula": "a / b"}]


# New Relic


async def test_reads_new_relics_buckets_and_percentiles(tmp_path: Path) -> None:
    """TIMESERIES gives buckets in seconds, a percentile is a map."""
    found = [
        {"beginTimeSeconds": START + 20 * index, "endTimeSeconds": START + 20 * (index + 1), "percentile.duration": {"95": 0.1 * index}}
        for index in range(4)
    ]
    answer = await ask(NEW_RELIC, tmp_path, nrql(found), window=BUCKETS, parameters={"field": "percentile.duration/95"})
    assert [at for at, _ in answer.series[0].points] == [START, START + 20, START + 40]
    assert values_of(answer)[2] == pytest.approx(0.2)


async def test_wants_one_number_of_a_row(tmp_path: Path) -> None:
    """Two numbers in a row are no answer until one is named."""
    error = await fault(NEW_RELIC, tmp_path, nrql([{"count": 3, "average.duration": 2}]))
    assert "count" in error.hint


async def test_tells_new_relics_own_faults_from_a_wrong_query(tmp_path: Path) -> None:
    """What the server could not do may pass."""
    body = {"errors": [{"message": "timed out", "extensions": {"errorClass": "TIMEOUT"}}]}
    assert isinstance(await fault(NEW_RELIC, tmp_path, body), ProviderUnavailableError)


# Elasticsearch


async def test_says_that_a_count_is_a_lower_bound(tmp_path: Path) -> None:
    """A server that stopped counting at 10,000 says at least; the count is asked for to the end all the same."""
    seen = Source()
    answer = await ask(ELASTICSEARCH, tmp_path, hits(10_000, "gte"), query="level:error", parameters={}, seen=seen)
    assert answer.at_least
    assert values_of(answer) == [10_000.0]
    assert seen.asked[0].json["track_total_hits"] is True  # type: ignore[index]  # what we sent
    assert seen.asked[0].query["allow_partial_search_results"] == "false"


async def test_marks_a_search_that_timed_out(tmp_path: Path) -> None:
    """What was found until then is a part."""
    answer = await ask(ELASTICSEARCH, tmp_path, hits(3) | {"timed_out": True}, parameters={})
    assert answer.partial


async def test_marks_a_search_that_reached_part_of_its_clusters(tmp_path: Path) -> None:
    """A remote cluster that was skipped makes no shard fail."""
    answer = await ask(ELASTICSEARCH, tmp_path, hits(3, _clusters={"total": 2, "successful": 1, "skipped": 1}), parameters={})
    assert answer.partial
    assert answer.warnings == ("1 clusters are skipped",)


async def test_marks_terms_of_which_only_the_largest_are_there(tmp_path: Path) -> None:
    """A bucket that the answer leaves out may be the bad one."""
    terms = {"sum_other_doc_count": 12, "buckets": [{"key": "wren-a", "doc_count": 14}]}
    answer = await ask(ELASTICSEARCH, tmp_path, hits(26, aggregations={"p95": terms}))
    assert answer.partial
    assert "12 documents are in buckets" in answer.warnings[0]


async def test_reads_a_histogram_over_time(tmp_path: Path) -> None:
    """Buckets of a date histogram are points, the last not complete."""
    buckets = [{"key": (START + 20 * n) * 1000, "key_as_string": "t", "doc_count": n, "p95": {"value": n / 10}} for n in range(4)]
    body = hits(6, aggregations={"per": {"buckets": buckets}})
    answer = await ask(ELASTICSEARCH, tmp_path, body, window=BUCKETS, parameters={"path": "aggregations.per", "value": "p95"})
    assert answer.series[0].points == ((START, 0.0), (START + 20, 0.1), (START + 40, 0.2))


async def test_keeps_an_index_inside_its_place(tmp_path: Path) -> None:
    """An index from a task leads to no other path."""
    seen = Source()
    with pytest.raises(ProviderQuestionError):
        await ask(ELASTICSEARCH, tmp_path, hits(1), parameters={"index": "../_cluster/settings?x="}, seen=seen)
    assert seen.asked[0].path.endswith("/_search")
    with pytest.raises(ProviderConfigurationError):
        await ask(ELASTICSEARCH, tmp_path, hits(1), parameters={"index": ".."})


# Splunk and Sumo Logic


@pytest.mark.parametrize(
    "job",
    [
        splunk_job("FAILED", failed=True, messages=[{"type": "FATAL", "text": "no such index"}]),
        splunk_job(messages=[{"type": "ERROR", "text": "no such index"}]),
        splunk_job(messages={"fatal": ["no such index"], "info": []}),
    ],
    ids=["failed", "errors", "errors by type"],
)
async def test_takes_a_failed_search_for_an_error(job: object, tmp_path: Path) -> None:
    """A job that failed, or that speaks of errors, has no results; it is deleted all the same."""
    seen = Source()
    with pytest.raises(ProviderQuestionError) as raised:
        await ask(SPLUNK, tmp_path, SPLUNK.good, routes={"GET /services/search/jobs/1772445600.7": job}, seen=seen)
    assert "no such index" in raised.value.message
    assert seen.asked[-1].method == "DELETE"


@pytest.mark.parametrize(
    "job",
    [splunk_job(isFinalized=True), splunk_job(messages=[{"type": "WARN", "text": "unable to distribute to a peer"}])],
    ids=["finalized", "a peer away"],
)
async def test_takes_a_search_that_did_not_see_everything_for_partial(job: object, tmp_path: Path) -> None:
    """Finished before it was done, by a hand or a limit, or without one of its peers: the results alone don't show it."""
    answer = await ask(SPLUNK, tmp_path, SPLUNK.good, routes={"GET /services/search/jobs/1772445600.7": job})
    assert answer.partial
    assert answer.warnings


async def test_takes_a_search_whose_process_has_died_for_unavailable(tmp_path: Path) -> None:
    """It says nothing about the release, and may pass."""
    job = splunk_job("RUNNING", isZombie=True)
    error = await fault(SPLUNK, tmp_path, SPLUNK.good, routes={"GET /services/search/jobs/1772445600.7": job})
    assert isinstance(error, ProviderUnavailableError)


async def test_waits_until_a_search_is_done_and_deletes_it(tmp_path: Path) -> None:
    """A search that is never done ends with the reading's time, and is deleted after it."""
    seen = Source()
    with pytest.raises(ProviderUnavailableError):
        await ask(
            SPLUNK, tmp_path, SPLUNK.good, routes={"GET /services/search/jobs/1772445600.7": splunk_job("RUNNING")}, seen=seen, timeout=1.5
        )
    assert [each.method for each in seen.asked][-1] == "DELETE"


async def test_takes_no_preview_for_a_result(tmp_path: Path) -> None:
    """Preview rows are not final."""
    assert isinstance(await fault(SPLUNK, tmp_path, rows({"count": "3"}, preview=True)), UnreadableAnswerError)


async def test_begins_a_search_with_a_command(tmp_path: Path) -> None:
    """A text that begins with neither `search` nor a pipe becomes a search."""
    for text, sent in (
        ("index=a", b"search=search+index%3Da"),
        ("search index=a", b"search=search+index%3Da"),
        ("| tstats x", b"search=%7C+tstats+x"),
    ):
        seen = Source()
        await ask(SPLUNK, tmp_path, SPLUNK.good, query=text, seen=seen)
        assert sent in seen.asked[0].body


async def test_reads_splunks_buckets(tmp_path: Path) -> None:
    """`_time` is a date with its offset, or seconds; the bucket that reaches beyond the window does not count."""
    found = rows(
        {"_time": "2026-03-02T11:00:00.000+01:00", "count": "1"},
        {"_time": str(START + 20), "count": "2"},
        {"_time": str(START + 50), "count": "9"},
    )
    answer = await ask(SPLUNK, tmp_path, found, window=BUCKETS)
    assert answer.series[0].points == ((START, 1.0), (START + 20, 2.0))


@pytest.mark.parametrize("state", ["CANCELLED", "FORCE PAUSED"])
async def test_takes_a_search_that_was_ended_for_unavailable(state: str, tmp_path: Path) -> None:
    """A search job that Sumo Logic ended has no records."""
    error = await fault(SUMO_LOGS, tmp_path, SUMO_LOGS.good, routes={"GET /api/v1/search/jobs/2F1": sumo_job(state)})
    assert isinstance(error, ProviderUnavailableError)


async def test_takes_no_record_for_no_data(tmp_path: Path) -> None:
    """A count query without a record is no data, never zero; messages instead of records are a wrong query."""
    routes: dict[str, object] = {"GET /api/v1/search/jobs/2F1": sumo_job(records=0)}
    assert (await ask(SUMO_LOGS, tmp_path, routes=routes)).series == ()
    raw_messages: dict[str, object] = {"GET /api/v1/search/jobs/2F1": sumo_job(records=0, messageCount=12)}
    assert isinstance(await fault(SUMO_LOGS, tmp_path, routes=raw_messages), UnreadableAnswerError)


async def test_takes_pending_errors_for_errors(tmp_path: Path) -> None:
    """Errors of a search job are its outcome."""
    job = sumo_job(pendingErrors=["unknown operator"])
    assert "unknown operator" in (await fault(SUMO_LOGS, tmp_path, routes={"GET /api/v1/search/jobs/2F1": job})).message


async def test_gives_cookies_back(tmp_path: Path) -> None:
    """A search job is found by its cookies alone."""
    async with serving(SUMO_LOGS.served(SUMO_LOGS.good)) as source:
        source.headers = {"Set-Cookie": "AWSALB=abc; Path=/; HttpOnly"}
        async with knowing(tmp_path, SUMO_LOGS.entry(source.url), environment=ENVIRONMENT) as providers:
            await read(providers, SUMO_LOGS.query)
            await read(providers, SUMO_LOGS.query)
    cookies = [each.headers.get("Cookie") for each in source.asked]
    assert cookies[: len(cookies) // 2] == [None, "AWSALB=abc", "AWSALB=abc", "AWSALB=abc"]
    assert cookies[len(cookies) // 2] is None


async def test_asks_sumo_metrics_in_milliseconds(tmp_path: Path) -> None:
    """Quantization is milliseconds, and a time series is cut to complete buckets."""
    seen = Source()
    document = {"queryResult": [{"rowId": "A", "timeSeriesList": {"timeSeries": [sumo_series(1, None, 3, 99)]}}]}
    answer = await ask(SUMO_METRICS, tmp_path, document, window=BUCKETS, seen=seen)
    assert seen.asked[0].json["queries"][0]["quantization"] == 20_000  # type: ignore[index]  # what we sent
    assert values_of(answer) == [1.0, None, 3.0]


# AppDynamics and Grafana


async def test_asks_appdynamics_for_json_and_whole_minutes(tmp_path: Path) -> None:
    """Without `output=JSON` it answers XML; with buckets wanted, points are not rolled up, and the newest is left out."""
    seen = Source()
    answer = await ask(APPDYNAMICS, tmp_path, [metric_data(1, 2)], window=Window(START, START + 60, 60), seen=seen)
    assert seen.asked[0].query["output"] == "JSON"
    assert seen.asked[0].query["rollup"] == "false"
    assert answer.series[0].points == ((START, 1.0),)


async def test_keeps_the_token_of_an_api_client(tmp_path: Path) -> None:
    """One token serves many readings; the secret goes in the body of one request alone."""
    async with (
        serving(APPDYNAMICS_CLIENT.served(APPDYNAMICS_CLIENT.good)) as source,
        knowing(tmp_path, APPDYNAMICS_CLIENT.entry(source.url), environment=ENVIRONMENT) as providers,
    ):
        for _ in range(3):
            await read(providers, APPDYNAMICS_CLIENT.query)
    assert [each.method for each in source.asked] == ["POST", "GET", "GET", "GET"]
    assert b"grant_type=client_credentials" in source.asked[0].body


async def test_reads_grafanas_fault_inside_a_200(tmp_path: Path) -> None:
    """A query that failed is an error, whatever the status around it."""
    error = await fault(GRAFANA, tmp_path, {"results": {"A": {"status": 500, "error": "timeout", "frames": []}}})
    assert isinstance(error, ProviderUnavailableError)
    assert "timeout" in error.message


async def test_wants_a_column_of_numbers_from_grafana(tmp_path: Path) -> None:
    """Frames of texts alone are no answer."""
    found = {"schema": {"fields": [{"name": "Line", "type": "string"}]}, "data": {"values": [["a line"]]}}
    assert isinstance(await fault(GRAFANA, tmp_path, {"results": {"A": {"status": 200, "frames": [found]}}}), UnreadableAnswerError)


async def test_speaks_the_backends_language_through_grafanas_proxy(tmp_path: Path) -> None:
    """A proxied Loki is asked in nanoseconds, under the proxy's path."""
    settings = {"datasource": "P1", "backend": "loki", "tenant": "team-a"}
    dialect = Dialect(
        **{**GRAFANA_PROXY.__dict__, "settings": settings, "answering": "GET /api/datasources/proxy/uid/P1/loki/api/v1/query"}
    )
    seen = Source()
    answer = await ask(dialect, tmp_path, vector("7"), seen=seen)
    assert values_of(answer) == [7.0]
    assert len(seen.asked[0].query["time"]) == 19
    assert seen.asked[0].headers["X-Scope-OrgID"] == "team-a"


async def test_refuses_a_parameter_that_means_nothing(tmp_path: Path) -> None:
    """A misspelt parameter changes no question silently, and an operator's tenant is not a task's to choose."""
    for parameter in ("feild", "tenant"):
        with pytest.raises(ProviderConfigurationError) as raised:
            await ask(PROMETHEUS if parameter == "tenant" else SPLUNK, tmp_path, parameters={parameter: "x"})
        assert parameter in raised.value.message
