"""Writes that only hit the object that was planned for, in the state it was planned from.

An apply that arrives late (its attempt was thought dead, or hung on the way) would otherwise be answered 200 and put an old
revision back. With the uid and the resourceVersion that the plan saw, the server answers 409; a uid alone doesn't notice
changes, and a resourceVersion alone creates the object anew where it is gone (both seen with 1.36).
"""

from delegate.engine.clusters import errors
from delegate.engine.clusters.client import FIELD_MANAGER, ApiClient
from delegate.model.resources import JsonObject, ResourceType

_NO_OBJECTS_VERSION = "1"
"""Of the empty store; a server-side apply that names it creates what is not there and answers 409 for what is (seen with 1.36)."""


def guarded(body: JsonObject, uid: str, resource_version: str) -> JsonObject:
    """A copy of a body that is only accepted by this object in this state."""
    return {**body, "metadata": {**(body.get("metadata") or {}), "uid": uid, "resourceVersion": resource_version}}


async def apply_guarded(
    client: ApiClient,
    type: ResourceType,
    body: JsonObject,
    *,
    uid: str,
    resource_version: str,
    force: bool = False,
    dry_run: bool = False,
    manager: str = FIELD_MANAGER,
    metadata_only: bool = False,
) -> JsonObject:
    """Server-side apply onto an existing object as it was planned.

    Raises StaleObjectError where it has changed since (plan it again; it may still be the same plan), RecreatedObjectError where
    it is gone or another one has its name. The server's 409 doesn't say which, so the object is looked at again.
    """
    wanted = guarded(body, uid, resource_version)
    try:
        return await client.apply(type, wanted, dry_run=dry_run, force=force, manager=manager, metadata_only=metadata_only)
    except (errors.StaleObjectError, errors.FieldManagerConflictError) as error:
        current = await _metadata_of(client, type, body)
        if current.get("uid") != uid:
            words = "was deleted and created again" if current else "was deleted"
            message = f"{error.object} {words} since it was planned"
            raise errors.RecreatedObjectError(message, hint="plan it anew", object=error.object) from error
        if current.get("resourceVersion") == resource_version or isinstance(error, errors.StaleObjectError):
            raise
        # A server looks for conflicts before it looks at the version: this one is news, and a new plan tells it properly.
        message = f"{error.object} changed since it was planned"
        raise errors.StaleObjectError(message, hint="plan it anew", object=error.object) from error


async def apply_new(
    client: ApiClient, type: ResourceType, body: JsonObject, *, force: bool = False, metadata_only: bool = False
) -> JsonObject:
    """Server-side apply that only creates. Raises StaleObjectError where an object of that name exists already."""
    metadata = {**(body.get("metadata") or {}), "resourceVersion": _NO_OBJECTS_VERSION}
    return await client.apply(type, {**body, "metadata": metadata}, force=force, metadata_only=metadata_only)


async def _metadata_of(client: ApiClient, type: ResourceType, body: JsonObject) -> JsonObject:
    metadata = body.get("metadata") or {}
    try:
        current = await client.get_metadata(type, str(metadata.get("namespace") or ""), str(metadata.get("name") or ""))
    except errors.NotFoundError:
        return {}
    found: JsonObject = current["metadata"]
    return found
