"""Advice that comes with a success (Warning headers): about pods and their templates, names, and deprecated fields."""

from typing import Any

from delegate.model.resources import JsonObject
from delegate.simulator import quantities
from delegate.simulator.kinds import Resource
from delegate.simulator.validation.configuration import secret_warnings

_TEMPLATES: dict[tuple[str, str], tuple[str, ...]] = {
    ("apps", "Deployment"): ("spec", "template"),
    ("apps", "ReplicaSet"): ("spec", "template"),
    ("apps", "StatefulSet"): ("spec", "template"),
    ("apps", "DaemonSet"): ("spec", "template"),
    ("batch", "Job"): ("spec", "template"),
    ("batch", "CronJob"): ("spec", "jobTemplate", "spec", "template"),
    ("", "ReplicationController"): ("spec", "template"),
    ("", "PodTemplate"): ("template",),
    ("", "Pod"): (),
}
_NAMES_PODS = {("apps", "Deployment"), ("apps", "ReplicaSet"), ("batch", "Job"), ("batch", "CronJob"), ("", "ReplicationController")}
_NODE_LABELS = {
    "beta.kubernetes.io/arch": ("v1.14", "kubernetes.io/arch"),
    "beta.kubernetes.io/os": ("v1.14", "kubernetes.io/os"),
    "failure-domain.beta.kubernetes.io/region": ("v1.17", "topology.kubernetes.io/region"),
    "failure-domain.beta.kubernetes.io/zone": ("v1.17", "topology.kubernetes.io/zone"),
    "beta.kubernetes.io/instance-type": ("v1.17", "node.kubernetes.io/instance-type"),
}
_OLD_VOLUMES = {
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "gitRepo": "deprecated in v1.11",
}
_BYTES = ("memory", "ephemeral-storage", "storage")
_FORMATS = frozenset(
    {"bsonobjectid", "uri", "email", "hostname", "ipv4", "ipv6", "cidr", "mac", "uuid", "uuid3", "uuid4", "uuid5", "isbn", "isbn10"}
    | {"isbn13", "creditcard", "ssn", "hexcolor", "rgbcolor", "byte", "password", "date", "duration", "datetime", "date-time"}
    | {"int32", "int64", "float", "double", "k8s-short-name", "k8s-long-name"}
)


def warnings(resource: Resource, body: JsonObject) -> list[str]:
    """What to warn of where an object was created or its spec changed, in the server's order."""
    kind = (resource.group, resource.kind)
    found = _names(kind, body["metadata"].get("name", ""))
    if kind in _TEMPLATES:
        return found + _template(body, _TEMPLATES[kind])
    match kind:
        case "", "Secret":
            return secret_warnings(body)
        case "", "Service":
            return _service(body["spec"])
        case "", "PersistentVolumeClaim":
            return _fractions(body["spec"]["resources"], "spec.resources")
        case "", "PersistentVolume":
            return _volume(body["spec"])
        case "networking.k8s.io", "Ingress" if "kubernetes.io/ingress.class" in (body["metadata"].get("annotations") or {}):
            return ["annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead"]
        case "apiextensions.k8s.io", "CustomResourceDefinition":
            return [text for version in body["spec"].get("versions") or () for text in _formats(version.get("schema"))]
        case _:
            return []


def _names(kind: tuple[str, str], name: str) -> list[str]:
    if "." not in name:
        return []
    end = "which can result in surprising behavior; a DNS label is recommended: [must not contain dots]"
    if kind in _NAMES_PODS:
        return [f"metadata.name: this is used in Pod names and hostnames, {end}"]
    return [f"metadata.name: this is used in the Pod's hostname, {end}"] if kind == ("", "Pod") else []


def _template(body: JsonObject, place: tuple[str, ...]) -> list[str]:
    template: Any = body
    for key in place:
        template = template.get(key) or {}
    prefix = ".".join([*place, ""])
    spec, path = template.get("spec") or {}, f"{prefix}spec"
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    found = _node_labels(spec, path)
    if "scheduler.alpha.kubernetes.io/critical-pod" in annotations:
        here = f"{prefix}metadata.annotations[scheduler.alpha.kubernetes.io/critical-pod]"
        found.append(f'{here}: non-functional in v1.16+; use the "priorityClassName" field instead')
    found += _volumes(spec, path) + _aliases(spec, path)
    for key in annotations:
        here = f"{prefix}metadata.annotations[{key}]"
        if key in ("seccomp.security.alpha.kubernetes.io/pod",) or key.startswith("container.seccomp.security.alpha.kubernetes.io/"):
            found.append(f'{here}: non-functional in v1.27+; use the "seccompProfile" field instead')
        elif key.startswith("container.apparmor.security.beta.kubernetes.io/"):
            found.append(f'{here}: deprecated since v1.30; use the "appArmorProfile" field instead')
    for key in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(key) or ()):
            found += _container(container, f"{path}.{key}[{index}]")
    return found + _duplicate_ports(spec, path)


def _node_labels(spec: JsonObject, path: str) -> list[str]:
    found = []
    for key in spec.get("nodeSelector") or ():
        if key in _NODE_LABELS:
            since, instead = _NODE_LABELS[key]
            found.append(f'{path}.nodeSelector[{key}]: deprecated since {since}; use "{instead}" instead')
    for index, item in enumerate(spec.get("topologySpreadConstraints") or ()):
        here, key = f"{path}.topologySpreadConstraints[{index}]", item.get("topologyKey", "")
        if key in _NODE_LABELS:
            since, instead = _NODE_LABELS[key]
            found.append(f'{here}.topologyKey: {key} is deprecated since {since}; use "{instead}" instead')
        if item.get("labelSelector") is None:
            found.append(f"{here}.labelSelector: a null labelSelector results in matching no pod")
    return found


def _volumes(spec: JsonObject, path: str) -> list[str]:
    found = []
    for index, volume in enumerate(spec.get("volumes") or ()):
        here = f"{path}.volumes[{index}]"
        found += [f"{here}.{key}: {_OLD_VOLUMES[key]}" for key in volume if key in _OLD_VOLUMES]
        claim = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
        if claim is not None:
            found += _fractions(claim["spec"].get("resources") or {}, f"{here}.ephemeral.volumeClaimTemplate.spec.resources")
        sources = (volume.get("projected") or {}).get("sources") or ()
        if any(not source for source in sources):
            found.append(f'volume "{volume.get("name", "")}" (Projected) has no sources provided')
    return found


def _aliases(spec: JsonObject, path: str) -> list[str]:
    found = []
    seen: set[str] = set()
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        if alias.get("ip", "") in seen:
            found.append(f'{path}.hostAliases[{index}].ip: duplicate ip "{alias["ip"]}"')
        seen.add(alias.get("ip", ""))
    names: set[str] = set()
    secrets = spec.get("imagePullSecrets") or ()
    for index, secret in enumerate(secrets):
        name = secret.get("name", "")
        if name and name in names:
            found.append(f'{path}.imagePullSecrets[{index}].name: duplicate name "{name}"')
        names.add(name)
    found += [f'{path}.imagePullSecrets[{at}].name: invalid empty name ""' for at, item in enumerate(secrets) if not item.get("name")]
    return found


def _container(container: JsonObject, path: str) -> list[str]:
    found = _fractions(container.get("resources") or {}, f"{path}.resources")
    seen: set[str] = set()
    for at, variable in enumerate(container.get("env") or ()):
        name = variable.get("name", "")
        if name in seen:
            found.append(f'{path}.env[{at}]: hides previous definition of "{name}", which may be dropped when using apply')
        seen.add(name)
    return found


def _fractions(resources: JsonObject, path: str) -> list[str]:
    found = []
    for section in ("limits", "requests"):
        for name, amount in (resources.get(section) or {}).items():
            if name in _BYTES and quantities.parse(amount).denominator != 1:
                found.append(f'{path}.{section}[{name}]: fractional byte value "{amount}" is invalid, must be an integer')
    return found


def _duplicate_ports(spec: JsonObject, path: str) -> list[str]:
    found: list[str] = []
    places: dict[tuple[Any, Any], list[str]] = {}
    names: dict[str, str] = {}
    for key in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(key) or ()):
            for at, port in enumerate(container.get("ports") or ()):
                here = f"{path}.{key}[{index}].ports[{at}]"
                earlier = places.setdefault((port.get("containerPort"), port.get("protocol")), [])
                found += [f"{here}: duplicate port definition with {place}" for place in earlier]
                earlier.append(here)
                name = port.get("name", "")
                if name and name in names:
                    first = names[name]
                    end = f"services and probes that select ports by name will use {first}"
                    found.append(f'{here}: duplicate port name "{name}" with {first}, {end}')
                names.setdefault(name, here)
    return found


def _service(spec: JsonObject) -> list[str]:
    if spec.get("clusterIP") == "None" and spec.get("sessionAffinity") == "ClientIP":
        return ["spec.SessionAffinity is ignored for headless services"]
    return []


def _volume(spec: JsonObject) -> list[str]:
    if spec.get("persistentVolumeReclaimPolicy") != "Recycle":
        return []
    advice = "Instead, the recommended approach is to use dynamic provisioning."
    return [f"spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. {advice}"]


def _formats(schema: Any) -> list[str]:
    found = []
    if isinstance(schema, dict):
        form = schema.get("format")
        if isinstance(form, str) and form and form not in _FORMATS:
            found.append(f'unrecognized format "{form}"')
        for below in schema.values():
            found += _formats(below)
    elif isinstance(schema, list):
        for below in schema:
            found += _formats(below)
    return found
