"""`lookup` of a chart's templates: helm asks what it takes for an API server, and gets what the target cluster holds.

Passed on are GETs of objects and lists, and nothing else: no watch, no subresource (`exec` and `proxy` are GETs too), no
query. Version and kinds are answered here, from what is known of the target. What was asked for is kept in mind, because a
render depends on it.

helm asks a cluster only in a server's dry run, which goes on to look for what it rendered in the cluster. That it asks a
kind's version for each lookup tells the two apart (helm/pkg/engine/lookup_func.go): what is read without is never passed
on, and not there. Kinds that the target doesn't serve yet have to be there for it, so they are added (`unserved_kinds`).
"""

import asyncio
import hashlib
import re
from collections.abc import Mapping, Sequence

import msgspec

from delegate.engine.sources.targets import Capabilities, Look, Looked, ServedKind
from delegate.model.resources import JsonObject

KUBECONFIG = (
    b'{"apiVersion":"v1","kind":"Config","current-context":"target","contexts":[{"name":"target","context":{"cluster":"target","user":"us"}}],'
    b'"clusters":[{"name":"target","cluster":{"server":"http://127.0.0.1:80"}}],"users":[{"name":"us","user":{}}]}'
)
"""No address in it is ever connected to: see `jails.hatches`."""
_NAME = r"[A-Za-z0-9][A-Za-z0-9._:-]*"
_VERSION_PATH = re.compile(rf"/api/(v1)|/apis/({_NAME}/{_NAME})")
_UNSERVED = re.compile(r'no matches for kind \\?"([A-Za-z0-9]+)\\?" in version \\?"([A-Za-z0-9./-]+)\\?"')
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
ARGUMENTS = ("--dry-run=server", "--disable-openapi-validation")
"""What makes helm ask."""
_OBJECTS = re.compile(rf"(?:/api/v1|/apis/{_NAME}/{_NAME})(?:/namespaces/{_NAME})?/{_NAME}(?:/{_NAME})?")
_NAMESPACED_PART = re.compile(rf"(?:/api/v1|/apis/{_NAME}/{_NAME})/namespaces/{_NAME}/(?:status|finalize)")
_AGGREGATED_BODY = b'{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2"'
_MOST_BYTES = 32 * 2**20
_MOST_QUESTIONS = 500
_ABSENT = 404
_REASONS = {200: "OK", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}


class Window:
    """What one render sees of a cluster. `asked` are the objects and lists that it wanted, with digests of the answers."""

    def __init__(self, look: Look, capabilities: Capabilities) -> None:
        self._look = look
        self._capabilities = capabilities
        self._known = _documents(capabilities)
        self._announced = ""
        self._questions = 0
        self._bytes = 0
        self.asked: dict[str, str] = {}

    def add_kinds(self, kinds: Sequence[ServedKind]) -> bool:
        """Serves further kinds; False where there is none that isn't served already."""
        known = {(each.api_version, each.kind) for each in self._capabilities.kinds}
        new = [each for each in kinds if (each.api_version, each.kind) not in known]
        self._capabilities = msgspec.structs.replace(self._capabilities, kinds=(*self._capabilities.kinds, *new))
        self._known = _documents(self._capabilities)
        return bool(new)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until the other side closes it."""
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                return
            answer = await self.answer(head.partition(b"\r\n")[0].decode(errors="replace"))
            reason = _REASONS.get(answer.status, "Answer")
            kind = _AGGREGATED if answer.body.startswith(_AGGREGATED_BODY) else "application/json"
            head_lines = f"HTTP/1.1 {answer.status} {reason}\r\nContent-Type: {kind}\r\nContent-Length: {len(answer.body)}\r\n\r\n"
            writer.write(head_lines.encode())
            writer.write(answer.body)
            await writer.drain()

    async def answer(self, request_line: str) -> Looked:
        """The answer to `GET /api/v1/... HTTP/1.1`."""
        method, _, rest = request_line.partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        if method == "GET" and (known := self._known.get(path)) is not None:
            self._announced = path if _VERSION_PATH.fullmatch(path) else ""
            return Looked(200, known)
        if method != "GET" or "watch=" in rest or not is_readable(path):
            return _refusal(405, "a render reads objects and lists, and does nothing else")
        if _VERSION_PATH.fullmatch(path):
            return _refusal(_ABSENT, "the target doesn't serve it")
        announced, self._announced = self._announced, ""
        if not announced or not path.startswith(f"{announced}/"):
            return _refusal(_ABSENT, "not found")
        self._questions += 1
        if self._questions > _MOST_QUESTIONS or self._bytes > _MOST_BYTES:
            return _refusal(403, f"a render asks no more than {_MOST_QUESTIONS} times, for no more than {_MOST_BYTES} bytes")
        answer = await self._look(path)
        self._bytes += len(answer.body)
        self.asked[path] = digest_of(answer)
        return answer


def is_readable(path: str) -> bool:
    """Whether a path is that of an object or of a list."""
    return "/watch/" not in path and _OBJECTS.fullmatch(path) is not None and _NAMESPACED_PART.fullmatch(path) is None


def unserved_kinds(stderr: str) -> list[ServedKind]:
    """The kinds that helm rendered and that the target doesn't serve, where it failed for them."""
    found = dict.fromkeys(_UNSERVED.findall(stderr))
    return [ServedKind(version, kind, f"{kind.lower()}s", namespaced=True) for kind, version in found]


def digest_of(answer: Looked) -> str:
    return hashlib.sha256(f"{answer.status} ".encode() + answer.body).hexdigest()


def _refusal(status: int, words: str) -> Looked:
    reason = "NotFound" if status == _ABSENT else "Forbidden"
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": words, "reason": reason, "code": status}
    return Looked(status, msgspec.json.encode(body))


def _documents(capabilities: Capabilities) -> dict[str, bytes]:
    """What an API server says of itself: its kinds all together, and by version."""
    by_version: dict[str, list[ServedKind]] = {}
    for each in capabilities.kinds:
        by_version.setdefault(each.api_version, []).append(each)
    major, _, rest = capabilities.kube_version.removeprefix("v").partition(".")
    version = {"gitVersion": capabilities.kube_version or "v1.30.0", "major": major, "minor": rest.partition(".")[0]}
    found = {
        "/version": msgspec.json.encode(version),
        "/api": _aggregated({name: kinds for name, kinds in by_version.items() if "/" not in name}),
        "/apis": _aggregated({name: kinds for name, kinds in by_version.items() if "/" in name}),
    }
    for name, kinds in by_version.items():
        path = f"/apis/{name}" if "/" in name else f"/api/{name}"
        listed = {"kind": "APIResourceList", "groupVersion": name, "resources": [_resource(each) for each in kinds]}
        found[path] = msgspec.json.encode(listed)
    return found


def _aggregated(by_version: Mapping[str, Sequence[ServedKind]]) -> bytes:
    groups: dict[str, list[JsonObject]] = {}
    for name, kinds in by_version.items():
        group, _, version = name.rpartition("/")
        resources = [_aggregated_resource(group, version, each) for each in kinds if each.kind]
        groups.setdefault(group, []).append({"version": version, "freshness": "Current", "resources": resources})
    items = [{"metadata": {"name": group}, "versions": versions} for group, versions in groups.items()]
    return _AGGREGATED_BODY + b',"items":' + msgspec.json.encode(items) + b"}"


def _aggregated_resource(group: str, version: str, each: ServedKind) -> JsonObject:
    return {
        "resource": each.plural,
        "singularResource": each.kind.lower(),
        "responseKind": {"group": group, "version": version, "kind": each.kind},
        "scope": "Namespaced" if each.namespaced else "Cluster",
        "verbs": ["get", "list"],
    }


def _resource(each: ServedKind) -> JsonObject:
    verbs = ["get", "list"]
    return {"name": each.plural, "singularName": each.kind.lower(), "namespaced": each.namespaced, "kind": each.kind, "verbs": verbs}
