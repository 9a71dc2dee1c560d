"""Our hold on hooks: the finalizer that keeps one readable until its outcome was seen, and must never outlive that."""

import contextlib
from collections.abc import Iterable

import structlog

from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.discovery import Discovery
from delegate.engine.clusters.errors import NotFoundError, UnknownKindError
from delegate.engine.tasks.concurrency import for_each
from delegate.foundation.errors import DelegateError
from delegate.model.hooks import FINALIZER, HOOK_OF_LABEL, Hook, operation_named_by
from delegate.model.resource_types import JOBS, PODS
from delegate.model.resources import GroupKind, JsonObject, ResourceType

log = structlog.get_logger(__name__)

HookPlace = tuple[GroupKind, str, str]
"""The kind of a hook, its version and namespace."""


def places_of(hooks: Iterable[Hook]) -> set[HookPlace]:
    return {(hook.manifest.group_kind, hook.manifest.version, hook.manifest.namespace) for hook in hooks}


async def let_hook_go(client: ApiClient, resource_type: ResourceType, metadata: JsonObject) -> None:
    """Takes our finalizer off the hook with this metadata, and nobody else's. One that is gone is left."""
    namespace, name = str(metadata.get("namespace") or ""), str(metadata["name"])
    with contextlib.suppress(NotFoundError):
        live = (await client.get_metadata(resource_type, namespace, name))["metadata"]
        held = live.get("finalizers") or ()
        if live.get("uid") != metadata["uid"] or FINALIZER not in held:
            return
        rest = [each for each in held if each != FINALIZER]
        patch = {"metadata": {"finalizers": rest or None, "uid": live["uid"], "resourceVersion": live["resourceVersion"]}}
        await client.patch(resource_type, namespace, name, patch)


async def let_abandoned_go(client: ApiClient, discovery: Discovery, places: Iterable[HookPlace], applyset: str, operation: str) -> None:
    """Lets go of the hooks of operations that nobody goes on with: an attempt died over them, and another set came.

    Best effort: what can't be looked at stays held, and the end of the Application lets go of it.
    """
    namespaces = {namespace for _, _, namespace in places}
    usual = {(kind.group_kind, kind.version, namespace) for kind in (JOBS, PODS) for namespace in namespaces if namespace}

    async def look(place: HookPlace) -> None:
        group_kind, version, namespace = place
        try:
            resource_type = await discovery.resource_for(group_kind, version)
            found = await client.list(resource_type, namespace, labels=f"{HOOK_OF_LABEL}={applyset}", metadata_only=True)
            for item in found.items:
                metadata = item["metadata"]
                if FINALIZER in (metadata.get("finalizers") or ()) and operation_named_by(metadata) != operation:
                    await let_hook_go(client, resource_type, metadata)
        except (UnknownKindError, NotFoundError):
            return
        except DelegateError as error:
            log.info("hooks.abandoned_unreadable", kind=str(group_kind), namespace=namespace, error=error.message)

    await for_each(sorted({*places, *usual}), look)
