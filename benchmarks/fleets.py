"""Several delegates in one process, whose tasks do nothing, told of by one line a second: certificates, faults, memory."""

import asyncio
import gc
import os
import ssl
from collections.abc import Callable
from pathlib import Path

import msgspec

from benchmarks.idling import IdleEngine
from delegate.daemon.service import Daemon
from delegate.foundation.lifecycle.stops import StopReason, StopRequests
from delegate.foundation.settings.loading import load
from delegate.foundation.settings.programs import DelegateSettings
from delegate.foundation.telemetry.metrics import DelegateMetrics

SIZE_VARIABLE = "BENCH_FLEET_SIZE"
_LOOK_SECONDS = 1.0


class Status(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Of all of them together. `faults` are calls to the manager that failed; `contexts` TLS contexts that are alive."""

    registered: int
    rotated: int
    failed: int
    faults: int
    contexts: int
    descriptors: int
    rss_bytes: int
    threads: int


async def run_fleet(directory: Path, stops: StopRequests, say: Callable[[str, Status], None], began: Callable[[str], None]) -> None:
    """So many delegates as the environment says, each with a state directory below this one, until stopped."""
    daemons = []
    async with asyncio.TaskGroup() as group:
        for number in range(int(os.environ[SIZE_VARIABLE])):
            flags = {"state_dir": str(directory / f"d-{number}"), "dlq_dir": str(directory / f"d-{number}-dlq"), "name": f"d-{number}"}
            own = StopRequests()
            daemon = Daemon(load(DelegateSettings, flags=flags).settings, lambda metrics: IdleEngine(began), own)
            daemons.append((daemon, own))
            group.create_task(daemon.run())
        telling = group.create_task(_tell(daemons, say))
        await stops.wait()
        telling.cancel()
        for _, own in daemons:
            own.request(StopReason.DONE, "", hurry=True)


async def _tell(daemons: list[tuple[Daemon, StopRequests]], say: Callable[[str, Status], None]) -> None:
    while True:
        say("status", _status([daemon for daemon, _ in daemons]))
        await asyncio.sleep(_LOOK_SECONDS)


def _status(daemons: list[Daemon]) -> Status:
    gc.collect()
    contexts = sum(isinstance(each, ssl.SSLContext) for each in gc.get_objects())
    return Status(
        registered=sum(daemon.registered.is_set() for daemon in daemons),
        rotated=sum(_rotations(daemon.metrics, "rotated") for daemon in daemons),
        failed=sum(_rotations(daemon.metrics, "failed") + _rotations(daemon.metrics, "enrolled") - 1 for daemon in daemons),
        faults=sum(_faults(daemon.metrics) for daemon in daemons),
        contexts=contexts,
        descriptors=len(os.listdir("/proc/self/fd")),
        rss_bytes=int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"),
        threads=len(os.listdir("/proc/self/task")),
    )


def _rotations(metrics: DelegateMetrics, outcome: str) -> int:
    return int(metrics.registry.get_sample_value("harness_delegate_certificate_rotations_total", {"outcome": outcome}) or 0)


def _faults(metrics: DelegateMetrics) -> int:
    """Polls that a proxy on the way cut while they were idle are none."""
    return int(
        sum(
            sample.value
            for family in metrics.registry.collect()
            if family.name == "harness_delegate_connection_faults"
            for sample in family.samples
            if sample.name.endswith("_total") and sample.labels["reason"] != "idle_cut"
        )
    )
