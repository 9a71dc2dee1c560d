"""The manager's metrics, in a registry of their own. No label holds a task, a delegate or a token."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, PlatformCollector, ProcessCollector, disable_created_metrics
from prometheus_client.exposition import choose_encoder


class ManagerMetrics:
    """Counters are told; gauges are set by the sweep, or read when they are scraped."""

    def __init__(self, version: str = "") -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # else a second series for each counter
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        registry = self.registry
        self._requests = Counter(
            "delegate_manager_requests_total", "Requests that were answered.", ("route", "method", "code"), registry=registry
        )
        self._request_seconds = Histogram(
            "delegate_manager_request_duration_seconds", "Time until the answer, waits of polls included.", ("route",), registry=registry
        )
        self._finished = Counter("delegate_manager_tasks_finished_total", "Tasks that ended.", ("kind", "outcome"), registry=registry)
        self._tasks = Gauge("delegate_manager_tasks", "Tasks that have not ended.", ("state",), registry=registry)
        self._delegates = Gauge("delegate_manager_delegates", "Delegates that are not revoked.", ("state",), registry=registry)
        self._expired = Counter("delegate_manager_leases_expired_total", "Attempts whose lease ran out.", registry=registry)
        self._dead_letters = Gauge(
            "delegate_manager_dead_letters", "Dead letters that nobody sent round or purged; counted up to 10,000.", registry=registry
        )
        self._build = Gauge("delegate_manager_build_info", "Always 1; what runs, in labels.", ("version",), registry=registry)
        self._build.labels(version).set(1)
        for state in ("queued", "running"):
            self._tasks.labels(state).set(0)
        for state in ("connected", "disconnected"):
            self._delegates.labels(state).set(0)

    def record_request(self, route: str, method: str, status: int, seconds: float) -> None:
        self._requests.labels(route, method, str(status)).inc()
        self._request_seconds.labels(route).observe(seconds)

    def record_finished(self, kind: str, outcome: str) -> None:
        self._finished.labels(kind, outcome).inc()

    def record_expired(self, count: int) -> None:
        self._expired.inc(count)

    def set_counts(self, *, queued: int, running: int, connected: int, disconnected: int) -> None:
        self._tasks.labels("queued").set(queued)
        self._tasks.labels("running").set(running)
        self._delegates.labels("connected").set(connected)
        self._delegates.labels("disconnected").set(disconnected)

    def set_dead_letters(self, count: int) -> None:
        self._dead_letters.set(count)

    def watch(self, name: str, words: str, read: Callable[[], float]) -> None:
        """A gauge `delegate_manager_<name>` that is read when it is scraped."""
        Gauge(f"delegate_manager_{name}", words, registry=self.registry).set_function(read)

    def expose(self, accept: str = "") -> tuple[bytes, str]:
        """All of them in the form that an `Accept` header asks for, and its content type."""
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type
