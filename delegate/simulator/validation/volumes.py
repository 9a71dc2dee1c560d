"""Validation of the volumes of pods, and of the volumes and claims of a cluster."""

from collections.abc import Callable
from typing import Any

from delegate.model.resources import JsonObject
from delegate.simulator import quantities, statuses
from delegate.simulator.naming import label, subdomain
from delegate.simulator.statuses import Cause
from delegate.simulator.validation.metadata import validate_annotations, validate_labels
from delegate.simulator.validation.selectors import selector_causes
from delegate.simulator.validation.values import chosen, named

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODES = ("Block", "Filesystem")
_HOST_PATH_TYPES = ("BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket", "")
_FILE_MODE_TEXT = "must be a number between 0 and 0777 (octal), both inclusive"
_NO_SOURCE = {
    "accessModes",
    "capacity",
    "claimRef",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "mountOptions",
    "volumeMode",
    "nodeAffinity",
    "volumeAttributesClassName",
}
_REQUIRED: dict[str, tuple[str, ...]] = {
    "awsElasticBlockStore": ("volumeID",),
    "azureFile": ("secretName", "shareName"),
    "cephfs": ("monitors",),
    "cinder": ("volumeID",),
    "csi": ("driver",),
    "fc": (),
    "flexVolume": ("driver",),
    "gcePersistentDisk": ("pdName",),
    "glusterfs": ("endpoints", "path"),
    "iscsi": ("targetPortal", "iqn"),
    "nfs": ("server", "path"),
    "persistentVolumeClaim": ("claimName",),
    "rbd": ("monitors", "image"),
    "secret": ("secretName",),
    "configMap": ("name",),
    "hostPath": ("path",),
}
"""Members that a source can't do without."""


def pod_volumes(volumes: Any, path: str) -> tuple[set[str], list[Cause]]:
    """The names of a pod's volumes, and what is wrong with them."""
    names: set[str] = set()
    causes: list[Cause] = []
    for index, volume in enumerate(volumes or ()):
        name, here = volume.get("name", ""), f"{path}[{index}]"
        wrong = [statuses.required(f"{here}.name")] if not name else named(f"{here}.name", name, label)
        if not wrong and name in names:
            wrong = [statuses.duplicate(f"{here}.name", name)]
        sources = [key for key in volume if key != "name"]
        for at, key in enumerate(sources):
            if at:
                wrong.append(statuses.forbidden_value(f"{here}.{key}", "may not specify more than 1 volume type"))
            else:
                wrong += _source(key, volume[key], f"{here}.{key}")
        if not wrong:
            names.add(name)
        causes += wrong
    return names, causes


def _source(kind: str, source: JsonObject, path: str) -> list[Cause]:
    causes = [statuses.required(f"{path}.{key}") for key in _REQUIRED.get(kind, ()) if not source.get(key)]
    rule = _SOURCES.get(kind)
    return causes + (rule(source, path) if rule else [])


def _mode(source: JsonObject, path: str, key: str = "defaultMode") -> list[Cause]:
    mode = source.get(key)
    return [statuses.invalid_value(f"{path}.{key}", mode, _FILE_MODE_TEXT)] if mode is not None and not 0 <= mode <= 0o777 else []


def _items(source: JsonObject, path: str) -> list[Cause]:
    causes = []
    for index, item in enumerate(source.get("items") or ()):
        here = f"{path}.items[{index}]"
        if not item.get("key"):
            causes.append(statuses.required(f"{here}.key"))
        causes += relative_path(f"{here}.path", item.get("path", "")) + _mode(item, here, "mode")
    return causes


def relative_path(path: str, value: str) -> list[Cause]:
    if not value:
        return [statuses.required(path)]
    if value.startswith("/"):
        return [statuses.invalid_value(path, value, "must be a relative path")]
    return [*no_backsteps(path, value), *_no_leading_dots(path, value)]


def _no_leading_dots(path: str, value: str) -> list[Cause]:
    if value.startswith("..") and not value.startswith("../"):
        return [statuses.invalid_value(path, value, "must not start with '..'")]
    return []


def no_backsteps(path: str, value: str) -> list[Cause]:
    return [statuses.invalid_value(path, value, "must not contain '..'")] if ".." in value.split("/") else []


def _files(source: JsonObject, path: str) -> list[Cause]:
    return _mode(source, path) + _items(source, path)


def _downward(source: JsonObject, path: str) -> list[Cause]:
    causes = _mode(source, path)
    for item in source.get("items") or ():
        if not item.get("path"):
            causes.append(statuses.required(f"{path}.path"))
        else:
            causes += relative_path(f"{path}.path", item["path"])
        if "fieldRef" not in item and "resourceFieldRef" not in item:
            causes.append(statuses.required(path, "one of fieldRef and resourceFieldRef is required"))
        causes += _mode(item, path, "mode")
    return causes


def _host_path(source: JsonObject, path: str) -> list[Cause]:
    causes = no_backsteps(f"{path}.path", source.get("path", ""))
    return causes + (chosen(f"{path}.type", source.get("type", ""), _HOST_PATH_TYPES) if source.get("path") else [])


def _nfs(source: JsonObject, path: str) -> list[Cause]:
    place = source.get("path", "")
    return [] if place.startswith("/") else [statuses.invalid_value(f"{path}.path", place, "must be an absolute path")]


def _empty(source: JsonObject, path: str) -> list[Cause]:
    if "sizeLimit" in source and quantities.parse(source["sizeLimit"]) < 0:
        return [statuses.forbidden_value(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")]
    return []


def _ephemeral(source: JsonObject, path: str) -> list[Cause]:
    template = source.get("volumeClaimTemplate")
    if template is None:
        return [statuses.required(f"{path}.volumeClaimTemplate")]
    here = f"{path}.volumeClaimTemplate"
    metadata = template.get("metadata") or {}
    causes = validate_annotations(metadata.get("annotations"), f"{here}.metadata.annotations")
    causes += validate_labels(metadata.get("labels"), f"{here}.metadata.labels")
    return causes + claim_causes(template.get("spec") or {}, f"{here}.spec")


def _projected(source: JsonObject, path: str) -> list[Cause]:
    causes = _mode(source, path)
    for index, item in enumerate(source.get("sources") or ()):
        here = f"{path}.sources[{index}]"
        for key in ("secret", "configMap"):
            if key in item:
                causes += [] if item[key].get("name") else [statuses.required(f"{here}.{key}.name")]
                causes += _items(item[key], f"{here}.{key}")
        if "downwardAPI" in item:
            causes += _downward(item["downwardAPI"], f"{here}.downwardAPI")
        token = item.get("serviceAccountToken")
        if token is not None:
            seconds = token.get("expirationSeconds", 3600)
            if seconds < 600:
                text = "may not specify a duration less than 10 minutes"
                causes.append(statuses.invalid_value(f"{here}.serviceAccountToken.expirationSeconds", seconds, text))
            if not token.get("path"):
                causes.append(statuses.required(f"{here}.serviceAccountToken.path"))
    return causes


def _image(source: JsonObject, path: str) -> list[Cause]:
    return chosen(f"{path}.pullPolicy", source.get("pullPolicy"), ("Always", "IfNotPresent", "Never"), optional=True)


_SOURCES: dict[str, Callable[[JsonObject, str], list[Cause]]] = {
    "secret": _files,
    "configMap": _files,
    "downwardAPI": _downward,
    "hostPath": _host_path,
    "nfs": _nfs,
    "emptyDir": _empty,
    "ephemeral": _ephemeral,
    "projected": _projected,
    "image": _image,
}


def _modes(spec: JsonObject, path: str) -> list[Cause]:
    modes = spec.get("accessModes") or []
    causes = [cause for mode in modes for cause in chosen(f"{path}.accessModes", mode, ACCESS_MODES)]
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        causes.append(statuses.forbidden_value(f"{path}.accessModes", "may not use ReadWriteOncePod with other access modes"))
    return causes


def claim_causes(spec: JsonObject, path: str) -> list[Cause]:
    causes: list[Cause] = []
    if not spec.get("accessModes"):
        causes.append(statuses.required(f"{path}.accessModes", "at least 1 access mode is required"))
    if spec.get("selector") is not None:
        causes += selector_causes(spec["selector"], f"{path}.selector")
    causes += _modes(spec, path)
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if size is None:
        causes.append(statuses.required(f"{path}.resources[storage]"))
    elif quantities.parse(size) <= 0:
        causes.append(statuses.invalid_value(f"{path}.resources[storage]", size, "must be greater than zero"))
    causes += named(f"{path}.storageClassName", spec.get("storageClassName"), subdomain)
    return causes + chosen(f"{path}.volumeMode", spec.get("volumeMode"), _VOLUME_MODES, optional=True)


def _claim(body: JsonObject) -> list[Cause]:
    return claim_causes(body["spec"], "spec")


def _volume(body: JsonObject) -> list[Cause]:
    spec = body["spec"]
    causes = [] if spec.get("accessModes") else [statuses.required("spec.accessModes")]
    causes += _modes(spec, "spec")
    capacity = spec.get("capacity")
    if not capacity:
        causes.append(statuses.required("spec.capacity"))
    if list(capacity or ()) != ["storage"]:
        causes.append(statuses.unsupported("spec.capacity", dict(sorted(capacity.items())) if capacity else None, ("storage",)))
    for name, amount in (capacity or {}).items():
        if quantities.parse(amount) <= 0:
            causes.append(statuses.invalid_value(f"spec.capacity[{name}]", amount, "must be greater than zero"))
    policy = spec.get("persistentVolumeReclaimPolicy")
    causes += chosen("spec.persistentVolumeReclaimPolicy", policy, ("Delete", "Recycle", "Retain"), optional=True)
    if "nodeAffinity" in spec and "required" not in spec["nodeAffinity"]:
        causes.append(statuses.required("spec.nodeAffinity.required", "must specify required node constraints"))
    sources = [key for key in spec if key not in _NO_SOURCE]
    if not sources:
        causes.append(statuses.required("spec", "must specify a volume type"))
    causes += [statuses.forbidden_value(f"spec.{key}", "may not specify more than 1 volume type") for key in sources[1:]]
    for key in sources[:1]:
        causes += _volume_source(key, spec)
    causes += named("spec.storageClassName", spec.get("storageClassName"), subdomain)
    return causes + chosen("spec.volumeMode", spec.get("volumeMode"), _VOLUME_MODES, optional=True)


def _volume_source(key: str, spec: JsonObject) -> list[Cause]:
    source, path = spec[key], f"spec.{key}"
    causes = _source(key, source, path)
    if key == "csi" and not source.get("volumeHandle"):
        causes.append(statuses.required(f"{path}.volumeHandle"))
    if key == "local":
        if not source.get("path"):
            causes.append(statuses.required(f"{path}.path"))
        if "nodeAffinity" not in spec:
            causes.append(statuses.required("spec.nodeAffinity", "Local volume requires node affinity"))
    if key == "hostPath" and source.get("path") == "/" and spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        text = "may not be 'recycle' for a hostPath mount of '/'"
        causes.append(statuses.forbidden_value("spec.persistentVolumeReclaimPolicy", text))
    return causes


TABLE = {("", "PersistentVolumeClaim"): _claim, ("", "PersistentVolume"): _volume}
