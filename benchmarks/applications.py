"""Many small Applications of one repository, as a platform team has them: all synced for the first time, then all again unchanged.

Each has four objects and a directory of its own; as many syncs run side by side as a delegate has slots. The raw limit is the same
objects applied bare. `DELEGATE_BENCH_KUBECONFIG` names a real control plane, as for `sync`.
"""

import asyncio
import resource
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import processes
from benchmarks.bare import BareClient, bare_client
from benchmarks.errors import BrokenRunError
from benchmarks.machine import load_average
from benchmarks.reports import Figure, Report, Target, of_samples
from benchmarks.sets import KINDS, application_objects, as_yaml
from benchmarks.sync import local_engine, running_server
from delegate.engine.tasks.building import Engine
from delegate.engine.tasks.contexts import AttemptContext
from delegate.model.results import Outcome, TaskResult
from delegate.model.tasks import read_task

SLOTS = 16
_IN_A_NAMESPACE = 20
_MEBIBYTE = 2**20
_FULL, _QUICK = 1000, 4
_REST_SECONDS = 60.0
BARE, FIRST, AGAIN = "bare applies", "first syncs", "unchanged syncs"


@dataclass
class _Pass:
    """One sync of every Application."""

    seconds: float
    results: list[TaskResult] = field(default_factory=list)

    @property
    def each(self) -> list[float]:
        return sorted(sum(result.seconds.values()) for result in self.results)


async def measure(directory: Path, *, quick: bool) -> Report:
    count = _QUICK if quick else _FULL
    repository = directory / "repository"
    await _make_repository(repository, count)
    async with running_server(directory) as (kubeconfig, server):
        engine = local_engine(kubeconfig, directory)
        try:
            async with bare_client(kubeconfig) as client:
                circumstances = f"{server} {await client.version()}", load_average()
                await engine.announce_clusters()
                bare = await _bare(client, count)
                prefix = f"bench-apps-{uuid.uuid4().hex[:8]}"
                namespaces = [f"{prefix}-{number}" for number in range(-(-count // _IN_A_NAMESPACE))]
                for namespace in namespaces:
                    await client.create_namespace(namespace)
                await client.until_quiet(_REST_SECONDS)
                first = await _sync_all(engine, repository, prefix, count)
                await client.until_quiet(_REST_SECONDS)
                again = await _sync_all(engine, repository, prefix, count)
                for namespace in namespaces:
                    await client.delete_namespace(namespace)
        finally:
            await engine.close()
    if any(result.outcome is not Outcome.SUCCEEDED for result in (*first.results, *again.results)):
        failed = next(result for result in (*first.results, *again.results) if result.outcome is not Outcome.SUCCEEDED)
        raise BrokenRunError(f"the sync of {failed.application} ended as {failed.outcome}: {failed.message}")
    return Report(
        subject="applications",
        title=f"{count:,} Applications of {len(KINDS)} objects each, --no-wait, {SLOTS} at a time",
        circumstances=circumstances,
        figures=tuple(_figures(bare, first, again)),
    )


async def _bare(client: BareClient, count: int) -> float:
    namespace = f"bench-bare-{uuid.uuid4().hex[:8]}"
    await client.create_namespace(namespace)
    seconds = await client.apply_all(application_objects(count * len(KINDS), namespace=namespace))
    await client.until_quiet(_REST_SECONDS)
    await client.delete_namespace(namespace)
    return seconds


async def _sync_all(engine: Engine, repository: Path, prefix: str, count: int) -> _Pass:
    numbers = iter(range(count))
    results: list[TaskResult] = []

    async def work() -> None:
        for number in numbers:
            result = await _sync(engine, repository, f"{prefix}-{number // _IN_A_NAMESPACE}", number)
            results.append(result)

    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for _ in range(SLOTS):
            group.create_task(work())
    return _Pass(time.monotonic() - began, results)


async def _sync(engine: Engine, repository: Path, namespace: str, number: int) -> TaskResult:
    task = read_task(
        {
            "kind": "sync",
            "application": f"app-{number:04d}",
            "destination": {"namespace": namespace},
            "spec": {"source": {"repoURL": repository.as_uri(), "targetRevision": "main", "path": f"apps/{number:04d}"}},
            "options": {"wait": False},
        }
    )
    deadline = asyncio.get_running_loop().time() + task.timeout_seconds
    return await engine.run(task, AttemptContext(task_id="bench", attempt_id=str(uuid.uuid4()), deadline=deadline))


async def _make_repository(directory: Path, count: int) -> None:
    await asyncio.to_thread(_write, directory, count)
    who = ("-c", "user.name=bench", "-c", "user.email=bench@example.com")
    commands = (("init", "--quiet", "--initial-branch", "main"), ("add", "."), (*who, "commit", "--quiet", "--message", "All of them"))
    for command in commands:
        code, output, _ = await processes.run(("git", "-C", str(directory), *command), within=60.0)
        if code:
            raise BrokenRunError(f"git {command[0]} exited with {code}: {output.strip()[-300:]}")


def _write(directory: Path, count: int) -> None:
    objects = application_objects(count * len(KINDS))
    for number in range(count):
        place = directory / "apps" / f"{number:04d}"
        place.mkdir(parents=True)
        (place / "set.yaml").write_bytes(as_yaml(objects[number * len(KINDS) : (number + 1) * len(KINDS)]))


def _figures(bare: float, first: _Pass, again: _Pass) -> list[Figure]:
    writes = sum(result.requests.writes for result in again.results)
    requests = sum(result.requests.reads + result.requests.dry_runs for result in again.results) / len(again.results)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / _MEBIBYTE
    count = len(first.results)
    return [
        of_samples(BARE, [bare], "s"),
        of_samples(FIRST, [first.seconds], "s", against=BARE, base=[bare], target=Target("value", at_most=50.0)),
        Figure(name="  Applications a second", value=count / first.seconds, unit="/s"),
        Figure(name="  one sync, median", value=first.each[count // 2], unit="s"),
        Figure(name="  one sync, 99 of 100", value=first.each[min(count - 1, count * 99 // 100)], unit="s"),
        of_samples(AGAIN, [again.seconds], "s", against=BARE, base=[bare], target=Target("value", at_most=5.0)),
        Figure(name="  writes", value=writes, unit="", target=Target("value", at_most=0)),
        Figure(name="  requests of one", value=requests, unit="", target=Target("value", at_most=25)),
        Figure(name="peak memory of this process", value=peak, unit="MiB", target=Target("value", at_most=200.0)),
    ]
