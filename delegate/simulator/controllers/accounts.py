"""What every namespace gets: a default ServiceAccount and the cluster's root certificate."""

from collections.abc import Iterable

from delegate.simulator import statuses
from delegate.simulator.controllers.base import Controller, Key
from delegate.simulator.store import Change, StorageKey

ROOT_CERTIFICATE = "kube-root-ca.crt"
SERVICE_CERTIFICATE = "openshift-service-ca.crt"
"""A second bundle that the recorded control plane publishes."""
_TEXT = "-----BEGIN CERTIFICATE-----\nc2ltdWxhdGVk\n-----END CERTIFICATE-----\n"
_DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP"
    " or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."
)
_BUNDLES = (
    (ROOT_CERTIFICATE, {"kubernetes.io/description": _DESCRIPTION}, {"ca.crt": _TEXT}),
    (SERVICE_CERTIFICATE, {"service.beta.openshift.io/inject-cabundle": "true"}, {"service-ca.crt": ""}),
)


class AccountController(Controller):
    rank = 2
    watched = (("", "namespaces"), ("", "serviceaccounts"), ("", "configmaps"))

    def keys(self, table: StorageKey, change: Change) -> Iterable[Key]:
        if table == ("", "namespaces"):
            if change.type != "DELETED":
                yield "", change.stored.name
        elif change.type == "DELETED" and change.stored.name in ("default", ROOT_CERTIFICATE, SERVICE_CERTIFICATE):
            yield "", change.stored.namespace

    def sync(self, key: Key) -> float | None:
        namespace = self.find("", "Namespace", key)
        if namespace is None or namespace.body["metadata"].get("deletionTimestamp"):
            return None
        try:
            if self.find("", "ServiceAccount", (key[1], "default")) is None:
                self.create("", "ServiceAccount", key[1], {"metadata": {"name": "default"}})
            for name, annotations, data in _BUNDLES:
                if self.find("", "ConfigMap", (key[1], name)) is None:
                    metadata = {"name": name, "annotations": dict(annotations)}
                    self.create("", "ConfigMap", key[1], {"metadata": metadata, "data": dict(data)})
        except statuses.StatusError as error:
            if error.reason != "AlreadyExists":
                raise
        return None
