"""Get and list: pages, selections, versions, and objects in the forms that clients ask for."""

import base64
import binascii
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import msgspec

from delegate.model.resources import JsonObject
from delegate.simulator import statuses, tables, writes
from delegate.simulator.kinds import Resource
from delegate.simulator.registry import Registry
from delegate.simulator.selectors import Selection, parse_fields, parse_labels
from delegate.simulator.store import Stored

REMEMBERED_LISTS = 128
"""Snapshots of lists that clients are paging through."""


class Form(msgspec.Struct, frozen=True):
    """The form that the Accept header asks for: whole objects, their metadata, or a table."""

    partial: bool = False
    table: bool = False
    version: str = "v1"


WHOLE = Form()


def form_of(accept: str) -> Form:
    """The first form in an Accept header that is served; raises 406 where none is."""
    if not accept:
        return WHOLE
    for part in accept.split(","):
        words = part.strip().replace(" ", "").split(";")
        if words[0] not in ("application/json", "*/*", "application/*", "application/yaml"):
            continue
        options = dict(word.split("=", 1) for word in words[1:] if "=" in word)
        match options.get("as"):
            case "PartialObjectMetadata" | "PartialObjectMetadataList":
                return Form(partial=True, version=options.get("v", "v1"))
            case "Table":
                return Form(table=True, version=options.get("v", "v1"))
            case None:
                return WHOLE
            case _:
                continue
    raise statuses.StatusError(
        406,
        "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf",
        reason="NotAcceptable",
        details={},
    )


def selection_of(resource: Resource, query: Mapping[str, str]) -> Selection:
    labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
    if not labels and not fields:
        return Selection()
    selectable = resource.definition.selectable if resource.definition else ()
    return Selection(parse_labels(labels), parse_fields(fields, resource.storage, selectable=selectable))


def raw_object(stored: Stored, resource: Resource) -> bytes:
    """An object's JSON in the version of a resource."""
    if resource.version == resource.storage_version:
        return stored.raw
    return msgspec.json.encode(writes.as_version(stored, resource))


def raw_item(stored: Stored, resource: Resource) -> bytes:
    """An object's JSON inside a list: built-in kinds leave kind and apiVersion out there."""
    if resource.custom:
        return raw_object(stored, resource)
    raw = raw_object(stored, resource)
    prefix = f'{{"kind":"{resource.kind}","apiVersion":"{resource.api_version}",'.encode()
    if raw.startswith(prefix):
        return b"{" + raw[len(prefix) :]
    body = writes.as_version(stored, resource)
    return msgspec.json.encode({key: value for key, value in body.items() if key not in ("kind", "apiVersion")})


def partial(body: JsonObject, version: str = "v1") -> JsonObject:
    return {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}", "metadata": body["metadata"]}


def shaped(body: JsonObject, resource: Resource, form: Form, now: str, include: str = "") -> Any:
    """One object in the wanted form."""
    if form.partial:
        return partial(body, form.version)
    if form.table:
        return tables.table_of(resource, [body], body["metadata"].get("resourceVersion", ""), now, include)
    return body


class Lists:
    """Answers lists; keeps the snapshots that continue tokens point into."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._snapshots: OrderedDict[str, tuple[int, list[Stored]]] = OrderedDict()
        self._issued = 0
        self.expired_before = 0

    def expire(self) -> None:
        """Forgets every snapshot: continue tokens from before are answered 410."""
        self._snapshots.clear()

    def answer(self, resource: Resource, namespace: str | None, query: Mapping[str, str], form: Form) -> bytes:
        """The list's JSON."""
        selection = selection_of(resource, query)
        limit = _number(query.get("limit", ""))
        if query.get("continue"):
            version, items = self._continued(query["continue"])
        else:
            version = self._registry.store.version
            _check_version(query, version)
            items = self._select(resource, namespace, selection)
        metadata: JsonObject = {"resourceVersion": str(version)}
        if limit and len(items) > limit:
            metadata["continue"] = self._remember(version, items[limit:])
            if selection.everything:
                metadata["remainingItemCount"] = len(items) - limit
            items = items[:limit]
        return self._encode(resource, items, metadata, form, query.get("includeObject", ""))

    def _select(self, resource: Resource, namespace: str | None, selection: Selection) -> list[Stored]:
        table = self._registry.store.table(resource.storage)
        name = selection.name()
        if name is not None and namespace is not None:
            found = table.get(namespace, name)
            items = [found] if found else []
        else:
            items = table.items(namespace)
        if selection.everything:
            return items
        return [item for item in items if selection.matches(writes.as_version(item, resource))]

    def _remember(self, version: int, items: list[Stored]) -> str:
        self._issued += 1
        key = str(self._issued)
        self._snapshots[key] = (version, items)
        while len(self._snapshots) > REMEMBERED_LISTS:
            self._snapshots.popitem(last=False)
        token = msgspec.json.encode({"v": "meta.k8s.io/v1", "rv": version, "start": key})
        return base64.urlsafe_b64encode(token).decode().rstrip("=")

    def _continued(self, token: str) -> tuple[int, list[Stored]]:
        try:
            read = msgspec.json.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
            key = read["start"]
        except (ValueError, binascii.Error, KeyError, TypeError):
            raise statuses.bad_request("continue key is not valid: illegal base64 data at input byte 0") from None
        found = self._snapshots.get(key)
        if found is None:
            raise statuses.StatusError(
                410,
                "The provided continue parameter is too old to display a consistent list result. You can start a new list without the"
                " continue parameter, or use the continue token in this response to retrieve the remainder of the results."
                " Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted"
                " between the time the first chunk was returned and now may show up in the list.",
                reason="Expired",
            )
        return found

    def _encode(self, resource: Resource, items: list[Stored], metadata: JsonObject, form: Form, include: str = "") -> bytes:
        if form.table:
            bodies = [writes.as_version(item, resource) for item in items]
            made = tables.table_of(resource, bodies, metadata["resourceVersion"], self._registry.now(), include)
            made["metadata"] = metadata
            return msgspec.json.encode(made)
        if form.partial:
            bodies = [partial(writes.as_version(item, resource), form.version) for item in items]
            kind, api_version = "PartialObjectMetadataList", f"meta.k8s.io/{form.version}"
            return msgspec.json.encode({"kind": kind, "apiVersion": api_version, "metadata": metadata, "items": bodies})
        head = f'{{"kind":"{resource.list_kind}","apiVersion":"{resource.api_version}","metadata":'.encode()
        if resource.custom or resource.version != resource.storage_version:
            parts = [raw_item(item, resource) for item in items]
        else:
            skipped = len(f'{{"kind":"{resource.kind}","apiVersion":"{resource.api_version}",')
            parts = [b"{" + item.raw[skipped:] for item in items]
        return b"".join((head, msgspec.json.encode(metadata), b',"items":[', b",".join(parts), b"]}"))


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0


def _check_version(query: Mapping[str, str], current: int) -> None:
    wanted = query.get("resourceVersion", "")
    if wanted in ("", "0"):
        return
    if not wanted.isdigit():
        raise statuses.bad_request(f'invalid resource version: "{wanted}"')
    if int(wanted) > current:
        raise too_large(int(wanted), current)
    if query.get("resourceVersionMatch") == "Exact" and int(wanted) != current:
        raise statuses.StatusError(410, f"The resourceVersion for the provided list is too old.", reason="Expired")  # noqa: F541


def too_large(wanted: int, current: int) -> statuses.StatusError:
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    message = f"Timeout: Too large resource version: {wanted}, current: {current}"
    return statuses.StatusError(504, message, reason="Timeout", details={"causes": [cause], "retryAfterSeconds": 1})
