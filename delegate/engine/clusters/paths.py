"""Where the API serves a kind: pure paths for any kind, namespaced or not, and its subresources."""

from urllib.parse import quote

from delegate.engine.clusters.errors import ClusterError
from delegate.foundation.errors import Category
from delegate.model.resources import ResourceType


class PathError(ClusterError):
    """An object that can't be addressed: a name or namespace is missing, or one too many."""

    default_code = "input.address"
    category = Category.INPUT


def group_version_path(group: str, version: str) -> str:
    return f"/apis/{quote(group, safe='')}/{quote(version, safe='')}" if group else f"/api/{quote(version, safe='')}"


def collection_path(type: ResourceType, namespace: str = "") -> str:
    """Of all objects of a kind, in one namespace or, where that is empty, in all of them."""
    base = group_version_path(type.group, type.version)
    if not namespace:
        return f"{base}/{type.plural}"
    if not type.namespaced:
        raise PathError(f"{type.group_kind} is cluster-scoped and has no namespace {namespace!r}")
    return f"{base}/namespaces/{_segment(namespace, type)}/{type.plural}"


def object_path(type: ResourceType, namespace: str, name: str, subresource: str = "") -> str:
    """Raises PathError where a name is missing, holds a slash, or a namespace doesn't fit the kind."""
    if type.namespaced and not namespace:
        raise PathError(f"{type.group_kind} {name!r} needs a namespace")
    path = f"{collection_path(type, namespace)}/{_segment(name, type)}"
    return f"{path}/{subresource}" if subresource else path


def _segment(text: str, type: ResourceType) -> str:
    # What the API server calls a path segment name (k8s.io/apimachinery/pkg/api/validation/path).
    if not text or text in (".", "..") or "/" in text or "%" in text:
        raise PathError(f"{text!r} is no name that a {type.group_kind} can have in the API")
    return quote(text, safe="")
