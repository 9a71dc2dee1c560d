"""The clusters that this delegate reaches, opened when first used: the one it runs in, contexts of its kubeconfig, cluster Secrets.

A cluster is known by the uid of its kube-system namespace, whatever it is called here. One that can't be reached stands in
nobody's way: it is left out of what is announced, and opening it says why.
"""

import asyncio
import contextlib
import difflib
import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import structlog

from delegate.engine.clusters import errors
from delegate.engine.clusters.client import ApiClient, new_client
from delegate.engine.clusters.cluster_secrets import CLUSTER_SECRETS, ClusterSecrets, SecretCluster, SecretClusterSource
from delegate.engine.clusters.credentials import CredentialSource
from delegate.engine.clusters.discovery import Discovery
from delegate.engine.clusters.in_cluster import IN_CLUSTER, IN_CLUSTER_SERVER, InClusterSource, is_in_cluster
from delegate.engine.clusters.kubeconfig import Kubeconfig, KubeconfigSource, read_kubeconfig
from delegate.engine.clusters.metering import OnRequest
from delegate.engine.clusters.retrying import ONE_TRY
from delegate.engine.clusters.transport import ProxyFor, Transport
from delegate.foundation.clocks import SYSTEM_CLOCK, Clock
from delegate.foundation.lifecycle.retrying import Retrying
from delegate.model.resource_types import NAMESPACES, SECRETS
from delegate.model.resources import JsonObject
from delegate.model.tasks import Destination
from delegate.protocol.enrolment import ClusterName

log = structlog.get_logger()

_ANNOUNCE_SECONDS = 10.0


class Cluster(msgspec.Struct, frozen=True):
    """An opened cluster. `uid` tells clusters apart, `name` is what it is called here. The client is shared: take a view."""

    name: str
    uid: str
    client: ApiClient
    discovery: Discovery


class ClusterSettings(msgspec.Struct, frozen=True):
    """`kubeconfig` may be empty or a list of files; `context` is the one that a person chose, empty for the current one.

    `secrets_dir` holds cluster Secrets in Argo CD's format; `secrets_namespace` has them in the cluster that an empty destination means.
    """

    kubeconfig: str = ""
    context: str = ""
    directory: Path | None = None
    secrets_dir: Path | None = None
    secrets_namespace: str = ""
    policy: Retrying = Retrying()


class ClusterRegistry:
    """Names to clusters. `settings.directory` is where keys lie for a moment, under the state directory.

    With `settings.context`, or with no cluster around us, `in-cluster` and an empty destination mean the chosen (or current)
    context: so a document written for a delegate in its cluster runs from a person's machine as well.
    """

    def __init__(
        self,
        settings: ClusterSettings,
        *,
        on_request: OnRequest | None = None,
        proxy_for: ProxyFor | None = None,
        clock: Clock = SYSTEM_CLOCK,
        environment: Mapping[str, str] = os.environ,
        in_cluster: InClusterSource | None = None,
    ) -> None:
        self._settings = settings
        self._on_request = on_request
        self._proxy_for = proxy_for
        self._clock = clock
        self._environment = environment
        self._in_cluster = in_cluster or (InClusterSource(environment) if is_in_cluster(environment) else None)
        self._secrets = ClusterSecrets(settings.secrets_dir, self._list_secrets if settings.secrets_namespace else None, clock=clock)
        self._from_secrets: Mapping[str, SecretCluster] = {}
        self._contexts: frozenset[str] = frozenset()
        self._clients: dict[str, ApiClient] = {}
        self._open: dict[str, Cluster] = {}
        self._uids: dict[str, str] = {}
        self._addresses: dict[str, str] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._faults: dict[str, errors.ClusterError] = {}

    @property
    def faults(self) -> Mapping[str, errors.ClusterError]:
        """The clusters that could not be reached when last tried, and why."""
        return dict(self._faults)

    async def open(self, destination: Destination) -> Cluster:
        """The cluster that a destination names, by name or by address.

        Raises UnknownClusterError that names the known ones, KubeconfigError, CredentialError or UnreachableError.
        """
        try:
            kubeconfig = await self._kubeconfig()
        except errors.KubeconfigError:
            # A broken kubeconfig is in the way of its own clusters only.
            ours = self._in_cluster is not None and not self._settings.context and destination.name in ("", IN_CLUSTER)
            if not ours and destination.name not in self._from_secrets:
                raise
            kubeconfig = None
        name = self._resolve(destination, kubeconfig)
        async with self._locks.setdefault(name, asyncio.Lock()):
            await self._forget_if_moved(name, kubeconfig)
            opened = self._open.get(name)
            if opened is None:
                client = self._client(name)
                opened = Cluster(name, await self._uid(name, client), client, Discovery(client, clock=self._clock))
                self._open[name] = opened
            return opened

    async def announce(self) -> tuple[ClusterName, ...]:
        """Every cluster that can be reached, with each of its names. Never raises for one that can't; see `faults`."""
        try:
            kubeconfig = await self._kubeconfig()
        except errors.KubeconfigError as error:
            self._faults[self._settings.kubeconfig] = error
            log.warning("cluster.kubeconfig_unusable", error=str(error))
            kubeconfig = None
        names = self._names(kubeconfig)
        for name in names:
            await self._forget_if_moved(name, kubeconfig)
        uids = await asyncio.gather(*(self._reachable_uid(name) for name in names))
        return tuple(ClusterName(name=name, uid=uid) for name, uid in zip(names, uids, strict=True) if uid)

    async def close(self) -> None:
        clients, self._clients = self._clients, {}
        self._open.clear()
        for client in clients.values():
            await client.close()

    async def _kubeconfig(self) -> Kubeconfig | None:
        self._from_secrets = await self._secrets.read()
        self._contexts = frozenset()
        if not self._settings.kubeconfig:
            return None
        kubeconfig = await asyncio.to_thread(read_kubeconfig, self._settings.kubeconfig)
        self._contexts = frozenset(kubeconfig.contexts)
        return kubeconfig

    async def _list_secrets(self) -> Sequence[JsonObject]:
        """Raises ClusterError."""
        if self._in_cluster is not None and not self._settings.context:
            name = IN_CLUSTER
        elif self._settings.kubeconfig:
            name = (await asyncio.to_thread(read_kubeconfig, self._settings.kubeconfig)).choose(self._settings.context)
        else:
            return ()
        client = self._client(name).viewed(policy=ONE_TRY)
        return (await client.list(SECRETS, self._settings.secrets_namespace, labels=CLUSTER_SECRETS)).items

    async def _forget_if_moved(self, name: str, kubeconfig: Kubeconfig | None) -> None:
        """A context that leads to another address now may lead to another cluster: what was known of it goes."""
        address = self._address(name, kubeconfig)
        if self._addresses.setdefault(name, address) != address:
            self._addresses[name] = address
            self._open.pop(name, None)
            self._uids.pop(name, None)
            client = self._clients.pop(name, None)
            if client is not None:
                await client.close()

    def _address(self, name: str, kubeconfig: Kubeconfig | None) -> str:
        if kubeconfig is not None and name in kubeconfig.contexts:
            return kubeconfig.server_of(name)
        found = self._from_secrets.get(name)
        return found.server if found is not None else ""

    def _names(self, kubeconfig: Kubeconfig | None) -> tuple[str, ...]:
        names = list(kubeconfig.contexts) if kubeconfig is not None else []
        names += [name for name in self._from_secrets if name not in names and name != IN_CLUSTER]
        return (IN_CLUSTER, *names) if self._in_cluster is not None else tuple(names)

    def _resolve(self, destination: Destination, kubeconfig: Kubeconfig | None) -> str:
        known = self._names(kubeconfig)
        asked = destination.name
        if not asked and destination.server and destination.server.rstrip("/") != IN_CLUSTER_SERVER:
            return self._by_address(destination.server, known, kubeconfig)
        chosen = self._settings.context
        if asked in known and not (asked == IN_CLUSTER and chosen):
            return asked
        if asked in ("", IN_CLUSTER):
            if self._in_cluster is not None and not chosen:
                return IN_CLUSTER
            if kubeconfig is not None:
                return kubeconfig.choose(chosen)
            raise errors.UnknownClusterError(
                "there is no cluster: we don't run in one, and no kubeconfig is given",
                hint="give a kubeconfig with --kubeconfig, DELEGATE_KUBECONFIG or KUBECONFIG",
            )
        raise _unknown(asked, known)

    def _by_address(self, server: str, known: tuple[str, ...], kubeconfig: Kubeconfig | None) -> str:
        wanted = server.rstrip("/")
        for name in known:
            if self._address(name, kubeconfig).rstrip("/") == wanted:
                return name
        raise _unknown(server, known)

    def _client(self, name: str) -> ApiClient:
        client = self._clients.get(name)
        if client is None:
            transport = Transport(self._source(name), directory=self._settings.directory, clock=self._clock, proxy_for=self._proxy_for)
            client = new_client(transport, policy=self._settings.policy, on_request=self._on_request, clock=self._clock)
            self._clients[name] = client
        return client

    def _source(self, name: str) -> CredentialSource:
        if name == IN_CLUSTER and self._in_cluster is not None:
            return self._in_cluster
        if name in self._from_secrets and name not in self._contexts:
            return SecretClusterSource(self._secrets, name, self._environment)
        return KubeconfigSource(self._settings.kubeconfig, name, self._environment)

    async def _uid(self, name: str, client: ApiClient) -> str:
        try:
            uid = self._uids.get(name) or await read_identity(client)
        except errors.ClusterError as error:
            self._faults[name] = error
            raise
        self._faults.pop(name, None)
        self._uids[name] = uid
        return uid

    async def _reachable_uid(self, name: str) -> str:
        client = self._client(name).viewed(policy=ONE_TRY)
        try:
            async with asyncio.timeout(_ANNOUNCE_SECONDS):
                return await self._uid(name, client)
        except errors.ClusterError as error:
            log.warning("cluster.unreachable", cluster=name, code=error.code, error=str(error))
        except TimeoutError:
            self._faults[name] = errors.DeadlineError(f"cluster {name!r} gave no answer within {_ANNOUNCE_SECONDS:g} s")
            log.warning("cluster.unreachable", cluster=name, code="timeout.api_call")
        return ""


async def read_identity(client: ApiClient) -> str:
    """The uid of the kube-system namespace; where we may not read it, a hash of the server's address and CA. Raises ClusterError."""
    with contextlib.suppress(errors.ForbiddenError, errors.NotFoundError, errors.UnknownKindError):
        namespace = await client.get_metadata(NAMESPACES, "", "kube-system")
        uid = str((namespace.get("metadata") or {}).get("uid") or "")
        if uid:
            return uid
    credentials = await client.transport.credentials()
    digest = hashlib.sha256(credentials.server.encode() + b"\n" + (credentials.ca or b""))
    return f"address-{digest.hexdigest()[:32]}"


def _unknown(asked: str, known: tuple[str, ...]) -> errors.UnknownClusterError:
    nearest = difflib.get_close_matches(asked, known, n=1)
    listed = ", ".join(known) or "none"
    hint = f"did you mean {nearest[0]!r}? Known are: {listed}" if nearest else f"known are: {listed}"
    return errors.UnknownClusterError(f"no cluster here is called {asked!r}", hint=hint)
