"""A manager that speaks TLS with a certificate of its own authority, and delegates that believe it."""

import datetime as dt
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from delegate.daemon.service import Daemon
from delegate.foundation.clocks import SystemClock
from delegate.foundation.settings.programs import DelegateSettings
from delegate.manager.authority import AUTHORITIES_FILE
from delegate.manager.service import Manager
from delegate.manager.settings import Rhythm
from tests.daemon.harness import QUICK_RHYTHM, Operator, settings_for

PATIENT_RHYTHM = msgspec.structs.replace(QUICK_RHYTHM, lease_seconds=30.0)
"""A heartbeat has a third of the lease for its answer: on a busy machine that is no fault of certificates."""


@asynccontextmanager
async def secured_manager(directory: Path, *, rhythm: Rhythm = PATIENT_RHYTHM, **options: Any) -> AsyncIterator[Operator]:
    async with Manager(state_dir=directory / "manager", rhythm=rhythm, tls_self=True, **options) as manager:
        context = ssl.create_default_context(cafile=directory / "manager" / AUTHORITIES_FILE)
        async with aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {manager.admin_token}"}, connector=aiohttp.TCPConnector(ssl=context)
        ) as session:
            yield Operator(manager, session)


def secured_settings(operator: Operator, token: str, directory: Path, name: str = "delegate", **variables: str) -> DelegateSettings:
    """Of a delegate that believes the manager by the file of its authority."""
    variables = {"DELEGATE_MANAGER_CA_FILE": str(operator.manager._state_dir / AUTHORITIES_FILE), **variables}
    return settings_for(operator.manager.url, token, directory / name, **variables)


class ShiftedClock(SystemClock):
    """The machine's clock, wrong by so many seconds."""

    def __init__(self, ahead_seconds: float) -> None:
        self._ahead = dt.timedelta(seconds=ahead_seconds)

    def jump(self, seconds: float) -> None:
        """Somebody sets it, or it was a virtual machine that was paused."""
        self._ahead += dt.timedelta(seconds=seconds)

    def now(self) -> dt.datetime:
        return super().now() + self._ahead


def metric(daemon: Daemon, name: str, **labels: str) -> float:
    """The value of a metric of the daemon's; -1 where it isn't exposed."""
    value = daemon.metrics.registry.get_sample_value(name, labels)
    return -1.0 if value is None else value


def rotations(daemon: Daemon, outcome: str) -> int:
    return int(metric(daemon, "harness_delegate_certificate_rotations_total", outcome=outcome))


def serial_in_use(daemon: Daemon) -> str:
    """Of the certificate that new connections show; empty for none."""
    certificate = daemon._certificates.holder.certificate
    return certificate.serial if certificate is not None and daemon._certificates._contexts._shown[0] is not None else ""


def faults(daemon: Daemon) -> float:
    """Calls to the manager that brought no answer, or a no."""
    return sum(
        sample.value
        for family in daemon.metrics.registry.collect()
        if family.name == "harness_delegate_connection_faults"
        for sample in family.samples
        if sample.name.endswith("_total") and sample.labels["reason"] != "idle_cut"
    )
