"""Starts the simulated cluster for one test."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from delegate.simulator.server import Simulator


@asynccontextmanager
async def simulated_server(directory: Path, *, tls: bool = False) -> AsyncIterator[tuple[Path, Path, Simulator]]:
    """The kubeconfigs of an administrator and of a user who may do nothing, and the cluster itself."""
    async with Simulator(speed=10.0, tls=tls) as simulator:
        admin, limited = directory / "simulator.kubeconfig", directory / "simulator-limited.kubeconfig"
        admin.write_text(simulator.kubeconfig())
        limited.write_text(simulator.kubeconfig(token=simulator.limited_token, context="limited"))
        yield admin, limited, simulator
