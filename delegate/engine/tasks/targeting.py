"""What charts may know of the cluster that they are rendered for, asked of it only where a chart wants to know.

A chart reads the cluster with our eyes, so it sees what the delegate may read: nothing but GETs are passed on.
"""

import msgspec

from delegate.engine.clusters.errors import ApiError, ClusterError, NotFoundError, UnknownKindError
from delegate.engine.clusters.metering import RequestMeter
from delegate.engine.clusters.registry import Cluster, ClusterRegistry
from delegate.engine.sources.targets import Capabilities, Looked, ServedKind, Target
from delegate.foundation.lifecycle.retrying import Retrying
from delegate.model.resources import JsonObject
from delegate.model.tasks import Task

_UNREACHABLE = 503


class TaskTarget:
    """The target of one task. The cluster is opened when a chart first asks, and its answers are counted in `meter`."""

    def __init__(self, task: Task, project: str, clusters: ClusterRegistry, meter: RequestMeter, retrying: Retrying) -> None:
        self._task = task
        self._project = project
        self._clusters = clusters
        self._meter = meter
        self._retrying = retrying

    def target(self) -> Target:
        return Target(self._task.application, self._task.destination.namespace, self._capabilities, self._look, self._project)

    async def _cluster(self) -> Cluster:
        cluster = await self._clusters.open(self._task.destination)
        return msgspec.structs.replace(cluster, client=cluster.client.viewed(meter=self._meter, policy=self._retrying))

    async def _capabilities(self) -> Capabilities:
        """Raises ClusterError."""
        cluster = await self._cluster()
        answer = await cluster.client.get_path("/version")
        version = str(answer.body.get("gitVersion") or "") if isinstance(answer.body, dict) else ""
        served = await cluster.discovery.all_types()
        kinds = sorted(ServedKind(found.api_version, found.kind, found.plural, found.namespaced) for found in served)
        return Capabilities(version, tuple(kinds))

    async def _look(self, path: str) -> Looked:
        try:
            answer = await (await self._cluster()).client.get_path(path)
        except ClusterError as error:
            return Looked(_status_of(error), msgspec.json.encode(_as_status(error)))
        return Looked(answer.status, msgspec.json.encode(answer.body))


def _status_of(error: ClusterError) -> int:
    if isinstance(error, (NotFoundError, UnknownKindError)):
        return 404
    return error.status if isinstance(error, ApiError) and error.status else _UNREACHABLE


def _as_status(error: ClusterError) -> JsonObject:
    """As an API server says it, for programs that read it as such."""
    code = _status_of(error)
    reason = error.reason if isinstance(error, ApiError) else "ServiceUnavailable"
    if code == 404:
        reason = "NotFound"
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": error.message, "reason": reason, "code": code}
