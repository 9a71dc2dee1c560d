"""What each source answers, as it documents: a good answer, none, null, several, part of one, and an error inside a 200."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.verification.providers.sources import END, START

SECRET = "s3cr3t-of-the-test"
_MS = 1000
_BASIC = {"username": "reader", "password_env": "SECRET"}


@dataclass(frozen=True)
class Dialect:
    """`routes` stand around the one that answers, `answering`. `value` is the number of `good`; `null` None where it has none.

    `times`: where a request bears the window, as `(route, where it stands, begin, end)`, each exactly as the source wants it.
    """

    type: str
    query: str
    answering: str
    good: object
    empty: object
    many: object
    value: float
    login: Mapping[str, object] = field(default_factory=lambda: _BASIC)
    authorization: Mapping[str, str] = field(default_factory=lambda: {"Authorization": "Basic cmVhZGVyOnMzY3IzdC1vZi10aGUtdGVzdA=="})
    settings: Mapping[str, object] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    routes: Mapping[str, object] = field(default_factory=dict)
    null: object = None
    partial: object = None
    refused: object = None
    infinite: object = None
    times: tuple[str, str, object, object] | None = None
    id: str = ""

    @property
    def name(self) -> str:
        return self.id or self.type

    def entry(self, url: str) -> dict[str, object]:
        return {"name": "source", "type": self.type, "url": url, **self.login, **self.settings}

    def served(self, document: object) -> dict[str, object]:
        return {**self.routes, self.answering: document}


def vector(*values: object, **more: object) -> dict[str, object]:
    """Prometheus' envelope around an instant vector; each value is one series."""
    result = [{"metric": {"pod": f"wren-{index}"} if len(values) > 1 else {}, "value": [END, value]} for index, value in enumerate(values)]
    return {"status": "success", "data": {"resultType": "vector", "result": result}, **more}


PROMETHEUS = Dialect(
    type="prometheus",
    query="sum(rate(req_failed[1m]))",
    answering="GET /api/v1/query",
    good=vector("0.25"),
    value=0.25,
    empty=vector(),
    null=vector("NaN"),
    many=vector("14.0", "0.2", "0.3"),
    infinite=vector("+Inf"),
    partial=vector("3", warnings=["one store did not answer; result may be partial"]),
    refused={"status": "error", "errorType": "bad_data", "error": "invalid parameter", "data": {"resultType": "vector", "result": []}},
    settings={"tenant": "team-a"},
    authorization={"Authorization": "Basic cmVhZGVyOnMzY3IzdC1vZi10aGUtdGVzdA==", "X-Scope-OrgID": "team-a"},
    times=("query", "time", None, f"{END:.3f}"),
)
LOKI = Dialect(
    type="loki",
    query='sum(rate({app="wren"} |= "error" [1m]))',
    answering="GET /loki/api/v1/query",
    good=vector("0.25"),
    value=0.25,
    empty=vector(),
    many=vector("1", "2"),
    refused={"status": "error", "errorType": "bad_data", "error": "parse error"},
    settings={"tenant": "a|b"},
    login={"token_env": "SECRET"},
    authorization={"Authorization": f"Bearer {SECRET}", "X-Scope-OrgID": "a|b"},
    times=("query", "time", None, f"{END:.0f}000000000"),
)


def points_v1(*values: object) -> dict[str, object]:
    """A bucket of 20 s each, the last of which is not complete."""
    points = [[(START + 20 * index) * _MS, value] for index, value in enumerate(values)]
    return {"metric": "req.failed", "scope": "*", "tag_set": [], "interval": 20, "pointlist": points, "unit": None}


_DATADOG_LOGIN = {"api_key_env": "SECRET", "application_key_env": "OTHER"}
_DATADOG_KEYS = {"DD-API-KEY": SECRET, "DD-APPLICATION-KEY": "another-secret"}
DATADOG_V1 = Dialect(
    type="datadog-v1",
    query="sum:req.failed{app:wren}.as_count()",
    answering="GET /api/v1/query",
    good={"status": "ok", "res_type": "time_series", "series": [points_v1(0.25)]},
    value=0.25,
    empty={"status": "ok", "res_type": "time_series", "series": []},
    null={"status": "ok", "series": [points_v1(None)]},
    many={"status": "ok", "series": [points_v1(14.0) | {"tag_set": ["pod:wren-a"]}, points_v1(0.2) | {"tag_set": ["pod:wren-b"]}]},
    refused={"status": "error", "error": "Error parsing query", "series": []},
    login=_DATADOG_LOGIN,
    authorization=_DATADOG_KEYS,
    times=("query", "from", f"{START:.0f}", f"{END:.0f}"),
)


def columns_v2(*values: object, groups: list[str] | None = None) -> dict[str, object]:
    columns: list[object] = [{"name": "a", "type": "number", "values": list(values), "meta": {"unit": None}}]
    if groups:
        columns.insert(0, {"name": "pod", "type": "group", "values": [[each] for each in groups]})
    return {"data": {"type": "scalar_response", "attributes": {"columns": columns}}}


DATADOG_V2 = Dialect(
    type="datadog-v2",
    query="sum:req.failed{app:wren}",
    answering="POST /api/v2/query/scalar",
    good=columns_v2(0.25),
    value=0.25,
    empty={"data": {"type": "scalar_response", "attributes": {"columns": []}}},
    null=columns_v2(None),
    many=columns_v2(14.0, 0.2, groups=["wren-a", "wren-b"]),
    refused={"errors": "aggregator must be specified"},
    login=_DATADOG_LOGIN,
    authorization=_DATADOG_KEYS,
    times=("json", "data.attributes.from", START * _MS, END * _MS),
)


def nrql(results: object) -> dict[str, object]:
    return {"data": {"actor": {"account": {"nrql": {"results": results}}}}}


NEW_RELIC = Dialect(
    type="newrelic",
    query="SELECT average(duration) FROM Transaction WHERE appName = 'wren'",
    answering="POST /graphql",
    good=nrql([{"average.duration": 0.25}]),
    value=0.25,
    empty=nrql([]),
    null=nrql([{"average.duration": None}]),
    many=nrql([{"facet": each, "host": each, "average.duration": 14.0} for each in ("wren-a", "wren-b")]),
    refused={"data": {"actor": {"account": {"nrql": None}}}, "errors": [{"message": "NRQL syntax error"}]},
    login={"api_key_env": "SECRET"},
    authorization={"API-Key": SECRET},
    settings={"account": 1234567},
    times=("nrql", "SINCE", f"SINCE {START:.0f}000 UNTIL {END:.0f}000", None),
)


def metric_data(*values: object, name: str = "wren") -> dict[str, object]:
    found = [{"startTimeInMillis": START * _MS + 60_000 * n, "value": value, "sum": value, "count": 1} for n, value in enumerate(values)]
    return {"metricId": 1, "metricName": "Calls", "metricPath": f"Overall|{name}", "frequency": "ONE_MIN", "metricValues": found}


APPDYNAMICS = Dialect(
    type="appdynamics",
    query="Overall Application Performance|wren|Errors per Minute",
    answering="GET /controller/rest/applications/My Shop/metric-data",
    good=[metric_data(3)],
    value=3.0,
    empty=[{"metricName": "METRIC DATA NOT FOUND", "metricId": 0, "metricPath": "METRIC DATA NOT FOUND", "metricValues": []}],
    many=[metric_data(3, name="a"), metric_data(4, name="b")],
    login={"username": "reader@shop", "password_env": "SECRET"},
    authorization={"Authorization": "Basic cmVhZGVyQHNob3A6czNjcjN0LW9mLXRoZS10ZXN0"},
    settings={"application": "My Shop"},
    times=("query", "start-time", f"{START:.0f}000", None),
)
APPDYNAMICS_CLIENT = Dialect(
    **{
        **APPDYNAMICS.__dict__,
        "id": "appdynamics-client",
        "login": {"client_id": "reader@shop", "client_secret_env": "SECRET"},
        "authorization": {"Authorization": "Bearer token-of-the-test"},
        "routes": {"POST /controller/api/oauth/access_token": {"access_token": "token-of-the-test", "expires_in": 300}},
    }
)


def hits(value: object, relation: str = "eq", failed: int = 0, **more: object) -> dict[str, object]:
    shards = {"total": 5, "successful": 5 - failed, "skipped": 0, "failed": failed}
    return {"took": 2, "timed_out": False, "_shards": shards, "hits": {"total": {"value": value, "relation": relation}, "hits": []}, **more}


def aggregated(name: str, body: object) -> dict[str, object]:
    return hits(100, aggregations={name: body})


ELASTICSEARCH = Dialect(
    type="elasticsearch",
    query='{"query": {"term": {"level": "error"}}, "aggs": {"p95": {"avg": {"field": "took"}}}}',
    answering="POST /logs-*/_search",
    parameters={"path": "aggregations.p95"},
    good=aggregated("p95", {"value": 0.25}),
    value=0.25,
    empty=aggregated("p95", {"buckets": []}),
    null=aggregated("p95", {"value": None}),
    many=aggregated("p95", {"buckets": [{"key": "wren-a", "doc_count": 14}, {"key": "wren-b", "doc_count": 2}]}),
    partial=hits(3, failed=2, aggregations={"p95": {"value": 3}}),
    refused={"error": {"type": "search_phase_execution_exception", "reason": "all shards failed"}, "status": 400},
    login={"api_key_env": "SECRET"},
    authorization={"Authorization": f"ApiKey {SECRET}"},
    settings={"index": "logs-*"},
    times=("json", "query.bool.filter.0.range.@timestamp.gte", START * _MS, None),
)


def splunk_job(state: str = "DONE", *, failed: bool = False, messages: object = None, **more: object) -> dict[str, object]:
    content = {"isDone": state == "DONE", "isFailed": failed, "dispatchState": state, "messages": messages or [], **more}
    return {"entry": [{"content": content}]}


def rows(*found: Mapping[str, object], messages: list[object] | None = None, preview: bool = False) -> dict[str, object]:
    return {"preview": preview, "init_offset": 0, "messages": messages or [], "results": list(found)}


SPLUNK = Dialect(
    type="splunk",
    query="index=shop level=error | stats count",
    answering="GET /services/search/jobs/1772445600.7/results",
    routes={
        "POST /services/search/jobs": {"sid": "1772445600.7"},
        "GET /services/search/jobs/1772445600.7": splunk_job(),
        "DELETE /services/search/jobs/1772445600.7": {},
    },
    good=rows({"count": "3"}),
    value=3.0,
    empty=rows(),
    many=rows({"host": "wren-a", "count": "14"}, {"host": "wren-b", "count": "2"}),
    partial=rows({"count": "3"}, messages=[{"type": "WARN", "text": "a peer did not answer"}]),
    refused=rows(messages=[{"type": "FATAL", "text": "Error in 'search' command"}]),
    login={"token_env": "SECRET"},
    authorization={"Authorization": f"Bearer {SECRET}"},
    times=("form", "earliest_time", f"{START:.3f}", None),
)


def sumo_job(state: str = "DONE GATHERING RESULTS", records: int = 1, **more: object) -> dict[str, object]:
    return {"state": state, "recordCount": records, "messageCount": 0, "pendingErrors": [], "pendingWarnings": [], **more}


def records(*found: Mapping[str, str]) -> dict[str, object]:
    return {"fields": [], "records": [{"map": dict(each)} for each in found]}


_SUMO_LOGIN = {"access_id": "reader", "access_key_env": "SECRET"}
SUMO_LOGS = Dialect(
    type="sumologic-logs",
    query="_sourceCategory=shop error | count",
    answering="GET /api/v1/search/jobs/2F1/records",
    routes={
        "POST /api/v1/search/jobs": {"id": "2F1", "link": {}},
        "GET /api/v1/search/jobs/2F1": sumo_job(),
        "DELETE /api/v1/search/jobs/2F1": {},
    },
    good=records({"_count": "3"}),
    value=3.0,
    empty=records(),
    many=records({"_count": "14", "host": "wren-a"}, {"_count": "2", "host": "wren-b"}),
    login=_SUMO_LOGIN,
    times=("json", "from", START * _MS, None),
)


def sumo_series(*values: object, host: str = "wren") -> dict[str, object]:
    points = {"timestamps": [START * _MS + 20_000 * n for n in range(len(values))], "values": list(values)}
    return {"metricDefinition": {"metric": "errors", "dimensions": [{"key": "host", "value": host}]}, "points": points}


def sumo_result(*series: object) -> dict[str, object]:
    return {"queryResult": [{"rowId": "A", "timeSeriesList": {"timeSeries": list(series), "unit": None}}], "errors": None}


SUMO_METRICS = Dialect(
    type="sumologic-metrics",
    query="metric=errors app=wren",
    answering="POST /api/v1/metricsQueries",
    good=sumo_result(sumo_series(0.25)),
    value=0.25,
    empty=sumo_result(),
    null=sumo_result(sumo_series(None)),
    many=sumo_result(sumo_series(14.0, host="a"), sumo_series(0.2, host="b")),
    refused={"queryResult": [], "errors": {"errors": [{"code": "metrics:limit", "message": "too many series"}]}},
    login=_SUMO_LOGIN,
    times=("json", "timeRange.from.epochMillis", START * _MS, None),
)


def frame(*values: object, pod: str = "", entities: object = None) -> dict[str, object]:
    number = {"name": "Value", "type": "number", "labels": {"pod": pod} if pod else {}, "config": {}}
    data: dict[str, object] = {"values": [[END * _MS] * len(values), list(values)]}
    if entities is not None:
        data["entities"] = [None, entities]
    return {"schema": {"refId": "A", "fields": [{"name": "Time", "type": "time"}, number]}, "data": data}


def frames(*found: object) -> dict[str, object]:
    return {"results": {"A": {"status": 200, "frames": list(found)}}}


_TOKEN = {"token_env": "SECRET"}
_BEARER = {"Authorization": f"Bearer {SECRET}"}
GRAFANA = Dialect(
    type="grafana",
    query='sum(rate(req_failed{app="wren"}[1m]))',
    answering="POST /api/ds/query",
    good=frames(frame(0.25)),
    value=0.25,
    empty=frames(),
    null=frames(frame(None)),
    infinite=frames(frame(None, entities={"Inf": [0]})),
    many=frames(frame(14.0, pod="a"), frame(0.2, pod="b")),
    refused={"results": {"A": {"status": 400, "error": "bad query", "frames": []}}},
    login=_TOKEN,
    authorization=_BEARER,
    settings={"datasource": "P1"},
    times=("json", "from", f"{START:.0f}000", f"{END:.0f}000"),
)
GRAFANA_PROXY = Dialect(
    **{
        **PROMETHEUS.__dict__,
        "type": "grafana-proxy",
        "answering": "GET /api/datasources/proxy/uid/P1/api/v1/query",
        "login": _TOKEN,
        "authorization": _BEARER,
        "settings": {"datasource": "P1", "backend": "prometheus"},
    }
)
HTTP = Dialect(
    type="http",
    query="$.checks[*].ratio",
    answering="GET /stats",
    good={"checks": [{"ratio": 0.25}]},
    value=0.25,
    empty={"checks": []},
    null={"checks": [{"ratio": None}]},
    many={"checks": [{"ratio": 14.0}, {"ratio": "0.2"}]},
    settings={"path": "/stats"},
)
DIALECTS = (
    PROMETHEUS,
    LOKI,
    DATADOG_V1,
    DATADOG_V2,
    NEW_RELIC,
    APPDYNAMICS,
    APPDYNAMICS_CLIENT,
    ELASTICSEARCH,
    SPLUNK,
    SUMO_LOGS,
    SUMO_METRICS,
    GRAFANA,
    GRAFANA_PROXY,
    HTTP,
)
ENVIRONMENT = {"SECRET": SECRET, "OTHER": "another-secret"}
