"""PersistentVolumeClaims: bound to a volume that fits, provisioned by class, and protected while in use."""

from collections.abc import Iterable

from delegate.model.resources import JsonObject
from delegate.simulator import deletions, quantities
from delegate.simulator.controllers.base import Controller, Key, is_finished
from delegate.simulator.store import Change, StorageKey, Stored
from delegate.simulator.strategies import PV_FINALIZER, PVC_FINALIZER

CLAIMS: StorageKey = ("", "persistentvolumeclaims")
VOLUMES: StorageKey = ("", "persistentvolumes")
CLASSES: StorageKey = ("storage.k8s.io", "storageclasses")
PODS: StorageKey = ("", "pods")
COMPONENT = "persistentvolume-controller"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
PROVISIONER_NOTES = ("volume.beta.kubernetes.io/storage-provisioner", "volume.kubernetes.io/storage-provisioner")


class VolumeController(Controller):
    rank = 7
    watched = (CLAIMS, VOLUMES, CLASSES, PODS)

    def keys(self, table: StorageKey, change: Change) -> Iterable[Key]:
        stored = change.stored
        if table == CLAIMS:
            yield stored.namespace, stored.name
        elif table == PODS:
            for volume in stored.body["spec"].get("volumes") or ():
                claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
                if claim:
                    yield stored.namespace, claim
        else:
            if table == VOLUMES:
                yield "", stored.name
            for claim in self.store.table(CLAIMS).items():
                if claim.body["status"].get("phase") == "Pending":
                    yield claim.namespace, claim.name

    def sync(self, key: Key) -> float | None:
        if not key[0]:
            self._settle_volume(key)
            return None
        claim = self.find("", "PersistentVolumeClaim", key)
        if claim is None:
            self._release_volumes(key)
            return None
        if claim.body["metadata"].get("deletionTimestamp"):
            self._unprotect(claim)
        elif claim.body["status"].get("phase") == "Pending":
            self._bind(claim)
        return None

    def _users(self, claim: Stored) -> list[Stored]:
        return [
            pod
            for pod in self.store.table(PODS).items(claim.namespace)
            if not is_finished(pod.body)
            and any(
                (item.get("persistentVolumeClaim") or {}).get("claimName") == claim.name for item in pod.body["spec"].get("volumes") or ()
            )
        ]

    def _unprotect(self, claim: Stored) -> None:
        held = claim.body["metadata"].get("finalizers") or []
        if PVC_FINALIZER in held and not self._users(claim):
            body = claim.copy()
            body["metadata"]["finalizers"] = [item for item in held if item != PVC_FINALIZER]
            self.update(claim, "", "PersistentVolumeClaim", body)

    def _bind(self, claim: Stored) -> None:
        name = claim.body["spec"].get("storageClassName") or ""
        storage = self.store.table(CLASSES).get("", name) if name else None
        waits = storage is not None and storage.body.get("volumeBindingMode") == "WaitForFirstConsumer" and not self._users(claim)
        volume = self._fitting(claim, reserved=waits)
        if volume is None:
            if waits:
                text = "waiting for first consumer to be created before binding"
                self.record(claim, COMPONENT, "Normal", "WaitForFirstConsumer", text)
                return
            if storage is None or storage.body["provisioner"] == NO_PROVISIONER:
                self._lament(claim, name, storage)
                return
            claim = self._await_provisioner(claim, storage)
            volume = self._provision(claim, storage)
        self._tie(claim, volume)

    def _lament(self, claim: Stored, name: str, storage: Stored | None) -> None:
        """Says why nothing can be bound."""
        if storage is not None:
            self.record(claim, COMPONENT, "Warning", "ProvisioningFailed", f"no volume plugin matched name: {NO_PROVISIONER}")
        elif name:
            self.record(claim, COMPONENT, "Warning", "ProvisioningFailed", f'storageclass.storage.k8s.io "{name}" not found')
        else:
            text = "no persistent volumes available for this claim and no storage class is set"
            self.record(claim, COMPONENT, "Normal", "FailedBinding", text)

    def _await_provisioner(self, claim: Stored, storage: Stored) -> Stored:
        """Notes whose turn it is."""
        provisioner = storage.body["provisioner"]
        text = (
            f"Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the system"
            " administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered."
        )
        body = claim.copy()
        body["metadata"].setdefault("annotations", {}).update(dict.fromkeys(PROVISIONER_NOTES, provisioner))
        noted = self.store.commit(CLAIMS, "MODIFIED", claim.namespace, claim.name, body)
        self.record(noted, COMPONENT, "Normal", "ExternalProvisioning", text)
        return noted

    def _fitting(self, claim: Stored, *, reserved: bool) -> Stored | None:
        """The smallest free volume of the class that is large enough and may be accessed as asked; or one that is `reserved` for it."""
        spec = claim.body["spec"]
        wanted = quantities.parse((spec["resources"].get("requests") or {}).get("storage", "0"))
        found = []
        for volume in self.store.table(VOLUMES).items():
            held = volume.body["spec"]
            reference = held.get("claimRef")
            if reserved and not reference:
                continue
            if reference and (reference.get("namespace"), reference.get("name")) != (claim.namespace, claim.name):
                continue
            if volume.body["status"].get("phase") not in ("Available", "Pending", None) and not reference:
                continue
            size = quantities.parse((held.get("capacity") or {}).get("storage", "0"))
            same_class = (held.get("storageClassName") or "") == (spec.get("storageClassName") or "")
            modes = set(spec.get("accessModes") or ()) <= set(held.get("accessModes") or ())
            named = spec.get("volumeName")
            if named == volume.name or (not named and same_class and modes and size >= wanted):
                found.append((size, volume.name, volume))
        return min(found)[2] if found else None

    def _provision(self, claim: Stored, storage: Stored) -> Stored:
        spec = claim.body["spec"]
        provisioner = storage.body["provisioner"]
        body = {
            "metadata": {"name": f"pvc-{claim.uid}", "annotations": {"pv.kubernetes.io/provisioned-by": provisioner}},
            "spec": {
                "capacity": {"storage": (spec["resources"].get("requests") or {}).get("storage", "1Gi")},
                "accessModes": spec.get("accessModes"),
                "persistentVolumeReclaimPolicy": storage.body.get("reclaimPolicy", "Delete"),
                "storageClassName": storage.name,
                "volumeMode": spec.get("volumeMode", "Filesystem"),
                "csi": {"driver": provisioner, "volumeHandle": claim.uid},
            },
        }
        volume = self.create("", "PersistentVolume", "", body)
        self.record(claim, provisioner, "Normal", "ProvisioningSucceeded", f"Successfully provisioned volume {volume.name}")
        return volume

    def _tie(self, claim: Stored, volume: Stored) -> None:
        reference = {
            "kind": "PersistentVolumeClaim",
            "namespace": claim.namespace,
            "name": claim.name,
            "uid": claim.uid,
            "apiVersion": "v1",
            "resourceVersion": str(claim.version),
        }
        body = volume.copy()
        held = body["spec"].get("claimRef") or {}
        if not held:
            body["metadata"].setdefault("annotations", {})[BOUND_BY_CONTROLLER] = "yes"
        if held.get("uid") != claim.uid:
            body["spec"]["claimRef"] = reference
        body["status"] = {"phase": "Bound", "lastPhaseTransitionTime": self.registry.now()}
        self.store.commit(VOLUMES, "MODIFIED", "", volume.name, body)
        bound = claim.copy()
        annotations = bound["metadata"].setdefault("annotations", {})
        annotations["pv.kubernetes.io/bind-completed"] = "yes"
        if not bound["spec"].get("volumeName"):
            annotations[BOUND_BY_CONTROLLER] = "yes"
        bound["spec"]["volumeName"] = volume.name
        bound["status"] = {
            "phase": "Bound",
            "accessModes": volume.body["spec"].get("accessModes"),
            "capacity": volume.body["spec"].get("capacity"),
        }
        self.store.commit(CLAIMS, "MODIFIED", claim.namespace, claim.name, bound)

    def _release_volumes(self, key: Key) -> None:
        """What becomes of a volume whose claim is gone: deleted or kept, as its policy says."""
        for volume in list(self.store.table(VOLUMES).items()):
            reference = volume.body["spec"].get("claimRef") or {}
            if (reference.get("namespace"), reference.get("name")) != key:
                continue
            if volume.body["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
                self.delete(volume, "", "PersistentVolume")
            elif volume.body["status"].get("phase") != "Released":
                self._set_phase(volume, "Released")

    def _settle_volume(self, key: Key) -> None:
        volume = self.find("", "PersistentVolume", key)
        if volume is None:
            return
        held = volume.body["metadata"].get("finalizers") or []
        reference = volume.body["spec"].get("claimRef") or {}
        in_use = self.find("", "PersistentVolumeClaim", (reference.get("namespace", ""), reference.get("name", ""))) is not None
        if volume.body["metadata"].get("deletionTimestamp"):
            if PV_FINALIZER in held and not in_use:
                body = volume.copy()
                body["metadata"]["finalizers"] = [item for item in held if item != PV_FINALIZER]
                resource = self.resource("", "PersistentVolume")
                if deletions.is_released(resource, body):
                    deletions.remove(self.registry, resource, volume, body)
        elif volume.body["status"].get("phase") == "Pending" and not reference:
            self._set_phase(volume, "Available")

    def _set_phase(self, volume: Stored, phase: str) -> None:
        body: JsonObject = volume.copy()
        body["status"] = {"phase": phase, "lastPhaseTransitionTime": self.registry.now()}
        self.store.commit(VOLUMES, "MODIFIED", "", volume.name, body)
