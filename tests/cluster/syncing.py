"""Runs sync and diff tasks the way a local command does: real sources, a real registry, one attempt."""

import asyncio
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from delegate.engine.clusters.registry import ClusterRegistry, ClusterSettings
from delegate.engine.sources.manifests import Sources
from delegate.engine.tasks.building import Engine
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.preparing import Parts
from delegate.engine.tasks.querying import PathQueries
from delegate.engine.tasks.stopping import StopSignal
from delegate.engine.verification.providers.registry import load_providers
from delegate.foundation.lifecycle.retrying import Retrying
from delegate.model.leases import LEASE_SECONDS
from delegate.model.resources import JsonObject
from delegate.model.results import ResourceResult, TaskResult
from delegate.model.tasks import Task, read_task

_FAST = Retrying(max_attempts=4, base_seconds=0.01, max_seconds=0.1, max_duration_seconds=20.0)


def _told(event: str, data: JsonObject) -> None:
    del event, data


@dataclass
class Syncer:
    """One Application's source directory and the engine that syncs it. `write` replaces what the directory holds."""

    engine: Engine
    directory: Path
    namespace: str
    application: str = "shop"
    sync_options: list[str] = field(default_factory=list)
    spec: JsonObject = field(default_factory=dict)
    on_event: Callable[[str, JsonObject], None] = _told

    def write(self, objects: Iterable[JsonObject] | str, name: str = "set.yaml") -> None:
        """Objects, or text as it stands; a file at a time."""
        self.directory.mkdir(exist_ok=True)
        text = objects if isinstance(objects, str) else "\n---\n".join(msgspec.json.encode(each).decode() for each in objects)
        (self.directory / name).write_text(text)

    async def run(
        self, kind: str = "sync", *, timeout: str = "30s", stop: StopSignal | None = None, task: str = "task-1", **options: object
    ) -> TaskResult:
        document = {
            "kind": kind,
            "application": self.application,
            "destination": {"namespace": self.namespace},
            "timeout": timeout,
            "spec": {
                "source": {"path": str(self.directory)},
                "syncPolicy": {"syncOptions": self.sync_options},
                **self.spec,
            },
            "options": options,
        }
        return await self._attempt(read_task(document), stop or StopSignal(), task)

    async def _attempt(self, task: Task, stop: StopSignal, task_id: str = "task-1") -> TaskResult:
        context = AttemptContext(
            task_id=task_id,
            attempt_id=str(uuid.uuid4()),
            deadline=asyncio.get_running_loop().time() + task.timeout_seconds,
            stop=stop,
            report=self.on_event,
        )
        return await self.engine.run(task, context)

    async def verify(self, *checks: JsonObject) -> TaskResult:
        document = {
            "kind": "verify",
            "application": self.application,
            "destination": {"namespace": self.namespace},
            "timeout": "30s",
            "spec": {"verification": list(checks)},
        }
        return await self._attempt(read_task(document), StopSignal())

    async def roll_back(
        self, *, timeout: str = "30s", options: JsonObject | None = None, task: str = "", stop: StopSignal | None = None, **spec: object
    ) -> TaskResult:
        """Not watched afterwards, unless that is asked for."""
        document = {
            "kind": "rollback",
            "application": self.application,
            "destination": {"namespace": self.namespace},
            "timeout": timeout,
            "spec": {"watch": "0s", **spec},
            "options": options or {},
        }
        return await self._attempt(read_task(document), stop or StopSignal(), task or str(uuid.uuid4()))

    async def sync(self, *, timeout: str = "30s", **options: object) -> TaskResult:
        return await self.run("sync", timeout=timeout, stop=None, **options)  # type: ignore[arg-type]

    async def diff(self) -> TaskResult:
        return await self.run("diff")


def syncer_for(
    kubeconfig: Path, directory: Path, namespace: str, application: str = "shop", *, lease_seconds: int = LEASE_SECONDS
) -> Syncer:
    registry = ClusterRegistry(ClusterSettings(kubeconfig=str(kubeconfig), directory=directory / "keys", policy=_FAST), environment={})
    sources = Sources(cache_dir=directory / "cache", allow_local=True, environment={})
    queries = PathQueries(directory / "queries")
    parts = Parts(
        sources=sources,
        clusters=registry,
        retrying=_FAST,
        queries=queries,
        lease_seconds=lease_seconds,
        providers=load_providers(None, {}),
    )
    engine = Engine(parts)
    return Syncer(engine, directory / f"source-{application}", namespace, application)


def actions(result: TaskResult) -> dict[str, str]:
    """What became of each object, by kind and name."""
    return {f"{resource.kind}/{resource.name}": resource.action.value for resource in result.resources}


def resource(result: TaskResult, kind: str, name: str) -> ResourceResult:
    return next(each for each in result.resources if (each.kind, each.name) == (kind, name))


def deployment(name: str = "web", image: str = "nginx:1.0", replicas: int = 2, **metadata: object) -> JsonObject:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, **metadata},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": image}]}},
        },
    }


def settings_map(name: str = "settings", data: dict[str, str] | None = None, **metadata: object) -> JsonObject:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": data or {"level": "info"}}
