"""Defaults of configuration, namespaces, claims and volumes."""

from delegate.model.resources import JsonObject


def _secret(body: JsonObject) -> None:
    body.setdefault("type", "Opaque")


def _claim(body: JsonObject) -> None:
    body["spec"].setdefault("volumeMode", "Filesystem")
    body["status"].setdefault("phase", "Pending")


def _volume(body: JsonObject) -> None:
    body["status"].setdefault("phase", "Pending")
    body["spec"].setdefault("persistentVolumeReclaimPolicy", "Retain")
    body["spec"].setdefault("volumeMode", "Filesystem")
    if "hostPath" in body["spec"]:
        body["spec"]["hostPath"].setdefault("type", "")


def _namespace(body: JsonObject) -> None:
    body["status"].setdefault("phase", "Active")
    name = body["metadata"].get("name")
    if name:
        labels = body["metadata"].setdefault("labels", {})
        labels.setdefault("kubernetes.io/metadata.name", name)


def _storage_class(body: JsonObject) -> None:
    body.setdefault("reclaimPolicy", "Delete")
    body.setdefault("volumeBindingMode", "Immediate")


def _driver(body: JsonObject) -> None:
    spec = body["spec"]
    spec.setdefault("attachRequired", True)
    spec.setdefault("podInfoOnMount", False)
    spec.setdefault("storageCapacity", False)
    spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
    if not spec.get("volumeLifecycleModes"):
        spec["volumeLifecycleModes"] = ["Persistent"]
    spec.setdefault("requiresRepublish", False)
    spec.setdefault("seLinuxMount", False)


TABLE = {
    ("", "Secret"): _secret,
    ("", "PersistentVolumeClaim"): _claim,
    ("", "PersistentVolume"): _volume,
    ("", "Namespace"): _namespace,
    ("storage.k8s.io", "StorageClass"): _storage_class,
    ("storage.k8s.io", "CSIDriver"): _driver,
}
