"""Every metric of the delegate, declared in one place, in a registry of its own. No label ever holds a task id.

Parts are given the one `DelegateMetrics` of the process, or callables made from it; they never look one up.
"""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, PlatformCollector, ProcessCollector, disable_created_metrics
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric

from delegate.foundation.telemetry.harness_names import HarnessNames

DEAD_LETTER_REASONS = ("undecodable", "superseded", "conflict", "invalid", "payload_too_large", "retries_exhausted")
DEAD_LETTER_ENDINGS = ("sent", "already_there", "failed", "damaged", "given_up")
ROTATION_OUTCOMES = ("rotated", "enrolled", "adopted", "failed", "rejected")
SOURCE_KINDS = ("git", "helm", "kustomize", "decode")
_TASK_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1200, 3600)


class _Both:
    """Two registries as one, for an encoder."""

    def __init__(self, *registries: CollectorRegistry) -> None:
        self._registries = registries

    def collect(self) -> Iterator[Metric]:
        for registry in self._registries:
            yield from registry.collect()


class DelegateMetrics:
    """The metrics of one delegate.

    Counters with a closed set of labels start at 0 with each of them, so that the first increase is one. Gauges about what
    may not exist (an expiry) appear when they are first set.
    """

    def __init__(
        self,
        delegate: str,
        *,
        version: str = "",
        protocol: str = "",
        dead_letter_reasons: Iterable[str] = DEAD_LETTER_REASONS,
    ) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # else a second series for each counter, which nobody asks for
        self.registry = CollectorRegistry()
        self._delegate = delegate
        self._last_status: dict[str, str] = {}
        self._ended: dict[tuple[str, str], tuple[Counter, Histogram]] = {}  # what `labels` finds, which looks longer than it counts
        self._shown: set[Gauge] = set()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._declare_tasks()
        self._declare_link(version, protocol)
        self._declare_parts()
        self._declare_dead_letters(dead_letter_reasons)

    def _declare_tasks(self) -> None:
        self.task_capacity = Gauge("harness_delegate_task_capacity", "Slots of the pool.", registry=self.registry)
        self.tasks_running = Gauge("harness_delegate_tasks_running", "Tasks that run now.", registry=self.registry)
        self._tasks = Counter("harness_delegate_tasks_total", "Tasks that ended.", ("kind", "outcome"), registry=self.registry)
        self._task_seconds = Histogram(
            "harness_delegate_task_duration_seconds",
            "Time from hand-out to result.",
            ("kind",),
            buckets=_TASK_SECONDS,
            registry=self.registry,
        )
        self._sync_seconds = Gauge(
            "harness_delegate_sync_duration_seconds",
            "Time that the last sync of an application took, under its last status only.",
            ("application", "status"),
            registry=self.registry,
        )
        self._source_errors = Counter(
            "harness_delegate_source_errors_total",
            "Sources that could not be fetched, rendered or decoded.",
            ("kind",),
            registry=self.registry,
        )
        for kind in SOURCE_KINDS:
            self._source_errors.labels(kind)
        self._api_requests = Counter(
            "harness_delegate_api_requests_total", "Requests to API servers of clusters.", ("verb", "code"), registry=self.registry
        )

    def _declare_link(self, version: str, protocol: str) -> None:
        self.up = Gauge("harness_delegate_up", "1 while the control lane to the manager is fresh.", registry=self.registry)
        self.outbox_entries = Gauge(
            "harness_delegate_outbox_entries", "Results that the manager has not acknowledged yet.", registry=self.registry
        )
        self._token_expiry = Gauge(
            "harness_delegate_token_expiry_timestamp_seconds", "When the delegate token ends, in Unix time.", registry=None
        )
        self._certificate_expiry = Gauge(
            "harness_delegate_certificate_expiry_timestamp_seconds", "When the certificate ends, in Unix time.", registry=None
        )
        self._rotations = Counter(
            "harness_delegate_certificate_rotations_total",
            "Certificates that came into use (rotated, enrolled, adopted from elsewhere), and tries that failed or found no whole pair.",
            ("outcome",),
            registry=self.registry,
        )
        for outcome in ROTATION_OUTCOMES:
            self._rotations.labels(outcome)
        self.clock_skew = Gauge(
            "harness_delegate_clock_skew_seconds", "By how much this machine's clock is ahead of the manager's.", registry=self.registry
        )
        self._build = Gauge(
            "harness_delegate_build_info", "Always 1; what runs, in labels.", ("version", "protocol", "skew"), registry=self.registry
        )
        self._version, self._protocol = version, protocol
        self.set_skew("unknown")

    def _declare_parts(self) -> None:
        self._part_deaths = Counter(
            "harness_delegate_part_deaths_total",
            "Parts of the process that died and were started again.",
            ("part",),
            registry=self.registry,
        )
        self._retries = Counter("harness_delegate_retries_total", "Steps tried again inside an attempt.", ("step",), registry=self.registry)
        self.loop_lag = Gauge("harness_delegate_loop_lag_seconds", "How late the main event loop runs.", registry=self.registry)
        self.log_lines_dropped = Gauge(
            "harness_delegate_log_lines_dropped", "Log lines dropped because nobody read them fast enough.", registry=self.registry
        )

    def _declare_dead_letters(self, reasons: Iterable[str]) -> None:
        self._dead_letters = Counter("dlq_entries_total", "Dead letters written, by why.", ("delegate", "reason"), registry=self.registry)
        for reason in reasons:
            self._dead_letters.labels(self._delegate, reason)
        self.dlq_spool_entries = Gauge("harness_delegate_dlq_spool_entries", "Dead letters on this disk.", registry=self.registry)
        self.dlq_spool_bytes = Gauge(
            "harness_delegate_dlq_spool_bytes", "Bytes of dead letters on this disk, damaged ones included.", registry=self.registry
        )
        self._dead_letter_endings = Counter(
            "harness_delegate_dlq_endings_total",
            "Tries to move a dead letter to the bucket, and letters that were damaged or made room for others.",
            ("ending",),
            registry=self.registry,
        )
        for ending in DEAD_LETTER_ENDINGS:
            self._dead_letter_endings.labels(ending)

    def record_task(self, kind: str, outcome: str, seconds: float) -> None:
        """A task that ended."""
        found = self._ended.get((kind, outcome))
        if found is None:
            found = self._ended[kind, outcome] = self._tasks.labels(kind, outcome), self._task_seconds.labels(kind)
        counter, histogram = found
        counter.inc()
        histogram.observe(seconds)

    def record_sync(self, application: str, status: str, seconds: float) -> None:
        """The last sync of an application; what was told under another status goes."""
        last = self._last_status.get(application)
        if last is not None and last != status:
            self._sync_seconds.remove(application, last)
        self._last_status[application] = status
        self._sync_seconds.labels(application, status).set(seconds)

    def forget_application(self, application: str) -> None:
        """An application that is not this delegate's any more."""
        last = self._last_status.pop(application, None)
        if last is not None:
            self._sync_seconds.remove(application, last)

    def record_source_error(self, kind: str) -> None:
        self._source_errors.labels(kind).inc()

    def record_api_request(self, verb: str, code: str) -> None:
        self._api_requests.labels(verb, code).inc()

    def record_part_death(self, part: str, error: BaseException | None = None) -> None:
        """Fits `supervise(on_death=...)`."""
        self._part_deaths.labels(part).inc()

    def record_retry(self, step: str) -> None:
        self._retries.labels(step).inc()

    def record_dead_letter(self, reason: str) -> None:
        self._dead_letters.labels(self._delegate, reason).inc()

    def record_dead_letter_ending(self, ending: str) -> None:
        """One of DEAD_LETTER_ENDINGS."""
        self._dead_letter_endings.labels(ending).inc()

    def record_rotation(self, outcome: str) -> None:
        """One of ROTATION_OUTCOMES."""
        self._rotations.labels(outcome).inc()

    def set_token_expiry(self, unix_seconds: float | None) -> None:
        """None: it is not known, or there is no token any more."""
        self._set_or_hide(self._token_expiry, unix_seconds)

    def set_certificate_expiry(self, unix_seconds: float | None) -> None:
        """None: there is no certificate."""
        self._set_or_hide(self._certificate_expiry, unix_seconds)

    def set_skew(self, skew: str) -> None:
        """How this delegate's version stands to the manager's: `none`, `older`, `newer`, `unknown`."""
        self._build.clear()
        self._build.labels(self._version, self._protocol, skew).set(1)

    def watch(self, gauge: Gauge, read: Callable[[], float]) -> None:
        """Has a gauge of this object read its value whenever it is scraped, from the scraping thread."""
        gauge.set_function(read)

    def expose(self, accept: str = "") -> tuple[bytes, str]:
        """All of them in the form that an `Accept` header asks for, and its content type."""
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type

    def expose_with_aliases(self, accept: str = "") -> tuple[bytes, str]:
        """As `expose`, with the names of the Harness Delegate's metrics beside ours."""
        aliases = CollectorRegistry()
        aliases.register(HarnessNames(self.registry))
        encode, content_type = choose_encoder(accept)
        return encode(_Both(self.registry, aliases)), content_type

    def _set_or_hide(self, gauge: Gauge, value: float | None) -> None:
        if value is None:
            if gauge in self._shown:
                self._shown.discard(gauge)
                self.registry.unregister(gauge)
            return
        gauge.set(value)
        if gauge not in self._shown:
            self._shown.add(gauge)
            self.registry.register(gauge)
