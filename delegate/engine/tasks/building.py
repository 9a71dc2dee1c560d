"""The one place where an engine is wired: settings and shared parts in, something that runs tasks out."""

import gc
from collections.abc import Mapping
from pathlib import Path

from delegate.engine.clusters.metering import OnRequest
from delegate.engine.clusters.registry import ClusterRegistry, ClusterSettings
from delegate.engine.clusters.transport import ProxyFor
from delegate.engine.forges.places import read_forges
from delegate.engine.policies.gates import Gate
from delegate.engine.sources.access.books import AccessBook, ReadSecrets
from delegate.engine.sources.git.writing import Identity
from delegate.engine.sources.manifests import OnFault, Sources
from delegate.engine.sources.settings import RenderSettings
from delegate.engine.tasks.canarying import CanaryRun
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.deleting import DeletionRun
from delegate.engine.tasks.execution import Executor, Run
from delegate.engine.tasks.health_books import HealthBook
from delegate.engine.tasks.helm_commands import HelmCommands
from delegate.engine.tasks.preparing import Parts
from delegate.engine.tasks.provider_secrets import ProviderSecrets
from delegate.engine.tasks.querying import PathQueries
from delegate.engine.tasks.repository_secrets import RepositorySecrets
from delegate.engine.tasks.rolling_back import RollbackRun
from delegate.engine.tasks.safeguarding import SafeguardedSync
from delegate.engine.tasks.sync import SyncRun
from delegate.engine.tasks.updating import GitUpdateRun
from delegate.engine.tasks.verifying import VerifyRun
from delegate.engine.traffic.catalogue import add_routers
from delegate.engine.verification.providers.registry import Providers, load_providers
from delegate.foundation.lifecycle.retrying import Retrying
from delegate.model.results import TaskResult
from delegate.model.tasks import OnSyncFailure, Task, TaskKind
from delegate.protocol.enrolment import ClusterName


class Engine:
    """Runs tasks of every kind that it knows. One for a process; close it in the end."""

    def __init__(self, parts: Parts) -> None:
        add_routers()
        self._parts = parts
        self._executor = Executor(
            {
                TaskKind.SYNC: lambda task, context: _sync_run(task, context, parts),
                TaskKind.DIFF: lambda task, context: _sync_run(task, context, parts),
                TaskKind.CANARY: lambda task, context: CanaryRun(task, context, parts),
                TaskKind.ROLLBACK: lambda task, context: RollbackRun(task, context, parts),
                TaskKind.GIT_UPDATE: lambda task, context: GitUpdateRun(task, context, parts),
                TaskKind.VERIFY: lambda task, context: VerifyRun(task, context, parts),
            }
        )

    @property
    def kinds(self) -> tuple[str, ...]:
        return self._executor.kinds

    async def run(self, task: Task, context: AttemptContext) -> TaskResult:
        """The result of one attempt; raises nothing but CancelledError."""
        return await self._executor.run(task, context)

    async def announce_clusters(self) -> tuple[ClusterName, ...]:
        """The clusters that can be reached now, with each of their names."""
        announced = await self._parts.clusters.announce()
        _keep_what_is_loaded()
        return announced

    async def close(self) -> None:
        if isinstance(self._parts.providers, Providers):
            await self._parts.providers.close()
        await self._parts.clusters.close()


def _sync_run(task: Task, context: AttemptContext, parts: Parts) -> Run:
    """To end an Application is a sync too: to nothing, and for good."""
    if task.options.delete is not None:
        return DeletionRun(task, context, parts)
    spec = task.sync_spec()
    guarded = task.kind is TaskKind.SYNC and (spec.verification or spec.on_failure is not OnSyncFailure.KEEP)
    return SafeguardedSync(task, context, parts) if guarded else SyncRun(task, context, parts)


def build_engine(
    *,
    cache_dir: Path,
    clusters: ClusterSettings,
    retrying: Retrying,
    allow_local: bool = False,
    rendering: RenderSettings | None = None,
    environment: Mapping[str, str],
    on_request: OnRequest | None = None,
    on_source_fault: OnFault | None = None,
    proxy_for: ProxyFor | None = None,
    policies: Path | None = None,
    health_rules: Path | None = None,
    providers: Path | None = None,
) -> Engine:
    """`allow_local`: sources may be directories and repositories of this machine, for commands that people run. `providers`: the file
    of whom checks may ask; without it they ask only where they name a url.

    Raises RuleFileError, PolicyFileError, HealthRuleError or ProviderConfigurationError where a file can't be meant.
    """
    registry = ClusterRegistry(clusters, on_request=on_request, proxy_for=proxy_for, environment=environment)
    rendering = rendering or RenderSettings()
    book = AccessBook(rendering.repositories_dir, read_secrets=_secrets_of(registry, rendering.repositories_namespace))
    sources = Sources(
        cache_dir=cache_dir, allow_local=allow_local, rendering=rendering, book=book, environment=environment, on_fault=on_source_fault
    )
    queries = PathQueries(cache_dir / "queries")
    return Engine(
        Parts(
            sources=sources,
            clusters=registry,
            retrying=retrying,
            queries=queries,
            policies=Gate(policies),
            health_rules=HealthBook(health_rules),
            author=Identity.read(rendering.git_author),
            forges=read_forges(rendering.forges),
            helm=HelmCommands(rendering.helm, cache_dir / "helm-homes", environment),
            providers=load_providers(providers, environment, proxy_for=proxy_for, read_secret=ProviderSecrets(registry).read),
        )
    )


def _secrets_of(registry: ClusterRegistry, namespace: str) -> ReadSecrets | None:
    return RepositorySecrets(registry, namespace).read if namespace else None


def _keep_what_is_loaded() -> None:
    """Takes what is in memory by now, after the last heavy library was needed, out of the garbage collector's sight, once.

    Libraries stay for the life of the process: some 90,000 objects, which each full collection would look through for
    50 ms, several times in a sync.
    """
    if not gc.get_freeze_count():
        gc.collect(1)  # the youngest only: there is next to no garbage among what libraries leave
        gc.freeze()
