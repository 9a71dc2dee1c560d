"""Values as the server's internal Go structs print them in three messages: a Job's template, a claim's spec, a role reference.

These messages are recorded word by word, and engines show them to people; nothing else should depend on their form.
"""

import difflib
import json
from typing import Any

from delegate.model.resources import JsonObject

_CONTAINER = [
    "Name",
    "Image",
    "Command",
    "Args",
    "WorkingDir",
    "Ports",
    "EnvFrom",
    "Env",
    "Resources",
    "ResizePolicy",
    "RestartPolicy",
    "RestartPolicyRules",
    "VolumeMounts",
    "VolumeDevices",
    "LivenessProbe",
    "ReadinessProbe",
    "StartupProbe",
    "Lifecycle",
    "TerminationMessagePath",
    "TerminationMessagePolicy",
    "ImagePullPolicy",
    "SecurityContext",
    "Stdin",
    "StdinOnce",
    "TTY",
]
_POD = [
    "Volumes",
    "InitContainers",
    "Containers",
    "EphemeralContainers",
    "RestartPolicy",
    "TerminationGracePeriodSeconds",
    "ActiveDeadlineSeconds",
    "DNSPolicy",
    "NodeSelector",
    "ServiceAccountName",
    "AutomountServiceAccountToken",
    "NodeName",
    "SecurityContext",
    "ImagePullSecrets",
    "Hostname",
    "Subdomain",
    "SetHostnameAsFQDN",
    "Affinity",
    "SchedulerName",
    "Tolerations",
    "HostAliases",
    "PriorityClassName",
    "Priority",
    "PreemptionPolicy",
    "DNSConfig",
    "ReadinessGates",
    "RuntimeClassName",
    "Overhead",
    "EnableServiceLinks",
    "TopologySpreadConstraints",
    "OS",
    "SchedulingGates",
    "ResourceClaims",
    "Resources",
    "HostnameOverride",
    "SchedulingGroup",
]
_SECURITY = [
    "HostNetwork",
    "HostPID",
    "HostIPC",
    "ShareProcessNamespace",
    "HostUsers",
    "SELinuxOptions",
    "WindowsOptions",
    "RunAsUser",
    "RunAsGroup",
    "RunAsNonRoot",
    "SupplementalGroups",
    "SupplementalGroupsPolicy",
    "FSGroup",
    "FSGroupChangePolicy",
    "Sysctls",
    "SeccompProfile",
    "AppArmorProfile",
    "SELinuxChangePolicy",
]
_CLAIM = [
    "AccessModes",
    "Selector",
    "Resources",
    "VolumeName",
    "StorageClassName",
    "VolumeMode",
    "DataSource",
    "DataSourceRef",
    "VolumeAttributesClassName",
]
_EMPTY_STRINGS = {"WorkingDir", "ServiceAccountName", "NodeName", "Hostname", "Subdomain", "PriorityClassName", "VolumeName"}
_EMPTY_BOOLEANS = {"Stdin", "StdinOnce", "TTY", "HostNetwork", "HostPID", "HostIPC"}
_SPELLED = {"DNSPolicy": "dnsPolicy", "TTY": "tty", "DNSConfig": "dnsConfig", "OS": "os", "SELinuxOptions": "seLinuxOptions"}
_SPELLED |= {"SELinuxChangePolicy": "seLinuxChangePolicy", "FSGroup": "fsGroup", "FSGroupChangePolicy": "fsGroupChangePolicy"}
_SPELLED |= {"SetHostnameAsFQDN": "setHostnameAsFQDN", "HostPID": "hostPID", "HostIPC": "hostIPC", "HostUsers": "hostUsers"}


def _key(name: str) -> str:
    return _SPELLED.get(name, name[0].lower() + name[1:])


def _empty(name: str) -> Any:
    if name in _EMPTY_STRINGS:
        return ""
    return False if name in _EMPTY_BOOLEANS else None


def _capitalised(value: Any) -> Any:
    """Nested structs, as far as nobody recorded them: the JSON names with a capital."""
    if isinstance(value, dict):
        return {key[:1].upper() + key[1:]: _capitalised(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_capitalised(item) for item in value]
    return value


def _resources(value: JsonObject) -> JsonObject:
    return {"Limits": value.get("limits"), "Requests": value.get("requests"), "Claims": _capitalised(value.get("claims"))}


def _container(container: JsonObject) -> JsonObject:
    out: JsonObject = {}
    for name in _CONTAINER:
        value = container.get(_key(name), _empty(name))
        out[name] = _resources(value or {}) if name == "Resources" else _capitalised(value)
    return out


def job_template(template: JsonObject) -> JsonObject:
    """A pod template: the metadata is inlined, the spec is the internal one."""
    spec = template["spec"]
    shown: JsonObject = {}
    for name in _POD:
        value = spec.get(_key(name), _empty(name))
        if name in ("InitContainers", "Containers", "EphemeralContainers"):
            value = [_container(item) for item in value] if value else None
        elif name == "SecurityContext":
            security = value or {}
            host = {key: spec[key] for key in ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers") if key in spec}
            value = {key: _capitalised((security | host).get(_key(key), _empty(key))) for key in _SECURITY}
        else:
            value = _capitalised(value)
        shown[name] = value
    return {**(template.get("metadata") or {}), "Spec": shown}


def role_reference(reference: JsonObject) -> JsonObject:
    return {"APIGroup": reference.get("apiGroup", ""), "Kind": reference.get("kind", ""), "Name": reference.get("name", "")}


def _claim(spec: JsonObject) -> list[str]:
    shown: JsonObject = {}
    for name in _CLAIM:
        value = spec.get(_key(name), _empty(name))
        if name == "Resources":
            value = {"Limits": (value or {}).get("limits"), "Requests": (value or {}).get("requests")}
        shown[name] = value if name in ("Resources", "AccessModes") else _capitalised(value)
    return json.dumps(shown, indent=1).splitlines(keepends=True)


def claim_difference(old: JsonObject, new: JsonObject) -> str:
    """The unified difference of two claims' specs."""
    lines = list(difflib.unified_diff(_claim(old), _claim(new), n=3))[2:]
    return "".join(line if line.endswith("\n") else line + "\n" for line in lines)
