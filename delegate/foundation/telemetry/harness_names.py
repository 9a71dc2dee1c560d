"""The Harness Delegate's metrics (`io_harness_custom_metric_*`), made from ours when they are asked for."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_PREFIX = "io_harness_custom_metric_"
_COUNTERS = {
    "task_completed_total": ("Tasks that succeeded.", ("succeeded",)),
    "task_failed_total": ("Tasks that failed.", ("failed", "aborted", "interrupted")),
    "task_timeout_total": ("Tasks that ran out of time.", ("timed_out",)),
    "task_rejected_total": ("Tasks that were refused.", ("refused",)),
}
_SAME = {
    "tasks_currently_executing": ("harness_delegate_tasks_running", "Tasks that run now."),
    "delegate_connected": ("harness_delegate_up", "1 while the manager is reached."),
}


class HarnessNames(Collector):
    """Reads another registry at each scrape."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        ended: dict[str, float] = {}
        seconds = tasks = running = capacity = 0.0
        values: dict[str, float] = {}
        for family in self._registry.collect():
            for sample in family.samples:
                if sample.name == "harness_delegate_tasks_total":
                    outcome = sample.labels["outcome"]
                    ended[outcome] = ended.get(outcome, 0.0) + sample.value
                elif sample.name == "harness_delegate_task_duration_seconds_sum":
                    seconds += sample.value
                elif sample.name == "harness_delegate_task_duration_seconds_count":
                    tasks += sample.value
                else:
                    values.setdefault(sample.name, sample.value)
        running, capacity = values.get("harness_delegate_tasks_running", 0.0), values.get("harness_delegate_task_capacity", 0.0)
        for name, (about, outcomes) in _COUNTERS.items():
            yield CounterMetricFamily(_PREFIX + name, about, value=sum(ended.get(outcome, 0.0) for outcome in outcomes))
        for name, (ours, about) in _SAME.items():
            yield GaugeMetricFamily(_PREFIX + name, about, value=values.get(ours, 0.0))
        mean = seconds / tasks if tasks else 0.0
        yield GaugeMetricFamily(_PREFIX + "task_execution_time", "Mean time of a task, in seconds.", value=mean)
        above = float(bool(capacity) and running >= capacity)
        yield GaugeMetricFamily(_PREFIX + "resource_consumption_above_threshold", "1 while every slot is taken.", value=above)
