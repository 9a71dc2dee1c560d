"""Authority to write an Application: decisions about the Kubernetes Lease `delegate-<application>`.

The holder is an attempt, `leaseTransitions` is the fence. Whether a holder is gone is judged as client-go's leader election
does: by how long the record has stayed unchanged on our own monotonic clock, never by comparing its `renewTime` with our
wall clock, so that clocks that differ can't give two attempts authority at once.
"""

import datetime as dt

import msgspec

from delegate.model.inventory import APPLICATION_LABEL, inventory_name
from delegate.model.resources import JsonObject

LEASE_SECONDS = 15
RENEW_SECONDS = 5.0
_HOLDERS_SHARE = 2 / 3  # of its life, for the holder itself: it stops writing well before anybody may take over


class LeaseRecord(msgspec.Struct, frozen=True):
    """What a Lease says; `renewed` is compared and never read as a time."""

    holder: str
    fence: int
    renewed: str
    seconds: int
    resource_version: str


class Observation(msgspec.Struct, frozen=True):
    """A Lease as last seen (None: there is none), and since when it has looked like that on our monotonic clock."""

    record: LeaseRecord | None
    since: float


class Take(msgspec.Struct, frozen=True):
    """Nobody has authority: write a Lease with this fence, over the one with this resourceVersion (empty: create it).

    The write may still lose against another one (409): observe and decide again.
    """

    fence: int
    resource_version: str = ""


class Hold(msgspec.Struct, frozen=True):
    """We are the holder, with this fence."""

    fence: int


class Wait(msgspec.Struct, frozen=True):
    """Another holder has authority; unless it renews, this is over after so many seconds."""

    holder: str
    seconds: float


Decision = Take | Hold | Wait


def read_lease(lease: JsonObject) -> LeaseRecord:
    """What a Lease's body says. Absent fields read as a Lease that nobody holds."""
    spec = lease.get("spec") or {}
    return LeaseRecord(
        holder=str(spec.get("holderIdentity") or ""),
        fence=int(spec.get("leaseTransitions") or 0),
        renewed=str(spec.get("renewTime") or ""),
        seconds=int(spec.get("leaseDurationSeconds") or LEASE_SECONDS),
        resource_version=str((lease.get("metadata") or {}).get("resourceVersion") or ""),
    )


def observe(previous: Observation | None, lease: JsonObject | None, now: float) -> Observation:
    """Takes a fresh look into account. `now` is our monotonic clock; a record that has not changed keeps its `since`."""
    record = read_lease(lease) if lease is not None else None
    if previous is not None and previous.record == record:
        return previous
    return Observation(record, now)


def decide(observation: Observation, holder: str, now: float, fence_floor: int = 0) -> Decision:
    """Whether `holder` has authority, may take it, or has to wait.

    `fence_floor` is the highest fence known from elsewhere (the inventory): a Lease that was deleted meanwhile must not
    make fences start again.
    """
    record = observation.record
    if record is None:
        return Take(fence_floor + 1)
    if record.holder == holder:
        return Hold(record.fence)
    left = observation.since + record.seconds - now
    if not record.holder or left <= 0:
        return Take(max(record.fence, fence_floor) + 1, record.resource_version)
    return Wait(record.holder, left)


def authority_ends_at(renewed_at: float, seconds: int = LEASE_SECONDS) -> float:
    """Until when (monotonic) a holder may go on writing after the renewal that it *sent* at `renewed_at`."""
    return renewed_at + seconds * _HOLDERS_SHARE


def held_lease(
    application: str,
    namespace: str,
    *,
    holder: str,
    taking: Take,
    now: dt.datetime,
    seconds: int = LEASE_SECONDS,
) -> JsonObject:
    """The body that takes a Lease. `now` is aware; it only informs people who look."""
    metadata = {"name": inventory_name(application), "namespace": namespace, "labels": {APPLICATION_LABEL: application}}
    if taking.resource_version:
        metadata |= {"resourceVersion": taking.resource_version}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata,
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": seconds,
            "leaseTransitions": taking.fence,
            "acquireTime": _micro_time(now),
            "renewTime": _micro_time(now),
        },
    }


def renewed_lease(lease: JsonObject, now: dt.datetime) -> JsonObject:
    """The body that renews a Lease as it was last read or answered; its resourceVersion makes a lost race a 409."""
    return {**lease, "spec": {**(lease.get("spec") or {}), "renewTime": _micro_time(now)}}


def released_lease(lease: JsonObject, now: dt.datetime) -> JsonObject:
    """The body that gives a Lease back, so that the next one need not wait. The fence stays, to be counted on from."""
    spec = {name: value for name, value in (lease.get("spec") or {}).items() if name != "holderIdentity"}
    return {**lease, "spec": {**spec, "leaseDurationSeconds": 1, "renewTime": _micro_time(now)}}


def _micro_time(now: dt.datetime) -> str:
    """A Kubernetes MicroTime: RFC 3339 in UTC with six digits."""
    return now.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
