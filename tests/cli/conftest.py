"""What tests of commands share."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cli.clusters import Bench, set_up_bench


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    """A simulated cluster, and a person's home with its kubeconfig."""
    home = tmp_path / "home"
    home.mkdir()
    async with set_up_bench(home) as made:
        yield made
