"""A manager that people start with TLS of its own, as a process that can be killed and started again."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cli import programs
from tests.daemon.waiting import eventually
from tests.process.harness import Child, started


@dataclass
class SecuredManager:
    """Where it is, and how its operator and its delegates reach it."""

    child: Child
    url: str
    directory: Path

    @property
    def authorities(self) -> str:
        return str(self.directory / "authorities.pem")

    def operate(self, *arguments: str) -> programs.Ended:
        """A command of an operator's. Blocking."""
        return programs.run(
            *arguments,
            env={
                "DELEGATE_MANAGER_URL": self.url,
                "DELEGATE_MANAGER_CA_FILE": self.authorities,
                "DELEGATE_API_TOKEN_FILE": str(self.directory / "admin-token"),
            },
        )


@asynccontextmanager
async def secured_manager(directory: Path, *, port: int = 0, **variables: str) -> AsyncIterator[SecuredManager]:
    """`delegate manager serve` once it answers; its state is in `directory/manager`."""
    log = directory / "manager.log"
    already = log.read_text().count('"manager.started"') if log.exists() else 0
    state = directory / "manager"
    async with started(
        log,
        *("-m", "delegate", "manager", "serve"),
        DELEGATE_MANAGER_LISTEN=f"127.0.0.1:{port}",
        DELEGATE_MANAGER_STATE_DIR=str(state),
        DELEGATE_MANAGER_TLS_SELF="true",
        DELEGATE_MANAGER_LEASE="3s",
        DELEGATE_MANAGER_HEARTBEAT="300ms",
        DELEGATE_MANAGER_POLL="2s",
        DELEGATE_MANAGER_GRACE="1s",
        DELEGATE_MANAGER_REQUEUE_BASE="50ms",
        **variables,
    ) as child:
        await eventually(lambda: len(child.logs("manager.started")) > already or child.process.returncode is not None, within=20.0)
        assert child.process.returncode is None, child.text()
        yield SecuredManager(child, str(child.logs("manager.started")[-1]["url"]), state)
