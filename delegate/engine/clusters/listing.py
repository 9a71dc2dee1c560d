"""Lists page by page. A page token that the server forgot (410) restarts the list, at last without pages, from its cache."""

from collections.abc import AsyncIterator

import msgspec
import structlog

from delegate.engine.clusters import errors
from delegate.engine.clusters.calls import DEFAULT_TIMEOUT, Caller
from delegate.engine.clusters.transport import Call
from delegate.model.resources import JsonObject, ResourceType

log = structlog.get_logger()

PAGE_SIZE = 500
MOST_OBJECTS = 250_000
"""Of one list; about 250 MiB of metadata. Beyond it the list is refused rather than held."""
_RESTARTS_WITH_PAGES = 2


class Listing(msgspec.Struct, frozen=True):
    """Objects with `apiVersion` and `kind` filled in (a server leaves them out), and the version of the whole."""

    items: tuple[JsonObject, ...]
    resource_version: str


class Page(msgspec.Struct, frozen=True):
    """`restarted`: the pages before this one were thrown away by the server; those objects come again."""

    items: list[JsonObject]
    resource_version: str
    restarted: bool = False


async def list_pages(caller: Caller, call: Call, type: ResourceType, timeout: float = DEFAULT_TIMEOUT) -> AsyncIterator[Page]:
    """Every page of a list. Raises ClusterError."""
    restarts = 0
    token = ""
    restarted = False
    count = 0
    while True:
        # The last resort is one answer from the watch cache, which needs no token (k8s.io/docs: resourceVersion "0").
        paging = {"limit": str(PAGE_SIZE)} if restarts <= _RESTARTS_WITH_PAGES else {"resourceVersion": "0"}
        if token:
            paging["continue"] = token
        try:
            body = await caller.call(msgspec.structs.replace(call, params=(*call.params, *paging.items())), timeout)
        except errors.ExpiredError:
            if not token:
                raise
            restarts, token, restarted, count = restarts + 1, "", True, 0
            log.info("cluster.list_restarted", object=call.question.what, restarts=restarts)
            continue
        metadata = body.get("metadata") or {}
        items = complete_items(body, type)
        count += len(items)
        if count > MOST_OBJECTS:
            raise errors.AnswerTooLargeError(f"there are more than {MOST_OBJECTS} {call.question.what}", hint="narrow what is listed")
        yield Page(items, str(metadata.get("resourceVersion") or ""), restarted)
        restarted = False
        token = str(metadata.get("continue") or "")
        if not token:
            return


async def list_all(caller: Caller, call: Call, type: ResourceType, timeout: float = DEFAULT_TIMEOUT) -> Listing:
    """All pages together, each object once. Raises ClusterError."""
    items: list[JsonObject] = []
    resource_version = ""
    async for page in list_pages(caller, call, type, timeout):
        if page.restarted:
            items.clear()
        items += page.items
        resource_version = page.resource_version
    return Listing(tuple(items), resource_version)


def complete_items(body: JsonObject, type: ResourceType) -> list[JsonObject]:
    items = body.get("items")
    return [complete(item, type) for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def complete(item: JsonObject, type: ResourceType) -> JsonObject:
    """The object with its own apiVersion and kind, also where only its metadata was asked for."""
    item["apiVersion"] = type.api_version
    item["kind"] = type.kind
    return item
