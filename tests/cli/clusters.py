"""A simulated cluster for a test, and the program run against it as a child process."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from delegate.simulator.server import Simulator
from tests.cli.programs import Ended, environment, run

LIMITED = "a-token-of-somebody-with-few-rights"


@dataclass(frozen=True)
class Bench:
    """`home` is the person's: kubeconfig, state and caches are below it."""

    simulator: Simulator
    home: Path

    @property
    def kubeconfig(self) -> Path:
        return self.home / ".kube" / "config"

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        return environment({"HOME": str(self.home), **(extra or {})})

    async def run(self, *arguments: str, env: Mapping[str, str] | None = None) -> Ended:
        """`delegate ARGUMENTS` in a child process, while the cluster goes on in this one."""
        return await asyncio.to_thread(run, *arguments, env={"HOME": str(self.home), **(env or {})})

    async def read(self, path: str) -> Any:
        """What the cluster has at a path of its API; None where there is nothing."""
        headers = {"Authorization": f"Bearer {self.simulator.admin_token}"}
        async with aiohttp.ClientSession(headers=headers) as session, session.get(self.simulator.url + path, ssl=False) as answer:
            return None if answer.status == 404 else await answer.json()

    async def create(self, path: str, body: dict[str, Any]) -> None:
        headers = {"Authorization": f"Bearer {self.simulator.admin_token}"}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.post(self.simulator.url + path, json=body, ssl=False) as answer,
        ):
            assert answer.status == 201, await answer.text()

    def write_kubeconfig(self, name: str, *, token: str | None = None, server: str | None = None) -> Path:
        """A kubeconfig that differs from the right one."""
        document = yaml.safe_load(self.simulator.kubeconfig())
        if token is not None:
            document["users"][0]["user"] = {"token": token}
        if server is not None:
            document["clusters"][0]["cluster"]["server"] = server
        path = self.home / name
        path.write_text(yaml.safe_dump(document))
        return path


@asynccontextmanager
async def set_up_bench(home: Path, *, tls: bool = False) -> AsyncIterator[Bench]:
    """A cluster, and a home with its kubeconfig where programs look for it."""
    async with Simulator(limited_token=LIMITED, speed=10.0, tls=tls) as simulator:
        bench = Bench(simulator, home)
        bench.kubeconfig.parent.mkdir(parents=True)
        bench.kubeconfig.write_text(simulator.kubeconfig())
        yield bench
