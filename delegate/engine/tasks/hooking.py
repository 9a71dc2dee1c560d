"""Runs the hooks of a phase: wave by wave, all of a wave side by side, each to its end.

A hook is created once in an operation, whichever attempt does it: the next attempt finds it by its operation and goes on waiting.
Our finalizer keeps it readable until its outcome was seen, also where its own time to live takes it away.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from itertools import groupby

import msgspec
import structlog

from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.discovery import Discovery
from delegate.engine.clusters.errors import NotFoundError
from delegate.engine.clusters.watches import WatchEventKind
from delegate.engine.records.leases import WriteLease
from delegate.engine.tasks.concurrency import for_each
from delegate.engine.tasks.errors import HookFailedError
from delegate.engine.tasks.holding import let_hook_go
from delegate.engine.tasks.observing import await_gone
from delegate.foundation.errors import DelegateError
from delegate.model.errors import raise_all
from delegate.model.health.failing import Trouble, find_trouble
from delegate.model.health.verdicts import Health, HealthStatus
from delegate.model.hooks import DeletePolicy, Hook, belongs_to, hook_body, hook_outcome
from delegate.model.resource_types import EVENTS, PODS
from delegate.model.resources import JsonObject, Manifest, ResourceKey, ResourceType

log = structlog.get_logger(__name__)


class HookReport(msgspec.Struct, frozen=True):
    """What became of a hook so far; `health` None: it has just been created."""

    hook: Hook
    key: ResourceKey
    health: Health | None = None
    error: DelegateError | None = None


class HookRunner:
    """Runs hooks of one operation. `on_report` hears of each creation and each end."""

    def __init__(
        self,
        client: ApiClient,
        discovery: Discovery,
        authority: WriteLease,
        *,
        applyset: str,
        operation: str,
        on_report: Callable[[HookReport], None],
    ) -> None:
        self._client = client
        self._discovery = discovery
        self._authority = authority
        self._applyset = applyset
        self._operation = operation
        self._on_report = on_report
        self._ended: list[tuple[Hook, JsonObject, bool]] = []
        self._running: dict[ResourceKey, tuple[Hook, JsonObject]] = {}

    async def run(self, hooks: Iterable[Hook], deadline: float) -> None:
        """Raises HookFailedError for all that failed in the first wave with a failure; later waves are not begun."""
        for _, wave in groupby(hooks, key=lambda hook: hook.wave):
            outcomes = await for_each(list(wave), lambda hook: self._run(hook, deadline))
            raise_all([error for error in outcomes if error is not None])

    async def clean_up(self) -> None:
        """Deletes what its policy says, and lets go of the rest. Best effort: what stays is deleted before the next creation.

        What still runs stays held for the next attempt, which goes on waiting for it; see `abandon`.
        """
        for hook, body, succeeded in self._ended:
            policy = DeletePolicy.SUCCEEDED if succeeded else DeletePolicy.FAILED
            with contextlib.suppress(DelegateError):
                await let_hook_go(self._client, await self._type(hook), body["metadata"])
                if policy in hook.policies:
                    await self._delete(await self._type(hook), body)
        self._ended.clear()

    async def abandon(self) -> None:
        """Lets go of what still runs, for nobody will ask how it ends. It isn't stopped: half a migration is worse than a whole one."""
        for hook, body in self._running.values():
            with contextlib.suppress(DelegateError):
                self._authority.check()
                await let_hook_go(self._client, await self._type(hook), body["metadata"])
        self._running.clear()

    async def _run(self, hook: Hook, deadline: float) -> DelegateError | None:
        wanted = hook_body(hook, self._applyset, self._operation)
        key = Manifest(wanted).key
        try:
            resource_type = await self._type(hook)
            body = await self._find(resource_type, key, hook)
            if body is None:
                self._authority.check()
                body = await self._client.apply(resource_type, wanted)
            self._on_report(HookReport(hook, key))
            self._running[key] = (hook, body)
            body, health = await self._await_end(resource_type, body, deadline)
        except DelegateError as error:
            ran = self._running.pop(key, None)
            if ran is not None and isinstance(error, HookFailedError):
                self._ended.append((*ran, False))  # any other fault says nothing of the hook: it stays held for the next attempt
            error.file, error.line = hook.manifest.origin.file, hook.manifest.origin.line or None
            error.object = error.object or str(key)
            self._on_report(HookReport(hook, key, error=error))
            return error
        succeeded = health.status is HealthStatus.HEALTHY
        del self._running[key]
        self._ended.append((hook, body, succeeded))
        if succeeded:
            self._on_report(HookReport(hook, key, health))
            return None
        failure = await self._failure(hook, key, body, health)
        self._on_report(HookReport(hook, key, health, failure))
        return failure

    async def _find(self, resource_type: ResourceType, key: ResourceKey, hook: Hook) -> JsonObject | None:
        """This operation's run of the hook, if there is one. One of an earlier operation is made way with."""
        try:
            live = await self._client.get(resource_type, key.namespace, key.name)
        except NotFoundError:
            return None
        if belongs_to(live["metadata"], hook, self._operation):
            return live
        # Its policy may have said so already, and the attempt that ran it died before it could.
        ended = hook_outcome(live)
        overdue = ended and (DeletePolicy.SUCCEEDED if ended.status is HealthStatus.HEALTHY else DeletePolicy.FAILED)
        if hook.policies.isdisjoint({DeletePolicy.BEFORE_CREATION, overdue}):
            raise HookFailedError(
                f"{key} exists from an earlier sync, and its delete policy keeps it",
                hint="add BeforeHookCreation to its hook-delete-policy, or give it a generateName",
            )
        self._authority.check()
        await let_hook_go(self._client, resource_type, live["metadata"])
        await self._delete(resource_type, live)
        await await_gone(self._client, resource_type, key)
        return None

    async def _await_end(self, resource_type: ResourceType, body: JsonObject, deadline: float) -> tuple[JsonObject, Health]:
        health = hook_outcome(body)
        if health is not None:
            return body, health
        metadata, loop = body["metadata"], asyncio.get_running_loop()
        watch_until = self._client.clock.monotonic() + max(0.0, deadline - loop.time())
        events = self._client.watch(
            resource_type, str(metadata.get("namespace") or ""), fields=f"metadata.name={metadata['name']}", deadline=watch_until
        )
        async with contextlib.aclosing(events):
            async for event in events:
                if event.kind is WatchEventKind.SYNCED:
                    continue
                gone = event.kind is WatchEventKind.DELETED or event.object["metadata"].get("uid") != metadata["uid"]
                health = hook_outcome(None if gone else event.object)
                if health is not None:
                    return (body if gone else event.object), health
        trouble = await self._trouble(body)
        raise HookFailedError(
            f"{Manifest(body).key} has not ended in time" + (f": {trouble.message}" if trouble else ""),
            code="timeout.hook",
            hint=(trouble.hint if trouble else "") or "give the task a longer timeout",
        )

    async def _trouble(self, body: JsonObject) -> Trouble | None:
        """What keeps the pods of a hook from getting on, in the cluster's own words."""
        namespace = str(body["metadata"].get("namespace") or "")
        if not namespace:
            return None
        with contextlib.suppress(DelegateError):
            pods, events = (await self._client.list(PODS, namespace)).items, (await self._client.list(EVENTS, namespace)).items
            return find_trouble(body, (), pods, events)
        return None

    async def _failure(self, hook: Hook, key: ResourceKey, body: JsonObject, health: Health) -> HookFailedError:
        words = ": ".join(each for each in (health.reason, health.message) if each)
        if health.status is HealthStatus.MISSING:
            words = "it was lost: it was deleted before it ended"
        trouble = await self._trouble(body)
        words = f"{words} ({trouble.message})" if trouble else words
        return HookFailedError(
            f"the {hook.phase} hook {key} failed: {words}",
            hint=f"see its log: kubectl logs -n {key.namespace} {key.kind.lower()}/{key.name}",
            file=hook.manifest.origin.file,
            line=hook.manifest.origin.line or None,
            object=str(key),
        )

    async def _delete(self, resource_type: ResourceType, body: JsonObject) -> None:
        metadata = body["metadata"]
        with contextlib.suppress(NotFoundError):
            await self._client.delete(resource_type, str(metadata.get("namespace") or ""), str(metadata["name"]), uid=metadata["uid"])

    async def _type(self, hook: Hook) -> ResourceType:
        return await self._discovery.resource_for(hook.manifest.group_kind, hook.manifest.version)
