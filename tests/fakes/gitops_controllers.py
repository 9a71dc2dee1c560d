"""Plays the controllers of Argo CD and Flux, as far as one workload needs it: what Git says is brought, unless that is turned off."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.errors import AlreadyExistsError, ClusterError
from delegate.model.gitops import APPLICATION, GIT_REPOSITORY
from delegate.model.resource_types import DEPLOYMENTS
from delegate.model.resources import GroupKind, JsonObject, ResourceType
from delegate.model.revisions import template_of
from tests.cluster.servers import eventually

_EVERY_SECONDS = 0.1
_DEFINITIONS = ResourceType(
    group="apiextensions.k8s.io", version="v1", kind="CustomResourceDefinition", plural="customresourcedefinitions", namespaced=False
)
Git = Callable[[], Awaitable[tuple[str, JsonObject]]]
"""The newest commit, and the pod template that it says."""


def served(kind: GroupKind) -> ResourceType:
    version = "v1alpha1" if kind == APPLICATION else "v1"
    plural = "gitrepositories" if kind == GIT_REPOSITORY else f"{kind.kind.lower()}s"
    return ResourceType(group=kind.group, version=version, kind=kind.kind, plural=plural, namespaced=True)


async def define(client: ApiClient, *kinds: GroupKind) -> None:
    """Open definitions of these kinds; returns when they are served."""
    for kind in kinds:
        type = served(kind)
        anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything, "operation": anything}}}
        names = {"plural": type.plural, "singular": kind.kind.lower(), "kind": kind.kind, "listKind": f"{kind.kind}List"}
        spec = {
            "group": kind.group,
            "scope": "Namespaced",
            "names": names,
            "versions": [{"name": type.version, "served": True, "storage": True, "schema": schema}],
        }
        body = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": spec}
        with contextlib.suppress(AlreadyExistsError):
            await client.create(_DEFINITIONS, {**body, "metadata": {"name": f"{type.plural}.{kind.group}"}})
        await eventually(functools.partial(_is_served, client, type), within=20)


async def _is_served(client: ApiClient, type: ResourceType) -> bool:
    try:
        await client.list(type, "default")
    except ClusterError:
        return False
    return True


class GitOpsController:
    """Works on one owner, and on the Deployment `web` that is its. `brought`: how often it has set that back."""

    def __init__(self, client: ApiClient, kind: GroupKind, namespace: str, git: Git) -> None:
        self._client = client
        self._kind = kind
        self._namespace = namespace
        self._git = git
        self.brought = 0

    async def create(self, spec: JsonObject, **metadata: object) -> None:
        type = served(self._kind)
        body = {"apiVersion": f"{type.group}/{type.version}", "kind": type.kind, "spec": spec}
        await self._client.create(type, {**body, "metadata": {"name": "web", "namespace": self._namespace, **metadata}})

    async def owner(self) -> JsonObject:
        return await self._client.get(served(self._kind), self._namespace, "web")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        working = asyncio.create_task(self._work())
        try:
            yield
        finally:
            working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await working

    async def _work(self) -> None:
        while True:
            with contextlib.suppress(ClusterError):
                await self._reconcile()
            await asyncio.sleep(_EVERY_SECONDS)

    async def _reconcile(self) -> None:
        commit, wanted = await self._git()
        owner = await self.owner()
        live = await self._client.get(DEPLOYMENTS, self._namespace, "web")
        same = template_of(live)["spec"]["containers"][0]["image"] == wanted["spec"]["containers"][0]["image"]
        spec = owner["spec"]
        acts = (spec.get("syncPolicy") or {}).get("automated") is not None if self._kind == APPLICATION else not spec.get("suspend")
        if not same and acts:
            patch = {"spec": {"template": wanted}}
            await self._client.patch(DEPLOYMENTS, self._namespace, "web", patch, kind="strategic", manager="gitops-controller")
            self.brought += 1
            same = True
        await self._tell(owner, commit, "Synced" if same else "OutOfSync")

    async def _tell(self, owner: JsonObject, commit: str, sync: str) -> None:
        if self._kind != APPLICATION:
            return
        status = {"sync": {"status": sync, "revision": commit}}
        asked = "argocd.argoproj.io/refresh" in (owner["metadata"].get("annotations") or {})
        if asked or owner.get("status") != status:
            annotations = {"argocd.argoproj.io/refresh": None}
            patch = {"metadata": {"annotations": annotations}, "status": status}
            await self._client.patch(served(self._kind), self._namespace, "web", patch, manager="gitops-controller")
