"""What the cluster has of a set: one list for each kind and namespace of the set, none beyond, of metadata alone where that will do."""

import asyncio
from collections.abc import Callable, Iterable, Mapping

import msgspec

from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.errors import ForbiddenError, NotFoundError
from delegate.engine.tasks.errors import ObjectTerminatingError
from delegate.foundation.errors import DelegateError
from delegate.model.applied import PART_OF_LABEL
from delegate.model.resources import GroupKind, JsonObject, ResourceKey, ResourceType

_TERMINATING_SECONDS = 60.0
_POLL_SECONDS = 0.25


class Observed(msgspec.Struct, frozen=True):
    """Metadata of the objects that are members of an ApplySet; an object that is not is not here.

    `unreadable` says why of those that could not be looked at; for them nothing may be concluded. `bodies` are whole objects of the
    kinds that were listed so.
    """

    metadata: dict[ResourceKey, JsonObject]
    unreadable: dict[ResourceKey, DelegateError]
    bodies: dict[ResourceKey, JsonObject] = {}


def _never(group_kind: GroupKind) -> bool:
    del group_kind
    return False


async def observe_members(
    client: ApiClient, types: Mapping[ResourceKey, ResourceType], applyset: str, *, whole: Callable[[GroupKind], bool] = _never
) -> Observed:
    """Looks at the given objects, as far as they are members. A kind that may not be listed is read object by object.

    Only members are asked for: a namespace may hold a thousand other Applications. `whole` says which kinds are listed with all
    that their objects hold, for whoever needs that next.
    """
    places: dict[tuple[ResourceType, str], list[ResourceKey]] = {}
    for key, resource_type in types.items():
        places.setdefault((resource_type, key.namespace), []).append(key)
    async with asyncio.TaskGroup() as group:
        looks = [
            group.create_task(_look(client, resource_type, namespace, keys, applyset, whole=whole(resource_type.group_kind)))
            for (resource_type, namespace), keys in places.items()
        ]
    every = Observed({}, {}, {})
    for look in looks:
        found = look.result()
        every.metadata.update(found.metadata)
        every.unreadable.update(found.unreadable)
        every.bodies.update(found.bodies)
    return every


async def _look(
    client: ApiClient, resource_type: ResourceType, namespace: str, keys: list[ResourceKey], applyset: str, *, whole: bool
) -> Observed:
    try:
        listing = await client.list(resource_type, namespace, labels=f"{PART_OF_LABEL}={applyset}", metadata_only=not whole)
    except ForbiddenError:
        return await _look_one_by_one(client, resource_type, keys, applyset)
    except DelegateError as error:
        return Observed({}, dict.fromkeys(keys, error))
    wanted = set(keys)
    found = {key: item for item in listing.items if (key := _key(resource_type, item)) in wanted}
    return Observed({key: item["metadata"] for key, item in found.items()}, {}, found if whole else {})


async def _look_one_by_one(client: ApiClient, resource_type: ResourceType, keys: Iterable[ResourceKey], applyset: str) -> Observed:
    metadata, unreadable = dict[ResourceKey, JsonObject](), dict[ResourceKey, DelegateError]()
    for key in keys:
        try:
            body = await client.get_metadata(resource_type, key.namespace, key.name)
        except NotFoundError:
            continue
        except DelegateError as error:
            unreadable[key] = error
            continue
        if (body["metadata"].get("labels") or {}).get(PART_OF_LABEL) == applyset:
            metadata[key] = body["metadata"]
    return Observed(metadata, unreadable)


async def await_gone(client: ApiClient, resource_type: ResourceType, key: ResourceKey) -> None:
    """Waits for an object that is being deleted: only then can it be made anew. Raises ObjectTerminatingError after a minute."""
    deadline = asyncio.get_running_loop().time() + _TERMINATING_SECONDS
    while True:
        try:
            body = await client.get_metadata(resource_type, key.namespace, key.name)
        except NotFoundError:
            return
        metadata = body["metadata"]
        if not metadata.get("deletionTimestamp"):
            return
        if asyncio.get_running_loop().time() > deadline:
            finalizers = ", ".join(metadata.get("finalizers") or ()) or "none of its own"
            raise ObjectTerminatingError(
                f"{key} is being deleted since {metadata['deletionTimestamp']} and is still there",
                hint=f"its finalizers: {finalizers}; whoever owns them has to let it go",
                object=str(key),
            )
        await asyncio.sleep(_POLL_SECONDS)


def _key(resource_type: ResourceType, item: JsonObject) -> ResourceKey:
    metadata = item["metadata"]
    return ResourceKey(resource_type.group, resource_type.kind, str(metadata.get("namespace") or ""), str(metadata["name"]))
