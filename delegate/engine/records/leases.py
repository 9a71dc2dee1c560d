"""Authority to write an Application: the Kubernetes Lease beside its inventory, taken only when there is something to write.

    async with hold_lease(client, application, namespace, holder=attempt, fence_floor=inventory.fence) as lease:
        lease.check()          # before each write; costs nothing
        ...                    # cancelled, and LeaseLostError raised, once authority is gone

While it is held it is renewed every third of its life. It is lost when somebody else took it, when it was deleted, or when no
renewal came through for two thirds of its life: earlier than anybody else may take it, by nobody's clock but our own.
"""

import asyncio
import contextlib
import datetime as dt
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import structlog

from delegate.engine.clusters import errors as cluster_errors
from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.retrying import ONE_TRY
from delegate.engine.records.errors import LeaseHeldError, LeaseLostError
from delegate.foundation.clocks import Clock
from delegate.model.inventory import inventory_name
from delegate.model.leases import (
    LEASE_SECONDS,
    Hold,
    Observation,
    Take,
    Wait,
    authority_ends_at,
    decide,
    held_lease,
    observe,
    read_lease,
    released_lease,
    renewed_lease,
)
from delegate.model.resource_types import LEASES
from delegate.model.resources import JsonObject

log = structlog.get_logger()

_LOOK_SECONDS = 1.0
"""How often somebody else's Lease is looked at while we wait for it."""
_RETRY_SECONDS = 1.0
_RACE_SECONDS = 0.1
_CALL_SECONDS = 5.0
_PATIENCE_SECONDS = 60.0
_NOT_IN_TIME = "it could not be renewed in time"
_HINT_ANSWERS = "check that the API server answers"
_DELETED = "somebody deleted it"
_HINT_LEAVE = "leave the Lease alone while a sync runs"


class WriteLease:
    """A Lease that is ours. Made by `hold_lease`."""

    def __init__(self, client: ApiClient, clock: Clock, body: JsonObject, fence: int, renewed_at: float) -> None:
        self._client = client
        self._clock = clock
        self._body = body
        self._fence = fence
        self._seconds = read_lease(body).seconds
        self._ends_at = authority_ends_at(renewed_at, self._seconds)
        self._lost: LeaseLostError | None = None

    @property
    def fence(self) -> int:
        """The number that what we write carries; higher than that of any attempt before us."""
        return self._fence

    @property
    def lost(self) -> bool:
        return self._lost is not None or self._clock.monotonic() >= self._ends_at

    def check(self) -> None:
        """Raises LeaseLostError where authority is gone as far as we know. Asks nobody: for use before each write."""
        if self._lost is not None:
            raise self._lost
        if self._clock.monotonic() >= self._ends_at:
            raise self._gone(_NOT_IN_TIME, _HINT_ANSWERS)

    async def verify(self) -> None:
        """Asks the server, until it answers or our time is up, whether the Lease is still ours. Raises LeaseLostError, ClusterError."""
        while True:
            self.check()
            try:
                self._recognize(await self._read())
                return
            except cluster_errors.ClusterError as error:
                if not error.retryable:
                    raise
                log.warning("lease.unverified", lease=self._name, code=error.code)
            await self._clock.sleep(min(_RETRY_SECONDS, self._seconds / 15))

    async def keep(self) -> None:
        """Renews until cancelled. Raises LeaseLostError."""
        pause = self._seconds / 3
        while True:
            await self._clock.sleep(min(pause, max(0.0, self._ends_at - self._clock.monotonic())))
            self.check()
            try:
                await self.renew()
            except cluster_errors.ClusterError as error:
                if not error.retryable and not isinstance(error, cluster_errors.UnauthorizedError):
                    raise self._gone(f"it can't be renewed: {error.message}", error.hint) from error
                log.warning("lease.renewal_failed", lease=self._name, code=error.code)
                pause = min(_RETRY_SECONDS, self._seconds / 15)
            else:
                pause = self._seconds / 3

    async def renew(self) -> None:
        """One renewal, given up when our authority ends. Raises LeaseLostError, ClusterError."""
        sent_at = self._clock.monotonic()
        try:
            async with asyncio.timeout(max(0.0, self._ends_at - sent_at)):
                await self._write(renewed_lease)
        except TimeoutError as error:
            raise self._gone(_NOT_IN_TIME, _HINT_ANSWERS) from error
        self._ends_at = authority_ends_at(sent_at, self._seconds)

    async def release(self) -> None:
        """Gives it back, so that the next one need not wait; where that fails, it runs out by itself. Authority ends with it."""
        if self.lost:
            return
        self._ends_at = self._clock.monotonic()
        try:
            await self._write(released_lease)
        except (cluster_errors.ClusterError, LeaseLostError) as error:
            log.info("lease.release_failed", lease=self._name, code=error.code)

    @property
    def _name(self) -> str:
        metadata = self._body.get("metadata") or {}
        return f"{metadata.get('namespace')}/{metadata.get('name')}"

    async def _write(self, changed: Callable[[JsonObject, dt.datetime], JsonObject]) -> None:
        try:
            self._body = await self._client.replace(LEASES, changed(self._body, self._clock.now()), timeout=_CALL_SECONDS)
        except cluster_errors.StaleObjectError:
            # Our own write whose answer was lost, a foreign label, or another holder: its body tells.
            body = self._recognize(await self._read())
            self._body = await self._client.replace(LEASES, changed(body, self._clock.now()), timeout=_CALL_SECONDS)
        except (cluster_errors.NotFoundError, cluster_errors.RecreatedObjectError) as error:
            raise self._gone(_DELETED, _HINT_LEAVE) from error

    async def _read(self) -> JsonObject:
        metadata = self._body["metadata"]
        try:
            return await self._client.get(LEASES, metadata["namespace"], metadata["name"], timeout=_CALL_SECONDS)
        except cluster_errors.NotFoundError as error:
            raise self._gone(_DELETED, _HINT_LEAVE) from error

    def _recognize(self, body: JsonObject) -> JsonObject:
        theirs, ours = read_lease(body), read_lease(self._body)
        if (theirs.holder, theirs.fence) != (ours.holder, ours.fence):
            raise self._gone(f"{theirs.holder or 'nobody'} holds it with fence {theirs.fence}", "nothing to do: the newer attempt goes on")
        return body

    def _gone(self, words: str, hint: str) -> LeaseLostError:
        self._lost = LeaseLostError(f"the Lease {self._name} is lost: {words}", hint=hint, object=f"Lease {self._name}")
        log.warning("lease.lost", lease=self._name, fence=self._fence, error=words)
        return self._lost


@asynccontextmanager
async def hold_lease(
    client: ApiClient,
    application: str,
    namespace: str,
    *,
    holder: str,
    fence_floor: int = 0,
    patience: float = _PATIENCE_SECONDS,
    seconds: int = LEASE_SECONDS,
) -> AsyncIterator[WriteLease]:
    """Takes the Lease, keeps it while the block runs, gives it back at its end.

    `fence_floor` is the fence in the inventory, `seconds` the Lease's life. Waits up to `patience` seconds for a holder that
    has stopped renewing. Raises LeaseHeldError after that, LeaseLostError out of the block (which is cancelled), and ClusterError.
    """
    lease = await acquire_lease(client, application, namespace, holder=holder, fence_floor=fence_floor, patience=patience, seconds=seconds)
    try:
        async with asyncio.TaskGroup() as group:
            keeping = group.create_task(lease.keep(), name=f"lease {application}")
            yield lease
            keeping.cancel()
    except BaseExceptionGroup as group_error:
        error = _most_telling(group_error)
        # Without its group, and with the cause it had.
        raise error from error.__cause__
    finally:
        await lease.release()


async def remove_lease(client: ApiClient, application: str, namespace: str) -> None:
    """Takes away the Lease of an Application that is no more, unless somebody else holds it by now."""
    body = await _look(client, application, namespace)
    if body is None or read_lease(body).holder:
        return
    metadata = body["metadata"]
    with contextlib.suppress(cluster_errors.NotFoundError, cluster_errors.ConflictError):
        await client.delete(LEASES, namespace, metadata["name"], uid=metadata["uid"], resource_version=metadata["resourceVersion"])


async def acquire_lease(
    client: ApiClient,
    application: str,
    namespace: str,
    *,
    holder: str,
    fence_floor: int = 0,
    patience: float = _PATIENCE_SECONDS,
    seconds: int = LEASE_SECONDS,
) -> WriteLease:
    """The Lease without anybody who renews it; for `hold_lease` and for tests. Raises as that does."""
    clock = client.clock
    # Not behind the eight places: a thousand applies may wait there, and authority doesn't wait.
    client = client.viewed(policy=ONE_TRY, urgent=True)
    gives_up_at = clock.monotonic() + patience
    seen: Observation | None = None
    while True:
        pause = _RACE_SECONDS
        try:
            seen = observe(seen, body := await _look(client, application, namespace), clock.monotonic())
            match decide(seen, holder, clock.monotonic(), fence_floor):
                case Take() as taking:
                    now = clock.now()
                    wanted = held_lease(application, namespace, holder=holder, taking=taking, now=now, seconds=seconds)
                    taken = await _take(client, wanted, taking.fence)
                    if taken is not None:
                        return taken
                    if clock.monotonic() > gives_up_at:
                        raise _held(application, namespace, "somebody faster")
                case Hold(fence=fence):
                    # An earlier life of this same attempt, or our own write whose answer was lost.
                    lease = WriteLease(client, clock, body or {}, fence, clock.monotonic())
                    await lease.renew()
                    return lease
                case Wait(holder=other, seconds=left):
                    pause = min(left, _LOOK_SECONDS)
                    if clock.monotonic() + pause > gives_up_at:
                        raise _held(application, namespace, other)
        except LeaseLostError:
            log.info("lease.taken_by_others", application=application)  # between our look and our renewal
        except cluster_errors.ClusterError as error:
            pause = error.retry_after or _RETRY_SECONDS
            if not error.retryable or clock.monotonic() + pause > gives_up_at:
                raise
        await clock.sleep(pause)


def _held(application: str, namespace: str, other: str) -> LeaseHeldError:
    held = LeaseHeldError(
        f"{other} is writing {application}: it holds the Lease {namespace}/{inventory_name(application)}",
        hint=f"wait until {other} has ended, or cancel it",
    )
    held.holder = other
    return held


async def _look(client: ApiClient, application: str, namespace: str) -> JsonObject | None:
    try:
        return await client.get(LEASES, namespace, inventory_name(application))
    except cluster_errors.NotFoundError:
        return None


async def _take(client: ApiClient, wanted: JsonObject, fence: int) -> WriteLease | None:
    """None where somebody else was faster: look again. `wanted` is the Lease as it should be, guarded by what was seen."""
    sent_at = client.clock.monotonic()
    try:
        if wanted["metadata"].get("resourceVersion"):
            taken = await client.replace(LEASES, wanted)
        else:
            taken = await client.create(LEASES, wanted)
    except (cluster_errors.StaleObjectError, cluster_errors.AlreadyExistsError, cluster_errors.NotFoundError):
        return None
    log.info("lease.taken", lease=f"{wanted['metadata']['namespace']}/{wanted['metadata']['name']}", fence=fence)
    return WriteLease(client, client.clock, taken, fence, sent_at)


def _most_telling(group: BaseExceptionGroup[BaseException]) -> BaseException:
    lost, _ = group.split(LeaseLostError)
    error: BaseException = lost if lost is not None else group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
