"""Discovery in both forms, and the version (aggregated: KEP-3352)."""

import base64
import hashlib

from delegate.model.resources import JsonObject
from delegate.simulator import aggregation
from delegate.simulator.kinds import Resource
from delegate.simulator.registry import Registry

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
ADVERTISED = "192.0.2.2:16443"
"""The address that the control plane says it has inside its cluster (a documentation address: nobody is sent there)."""

VERSION: JsonObject = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.2",
    "gitCommit": "0000000000000000000000000000000000000000",
    "gitTreeState": "clean",
    "buildDate": "2026-04-22T00:00:00Z",
    "goVersion": "go1.26",
    "compiler": "gc",
    "platform": "linux/amd64",
}


def wants_aggregated(accept: str) -> bool:
    """Whether the first form that the client accepts and we have is the aggregated one."""
    for part in accept.split(","):
        words = part.strip().replace(" ", "").split(";")
        if "as=APIGroupDiscoveryList" in words:
            if "v=v2" in words:
                return True
            continue
        if words[0] in ("application/json", "*/*"):
            return False
    return False


def aggregated(registry: Registry, *, core: bool) -> JsonObject:
    items = []
    for group in registry.groups:
        if (group == "") is not core:
            continue
        current = [
            {"version": version, "resources": [_aggregated(item) for item in registry.served(group, version)], "freshness": "Current"}
            for version in registry.versions(group)
        ]
        items.append({"metadata": {"name": group} if group else {}, "versions": current})
    for name in [] if core else _elsewhere(registry):
        stale = [{"version": version, "freshness": "Stale"} for version in versions(registry, name.group)]
        items.append({"metadata": {"name": name.group}, "versions": stale})
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _aggregated(resource: Resource) -> JsonObject:
    custom = resource.custom
    kind = {"group": resource.group if custom else "", "version": resource.version if custom else "", "kind": resource.kind}
    found: JsonObject = {
        "resource": resource.plural,
        "responseKind": kind,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        found["shortNames"] = list(resource.short_names)
    if resource.categories:
        found["categories"] = list(resource.categories)
    subresources = []
    for item in resource.subresources.values():
        below = {"group": item.group, "version": item.version, "kind": item.kind} if item.group else {**kind, "kind": item.kind}
        subresources.append({"subresource": item.name, "responseKind": below, "verbs": list(item.verbs)})
    if subresources:
        found["subresources"] = subresources
    return found


def core_versions() -> JsonObject:
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ADVERTISED}],
    }


def versions(registry: Registry, name: str) -> list[str]:
    """The versions of a group, those that other servers are to serve last."""
    return [*registry.versions(name), *(item.version for item in aggregation.remote(registry) if item.group == name)]


def _elsewhere(registry: Registry) -> list[aggregation.GroupVersion]:
    """One of each group that is served elsewhere alone."""
    return list({item.group: item for item in aggregation.remote(registry) if item.group not in registry.groups}.values())


def group(registry: Registry, name: str) -> JsonObject:
    found = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions(registry, name)]
    return {"name": name, "versions": found, "preferredVersion": found[0]}


def groups(registry: Registry) -> JsonObject:
    names = [name for name in registry.groups if name] + [item.group for item in _elsewhere(registry)]
    found = [group(registry, name) for name in names]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": found}


def resources(registry: Registry, name: str, version: str) -> JsonObject:
    found = []
    for resource in registry.served(name, version):
        found.append(_listed(resource))
        for item in resource.subresources.values():
            entry: JsonObject = {"name": f"{resource.plural}/{item.name}", "singularName": "", "namespaced": resource.namespaced}
            if item.group:
                entry |= {"group": item.group, "version": item.version}
            found.append({**entry, "kind": item.kind, "verbs": list(item.verbs)})
    versioned = {} if not name else {"apiVersion": "v1"}
    return {"kind": "APIResourceList", **versioned, "groupVersion": f"{name}/{version}" if name else version, "resources": found}


def _listed(resource: Resource) -> JsonObject:
    found: JsonObject = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        found["shortNames"] = list(resource.short_names)
    if resource.categories:
        found["categories"] = list(resource.categories)
    if "watch" in resource.verbs:
        stored = f"{resource.storage[0]}/{resource.storage_version}/{resource.kind}"
        found["storageVersionHash"] = base64.b64encode(hashlib.sha256(stored.encode()).digest()[:8]).decode()
    return found
