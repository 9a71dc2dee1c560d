"""Letting go of an object that stays: it keeps every field, and is nobody's."""

from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.errors import ConflictError, InvalidError, NotFoundError
from delegate.model.applied import APPLIED_ANNOTATION, FIELD_MANAGER, PART_OF_LABEL
from delegate.model.pointers import escaped
from delegate.model.resources import JsonObject, ResourceKey, ResourceType

_TRIES = 5


async def let_go(client: ApiClient, resource_type: ResourceType, key: ResourceKey, applyset: str) -> None:
    """Takes our label, our mark and our entry of managedFields off an object, in one patch that is refused where it has changed.

    An apply of nothing would take our fields away with our ownership. One that is gone, or somebody else's, is left as it is.
    """
    for attempt in range(_TRIES):
        try:
            live = (await client.get_metadata(resource_type, key.namespace, key.name))["metadata"]
            if (live.get("labels") or {}).get(PART_OF_LABEL) != applyset:
                return
            await client.patch(resource_type, key.namespace, key.name, _patch(live), kind="json")
        except NotFoundError:
            return
        except (ConflictError, InvalidError):
            if attempt == _TRIES - 1:
                raise
        else:
            return


def _patch(live: JsonObject) -> list[JsonObject]:
    others = [entry for entry in live.get("managedFields") or () if not _is_ours(entry)]
    patch: list[JsonObject] = [
        {"op": "test", "path": "/metadata/uid", "value": live["uid"]},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": live["resourceVersion"]},
        {"op": "remove", "path": f"/metadata/labels/{escaped(PART_OF_LABEL)}"},
        # An empty list would mean: leave it as it is. One empty entry means: nobody's.
        {"op": "replace", "path": "/metadata/managedFields", "value": others or [{}]},
    ]
    if APPLIED_ANNOTATION in (live.get("annotations") or {}):
        patch.append({"op": "remove", "path": f"/metadata/annotations/{escaped(APPLIED_ANNOTATION)}"})
    return patch


def _is_ours(entry: JsonObject) -> bool:
    return bool(entry.get("manager") == FIELD_MANAGER and entry.get("operation") == "Apply")
