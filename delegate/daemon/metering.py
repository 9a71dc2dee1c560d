"""Counters of the way to the manager, beside the metrics of the delegate in the same registry."""

from prometheus_client import Counter

from delegate.foundation.telemetry.metrics import DelegateMetrics

_REASONS = (
    *("idle_cut", "unresolved", "unreachable", "proxy", "tls", "untrusted", "silent", "cut", "not_the_manager", "transport"),
    *("overloaded", "unauthorized"),
)
_LANES = ("control", "work")


class LinkCounters:
    """Safe to count from any thread."""

    def __init__(self, metrics: DelegateMetrics) -> None:
        self._faults = Counter(
            "harness_delegate_connection_faults_total",
            "Calls to the manager that brought no answer or a refusal, by why; idle_cut is no fault of anybody's.",
            ("lane", "reason"),
            registry=metrics.registry,
        )
        for lane in _LANES:
            for reason in _REASONS:
                self._faults.labels(lane, reason)
        self._unknown_commands = Counter(
            "harness_delegate_unknown_commands_total", "Commands of a newer manager that were ignored.", registry=metrics.registry
        )
        self._results = Counter(
            "harness_delegate_results_settled_total", "Results by the manager's final verdict.", ("verdict",), registry=metrics.registry
        )

    def count_fault(self, lane: str, reason: str) -> None:
        self._faults.labels(lane, reason).inc()

    def count_unknown_command(self) -> None:
        self._unknown_commands.inc()

    def count_result(self, verdict: str) -> None:
        self._results.labels(verdict).inc()
