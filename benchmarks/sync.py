"""A sync of 1,000 objects, and the same again unchanged, against what the same API server can do.

The set comes from a Git repository on this machine, as a delegate fetches it: a first sync fetches and decodes it, an
unchanged one asks where the branch is. Each round measures everything one after the other, each in a namespace of its own,
after the server's controllers have come to rest; the rounds take turns in who comes first. The raw limit is the same objects
applied bare (`bare`). `DELEGATE_BENCH_KUBECONFIG` names a real control plane to use instead of the simulated one,
`DELEGATE_BENCH_KUBECTL` the kubectl to compare with.
"""

import asyncio
import os
import shutil
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from benchmarks import processes
from benchmarks.bare import BareClient, bare_client
from benchmarks.errors import BrokenRunError
from benchmarks.machine import load_average
from benchmarks.reports import Figure, Report, Target, of_samples
from benchmarks.sets import application_objects, as_yaml
from delegate.engine.clusters.registry import ClusterSettings
from delegate.engine.tasks.building import Engine, build_engine
from delegate.engine.tasks.contexts import AttemptContext
from delegate.foundation.lifecycle.retrying import Retrying
from delegate.model.results import Outcome, TaskResult
from delegate.model.tasks import read_task

KUBECONFIG = "DELEGATE_BENCH_KUBECONFIG"
KUBECTL = "DELEGATE_BENCH_KUBECTL"
_REST_SECONDS = 60.0
_KUBECTL_SECONDS = 180.0
_FILE = "set.yaml"
_KINDS_IN_ORDER = ("ServiceAccount", "Service", "Deployment", "Ingress")
_STEPS = ("resolve", "render", "plan", "apply", "wait")

BARE, SORTED, DRY_RUNS, LIST = "bare applies", "bare applies by kind", "bare dry runs", "bare list"
FIRST, AGAIN, WARM = "first sync", "unchanged sync", "unchanged sync, render cache warm"
KUBECTL_FIRST, KUBECTL_AGAIN = "kubectl apply", "kubectl apply unchanged"


@dataclass(frozen=True)
class Sizes:
    objects: int
    rounds: int


FULL = Sizes(objects=1000, rounds=5)
QUICK = Sizes(objects=8, rounds=1)


@dataclass
class _Measured:
    """Seconds by subject and round, and the results of the syncs."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    first: list[TaskResult] = field(default_factory=list)
    again: list[TaskResult] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, subject: str, seconds: float) -> None:
        self.seconds.setdefault(subject, []).append(seconds)


async def measure(directory: Path, *, quick: bool) -> Report:
    sizes = QUICK if quick else FULL
    async with running_server(directory) as (kubeconfig, server):
        engine = local_engine(kubeconfig, directory)
        try:
            async with bare_client(kubeconfig) as client:
                kubectl, skipped = _find_kubectl()
                bench = _Bench(client, engine, kubeconfig=kubeconfig, directory=directory, kubectl=kubectl, sizes=sizes)
                circumstances = f"{server} {await client.version()}", load_average()
                await bench.prepare()
                for number in range(sizes.rounds):
                    await bench.run_round(number)
        finally:
            await engine.close()
    measured = bench.measured
    return Report(
        subject="sync",
        title=f"{sizes.objects:,} objects in one Application, --no-wait, median of {sizes.rounds}",
        circumstances=(*circumstances, *dict.fromkeys(measured.notes)),
        figures=tuple(_figures(measured, real=bool(os.environ.get(KUBECONFIG)))),
        skipped=(*skipped, *bench.skipped),
    )


class _Bench:
    """`kubectl` is the program's path, empty where there is none."""

    def __init__(self, client: BareClient, engine: Engine, *, kubeconfig: Path, directory: Path, kubectl: str, sizes: Sizes) -> None:
        self.measured = _Measured()
        self.skipped: list[str] = []
        self._client = client
        self._engine = engine
        self._kubeconfig = kubeconfig
        self._directory = directory
        self._kubectl = kubectl
        self._sizes = sizes
        self._source = directory / "source"
        self._file = self._source / _FILE

    async def prepare(self) -> None:
        """Connections, discovery, libraries and the server's own caches are not what is compared: they are warmed up.

        A delegate announces its clusters as it starts, so that is done here too.
        """
        small = self._directory / "small"
        await _make_repository(small, as_yaml(application_objects(8)))
        await _make_repository(self._source, as_yaml(application_objects(self._sizes.objects)))
        await self._engine.announce_clusters()
        async with self._namespace("warm") as namespace:
            await self._client.apply_all(application_objects(8, namespace=namespace))
            await self._run(small, namespace)
            await self._client.list_all(namespace)

    async def run_round(self, number: int) -> None:
        first: list[Callable[[], Awaitable[None]]] = [self._bare, self._syncs, self._bare_by_kind]
        for measure_one in (*(reversed(first) if number % 2 else first), self._dry_runs, self._kubectl_applies):
            await measure_one()

    async def _bare_by_kind(self) -> None:
        async with self._namespace("sorted") as namespace:
            objects = sorted(
                application_objects(self._sizes.objects, namespace=namespace), key=lambda each: _KINDS_IN_ORDER.index(each["kind"])
            )
            self.measured.add(SORTED, await self._client.apply_all(objects))
            await self._rest()

    async def _bare(self) -> None:
        async with self._namespace("bare") as namespace:
            self.measured.add(BARE, await self._client.apply_all(application_objects(self._sizes.objects, namespace=namespace)))
            await self._rest()
            count, seconds = await self._client.list_all(namespace)
            if count < self._sizes.objects:
                raise BrokenRunError(f"{count} objects are there, {self._sizes.objects} were applied")
            self.measured.add(LIST, seconds)

    async def _dry_runs(self) -> None:
        async with self._namespace("dry") as namespace:
            objects = application_objects(self._sizes.objects, namespace=namespace)
            self.measured.add(DRY_RUNS, await self._client.apply_all(objects, dry_run=True))

    async def _syncs(self) -> None:
        async with self._namespace("sync") as namespace:
            result, seconds = await self._run(self._source, namespace)
            if result.outcome is not Outcome.SUCCEEDED or result.summary.created != self._sizes.objects:
                raise BrokenRunError(f"the first sync ended as {result.outcome}: {result.message}")
            self.measured.add(FIRST, seconds)
            self.measured.first.append(result)
            await self._rest()
            async with self._newcomer() as engine:
                await self._unchanged(AGAIN, namespace, engine)
            # Once before it is measured: the server remembers what was asked for last, too.
            for subject in ("", WARM):
                await self._unchanged(subject, namespace, self._engine)

    async def _unchanged(self, subject: str, namespace: str, engine: Engine) -> None:
        result, seconds = await self._run(self._source, namespace, engine)
        if result.outcome is not Outcome.SUCCEEDED or result.summary.unchanged != self._sizes.objects:
            raise BrokenRunError(f"the unchanged sync ended as {result.outcome}: {result.message}")
        self.measured.again.append(result)
        if subject:
            self.measured.add(subject, seconds)

    @asynccontextmanager
    async def _newcomer(self) -> AsyncIterator[Engine]:
        """An engine as after a restart: the mirrors are on its disk, its kinds discovered, and no render is kept."""
        engine = local_engine(self._kubeconfig, self._directory)
        try:
            await engine.announce_clusters()
            async with self._namespace("new") as namespace:
                await self._run(self._directory / "small", namespace, engine)
            yield engine
        finally:
            await engine.close()

    async def _kubectl_applies(self) -> None:
        if not self._kubectl or self.skipped:
            return
        async with self._namespace("kubectl") as namespace:
            for subject in (KUBECTL_FIRST, KUBECTL_AGAIN):
                code, output, seconds = await processes.run(self._kubectl_command(namespace), within=_KUBECTL_SECONDS)
                if code:
                    last = output.strip().splitlines()[-1:] or ["nothing was said"]
                    self.skipped.append(f"{subject}: it exited with {code}: {last[0][:200]}")
                    return
                self.measured.add(subject, seconds)
                await self._rest()

    def _kubectl_command(self, namespace: str) -> tuple[str, ...]:
        where = ("--kubeconfig", str(self._kubeconfig), "--cache-dir", str(self._directory / "kubectl-cache"), "--namespace", namespace)
        return (self._kubectl, *where, "apply", "--server-side", "--filename", str(self._file))

    async def _run(self, source: Path, namespace: str, engine: Engine | None = None) -> tuple[TaskResult, float]:
        engine = engine or self._engine
        task = read_task(
            {
                "kind": "sync",
                "application": "shop",
                "destination": {"namespace": namespace},
                "spec": {"source": {"repoURL": source.as_uri(), "targetRevision": "main", "path": "."}},
                "options": {"wait": False},
            }
        )
        deadline = asyncio.get_running_loop().time() + task.timeout_seconds
        began = time.monotonic()
        result = await engine.run(task, AttemptContext(task_id="bench", attempt_id=str(uuid.uuid4()), deadline=deadline))
        return result, time.monotonic() - began

    @asynccontextmanager
    async def _namespace(self, purpose: str) -> AsyncIterator[str]:
        name = f"bench-{purpose}-{uuid.uuid4().hex[:8]}"
        await self._client.create_namespace(name)
        try:
            await self._rest()
            yield name
        finally:
            await self._client.delete_namespace(name)

    async def _rest(self) -> None:
        if not await self._client.until_quiet(_REST_SECONDS):
            self.measured.notes.append(f"a server whose controllers or other users never came to rest within {_REST_SECONDS:g} s")


def _write(directory: Path, data: bytes) -> None:
    directory.mkdir()
    (directory / _FILE).write_bytes(data)


async def _make_repository(directory: Path, data: bytes) -> None:
    """A Git repository with one file, as a delegate would fetch it."""
    await asyncio.to_thread(_write, directory, data)
    who = ("-c", "user.name=bench", "-c", "user.email=bench@example.com")
    for command in (("init", "--quiet", "--initial-branch", "main"), ("add", _FILE), (*who, "commit", "--quiet", "--message", "A set")):
        code, output, _ = await processes.run(("git", "-C", str(directory), *command), within=30.0)
        if code:
            raise BrokenRunError(f"git {command[0]} exited with {code}: {output.strip()[-300:]}")


@asynccontextmanager
async def running_server(directory: Path) -> AsyncIterator[tuple[Path, str]]:
    given = os.environ.get(KUBECONFIG, "")
    if given:
        yield Path(given), "a real control plane,"
        return
    kubeconfig = directory / "kubeconfig"
    async with processes.running(["-m", "benchmarks.standins", "simulator", str(kubeconfig)], log=directory / "simulator.log") as child:
        await child.hear("ready", within=30.0)
        yield kubeconfig, "the simulated cluster in a process of its own,"


def local_engine(kubeconfig: Path, directory: Path) -> Engine:
    policy = Retrying()
    clusters = ClusterSettings(kubeconfig=str(kubeconfig), directory=directory / "keys", policy=policy)
    return build_engine(
        cache_dir=directory / "cache", clusters=clusters, retrying=policy, allow_local=True, environment=processes.clean_environment()
    )


def _find_kubectl() -> tuple[str, list[str]]:
    wanted = os.environ.get(KUBECTL) or "kubectl"
    found = shutil.which(wanted)
    return (found, []) if found else ("", [f"kubectl apply --server-side: {wanted} is not there; name one with {KUBECTL}"])


def _figures(measured: _Measured, *, real: bool) -> list[Figure]:
    seconds = measured.seconds
    base = seconds[BARE]

    def against_bare(name: str, target: Target | None = None, note: str = "") -> Figure:
        return of_samples(name, seconds[name], "s", against=BARE, base=base, target=target, note=note)

    figures = [
        of_samples(BARE, base, "s"),
        against_bare(SORTED),
        against_bare(DRY_RUNS),
        # The simulated cluster stores nothing on disk, so that our own work is most of the time: the bound is for a real one.
        against_bare(FIRST, Target("ratio", at_most=1.3) if real else None, _requests(measured.first[-1])),
        *_split(measured.first, base),
        of_samples("  all of it, to applies by kind", seconds[FIRST], "s", against=SORTED, base=seconds[SORTED]),
        of_samples(LIST, seconds[LIST], "s"),
        of_samples(
            AGAIN,
            seconds[AGAIN],
            "s",
            against=LIST,
            base=seconds[LIST],
            target=Target("value", at_most=0.3),
            note=_requests(measured.again[-1]),
        ),
        of_samples(WARM, seconds[WARM], "s", against=LIST, base=seconds[LIST], target=Target("value", at_most=0.15)),
        Figure(name="  its requests", value=_count(measured.again), unit="", target=Target("value", at_most=25)),
        Figure(name="  its writes", value=max(each.requests.writes for each in measured.again), unit="", target=Target("value", at_most=0)),
    ]
    if len(seconds.get(KUBECTL_AGAIN, ())) == len(base):
        figures.append(against_bare(KUBECTL_FIRST))
        figures.append(of_samples(KUBECTL_AGAIN, seconds[KUBECTL_AGAIN], "s", against=AGAIN, base=seconds[AGAIN]))
        figures.append(of_samples("first sync to kubectl", seconds[FIRST], "s", against=KUBECTL_FIRST, base=seconds[KUBECTL_FIRST]))
    return figures


def _split(results: list[TaskResult], base: list[float]) -> list[Figure]:
    """Where a sync's time went, as its own result says."""
    named = [step for step in _STEPS if any(result.seconds.get(step, 0.0) >= 0.001 for result in results)]
    return [of_samples(f"  its {step}", [each.seconds.get(step, 0.0) for each in results], "s", against=BARE, base=base) for step in named]


def _count(results: list[TaskResult]) -> float:
    return float(max(each.requests.reads + each.requests.writes + each.requests.dry_runs for each in results))


def _requests(result: TaskResult) -> str:
    counts = msgspec.structs.asdict(result.requests)
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items())
