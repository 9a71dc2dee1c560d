"""Validation of containers."""

import re
from typing import Any

from delegate.model.resources import JsonObject
from delegate.simulator import quantities, statuses
from delegate.simulator.naming import label, subdomain
from delegate.simulator.statuses import Cause
from delegate.simulator.validation.values import amounts, between, chosen, named, not_negative, port_name, port_or_name, port_range

LARGEST_ID = 2**31 - 1
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_ENV_NAME = re.compile(r"[\x20-\x3c\x3e-\x7e]+\Z")
_ENV_TEXT = "a valid environment variable name must consist only of printable ASCII characters other than '='"
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_NO_SOURCE = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"


def container_causes(container: JsonObject, path: str, volumes: set[str], names: set[str], *, init: bool = False) -> list[Cause]:
    """`names` has those of the containers before it and gets this one's."""
    name = container.get("name", "")
    causes = named(f"{path}.name", name, label) if name else [statuses.required(f"{path}.name")]
    if name in names:
        causes.append(statuses.duplicate(f"{path}.name", name))
    if name:
        names.add(name)
    image = container.get("image", "")
    if not image:
        causes.append(statuses.required(f"{path}.image"))
    elif image != image.strip():
        causes.append(statuses.invalid_value(f"{path}.image", image, "must not have leading or trailing whitespace"))
    causes += _lifecycle(container, path)
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if probe in container and not (init and container.get("restartPolicy") != "Always"):
            causes += _probe(container[probe], f"{path}.{probe}")
        elif probe in container:
            text = "may not be set for init containers without restartPolicy=Always"
            causes.append(statuses.forbidden_value(f"{path}.{probe}", text))
    causes += _ports(container.get("ports") or (), f"{path}.ports")
    causes += _environment(container.get("env") or (), f"{path}.env")
    causes += _sources(container.get("envFrom") or (), f"{path}.envFrom")
    causes += _mounts(container.get("volumeMounts") or (), f"{path}.volumeMounts", volumes)
    causes += chosen(f"{path}.imagePullPolicy", container.get("imagePullPolicy"), _PULL_POLICIES)
    causes += _resources(container.get("resources") or {}, f"{path}.resources")
    return causes + _security(container.get("securityContext") or {}, f"{path}.securityContext")


def _lifecycle(container: JsonObject, path: str) -> list[Cause]:
    causes = []
    for key in ("postStart", "preStop"):
        hook = (container.get("lifecycle") or {}).get(key)
        if hook is not None:
            causes += _handler(hook, f"{path}.lifecycle.{key}")
    return causes


def _handler(handler: JsonObject, path: str) -> list[Cause]:
    """What a probe or a hook does: exactly one thing."""
    causes: list[Cause] = []
    kinds = [key for key in _HANDLERS if handler.get(key) is not None]
    for at, kind in enumerate(kinds):
        if at:
            causes.append(statuses.forbidden_value(f"{path}.{kind}", "may not specify more than 1 handler type"))
            continue
        action, here = handler[kind], f"{path}.{kind}"
        match kind:
            case "exec":
                causes += [] if action.get("command") else [statuses.required(f"{here}.command")]
            case "httpGet":
                causes += [] if action.get("path") else [statuses.required(f"{here}.path")]
                causes += port_or_name(f"{here}.port", action.get("port", 0))
                causes += chosen(f"{here}.scheme", action.get("scheme"), ("HTTP", "HTTPS"))
            case "tcpSocket":
                causes += port_or_name(f"{here}.port", action.get("port", 0))
            case "grpc":
                causes += port_range(f"{here}.port", action.get("port", 0))
            case _:
                pass
    return causes or ([] if kinds else [statuses.required(path, "must specify a handler type")])


def _probe(probe: JsonObject, path: str) -> list[Cause]:
    causes = _handler(probe, path)
    for key in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"):
        causes += not_negative(f"{path}.{key}", probe.get(key))
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        causes.append(statuses.invalid_value(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0"))
    if not path.endswith("readinessProbe") and probe.get("successThreshold", 1) != 1:
        causes.append(statuses.invalid_value(f"{path}.successThreshold", probe["successThreshold"], "must be 1"))
    return causes


def _ports(ports: Any, path: str) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, port in enumerate(ports):
        here = f"{path}[{index}]"
        name = port.get("name", "")
        wrong = port_name(name) if name else []
        causes += [statuses.invalid_value(f"{here}.name", name, text) for text in wrong]
        if name and not wrong and name in seen:
            causes.append(statuses.duplicate(f"{here}.name", name))
        seen.add(name)
        number = port.get("containerPort", 0)
        causes += [statuses.required(f"{here}.containerPort")] if not number else port_range(f"{here}.containerPort", number)
        if port.get("hostPort"):
            causes += port_range(f"{here}.hostPort", port["hostPort"])
        causes += chosen(f"{here}.protocol", port.get("protocol"), _PROTOCOLS) if port.get("protocol") else []
    return causes


def _environment(variables: Any, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, variable in enumerate(variables):
        name, here = variable.get("name", ""), f"{path}[{index}]"
        if not name:
            causes.append(statuses.required(f"{here}.name"))
        elif not _ENV_NAME.match(name):
            causes.append(statuses.invalid_value(f"{here}.name", name, _ENV_TEXT))
        if variable.get("valueFrom") is not None:
            causes += _value_from(variable, f"{here}.valueFrom")
    return causes


def _value_from(variable: JsonObject, path: str) -> list[Cause]:
    source = variable["valueFrom"]
    kinds = [key for key in source if source[key] is not None]
    causes: list[Cause] = []
    for kind in ("configMapKeyRef", "secretKeyRef"):
        if kind in source:
            causes += [] if source[kind].get("name") else [statuses.required(f"{path}.{kind}.name")]
            causes += [] if source[kind].get("key") else [statuses.required(f"{path}.{kind}.key")]
    if "fieldRef" in source and not source["fieldRef"].get("fieldPath"):
        causes.append(statuses.required(f"{path}.fieldRef.fieldPath"))
    if "resourceFieldRef" in source and not source["resourceFieldRef"].get("resource"):
        causes.append(statuses.required(f"{path}.resourceFieldRef.resource"))
    if not kinds:
        return [statuses.invalid_value(path, "", _NO_SOURCE)]
    if variable.get("value"):
        causes.append(statuses.invalid_value(path, "", "may not be specified when `value` is not empty"))
    elif len(kinds) > 1:
        causes.append(statuses.invalid_value(path, "", "may not have more than one field specified at a time"))
    return causes


def _sources(sources: Any, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, source in enumerate(sources):
        here = f"{path}[{index}]"
        kinds = [key for key in ("configMapRef", "secretRef") if source.get(key) is not None]
        prefix = source.get("prefix", "")
        if prefix and not _ENV_NAME.match(prefix):
            causes.append(statuses.invalid_value(f"{here}.prefix", prefix, _ENV_TEXT))
        if not kinds:
            causes.append(statuses.invalid_value(here, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(kinds) > 1:
            causes.append(statuses.invalid_value(here, "", "may not have more than one field specified at a time"))
        for kind in kinds:
            name = source[kind].get("name", "")
            causes += named(f"{here}.{kind}.name", name, subdomain) if name else [statuses.required(f"{here}.{kind}.name")]
    return causes


def _mounts(mounts: Any, path: str, volumes: set[str]) -> list[Cause]:
    causes: list[Cause] = []
    places: set[str] = set()
    for index, mount in enumerate(mounts):
        here = f"{path}[{index}]"
        name, place = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            causes.append(statuses.required(f"{here}.name"))
        if name not in volumes:
            causes.append(statuses.cause("FieldValueNotFound", f"{here}.name", "", name))
        if not place:
            causes.append(statuses.required(f"{here}.mountPath"))
        if place in places:
            causes.append(statuses.invalid_value(f"{here}.mountPath", place, "must be unique"))
        places.add(place)
        below = mount.get("subPath", "")
        if below.startswith("/"):
            causes.append(statuses.invalid_value(f"{here}.subPath", below, "must be a relative path"))
        elif ".." in below.split("/"):
            causes.append(statuses.invalid_value(f"{here}.subPath", below, "must not contain '..'"))
    return causes


def _resources(resources: JsonObject, path: str) -> list[Cause]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    causes = amounts(f"{path}.limits", limits) + amounts(f"{path}.requests", requests)
    for name, amount in requests.items():
        if name in limits and quantities.parse(amount) > quantities.parse(limits[name]):
            text = f"must be less than or equal to {name} limit of {limits[name]}"
            causes.append(statuses.invalid_value(f"{path}.requests", amount, text))
    return causes


def _security(context: JsonObject, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for key in ("runAsUser", "runAsGroup"):
        causes += between(f"{path}.{key}", context.get(key), 0, LARGEST_ID)
    return causes
