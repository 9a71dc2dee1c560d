"""Plays the controller of Argo Rollouts, as far as one canary needs it: steps, a blue/green switch, abort, retry, promotion, its status.

Its ReplicaSets are real ones of the cluster, so their pods come up or crash as pods do. A script may have it abort by itself. A cluster
with all of Argo's definitions has the real controller, and nobody plays it there.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.errors import AlreadyExistsError, ClusterError, NotFoundError
from delegate.model.resource_types import REPLICA_SETS, ROLLOUTS
from delegate.model.resources import JsonObject, ResourceType
from delegate.model.rollouts.versions import digest

_LABEL = "rollouts-pod-template-hash"
_EVERY_SECONDS = 0.03
_BLUE_GREEN: list[JsonObject] = [{"setWeight": 100}, {"pause": {}}]
_DEFINITIONS = ResourceType(
    group="apiextensions.k8s.io", version="v1", kind="CustomResourceDefinition", plural="customresourcedefinitions", namespaced=False
)


def definition() -> JsonObject:
    """Of the kind, open, with a status of its own."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    version = {"name": "v1alpha1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}}
    names = {"plural": "rollouts", "singular": "rollout", "kind": "Rollout", "listKind": "RolloutList"}
    spec = {"group": "argoproj.io", "scope": "Namespaced", "names": names, "versions": [version]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "rollouts.argoproj.io"},
        "spec": spec,
    }


async def rollouts_are_defined(client: ApiClient) -> None:
    with contextlib.suppress(AlreadyExistsError):
        await client.create(_DEFINITIONS, definition())


class RolloutsController:
    """Works on one Rollout. `aborts_at`: the index of a step at which an analysis of its own fails, once."""

    def __init__(self, client: ApiClient, namespace: str, name: str = "web") -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self.aborts_at: int | None = None
        self.aborted = 0
        self.is_real = False
        self._settled_at: dict[str, float] = {}
        self._words = ""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        self.is_real = await self._has_its_own()
        if self.is_real:
            yield
            return
        working = asyncio.create_task(self._work())
        try:
            yield
        finally:
            working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await working

    async def _has_its_own(self) -> bool:
        try:
            await self._client.get(_DEFINITIONS, "", "analysisruns.argoproj.io")
        except NotFoundError:
            return False
        return True

    async def _work(self) -> None:
        while True:
            with contextlib.suppress(ClusterError):
                await self._reconcile()
            await asyncio.sleep(_EVERY_SECONDS)

    async def _reconcile(self) -> None:
        body = await self._client.get(ROLLOUTS, self._namespace, self._name)
        before = body.get("status") or {}
        newest = digest(body["spec"]["template"])[:10]
        status = {**before, "observedGeneration": str(body["metadata"]["generation"])}
        if before.get("currentPodHash") != newest:
            status |= {"currentPodHash": newest, "currentStepIndex": 0, "controllerPause": False, "abort": False, "promoteFull": False}
            status["pauseConditions"] = None
            self._settled_at.pop(newest, None)
        phase, message = await self._advance(body, status)
        status |= {"phase": phase, "message": message, "updatedReplicas": await self._ready(newest)}
        if status != before:
            metadata = {"resourceVersion": body["metadata"]["resourceVersion"]}
            patch = {"metadata": metadata, "status": {**dict.fromkeys(before), **status}}
            await self._client.patch(ROLLOUTS, self._namespace, self._name, patch, subresource="status")

    async def _advance(self, body: JsonObject, status: JsonObject) -> tuple[str, str]:
        newest, stable, wanted = status["currentPodHash"], status.get("stableRS"), body["spec"]["replicas"]
        strategy = body["spec"]["strategy"]
        steps = strategy["canary"]["steps"] if "canary" in strategy else _BLUE_GREEN
        if stable in (None, newest):
            return await self._settle(body, status, newest, wanted, len(steps))
        if status.get("abort"):
            await self._scale(body, newest, 0)
            return "Degraded", self._words or f"RolloutAborted: Rollout aborted update to {newest}"
        if status.get("promoteFull"):
            status["currentStepIndex"], status["pauseConditions"] = len(steps), None
        while (index := status["currentStepIndex"]) < len(steps):
            if self.aborts_at == index:
                self.aborts_at, self.aborted = None, self.aborted + 1
                status["abort"], status["pauseConditions"] = True, None
                self._words = "RolloutAborted: metric errors assessed Failed"
                return "Degraded", self._words
            waits = await self._step(body, status, steps[index], newest, wanted)
            if waits:
                return waits
            status["currentStepIndex"] = index + 1
        return await self._settle(body, status, newest, wanted, len(steps))

    async def _step(self, body: JsonObject, status: JsonObject, step: JsonObject, newest: str, wanted: int) -> tuple[str, str] | None:
        """What it waits for; None where the step is done."""
        if "setWeight" in step:
            count = math.ceil(wanted * step["setWeight"] / 100)
            await self._scale(body, newest, count)
            return None if await self._ready(newest) >= count else ("Progressing", "updated replicas are still becoming available")
        if status.get("pauseConditions"):
            return "Paused", "CanaryPauseStep"
        if status.get("controllerPause"):
            status["controllerPause"] = False
            return None
        reason = "CanaryPauseStep" if "canary" in body["spec"]["strategy"] else "BlueGreenPause"
        status["controllerPause"] = True
        status["pauseConditions"] = [{"reason": reason, "startTime": "2026-01-01T00:00:00Z"}]
        return "Paused", reason

    async def _settle(self, body: JsonObject, status: JsonObject, newest: str, wanted: int, steps: int) -> tuple[str, str]:
        await self._scale(body, newest, wanted)
        if await self._ready(newest) < wanted:
            return "Progressing", "more replicas need to be updated"
        status |= {"stableRS": newest, "currentStepIndex": steps, "controllerPause": False, "pauseConditions": None, "promoteFull": False}
        kept = float((body["spec"]["strategy"].get("blueGreen") or {}).get("scaleDownDelaySeconds", 0))
        if time.monotonic() - self._settled_at.setdefault(newest, time.monotonic()) < kept:
            return "Healthy", ""
        for other in (await self._client.list(REPLICA_SETS, self._namespace)).items:
            if other["metadata"]["labels"].get(_LABEL) not in (None, newest):
                await self._scale(body, other["metadata"]["labels"][_LABEL], 0)
        return "Healthy", ""

    async def _scale(self, body: JsonObject, revision: str, count: int) -> None:
        name = f"{self._name}-{revision}"
        try:
            live = await self._client.get(REPLICA_SETS, self._namespace, name)
        except NotFoundError:
            with contextlib.suppress(AlreadyExistsError):
                await self._client.create(REPLICA_SETS, self._replica_set(body, name, revision, count))
            return
        if live["spec"]["replicas"] != count:
            await self._client.replace(REPLICA_SETS, {**live, "spec": {**live["spec"], "replicas": count}})

    def _replica_set(self, body: JsonObject, name: str, revision: str, count: int) -> JsonObject:
        labels = {**body["spec"]["template"]["metadata"]["labels"], _LABEL: revision}
        owner = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": self._name, "uid": body["metadata"]["uid"]}
        template = {**body["spec"]["template"], "metadata": {"labels": labels}}
        return {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": name,
                "namespace": self._namespace,
                "labels": labels,
                "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
            },
            "spec": {"replicas": count, "selector": {"matchLabels": labels}, "template": template},
        }

    async def _ready(self, revision: str) -> int:
        try:
            live = await self._client.get(REPLICA_SETS, self._namespace, f"{self._name}-{revision}")
        except NotFoundError:
            return 0
        return int((live.get("status") or {}).get("readyReplicas") or 0)
