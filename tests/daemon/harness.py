"""A real manager and real daemons in this process, with executors of the test's own instead of an engine."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from delegate.daemon.connection.transport import Limits
from delegate.daemon.deadletters.courier import CourierRules
from delegate.daemon.deadletters.letter import Letter
from delegate.daemon.deadletters.sealing import read
from delegate.daemon.pool.workers import PoolRules
from delegate.daemon.service import Daemon, DaemonRules, Ending
from delegate.engine.tasks.contexts import AttemptContext
from delegate.foundation.clocks import SYSTEM_CLOCK, Clock
from delegate.foundation.lifecycle import DeathLimit, StopReason, StopRequests
from delegate.foundation.settings.loading import load
from delegate.foundation.settings.programs import DelegateSettings
from delegate.manager.service import Manager
from delegate.manager.settings import Limits as ManagerLimits
from delegate.manager.settings import Rhythm
from delegate.model.results import Outcome, TaskResult
from delegate.model.tasks import Task
from delegate.protocol.enrolment import ClusterName
from tests.daemon.waiting import eventually
from tests.fakes.fault_proxy import FaultProxy, fault_proxy

Json = dict[str, Any]
Run = Callable[[Task, AttemptContext], Awaitable[TaskResult]]
QUICK_RHYTHM = Rhythm(
    lease_seconds=2.0,
    heartbeat_seconds=0.2,
    poll_seconds=1.0,
    grace_seconds=2.0,
    requeue_base_seconds=0.05,
    sweep_seconds=0.1,
)
QUICK_RULES = DaemonRules(
    pool=PoolRules(kill_grace=0.5, turn_wait=2.0),
    courier=CourierRules(look_seconds=0.1),
    limits=Limits(connect=0.5, stall=0.6, slack=0.6),
    deaths=DeathLimit(base_seconds=0.01, max_seconds=0.05),
)
PATIENT_RULES = dataclasses.replace(QUICK_RULES, limits=Limits(connect=20.0, stall=20.0, slack=20.0))
"""For tests without a faulty network: on a busy machine an answer may take its time, and that is no fault."""


def result_of(task: Task, context: AttemptContext, outcome: Outcome = Outcome.SUCCEEDED, message: str = "") -> TaskResult:
    return TaskResult(
        task=context.task_id,
        attempt=context.attempt_id,
        kind=task.kind.value,
        application=task.application,
        outcome=outcome,
        message=message,
    )


async def succeed(task: Task, context: AttemptContext) -> TaskResult:
    return result_of(task, context)


@dataclass
class TestEngine:
    """Runs what the test says, and counts the attempts that it began."""

    __test__ = False
    execute: Run = succeed
    kinds: tuple[str, ...] = ("sync", "diff")
    clusters: tuple[ClusterName, ...] = (ClusterName(name="in-cluster", uid="u-1"),)
    began: list[str] = field(default_factory=list)

    async def run(self, task: Task, context: AttemptContext) -> TaskResult:
        self.began.append(context.attempt_id)
        return await self.execute(task, context)

    async def announce_clusters(self) -> tuple[ClusterName, ...]:
        return self.clusters

    async def close(self) -> None:
        return None


@dataclass
class Operator:
    """What an operator asks the manager."""

    manager: Manager
    session: aiohttp.ClientSession

    async def ask(self, method: str, path: str, body: Json | None = None) -> Json:
        async with self.session.request(method, f"{self.manager.url}/api/v1{path}", json=body) as response:
            answer: Json = await response.json()
            assert response.status < 300, answer
            return answer

    async def token(self) -> str:
        created = await self.ask("POST", "/tokens", {"name": "shop", "scope": "GITOPS"})
        return str(created["secret"])

    async def submit(self, application: str, **fields: Any) -> str:
        document = {
            "kind": "sync",
            "application": application,
            "destination": {"name": "in-cluster"},
            "spec": {"source": {"repoURL": "https://git.example/config.git"}},
            **fields,
        }
        created = await self.ask("POST", "/tasks", document)
        return str(created["task"]["id"])

    async def show(self, task: str) -> Json:
        """The task, its attempts oldest first."""
        shown = await self.ask("GET", f"/tasks/{task}")
        shown["attempts"].sort(key=lambda attempt: attempt["fence"])
        return shown

    async def finished(self, task: str, *, within: float = 20.0) -> Json:
        """The task once it is final."""
        return await self.until(task, lambda shown: bool(shown["task"]["state"] == "finished"), within=within)

    async def until(self, task: str, condition: Callable[[Json], bool], *, within: float = 20.0) -> Json:
        """The task once the condition holds for it."""
        async with asyncio.timeout(within):
            while True:
                shown = await self.show(task)
                if condition(shown):
                    return shown
                await asyncio.sleep(0.03)

    async def delegates(self) -> list[Json]:
        items: list[Json] = (await self.ask("GET", "/delegates"))["items"]
        return items


@asynccontextmanager
async def running_manager(
    directory: Path, *, rhythm: Rhythm = QUICK_RHYTHM, listen: str = "127.0.0.1:0", limits: ManagerLimits | None = None
) -> AsyncIterator[Operator]:
    kept = limits if limits is not None else ManagerLimits()
    async with Manager(state_dir=directory / "manager", rhythm=rhythm, listen=listen, limits=kept) as manager:
        headers = {"Authorization": f"Bearer {manager.admin_token}"}
        async with aiohttp.ClientSession(headers=headers) as session:
            yield Operator(manager, session)
        for _ in range(5):  # connections that just came or went are seen off before the manager ends
            await asyncio.sleep(0)


def settings_for(url: str, token: str, state: Path, **variables: str) -> DelegateSettings:
    environment = {
        "DELEGATE_MANAGER_URL": url,
        "DELEGATE_TOKEN": token,
        "DELEGATE_STATE_DIR": str(state),
        "DELEGATE_DLQ_DIR": str(state / "dead-letters"),
        "DELEGATE_HTTP_PORT": "0",
        "DELEGATE_HTTP_HOST": "127.0.0.1",
        "DELEGATE_DRAIN_TIMEOUT": "3s",
        "DELEGATE_TASK_CAPACITY": "4",
        **variables,
    }
    return load(DelegateSettings, environment=environment).settings


def list_letters(directory: Path) -> list[Letter]:
    """The dead letters on disk, oldest first."""
    return [read(path.read_bytes()) for path in sorted(directory.glob("*.json"))]


@dataclass
class Running:
    """A daemon that runs."""

    daemon: Daemon
    engine: TestEngine
    stops: StopRequests
    task: asyncio.Task[Ending]

    async def registered(self) -> None:
        await eventually(lambda: self.daemon.registered.is_set() or self.task.done())
        if self.task.done():
            self.task.result()

    async def stop(self, reason: StopReason = StopReason.SIGTERM) -> Ending:
        self.stops.request(reason)
        return await self.task


@asynccontextmanager
async def running_behind_proxy(
    directory: Path, engine: TestEngine, *, rules: DaemonRules = QUICK_RULES, rhythm: Rhythm = QUICK_RHYTHM
) -> AsyncIterator[tuple[Operator, FaultProxy, Running]]:
    """A registered daemon that reaches its manager through a fault proxy."""
    async with running_manager(directory, rhythm=rhythm) as operator, fault_proxy(operator.manager.url) as proxy:
        settings = settings_for(proxy.url, await operator.token(), directory / "delegate")
        async with running_daemon(settings, engine, rules=rules) as running:
            await running.registered()
            yield operator, proxy, running


@asynccontextmanager
async def running_daemon(
    settings: DelegateSettings, engine: TestEngine, *, rules: DaemonRules = PATIENT_RULES, clock: Clock = SYSTEM_CLOCK
) -> AsyncIterator[Running]:
    """Stopped in a hurry at the end, if it has not ended before."""
    stops = StopRequests()
    daemon = Daemon(settings, lambda metrics: engine, stops, rules=rules, clock=clock)
    task = asyncio.create_task(daemon.run())
    try:
        yield Running(daemon, engine, stops, task)
    finally:
        stops.request(StopReason.SIGTERM, hurry=True)
        await asyncio.wait([task])
