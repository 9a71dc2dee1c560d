"""Puts the demo's parts up in a temporary directory, in order, and takes them down again: nothing of it is left."""

import asyncio
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from delegate.demo.clusters import ClusterView
from delegate.demo.errors import MissingPartError
from delegate.demo.operators import Operator
from delegate.demo.processes import DelegateProcess
from delegate.demo.repositories import Repository
from delegate.foundation.secrets import Secret
from delegate.manager.service import Manager
from delegate.simulator.server import Simulator

NAMESPACE = "shop"
DELEGATE = "demo"
LABELS = {"env": "demo"}
_USER = "delegate"


@dataclass(frozen=True)
class Stage:
    """Everything that plays along. `cluster` is the look past the delegate."""

    manager: Manager
    simulator: Simulator
    repository: Repository
    operator: Operator
    delegate: DelegateProcess
    cluster: ClusterView

    @property
    def writes(self) -> int:
        """Write requests that the delegate has sent to the cluster so far."""
        return self.simulator.requests.writes(_USER)


@asynccontextmanager
async def set_stage(*, port: int = 0) -> AsyncIterator[Stage]:
    """The parts, running. `port` is the manager's. Raises MissingPartError, ManagerStartError, DemoError."""
    async with AsyncExitStack() as exits:
        directory = Path(exits.enter_context(tempfile.TemporaryDirectory(prefix="delegate-demo-", ignore_cleanup_errors=True)))
        repository = await exits.enter_async_context(_repository(directory))
        manager = await exits.enter_async_context(Manager(state_dir=directory / "manager", listen=f"127.0.0.1:{port}"))
        simulator = await exits.enter_async_context(Simulator())
        token = secrets.token_urlsafe(24)
        simulator.add_user(token, _USER, "system:masters")
        operator = await exits.enter_async_context(Operator(manager.url, manager.admin_token))
        cluster = await exits.enter_async_context(ClusterView(simulator.url, simulator.admin_token, NAMESPACE))
        home = directory / "delegate"
        await asyncio.to_thread(home.mkdir, mode=0o700)
        delegate = await exits.enter_async_context(
            DelegateProcess(
                home,
                name=DELEGATE,
                manager_url=manager.url,
                token=Secret(await operator.create_token(DELEGATE, LABELS)),
                kubeconfig=simulator.kubeconfig(token=token),
            )
        )
        await delegate.wait_until_connected(operator)
        yield Stage(manager, simulator, repository, operator, delegate, cluster)


def _repository(directory: Path) -> Repository:
    if shutil.which("git") is None:
        raise MissingPartError("git is not on PATH", hint="install git first")
    return Repository(directory)
