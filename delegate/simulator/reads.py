"""Get and list: pages, selections, versions, and objects in the forms that clients ask for."""

from collections.abc import Mapping
from typing import Any

import msgspec

from delegate.model.resources import JsonObject
from delegate.simulator import listing, pages, statuses, tables, writes
from delegate.simulator.kinds import Resource
from delegate.simulator.registry import Registry
from delegate.simulator.selectors import Selection, parse_fields, parse_labels
from delegate.simulator.store import Stored


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
    """Answers lists, whole or page by page, as they are or as they were."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._expired = 0

    def expire(self) -> None:
        """Forgets the past: continue tokens from before are answered 410."""
        self._expired = self._registry.store.version

    def answer(self, resource: Resource, namespace: str | None, query: Mapping[str, str], form: Form) -> bytes:
        """The list's JSON."""
        listing.check_list(query)
        selection = selection_of(resource, query)
        limit = listing.number(query, "limit")
        if query.get("continue"):
            version, items = self._continued(resource, namespace, pages.read_token(query["continue"]))
        else:
            version = self._version(resource, query)
            items = self._items(resource, namespace, version, selection)
        if not selection.everything:
            items = [item for item in items if selection.matches(writes.as_version(item, resource))]
        metadata: JsonObject = {"resourceVersion": str(version)}
        if limit and len(items) > limit:
            metadata["continue"] = pages.token_of(version, items[limit - 1]).text()
            if selection.everything:
                metadata["remainingItemCount"] = len(items) - limit
            items = items[:limit]
        return self._encode(resource, items, metadata, form, query.get("includeObject", ""))

    def _version(self, resource: Resource, query: Mapping[str, str]) -> int:
        """Which version a list is to show: the present, or one from the past that is asked for exactly."""
        current = self._registry.store.version
        wanted = int(query.get("resourceVersion") or 0)
        if wanted > current:
            raise too_large(wanted, current)
        if query.get(listing.MATCH) != "Exact":
            return current
        if wanted < self._registry.store.table(resource.storage).forgotten:
            raise statuses.StatusError(410, "The resourceVersion for the provided list is too old.", reason="Expired")
        return wanted

    def _items(self, resource: Resource, namespace: str | None, version: int, selection: Selection) -> list[Stored]:
        table = self._registry.store.table(resource.storage)
        name = selection.name()
        if name is not None and namespace is not None and version == self._registry.store.version:
            found = table.get(namespace, name)
            return [found] if found else []
        return pages.items_at(table, namespace, version)

    def _continued(self, resource: Resource, namespace: str | None, token: pages.Token) -> tuple[int, list[Stored]]:
        table, store = self._registry.store.table(resource.storage), self._registry.store
        version = store.version if pages.is_present(token) else token.rv
        if not pages.is_present(token) and (token.rv <= self._expired or token.rv < table.forgotten):
            raise pages.expired(token)
        if version > store.version:
            raise too_large(version, store.version)
        return version, pages.after(pages.items_at(table, namespace, version), token)

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


def too_large(wanted: int, current: int) -> statuses.StatusError:
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    message = f"Timeout: Too large resource version: {wanted}, current: {current}"
    return statuses.StatusError(504, message, reason="Timeout", details={"causes": [cause], "retryAfterSeconds": 1})
