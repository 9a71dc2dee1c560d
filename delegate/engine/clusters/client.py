"""What the delegate asks of an API server, kind by kind: a thin layer over plain HTTP.

Bodies are JSON objects as the API speaks them; a name and namespace are taken from the body where there is one. Every call
has a `timeout` in seconds for each try; the retry policy bounds all tries together, and whoever calls bounds the whole.
"""

from collections.abc import AsyncGenerator
from typing import Literal

import msgspec

from delegate.engine.clusters import errors, paths
from delegate.engine.clusters.answers import Question
from delegate.engine.clusters.calls import DEFAULT_TIMEOUT, Caller
from delegate.engine.clusters.listing import Listing, complete, list_all
from delegate.engine.clusters.metering import Effect, OnRequest, RequestMeter
from delegate.engine.clusters.transport import LARGEST_LIST_BYTES, LARGEST_OBJECT_BYTES, Answer, Call, Transport
from delegate.engine.clusters.watches import Watch, WatchEvent
from delegate.foundation.clocks import SYSTEM_CLOCK, Clock
from delegate.foundation.lifecycle.retrying import Retrying
from delegate.model.resources import JsonObject, ResourceKey, ResourceType

FIELD_MANAGER = "delegate"
_JSON = "application/json"
_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_APPLY = "application/apply-patch+yaml"
_PATCHES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}

PatchKind = Literal["merge", "json", "strategic"]
Propagation = Literal["Background", "Foreground", "Orphan"]


class ApiClient:
    """One API server. Views made by `viewed` share its connections; `close` belongs to whoever made the first one.

    Every method raises a ClusterError; `NotFoundError` where the object doesn't exist.
    """

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    @property
    def host(self) -> str:
        """The server's address as messages name it; empty before the first call."""
        return self._caller.transport.host

    @property
    def meter(self) -> RequestMeter:
        return self._caller.meter

    @property
    def transport(self) -> Transport:
        return self._caller.transport

    @property
    def clock(self) -> Clock:
        """Whose monotonic time a watch's deadline is of; the running loop's, but in tests."""
        return self._caller.clock

    def viewed(self, *, meter: RequestMeter | None = None, policy: Retrying | None = None, urgent: bool | None = None) -> "ApiClient":
        """This client with a meter or a retry policy of its own: one view for each task. Urgent calls don't wait for a place."""
        return ApiClient(self._caller.viewed(meter=meter, policy=policy, urgent=urgent))

    def metered(self, meter: RequestMeter) -> "ApiClient":
        return self.viewed(meter=meter)

    async def close(self) -> None:
        await self._caller.transport.close()

    # Reading

    async def get(
        self, type: ResourceType, namespace: str, name: str, *, subresource: str = "", timeout: float = DEFAULT_TIMEOUT
    ) -> JsonObject:
        return await self._caller.call(_object_call("get", "GET", type, namespace, name, subresource=subresource), timeout)

    async def get_metadata(self, type: ResourceType, namespace: str, name: str, *, timeout: float = DEFAULT_TIMEOUT) -> JsonObject:
        """The object with its metadata alone, under its own apiVersion and kind."""
        call = msgspec.structs.replace(_object_call("get", "GET", type, namespace, name), accept=_METADATA)
        return complete(await self._caller.call(call, timeout), type)

    async def list(
        self,
        type: ResourceType,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        metadata_only: bool = False,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> Listing:
        """All objects of a kind, in one namespace or everywhere; `labels` and `fields` are selectors as the API writes them."""
        return await list_all(self._caller, _list_call(type, namespace, labels, fields, metadata_only=metadata_only), type, timeout)

    def watch(
        self,
        type: ResourceType,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        metadata_only: bool = False,
        deadline: float,
    ) -> AsyncGenerator[WatchEvent, None]:
        """What exists as ADDED, then SYNCED, then what changes, until `deadline` (monotonic). See the watches module.

        Whoever stops early closes the iterator (`contextlib.aclosing`), which closes the connection.
        """
        call = _list_call(type, namespace, labels, fields, metadata_only=metadata_only)
        accept = _METADATA if metadata_only else _JSON
        return Watch(self._caller, call, type, accept=accept, deadline=deadline).events()

    async def get_path(self, path: str, *, accept: str = _JSON, etag: str = "", timeout: float = DEFAULT_TIMEOUT) -> Answer:
        """Anything else that the server answers as JSON: discovery, version."""
        question = Question(verb="get", host="", path=path)
        return await self._caller.ask(Call("GET", path, question, accept=accept, etag=etag, most_bytes=LARGEST_LIST_BYTES), timeout)

    # Writing

    async def apply(
        self,
        type: ResourceType,
        body: JsonObject,
        *,
        dry_run: bool = False,
        force: bool = False,
        manager: str = FIELD_MANAGER,
        metadata_only: bool = False,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> JsonObject:
        """Server-side apply. A resourceVersion or uid in the metadata guards it: see `engine.records.guarding`."""
        namespace, name = _place_of(body)
        call = msgspec.structs.replace(
            _object_call("apply", "PATCH", type, namespace, name, effect=_effect(dry_run)),
            params=(*_write_params(dry_run, manager), *((("force", "true"),) if force else ())),
            body=msgspec.json.encode(body),
            content_type=_APPLY,
            accept=_METADATA if metadata_only else _JSON,
        )
        return complete(await self._caller.call(call, timeout), type)

    async def create(
        self, type: ResourceType, body: JsonObject, *, dry_run: bool = False, manager: str = FIELD_MANAGER, timeout: float = DEFAULT_TIMEOUT
    ) -> JsonObject:
        """Creates by POST, also with generateName. It isn't sent again where it's unknown whether it arrived."""
        namespace, name = _place_of(body)
        call = Call(
            "POST",
            paths.collection_path(type, namespace),
            _question("create", type, namespace, name or str((body.get("metadata") or {}).get("generateName") or "")),
            effect=_effect(dry_run),
            params=_write_params(dry_run, manager),
            body=msgspec.json.encode(body),
            content_type=_JSON,
            idempotent=dry_run,
        )
        return await self._caller.call(call, timeout)

    async def replace(
        self, type: ResourceType, body: JsonObject, *, dry_run: bool = False, manager: str = FIELD_MANAGER, timeout: float = DEFAULT_TIMEOUT
    ) -> JsonObject:
        """PUT. With a resourceVersion in the metadata it fails with StaleObjectError once the object has changed."""
        namespace, name = _place_of(body)
        call = msgspec.structs.replace(
            _object_call("update", "PUT", type, namespace, name, effect=_effect(dry_run)),
            params=_write_params(dry_run, manager),
            body=msgspec.json.encode(body),
            content_type=_JSON,
        )
        return await self._caller.call(call, timeout)

    async def patch(
        self,
        type: ResourceType,
        namespace: str,
        name: str,
        patch: object,
        *,
        kind: PatchKind = "merge",
        dry_run: bool = False,
        subresource: str = "",
        manager: str = FIELD_MANAGER,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> JsonObject:
        """`patch` is a JSON object, or for `json` a list of operations (RFC 6902)."""
        call = msgspec.structs.replace(
            _object_call("patch", "PATCH", type, namespace, name, subresource=subresource, effect=_effect(dry_run)),
            params=_write_params(dry_run, manager),
            body=msgspec.json.encode(patch),
            content_type=_PATCHES[kind],
            idempotent=dry_run or kind == "merge",
        )
        return await self._caller.call(call, timeout)

    async def delete(
        self,
        type: ResourceType,
        namespace: str,
        name: str,
        *,
        uid: str,
        resource_version: str = "",
        propagation: Propagation = "Background",
        dry_run: bool = False,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> JsonObject:
        """Deletes this very object: another one by its name answers RecreatedObjectError, a changed one StaleObjectError.

        Returns what the server answers: the object where finalizers hold it (with a deletionTimestamp), else a Status.
        """
        preconditions = {"uid": uid} | ({"resourceVersion": resource_version} if resource_version else {})
        options: JsonObject = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "preconditions": preconditions,
            "propagationPolicy": propagation,
        }
        if dry_run:
            # In the body: with one, a server ignores the query and would really delete (seen with 1.36).
            options["dryRun"] = ["All"]
        call = msgspec.structs.replace(
            _object_call("delete", "DELETE", type, namespace, name, effect=_effect(dry_run)),
            params=(("dryRun", "All"),) if dry_run else (),
            body=msgspec.json.encode(options),
            content_type=_JSON,
        )
        return await self._caller.call(call, timeout)

    async def review(self, path: str, body: JsonObject, *, timeout: float = DEFAULT_TIMEOUT) -> JsonObject:
        """Posts a review (of access, of ourselves), which changes nothing."""
        question = Question(verb="create", host="", path=path)
        call = Call("POST", path, question, body=msgspec.json.encode(body), content_type=_JSON)
        return await self._caller.call(call, timeout)


def new_client(
    transport: Transport, *, policy: Retrying | None = None, on_request: OnRequest | None = None, clock: Clock = SYSTEM_CLOCK
) -> ApiClient:
    """A client over a transport, with a meter that nobody reads."""
    return ApiClient(Caller(transport, policy=policy or Retrying(), meter=RequestMeter(), on_request=on_request, clock=clock))


def _object_call(
    verb: str, method: str, type: ResourceType, namespace: str, name: str, *, subresource: str = "", effect: Effect = Effect.READ
) -> Call:
    path = paths.object_path(type, namespace, name, subresource)
    return Call(method, path, _question(verb, type, namespace, name), effect=effect, most_bytes=LARGEST_OBJECT_BYTES)


def _list_call(type: ResourceType, namespace: str, labels: str, fields: str, *, metadata_only: bool) -> Call:
    selectors = (("labelSelector", labels), ("fieldSelector", fields))
    return Call(
        "GET",
        paths.collection_path(type, namespace),
        _question("list", type, namespace, ""),
        params=tuple((key, value) for key, value in selectors if value),
        accept=_METADATA_LIST if metadata_only else _JSON,
        most_bytes=LARGEST_LIST_BYTES,
    )


def _question(verb: str, type: ResourceType, namespace: str, name: str) -> Question:
    subject = str(ResourceKey(type.group, type.kind, namespace, name)) if name else ""
    return Question(
        verb=verb,
        host="",
        group=type.group,
        resource=type.plural,
        namespace=namespace,
        subject=subject,
        sensitive=type.plural == "secrets" and not type.group,
    )


def _effect(dry_run: bool) -> Effect:
    return Effect.DRY_RUN if dry_run else Effect.WRITE


def _write_params(dry_run: bool, manager: str) -> tuple[tuple[str, str], ...]:
    params = (("fieldManager", manager), ("fieldValidation", "Strict"))
    return (*params, ("dryRun", "All")) if dry_run else params


def _place_of(body: JsonObject) -> tuple[str, str]:
    metadata = body.get("metadata")
    if not isinstance(metadata, dict):
        raise errors.ClusterError("an object without metadata can't be sent", code="input.address")
    return str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
