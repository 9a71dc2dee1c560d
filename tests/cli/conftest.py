"""What tests of commands share."""

import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.cli.clusters import Bench, set_up_bench
from tests.daemon.networks.servers import directory, program


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    """A simulated cluster, and a person's home with its kubeconfig."""
    home = tmp_path / "home"
    home.mkdir()
    async with set_up_bench(home) as made:
        yield made


@pytest.fixture
def place() -> Iterator[Path]:
    """Where the other user may write, and may get to."""
    separate = [program("unshare", "util-linux"), "--mount", "true"]
    if os.geteuid() != 0 or subprocess.run(separate, capture_output=True, check=False).returncode:
        pytest.skip("only root becomes somebody else")
    with directory() as made:
        for name in ("python", "writable"):
            (made / name).mkdir()
        (made / "writable").chmod(0o777)
        yield made
