"""Pod Security Standards by the namespace's labels: the checks of `baseline` and `restricted` that pod specs commonly meet."""

from typing import Any

from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.kinds import Resource
from delegate.simulator.registry import Registry, labels_of

PREFIX = "pod-security.kubernetes.io/"
_BASELINE_CAPABILITIES = frozenset(
    {
        "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP",
        "SETUID", "SYS_CHROOT",
    }
)  # fmt: skip
_RESTRICTED_VOLUMES = ("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret")


def check(registry: Registry, resource: Resource, namespace: str, body: JsonObject) -> list[str]:
    """Refuses a pod below the enforced level; warns of pods and templates below the level that is warned of."""
    if not namespace:
        return []
    found = registry.store.table(("", "namespaces")).get("", namespace)
    labels = labels_of(found.body) if found is not None else {}
    if not any(key.startswith(PREFIX) for key in labels):
        return []
    spec = _pod_spec(resource, body)
    if spec is None:
        return []
    if resource.kind == "Pod":
        level = labels.get(PREFIX + "enforce", "privileged")
        problems = violations(spec, level)
        if problems:
            named = f"{level}:{labels.get(PREFIX + 'enforce-version', 'latest')}"
            why = f'violates PodSecurity "{named}": {", ".join(problems)}'
            raise statuses.forbidden("pods", "", body["metadata"].get("name", ""), why)
    level = labels.get(PREFIX + "warn", "privileged")
    problems = violations(spec, level)
    named = f"{level}:{labels.get(PREFIX + 'warn-version', 'latest')}"
    return [f'would violate PodSecurity "{named}": {", ".join(problems)}'] if problems else []


def _pod_spec(resource: Resource, body: JsonObject) -> JsonObject | None:
    if resource.kind == "Pod":
        return body.get("spec")
    spec: Any = body.get("spec") or {}
    if resource.kind == "CronJob":
        spec = (spec.get("jobTemplate") or {}).get("spec") or {}
    template = spec.get("template") if isinstance(spec, dict) else None
    return template.get("spec") if isinstance(template, dict) else None


def violations(spec: JsonObject, level: str) -> list[str]:
    """What keeps a pod spec below a level, in the standard's words."""
    if level not in ("baseline", "restricted"):
        return []
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    found = _baseline(spec, containers)
    return found + _restricted(spec, containers) if level == "restricted" else found


def _named(containers: list[JsonObject]) -> str:
    names = ", ".join(f'"{item["name"]}"' for item in containers)
    return f"container{'s' if len(containers) > 1 else ''} {names}"


def _security(container: JsonObject) -> JsonObject:
    return container.get("securityContext") or {}


def _baseline(spec: JsonObject, containers: list[JsonObject]) -> list[str]:
    found = []
    shared = [key for key in ("hostNetwork", "hostPID", "hostIPC") if spec.get(key)]
    if shared:
        found.append("host namespaces (" + ", ".join(f"{key}=true" for key in shared) + ")")
    privileged = [item for item in containers if _security(item).get("privileged")]
    if privileged:
        found.append(f"privileged ({_named(privileged)} must not set securityContext.privileged=true)")
    for container in containers:
        added = set((_security(container).get("capabilities") or {}).get("add") or ()) - _BASELINE_CAPABILITIES
        if added:
            listed = ", ".join(f'"{item}"' for item in sorted(added))
            found.append(f"non-default capabilities ({_named([container])} must not include {listed} in securityContext.capabilities.add)")
    paths = [volume["name"] for volume in spec.get("volumes") or () if "hostPath" in volume]
    if paths:
        found.append(f"hostPath volumes (volume{'s' if len(paths) > 1 else ''} " + ", ".join(f'"{name}"' for name in paths) + ")")
    ports = [(item, port["hostPort"]) for item in containers for port in item.get("ports") or () if port.get("hostPort")]
    if ports and not spec.get("hostNetwork"):
        listed = ", ".join(str(port) for _, port in ports)
        found.append(f"hostPort ({_named([ports[0][0]])} uses hostPort{'s' if len(ports) > 1 else ''} {listed})")
    return found


def _restricted(spec: JsonObject, containers: list[JsonObject]) -> list[str]:
    found = []
    pod = spec.get("securityContext") or {}
    volumes = [item["name"] for item in spec.get("volumes") or () if not any(key in item for key in _RESTRICTED_VOLUMES)]
    if volumes:
        listed = ", ".join(f'"{name}"' for name in volumes)
        found.append(f"restricted volume types (volume{'s' if len(volumes) > 1 else ''} {listed} uses restricted volume type)")
    escalating = [item for item in containers if _security(item).get("allowPrivilegeEscalation") is not False]
    if escalating:
        text = f"{_named(escalating)} must set securityContext.allowPrivilegeEscalation=false"
        found.append(f"allowPrivilegeEscalation != false ({text})")
    capable = [item for item in containers if "ALL" not in ((_security(item).get("capabilities") or {}).get("drop") or ())]
    if capable:
        found.append(f'unrestricted capabilities ({_named(capable)} must set securityContext.capabilities.drop=["ALL"])')
    rooted = [item for item in containers if not _security(item).get("runAsNonRoot", pod.get("runAsNonRoot"))]
    if rooted:
        found.append(f"runAsNonRoot != true (pod or {_named(rooted)} must set securityContext.runAsNonRoot=true)")
    zero = [item for item in containers if _security(item).get("runAsUser") == 0]
    if pod.get("runAsUser") == 0 or zero:
        found.append(f"runAsUser=0 ({_named(zero) if zero else 'pod'} must not set runAsUser=0)")
    profile = (pod.get("seccompProfile") or {}).get("type")
    open_ = [
        item
        for item in containers
        if (_security(item).get("seccompProfile") or {}).get("type", profile) not in ("RuntimeDefault", "Localhost")
    ]
    if open_:
        text = f'pod or {_named(open_)} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
        found.append(f"seccompProfile ({text})")
    return found
