"""What every namespace gets: a default ServiceAccount and the cluster's root certificate."""

from collections.abc import Iterable

from delegate.simulator import statuses
from delegate.simulator.controllers.base import Controller, Key
from delegate.simulator.store import Change, StorageKey

ROOT_CERTIFICATE = "kube-root-ca.crt"
_TEXT = "-----BEGIN CERTIFICATE-----\nc2ltdWxhdGVk\n-----END CERTIFICATE-----\n"
_DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP"
    " or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."
)


class AccountController(Controller):
    rank = 2
    watched = (("", "namespaces"), ("", "serviceaccounts"), ("", "configmaps"))

    def keys(self, table: StorageKey, change: Change) -> Iterable[Key]:
        if table == ("", "namespaces"):
            if change.type != "DELETED":
                yield "", change.stored.name
        elif change.type == "DELETED" and change.stored.name in ("default", ROOT_CERTIFICATE):
            yield "", change.stored.namespace

    def sync(self, key: Key) -> float | None:
        namespace = self.find("", "Namespace", key)
        if namespace is None or namespace.body["metadata"].get("deletionTimestamp"):
            return None
        try:
            if self.find("", "ServiceAccount", (key[1], "default")) is None:
                self.create("", "ServiceAccount", key[1], {"metadata": {"name": "default"}})
            if self.find("", "ConfigMap", (key[1], ROOT_CERTIFICATE)) is None:
                metadata = {"name": ROOT_CERTIFICATE, "annotations": {"kubernetes.io/description": _DESCRIPTION}}
                self.create("", "ConfigMap", key[1], {"metadata": metadata, "data": {"ca.crt": _TEXT}})
        except statuses.StatusError as error:
            if error.reason != "AlreadyExists":
                raise
        return None
