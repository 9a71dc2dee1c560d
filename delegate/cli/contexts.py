"""Which cluster a command of a person works on, decided before anything is sent, so that it can be said."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from delegate.engine.clusters.in_cluster import IN_CLUSTER, IN_CLUSTER_SERVER, is_in_cluster
from delegate.engine.clusters.kubeconfig import Kubeconfig, locate, read_kubeconfig
from delegate.model.tasks import Destination

DEFAULT_NAMESPACE = "default"


@dataclass(frozen=True)
class ChosenCluster:
    """`kubeconfig` is empty for the cluster that we run in, `context` where the destination is no context of it.

    `namespace` is where objects go that name none, as kubectl has it.
    """

    kubeconfig: str
    context: str
    namespace: str
    server: str

    def __str__(self) -> str:
        if not self.kubeconfig:
            return "the cluster that this runs in"
        if not self.context:
            return f"kubeconfig {self.kubeconfig}"
        return f"context {self.context!r} of {self.kubeconfig} ({self.server})"


NO_CLUSTER = ChosenCluster("", "", DEFAULT_NAMESPACE, "")
"""For what asks no cluster."""


def choose_cluster(kubeconfig: str, context: str, destination: Destination, environment: Mapping[str, str] = os.environ) -> ChosenCluster:
    """What `--kubeconfig` and `--context`, the environment and the task's destination lead to, as the engine will resolve it.

    Reads files, sends nothing. Raises KubeconfigError. A destination that no context answers is left for the engine to refuse.
    """
    located = locate(kubeconfig, environment)
    given = bool(kubeconfig or environment.get("KUBECONFIG") or context)
    if not given and is_in_cluster(environment) and not Path(located).exists():
        return ChosenCluster("", "", DEFAULT_NAMESPACE, IN_CLUSTER_SERVER)
    read = read_kubeconfig(located)
    chosen = _context_of(read, context, destination)
    return ChosenCluster(
        kubeconfig=read.description,
        context=chosen,
        namespace=read.namespace_of(chosen) or DEFAULT_NAMESPACE,
        server=read.server_of(chosen),
    )


def _context_of(read: Kubeconfig, context: str, destination: Destination) -> str:
    name, server = destination.name, destination.server.rstrip("/")
    if name in read.contexts and not (name == IN_CLUSTER and context):
        return name
    if name not in ("", IN_CLUSTER):
        return ""
    if not name and server not in ("", IN_CLUSTER_SERVER):
        return next((known for known in read.contexts if read.server_of(known).rstrip("/") == server), "")
    return read.choose(context)
