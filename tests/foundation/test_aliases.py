"""What the Harness Delegate calls its settings, metrics and probes is taken here too, and told once."""

import http.client
from typing import Any

import pytest
from structlog.testing import capture_logs

from delegate.foundation.settings import Probes
from delegate.foundation.settings.errors import SettingsError
from delegate.foundation.settings.loading import Loaded, load
from delegate.foundation.settings.programs import DelegateSettings
from delegate.foundation.telemetry.metrics import DelegateMetrics
from delegate.foundation.telemetry.probes import HealthReport, ProbeServer

HARNESS = {
    "ACCOUNT_ID": "kmpySmUISimoRrJL6NL73w",
    "MANAGER_HOST_AND_PORT": "https://app.harness.example",
    "DELEGATE_NAME": "edge",
    "DELEGATE_TOKEN": "0123456789abcdef0123456789abcdef",
    "DELEGATE_TAGS": "linux-amd64, region=eu",
    "DELEGATE_TASK_LIMIT": "50",
    "DELEGATE_TYPE": "KUBERNETES",
    "NEXT_GEN": "true",
    "LOGGING_LEVEL": "WARN",
    "PROXY_HOST": "proxy.example",
    "PROXY_PORT": "3128",
    "PROXY_SCHEME": "http",
    "PROXY_USER": "me",
    "PROXY_PASSWORD": "p@ss/word",
    "NO_PROXY": "10.0.0.0/8",
}


def load_delegate(environment: dict[str, str]) -> Loaded[DelegateSettings]:
    return load(DelegateSettings, environment=environment)


def test_a_harness_manifest_works_unchanged() -> None:
    """Each value arrives in its setting, and says where it came from."""
    loaded = load_delegate(HARNESS)
    settings = loaded.settings

    assert settings.link.url == "https://app.harness.example"
    assert settings.identity.labels == {"linux-amd64": "true", "region": "eu"}
    assert settings.pool.capacity == 50
    assert settings.logging.level == "warning"
    assert settings.network.https_proxy is not None
    assert settings.network.https_proxy.reveal() == "http://me:p%40ss%2Fword@proxy.example:3128"
    sources = {view.name: view.source for view in loaded.describe()}
    assert sources["manager_url"] == "alias MANAGER_HOST_AND_PORT"


def test_each_alias_is_told_once_with_the_name_to_use() -> None:
    """One warning an alias, also where it stands for two settings; what has no meaning here is told too."""
    told = load_delegate(HARNESS).warnings

    aliases = [each.name for each in told if each.event == "settings.alias"]
    assert sorted(aliases) == ["DELEGATE_TAGS", "DELEGATE_TASK_LIMIT", "LOGGING_LEVEL", "MANAGER_HOST_AND_PORT", "PROXY_HOST"]
    assert "DELEGATE_LABELS" in next(each.hint for each in told if each.name == "DELEGATE_TAGS")
    assert [each.name for each in told if each.event == "settings.alias_without_effect"] == ["DELEGATE_TYPE"]
    assert not any("p@ss/word" in str(each) or "p%40ss" in str(each) for each in told)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"MANAGER_HOST_AND_PORT": "https://a.example", "DELEGATE_MANAGER_URL": "https://b.example"}, "https://b.example"),
        ({"DRONE_DELEGATE_MANAGER_ENDPOINT": "https://c.example"}, "https://c.example"),
        ({"MANAGER_HOST_AND_PORT": "", "DRONE_DELEGATE_MANAGER_ENDPOINT": "https://c.example"}, "https://c.example"),
    ],
)
def test_the_settings_own_name_wins(environment: dict[str, str], expected: str) -> None:
    """An alias counts only where the variable itself is not set."""
    assert load_delegate(environment).settings.link.url == expected


def test_the_runners_names_are_taken_too() -> None:
    """dlite's secret is a secret here as well, and DRONE_DEBUG says nothing when it is false."""
    loaded = load_delegate(
        {
            "DELEGATE_MANAGER_URL": "https://m.example",
            "DRONE_DELEGATE_ACCOUNT_SECRET": "s" * 32,
            "DRONE_DEBUG": "false",
            "DRONE_DELEGATE_NAME": "n",
        }
    )

    assert loaded.settings.link.token is not None
    assert loaded.settings.identity.name == "n"
    assert loaded.settings.logging.level == "info"
    assert "ssss" not in str(loaded.describe())


def test_a_level_that_is_none_is_refused() -> None:
    """There it would mean DEBUG."""
    with pytest.raises(SettingsError, match="LOGGING_LEVEL"):
        load_delegate({"DELEGATE_MANAGER_URL": "https://m.example", "LOGGING_LEVEL": "loud"})


def ask(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, body


def test_metrics_and_probes_answer_at_harness_paths_under_harness_names() -> None:
    """/api/metrics has both families, /metrics ours alone; each alias is logged when it is first asked for."""
    metrics = DelegateMetrics("edge")
    metrics.task_capacity.set(1)
    metrics.tasks_running.set(1)
    metrics.up.set(1)
    metrics.record_task("sync", "succeeded", 2.0)
    metrics.record_task("sync", "failed", 4.0)
    with capture_logs() as logs:
        probes = Probes(port=0, host="127.0.0.1")
        with ProbeServer(probes, lambda: HealthReport(registered=True), metrics.expose, metrics.expose_with_aliases) as server:
            own = ask(server.port, "/metrics")[1]
            theirs = [ask(server.port, "/api/metrics")[1] for _ in range(2)][1]
            health = ask(server.port, "/api/health")

    lines = set(theirs.splitlines())
    assert health == (200, '{"status":"healthy"}')
    assert "io_harness" not in own
    assert {
        "io_harness_custom_metric_task_completed_total 1.0",
        "io_harness_custom_metric_task_failed_total 1.0",
        "io_harness_custom_metric_task_timeout_total 0.0",
        "io_harness_custom_metric_tasks_currently_executing 1.0",
        "io_harness_custom_metric_delegate_connected 1.0",
        "io_harness_custom_metric_task_execution_time 3.0",
        "io_harness_custom_metric_resource_consumption_above_threshold 1.0",
        "harness_delegate_up 1.0",
    } <= lines
    used: list[Any] = [each["alias"] for each in logs if each["event"] == "probes.alias_used"]
    assert used == ["/api/metrics", "/api/health"]
