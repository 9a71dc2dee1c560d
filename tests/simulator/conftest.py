"""A simulated cluster per test, and a client for it."""

from collections.abc import AsyncIterator

import pytest

from delegate.simulator.server import Simulator
from tests.simulator.clients import Client


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    async with Simulator() as running:
        yield running


@pytest.fixture
async def client(simulator: Simulator) -> AsyncIterator[Client]:
    async with Client(simulator.url, simulator.admin_token) as made:
        await made.post("/api/v1/namespaces", {"metadata": {"name": "rec"}})
        yield made
