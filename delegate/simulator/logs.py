"""What simulated pods print: the text of an annotation, or one line that says that they started.

Asked for and refused as at a real server and its kubelet; followed, a log stays open until the pod is over or gone.
"""

from collections.abc import Iterator

from aiohttp import web
from multidict import MultiMapping

from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.behaviors import LOG
from delegate.simulator.kinds import Resource
from delegate.simulator.registry import Registry, annotations_of
from delegate.simulator.requests import RequestInfo, truthy
from delegate.simulator.store import Stored

_PULLING = {"ImagePullBackOff": "trying and failing to pull image", "ErrImagePull": "image can't be pulled"}


async def answer(registry: Registry, resource: Resource, info: RequestInfo, request: web.BaseRequest) -> web.StreamResponse:
    """A pod's log. Raises 404 without the pod, 400 for a container that isn't there or hasn't started."""
    stored = registry.get(resource, info.namespace, info.name)
    if stored is None:
        raise statuses.not_found(resource.plural, resource.group, info.name)
    query = request.query
    container = _container(stored.body, query.get("container", ""))
    if not stored.body["spec"].get("nodeName"):
        return web.Response(text="", content_type="text/plain")
    _check_started(stored.body, container, previous=truthy(query.get("previous")))
    text = "".join(_lines(registry, stored.body, container, query))
    if not truthy(query.get("follow")):
        return web.Response(text=text, content_type="text/plain")
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    response.enable_chunked_encoding()
    await response.prepare(request)
    await response.write(text.encode())
    await _until_over(registry, resource, stored)
    await response.write_eof()
    return response


def _container(pod: JsonObject, wanted: str) -> str:
    kinds = ("initContainers", "containers", "ephemeralContainers")
    names = [item["name"] for kind in kinds for item in pod["spec"].get(kind) or ()]
    own = [item["name"] for item in pod["spec"].get("containers") or ()]
    name = pod["metadata"]["name"]
    if not wanted and len(own) == 1:
        return str(own[0])
    if not wanted:
        raise statuses.bad_request(f"a container name must be specified for pod {name}, choose one of: [{' '.join(names)}]")
    if wanted not in names:
        raise statuses.bad_request(f"container {wanted} is not valid for pod {name}")
    return wanted


def _check_started(pod: JsonObject, container: str, *, previous: bool) -> None:
    """As the kubelet looks whether there is anything to show."""
    name = pod["metadata"]["name"]
    held: JsonObject = next((item for item in (pod.get("status") or {}).get("containerStatuses") or () if item["name"] == container), {})
    waiting, restarts = (held.get("state") or {}).get("waiting"), held.get("restartCount", 0)
    if previous and not restarts:
        raise statuses.bad_request(f'previous terminated container "{container}" in pod "{name}" not found')
    if waiting and not restarts and waiting.get("reason") != "CrashLoopBackOff":
        why = _PULLING.get(waiting.get("reason", ""), waiting.get("reason", ""))
        raise statuses.bad_request(f'container "{container}" in pod "{name}" is waiting to start: {why}')


def _lines(registry: Registry, pod: JsonObject, container: str, query: MultiMapping[str]) -> Iterator[str]:
    text = annotations_of(pod).get(LOG)
    if text is None:
        text = f"{container} of {pod['metadata']['name']} started\n"
    started = (pod.get("status") or {}).get("startTime") or registry.now()
    lines = text.splitlines(keepends=True)
    tail = query.get("tailLines", "")
    if tail.isdigit():
        lines = lines[-int(tail) :] if int(tail) else []
    room = int(query["limitBytes"]) if query.get("limitBytes", "").isdigit() else len(text) + len(lines) * 64
    stamp = f"{started} " if truthy(query.get("timestamps")) else ""
    for line in lines:
        yield (stamp + line)[:room]
        room -= len(stamp + line)
        if room <= 0:
            return


async def _until_over(registry: Registry, resource: Resource, stored: Stored) -> None:
    table = registry.store.table(resource.storage)
    while True:
        found = table.get(stored.namespace, stored.name)
        if found is None or found.uid != stored.uid or found.body["status"].get("phase") in ("Succeeded", "Failed"):
            return
        await table.changed()
