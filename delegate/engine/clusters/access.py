"""Asks a cluster what we may do, and who it takes us for (authorization.k8s.io/v1, authentication.k8s.io/v1)."""

import msgspec

from delegate.engine.clusters.client import ApiClient
from delegate.model.resources import JsonObject

_ACCESS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class Access(msgspec.Struct, frozen=True):
    """One permission: a verb on a resource (a plural, or plural/subresource), in a namespace or (empty) cluster-wide."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""


async def may(client: ApiClient, access: Access) -> bool:
    """Whether we are allowed. Raises ClusterError."""
    resource, _, subresource = access.resource.partition("/")
    attributes = {
        "verb": access.verb,
        "group": access.group,
        "resource": resource,
        "subresource": subresource,
        "namespace": access.namespace,
        "name": access.name,
    }
    body: JsonObject = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {key: value for key, value in attributes.items() if value or key == "group"}},
    }
    answer = await client.review(_ACCESS, body)
    status = answer.get("status")
    return isinstance(status, dict) and status.get("allowed") is True


async def user_name(client: ApiClient) -> str:
    """Who the cluster takes us for; empty where it doesn't say (before 1.28). Raises ClusterError."""
    answer = await client.review(_SELF, {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
    information = (answer.get("status") or {}).get("userInfo") or {}
    return str(information.get("username") or "")
