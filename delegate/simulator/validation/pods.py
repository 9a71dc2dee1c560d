"""Validation of pod specs."""

import re
from typing import Any

from delegate.model.resources import JsonObject
from delegate.simulator import quantities, statuses
from delegate.simulator.statuses import Cause
from delegate.simulator.validation.metadata import label, qualified

_POLICIES = ("Always", "Never", "OnFailure")
_ENV_NAME = re.compile(r"^[\x20-\x3c\x3e-\x7e]+$")


def port_range(path: str, number: Any, low: int = 1) -> list[Cause]:
    if isinstance(number, int) and not low <= number <= 65535:
        return [statuses.invalid_value(path, number, "must be between 1 and 65535, inclusive")]
    return []


def validate_spec(spec: JsonObject, path: str) -> list[Cause]:
    volumes, causes = _volumes(spec.get("volumes") or (), f"{path}.volumes")
    containers = spec.get("containers") or ()
    if not containers:
        causes.append(statuses.required(f"{path}.containers"))
    names: set[str] = set()
    for key in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(key) or ()):
            causes += _container(container, f"{path}.{key}[{index}]", volumes, names)
    policy = spec.get("restartPolicy")
    if not policy:
        causes.append(statuses.required(f"{path}.restartPolicy"))
    elif policy not in _POLICIES:
        causes.append(statuses.unsupported(f"{path}.restartPolicy", policy, _POLICIES))
    dns = spec.get("dnsPolicy")
    supported = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
    if dns not in supported:
        causes.append(statuses.unsupported(f"{path}.dnsPolicy", dns, supported))
    grace = spec.get("terminationGracePeriodSeconds", 0)
    if grace < 0:
        causes.append(statuses.invalid_value(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than or equal to 0"))
    return causes


def _volumes(volumes: Any, path: str) -> tuple[set[str], list[Cause]]:
    names: set[str] = set()
    causes = []
    for index, volume in enumerate(volumes):
        name, here = volume.get("name", ""), f"{path}[{index}]"
        if not name:
            causes.append(statuses.required(f"{here}.name"))
        else:
            causes += [statuses.invalid_value(f"{here}.name", name, text) for text in label(name)]
        if name in names:
            causes.append(statuses.duplicate(f"{here}.name", name))
        names.add(name)
        sources = [key for key in volume if key != "name"]
        if len(sources) > 1:
            causes.append(statuses.forbidden_value(f"{here}.{sources[1]}", "may not specify more than 1 volume type"))
    return names, causes


def _container(container: JsonObject, path: str, volumes: set[str], names: set[str]) -> list[Cause]:
    causes = []
    name = container.get("name", "")
    if not name:
        causes.append(statuses.required(f"{path}.name"))
    else:
        causes += [statuses.invalid_value(f"{path}.name", name, text) for text in label(name)]
    if name in names:
        causes.append(statuses.duplicate(f"{path}.name", name))
    names.add(name)
    image = container.get("image", "")
    if not image:
        causes.append(statuses.required(f"{path}.image"))
    elif image != image.strip():
        causes.append(statuses.invalid_value(f"{path}.image", image, "must not have leading or trailing whitespace"))
    pull = container.get("imagePullPolicy")
    if pull not in ("Always", "IfNotPresent", "Never"):
        causes.append(statuses.unsupported(f"{path}.imagePullPolicy", pull, ("Always", "IfNotPresent", "Never")))
    causes += _ports(container.get("ports") or (), f"{path}.ports")
    causes += _environment(container.get("env") or (), f"{path}.env")
    causes += _mounts(container.get("volumeMounts") or (), f"{path}.volumeMounts", volumes)
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if probe in container:
            causes += _probe(container[probe], f"{path}.{probe}")
    return causes + _amounts(container.get("resources") or {}, f"{path}.resources")


def _ports(ports: Any, path: str) -> list[Cause]:
    causes = []
    seen: set[str] = set()
    for index, port in enumerate(ports):
        here = f"{path}[{index}]"
        name = port.get("name", "")
        if name:
            if len(name) > 15:
                causes.append(statuses.invalid_value(f"{here}.name", name, "must be no more than 15 characters"))
            if name in seen:
                causes.append(statuses.duplicate(f"{here}.name", name))
            seen.add(name)
        number = port.get("containerPort", 0)
        causes += [statuses.required(f"{here}.containerPort")] if not number else port_range(f"{here}.containerPort", number)
        if port.get("protocol") not in ("TCP", "UDP", "SCTP"):
            causes.append(statuses.unsupported(f"{here}.protocol", port.get("protocol"), ("SCTP", "TCP", "UDP")))
        if port.get("hostPort"):
            causes += port_range(f"{here}.hostPort", port["hostPort"])
    return causes


def _environment(variables: Any, path: str) -> list[Cause]:
    causes = []
    for index, variable in enumerate(variables):
        name, here = variable.get("name", ""), f"{path}[{index}]"
        if not name:
            causes.append(statuses.required(f"{here}.name"))
        elif not _ENV_NAME.match(name):
            text = "a valid environment variable name must consist only of printable ASCII characters other than '='"
            causes.append(statuses.invalid_value(f"{here}.name", name, text))
        source = variable.get("valueFrom")
        if source is None:
            continue
        if variable.get("value"):
            causes.append(statuses.invalid_value(f"{here}.valueFrom", "", "may not be specified when `value` is not empty"))
        kinds = [key for key in source if source[key] is not None]
        if not kinds:
            text = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
            causes.append(statuses.invalid_value(f"{here}.valueFrom", "", text))
        elif len(kinds) > 1:
            causes.append(statuses.invalid_value(f"{here}.valueFrom", "", "may not have more than one field specified at a time"))
        causes += [
            statuses.required(f"{here}.valueFrom.{key}.key")
            for key in ("configMapKeyRef", "secretKeyRef")
            if key in source and not source[key].get("key")
        ]
    return causes


def _mounts(mounts: Any, path: str, volumes: set[str]) -> list[Cause]:
    causes = []
    places: set[str] = set()
    for index, mount in enumerate(mounts):
        here = f"{path}[{index}]"
        if not mount.get("name"):
            causes.append(statuses.required(f"{here}.name"))
        elif mount["name"] not in volumes:
            causes.append(statuses.cause("FieldValueNotFound", f"{here}.name", "", mount["name"]))
        place = mount.get("mountPath", "")
        if not place:
            causes.append(statuses.required(f"{here}.mountPath"))
        if place in places:
            causes.append(statuses.invalid_value(f"{here}.mountPath", place, "must be unique"))
        places.add(place)
    return causes


def _probe(probe: JsonObject, path: str) -> list[Cause]:
    causes = []
    handlers = [key for key in ("exec", "httpGet", "tcpSocket", "grpc") if key in probe]
    if not handlers:
        causes.append(statuses.required(path, "must specify a handler type"))
    causes += [statuses.forbidden_value(f"{path}.{key}", "may not specify more than 1 handler type") for key in handlers[1:]]
    for key in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"):
        if probe.get(key, 0) < 0:
            causes.append(statuses.invalid_value(f"{path}.{key}", probe[key], "must be greater than or equal to 0"))
    for key in ("httpGet", "tcpSocket"):
        if key in probe:
            causes += port_range(f"{path}.{key}.port", probe[key].get("port"))
    if not path.endswith("readinessProbe") and probe.get("successThreshold", 1) != 1:
        causes.append(statuses.invalid_value(f"{path}.successThreshold", probe["successThreshold"], "must be 1"))
    return causes


def _amounts(resources: JsonObject, path: str) -> list[Cause]:
    causes = []
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for section, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            here = f"{path}.{section}.{name}" if section == "requests" else f"{path}.{section}[{name}]"
            causes += [statuses.invalid_value(f"{path}.{section}[{name}]", name, text) for text in qualified(name)]
            if quantities.parse(amount) < 0:
                causes.append(statuses.invalid_value(here, amount, "must be greater than or equal to 0"))
    for name, amount in requests.items():
        if name in limits and quantities.parse(amount) > quantities.parse(limits[name]):
            text = f"must be less than or equal to {name} limit of {limits[name]}"
            causes.append(statuses.invalid_value(f"{path}.requests", amount, text))
    return causes
