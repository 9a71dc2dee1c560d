"""The metrics have the names of the contract, and say what is."""

import re

import pytest

from delegate.foundation.telemetry.metrics import DelegateMetrics


@pytest.fixture
def metrics() -> DelegateMetrics:
    return DelegateMetrics("edge-1", version="1.2.3", protocol="1")


def exposed(metrics: DelegateMetrics) -> dict[str, float]:
    """Every sample of the text form by its name and labels."""
    text = metrics.expose()[0].decode()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines() if not line.startswith("#")}


def test_the_names_are_those_of_the_contract(metrics: DelegateMetrics) -> None:
    """Alerts and dashboards outside rely on them, with these types."""
    metrics.set_certificate_expiry(1)
    metrics.set_token_expiry(1)
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", metrics.expose()[0].decode(), re.MULTILINE))

    expected = {
        "harness_delegate_up": "gauge",
        "harness_delegate_task_capacity": "gauge",
        "harness_delegate_tasks_running": "gauge",
        "harness_delegate_tasks_total": "counter",
        "harness_delegate_task_duration_seconds": "histogram",
        "harness_delegate_sync_duration_seconds": "gauge",
        "harness_delegate_certificate_expiry_timestamp_seconds": "gauge",
        "harness_delegate_token_expiry_timestamp_seconds": "gauge",
        "harness_delegate_outbox_entries": "gauge",
        "dlq_entries_total": "counter",
        "harness_delegate_source_errors_total": "counter",
        "harness_delegate_api_requests_total": "counter",
        "harness_delegate_build_info": "gauge",
    }
    assert expected.items() <= types.items()


def test_the_last_sync_shows_under_its_last_status_only(metrics: DelegateMetrics) -> None:
    """So that an alert on failed syncs clears when one succeeds."""
    metrics.record_sync("shop", "failed", 42)
    metrics.record_sync("other", "failed", 7)
    metrics.record_sync("shop", "succeeded", 3)

    name = "harness_delegate_sync_duration_seconds"
    assert {key: value for key, value in exposed(metrics).items() if key.startswith(name)} == {
        f'{name}{{application="shop",status="succeeded"}}': 3,
        f'{name}{{application="other",status="failed"}}': 7,
    }

    metrics.forget_application("shop")
    metrics.forget_application("never-seen")

    assert not any("shop" in key for key in exposed(metrics))


def test_counters_with_known_labels_begin_at_zero(metrics: DelegateMetrics) -> None:
    """The first dead letter is an increase that an alert sees."""
    before = exposed(metrics)
    metrics.record_dead_letter("undecodable")
    after = exposed(metrics)

    key = 'dlq_entries_total{delegate="edge-1",reason="undecodable"}'
    assert (before[key], after[key]) == (0, 1)
    assert before['harness_delegate_source_errors_total{kind="git"}'] == 0


def test_an_expiry_shows_only_while_there_is_one(metrics: DelegateMetrics) -> None:
    """An alert on what ends soon doesn't fire for what isn't there."""
    name = "harness_delegate_certificate_expiry_timestamp_seconds"
    assert name not in exposed(metrics)

    metrics.set_certificate_expiry(1_800_000_000)
    metrics.set_certificate_expiry(1_900_000_000)
    assert exposed(metrics)[name] == 1_900_000_000

    metrics.set_certificate_expiry(None)
    metrics.set_certificate_expiry(None)
    assert name not in exposed(metrics)


def test_a_task_counts_once_by_kind_and_outcome(metrics: DelegateMetrics) -> None:
    """And its seconds go into the histogram of its kind."""
    metrics.record_task("sync", "succeeded", 2.0)
    metrics.record_task("sync", "failed", 20.0)

    samples = exposed(metrics)
    assert samples['harness_delegate_tasks_total{kind="sync",outcome="succeeded"}'] == 1
    assert samples['harness_delegate_task_duration_seconds_count{kind="sync"}'] == 2
    assert samples['harness_delegate_task_duration_seconds_sum{kind="sync"}'] == 22


def test_the_build_is_told_with_its_skew(metrics: DelegateMetrics) -> None:
    """One series at a time."""
    metrics.set_skew("older")

    assert {key: value for key, value in exposed(metrics).items() if "build_info" in key} == {
        'harness_delegate_build_info{protocol="1",skew="older",version="1.2.3"}': 1
    }


def test_gauges_may_be_read_at_the_scrape(metrics: DelegateMetrics) -> None:
    """What changes all the time is asked when somebody looks."""
    running = [1.0]
    metrics.watch(metrics.tasks_running, lambda: running[0])
    first = exposed(metrics)["harness_delegate_tasks_running"]
    running[0] = 5.0

    assert (first, exposed(metrics)["harness_delegate_tasks_running"]) == (1, 5)


def test_the_other_counters_count(metrics: DelegateMetrics) -> None:
    """Requests by verb and code, source errors by kind, deaths by part, retries by step."""
    metrics.record_api_request("apply", "409")
    metrics.record_source_error("helm")
    metrics.record_part_death("poller", ValueError())
    metrics.record_retry("fetch")

    samples = exposed(metrics)
    assert samples['harness_delegate_api_requests_total{code="409",verb="apply"}'] == 1
    assert samples['harness_delegate_source_errors_total{kind="helm"}'] == 1
    assert samples['harness_delegate_part_deaths_total{part="poller"}'] == 1
    assert samples['harness_delegate_retries_total{step="fetch"}'] == 1


def test_two_delegates_in_one_process_share_nothing() -> None:
    """Each has a registry of its own, as the demo and the tests need."""
    first, second = DelegateMetrics("a"), DelegateMetrics("b")
    first.record_task("sync", "succeeded", 1)

    assert not any("tasks_total" in key for key in exposed(second))


def test_scrapers_that_ask_for_openmetrics_get_it(metrics: DelegateMetrics) -> None:
    """By the Accept header."""
    body, content_type = metrics.expose("application/openmetrics-text; version=1.0.0")

    assert content_type.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")
