"""A request as the API server reads it: who asks which verb of which resource, and with what options."""

import re
from collections.abc import Mapping
from urllib.parse import unquote

import msgspec

LARGEST_BODY = 3 * 1024 * 1024
_METHOD_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_NAMED = re.compile(r"metadata\.name==?([a-z0-9.-]+)")


class RequestInfo(msgspec.Struct):
    """The parts of a path and what they mean (apiserver `RequestInfo`)."""

    verb: str
    path: str
    group: str = ""
    version: str = ""
    plural: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    rest: str = ""
    is_resource: bool = False
    selected: str = ""


def parse_path(method: str, path: str, query: Mapping[str, str]) -> RequestInfo:
    """What a path asks for. Names are unquoted."""
    info = RequestInfo(method.lower(), path)
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if parts[0] == "api" and len(parts) > 2:
        info.version, parts = parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        info.group, info.version, parts = parts[1], parts[2], parts[3:]
    else:
        return info
    info.is_resource = True
    watched = parts[0] == "watch" and len(parts) > 1
    parts = parts[1:] if watched else parts
    if parts[0] == "namespaces" and len(parts) > 2 and parts[2] not in ("status", "finalize"):
        info.namespace, parts = parts[1], parts[2:]
    elif parts[0] == "namespaces" and len(parts) > 1:
        info.namespace = parts[1]
    info.plural = parts[0]
    info.name = parts[1] if len(parts) > 1 else ""
    info.subresource = parts[2] if len(parts) > 2 else ""
    info.rest = "/".join(parts[3:])
    info.verb = "watch" if watched and method in ("GET", "HEAD") else _verb(method, info, query)
    if info.verb in ("list", "watch", "deletecollection"):
        info.selected = _selected(query.get("fieldSelector", ""))
    return info


def _selected(selector: str) -> str:
    """The name that a field selector leaves: rules for a name hold for such a list, too."""
    named = _NAMED.fullmatch(selector)
    return named[1] if named else ""


def _verb(method: str, info: RequestInfo, query: Mapping[str, str]) -> str:
    if method in _METHOD_VERBS:
        return _METHOD_VERBS[method]
    if method == "DELETE":
        return "delete" if info.name else "deletecollection"
    if method in ("GET", "HEAD"):
        if info.name:
            return "get"
        return "watch" if truthy(query.get("watch")) else "list"
    return method.lower()


def truthy(value: str | None) -> bool:
    """An option as the server's conversion reads it: whatever doesn't deny it says yes."""
    return value is not None and value.lower() not in ("0", "false")
