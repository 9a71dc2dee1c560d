"""The credentials that Kubernetes gives to a pod: two variables and three files, read without any library."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

from delegate.engine.clusters.credentials import Credentials, bearer, read_bounded
from delegate.engine.clusters.errors import CredentialError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
IN_CLUSTER = "in-cluster"
"""What the cluster that we run in is called, as Argo CD calls it."""
IN_CLUSTER_SERVER = "https://kubernetes.default.svc"


def is_in_cluster(environment: Mapping[str, str] = os.environ, directory: Path = SERVICE_ACCOUNT) -> bool:
    return bool(environment.get("KUBERNETES_SERVICE_HOST")) and (directory / "token").is_file()


class InClusterSource:
    """Reads the files anew whenever asked: the kubelet replaces the token every hour or so, and sometimes the CA."""

    def __init__(self, environment: Mapping[str, str] = os.environ, directory: Path = SERVICE_ACCOUNT) -> None:
        self._environment = environment
        self._directory = directory

    @property
    def description(self) -> str:
        return f"the service account in {self._directory}"

    async def load(self, *, rejected: bool = False) -> Credentials:
        del rejected
        return await asyncio.to_thread(self._read)

    def namespace(self) -> str:
        """The namespace that we run in. Blocking; raises CredentialError."""
        return self._content("namespace").decode().strip()

    def _read(self) -> Credentials:
        host, port = self._environment.get("KUBERNETES_SERVICE_HOST", ""), self._environment.get("KUBERNETES_SERVICE_PORT", "443")
        if not host:
            raise CredentialError(
                "KUBERNETES_SERVICE_HOST isn't set, so there is no cluster that we run in",
                hint="give a kubeconfig (DELEGATE_KUBECONFIG, --kubeconfig)",
            )
        token = self._content("token").decode().strip()
        ca = self._content("ca.crt")
        if not token:
            raise CredentialError(f"{self._directory / 'token'} is empty", hint="restart the pod; check its service account")
        address = f"[{host}]" if ":" in host else host
        return Credentials(server=f"https://{address}:{port}", authorization=bearer(token), ca=ca)

    def _content(self, name: str) -> bytes:
        path = self._directory / name
        try:
            return read_bounded(path)
        except OSError as error:
            raise CredentialError(
                f"{path} can't be read: {error.strerror}", hint="the pod needs automountServiceAccountToken: true", file=str(path)
            ) from error
