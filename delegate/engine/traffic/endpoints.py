"""Which pods a Service really leads to: by its EndpointSlices, which proxies go by, not by counts of replicas."""

from collections.abc import Collection, Iterable

import msgspec

from delegate.engine.clusters.client import ApiClient
from delegate.engine.traffic.errors import RouteNotInForceError
from delegate.engine.traffic.routers import RoutePlace
from delegate.engine.traffic.writing import Pauses
from delegate.model.resource_types import ENDPOINT_SLICES, PODS
from delegate.model.resources import JsonObject
from delegate.model.rollouts.workloads import label_selector

SERVICE_NAME_LABEL = "kubernetes.io/service-name"


class ReadyPods(msgspec.Struct, frozen=True):
    """How many ready pods of each version stand behind a Service."""

    canary: int
    stable: int

    @property
    def share(self) -> float:
        """Of the new version, in percent; of no pods at all: 0."""
        both = self.canary + self.stable
        return 100.0 * self.canary / both if both else 0.0


def addresses(slices: Iterable[JsonObject], *, only_ready: bool) -> dict[str, str]:
    """The first address of each endpoint (a pod in two slices counts once), with the pod's name where the slice tells.

    An endpoint without a `ready` condition is ready (EndpointSlice v1). Without `only_ready` those that end are listed too.
    """
    found: dict[str, str] = {}
    for each in slices:
        if each.get("addressType") == "IPv6" and any(other.get("addressType") == "IPv4" for other in slices):
            continue  # a Service of two families lists each pod twice
        for endpoint in each.get("endpoints") or ():
            ready = (endpoint.get("conditions") or {}).get("ready")
            if only_ready and ready is False:
                continue
            target = endpoint.get("targetRef") or {}
            for address in (endpoint.get("addresses") or ())[:1]:
                found[str(address)] = str(target.get("name") or "") if target.get("kind") == "Pod" else ""
    return found


def counted(slices: Iterable[JsonObject], canaries: Collection[str]) -> ReadyPods:
    """Ready pods, told apart by the names of the new ones."""
    names = list(addresses(tuple(slices), only_ready=True).values())
    new = sum(1 for name in names if name in canaries)
    return ReadyPods(new, len(names) - new)


async def slices_of(client: ApiClient, namespace: str, service: str) -> tuple[JsonObject, ...]:
    return tuple((await client.list(ENDPOINT_SLICES, namespace, labels=f"{SERVICE_NAME_LABEL}={service}")).items)


async def ready_pods(client: ApiClient, namespace: str, service: str, canary_selector: dict[str, str]) -> ReadyPods:
    """What a Service leads to now. Raises ClusterError."""
    pods = (await client.list(PODS, namespace, labels=label_selector(canary_selector), metadata_only=True)).items
    names = {str(pod["metadata"]["name"]) for pod in pods}
    return counted(await slices_of(client, namespace, service), names)


async def await_ready(place: RoutePlace, service: str, seconds: float) -> None:
    """Waits until a Service leads to a ready pod. Raises RouteNotInForceError."""
    pauses = Pauses(place, seconds)
    while not addresses(await slices_of(place.client, place.namespace, service), only_ready=True):
        if not await pauses.another():
            raise RouteNotInForceError(
                f"Service {place.namespace}/{service} leads to no ready pod, so it gets no load",
                hint="compare its selector and ports with the pods' labels",
                object=f"Service {place.namespace}/{service}",
            )


async def await_empty(place: RoutePlace, service: str, seconds: float) -> None:
    """Waits until a Service leads nowhere, not even to pods that end. Raises RouteNotInForceError."""
    pauses = Pauses(place, seconds)
    while left := addresses(await slices_of(place.client, place.namespace, service), only_ready=False):
        if not await pauses.another():
            raise RouteNotInForceError(
                f"Service {place.namespace}/{service} still lists {len(left)} pods of the new version",
                hint="look at the pods that don't end",
                object=f"Service {place.namespace}/{service}",
            )
