"""Repositories' Secrets in a namespace of our own cluster: found, followed, and kept while the API server is away."""

import base64
from pathlib import Path

import pytest

from delegate.engine.clusters.errors import ClusterError, UnreachableError
from delegate.engine.clusters.registry import Cluster, ClusterRegistry, ClusterSettings
from delegate.engine.sources.access.books import AccessBook
from delegate.engine.sources.access.entries import Kind
from delegate.engine.tasks.repository_secrets import RepositorySecrets
from delegate.model.resource_types import CONFIG_MAPS, SECRETS
from delegate.model.resources import JsonObject
from delegate.model.tasks import Destination
from tests.cluster.conftest import Server
from tests.cluster.servers import FAST
from tests.foundation.clocks import ManualClock

URL = "https://git.example.test/config.git"


def secret(namespace: str, password: str, kind: str = "repository") -> JsonObject:
    fields = {"url": URL, "username": "ada", "password": password}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "config", "namespace": namespace, "labels": {"argocd.argoproj.io/secret-type": kind}},
        "data": {field: base64.b64encode(value.encode()).decode() for field, value in fields.items()},
    }


async def password_of(book: AccessBook) -> str:
    entry = await book.find(URL, (Kind.GIT,))
    return entry.password.reveal() if entry is not None and entry.password is not None else ""


async def test_they_are_followed(server: Server, cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    """A new password counts after some seconds; ConfigMaps are read beside them; Secrets of other kinds are none of ours."""
    clock = ManualClock()
    registry = ClusterRegistry(ClusterSettings(kubeconfig=str(server.kubeconfig), directory=tmp_path, policy=FAST), environment={})
    book = AccessBook(read_secrets=RepositorySecrets(registry, namespace, clock=clock).read)
    try:
        assert await password_of(book) == ""
        await cluster.client.create(SECRETS, secret(namespace, "geheim-und-lang"))
        hosts = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "argocd-ssh-known-hosts-cm", "namespace": namespace}}
        await cluster.client.create(CONFIG_MAPS, hosts | {"data": {"ssh_known_hosts": "git.example.test ssh-ed25519 AAAA"}})
        assert await password_of(book) == "", "not asked with each call"

        await clock.sleep(11)
        assert await password_of(book) == "geheim-und-lang"
        assert "git.example.test" in (await book.current()).known_hosts

        await cluster.client.patch(SECRETS, namespace, "config", {"data": {"password": base64.b64encode(b"ganz-neues-wort").decode()}})
        await clock.sleep(11)
        assert await password_of(book) == "ganz-neues-wort"
    finally:
        await registry.close()


async def test_what_was_read_holds_while_the_server_is_away(
    server: Server, cluster: Cluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is locked out of a repository because a cluster rests; who never could read them is told."""
    clock = ManualClock()
    registry = ClusterRegistry(ClusterSettings(kubeconfig=str(server.kubeconfig), directory=tmp_path, policy=FAST), environment={})
    await cluster.client.create(SECRETS, secret(namespace, "geheim-und-lang"))
    book = AccessBook(read_secrets=RepositorySecrets(registry, namespace, clock=clock).read)
    assert await password_of(book) == "geheim-und-lang"

    async def away(destination: Destination) -> Cluster:
        raise UnreachableError("nobody there")

    monkeypatch.setattr(registry, "open", away)
    await clock.sleep(11)
    assert await password_of(book) == "geheim-und-lang"
    await registry.close()

    limited = ClusterRegistry(ClusterSettings(kubeconfig=str(server.limited_kubeconfig), directory=tmp_path, policy=FAST), environment={})
    try:
        with pytest.raises(ClusterError, match="secrets"):
            await password_of(AccessBook(read_secrets=RepositorySecrets(limited, namespace, clock=clock).read))
    finally:
        await limited.close()
