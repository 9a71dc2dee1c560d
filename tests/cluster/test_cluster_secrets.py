"""Clusters from Secrets in Argo CD's format, in files and in a namespace, beside those of a kubeconfig."""

import base64
import json
import stat
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from structlog.testing import capture_logs

from delegate.engine.clusters import errors
from delegate.engine.clusters.cluster_secrets import ClusterSecrets
from delegate.engine.clusters.registry import Cluster, ClusterRegistry, ClusterSettings
from delegate.model.resource_types import SECRETS
from delegate.model.resources import JsonObject
from delegate.model.tasks import Destination
from tests.cluster.conftest import Server
from tests.cluster.servers import FAST
from tests.cluster.test_registry import KUBE_SYSTEM, NAMESPACE, write
from tests.fakes.flaky_api import FlakyApi, reply
from tests.foundation.clocks import ManualClock


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "secrets"
    made.mkdir()
    return made


@pytest.fixture
async def registry(directory: Path) -> AsyncIterator[ClusterRegistry]:
    made = ClusterRegistry(ClusterSettings(secrets_dir=directory, policy=FAST), environment={"PATH": "/bin:/usr/bin"})
    yield made
    await made.close()


def secret(directory: Path, name: str, server: str, config: object = None, **more: str) -> Path:
    fields = {"name": name, "server": server, "config": config if isinstance(config, str) else json.dumps(config or {}), **more}
    document = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"cluster-{name}", "labels": {"argocd.argoproj.io/secret-type": "cluster"}},
        "data": {field: base64.b64encode(value.encode()).decode() for field, value in fields.items()},
    }
    path = directory / f"{name}.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


async def test_one_is_reached_by_its_name_and_its_address(flaky: FlakyApi, directory: Path, registry: ClusterRegistry) -> None:
    """With its token; and it is announced."""
    flaky.add(reply(200, KUBE_SYSTEM), path=NAMESPACE, times=9)
    secret(directory, "prod", flaky.url, {"bearerToken": "token-of-prod"})

    by_name = await registry.open(Destination(name="prod"))
    by_address = await registry.open(Destination(server=flaky.url))

    assert by_name.uid == by_address.uid == "uid-of-flaky"
    assert [(each.name, each.uid) for each in await registry.announce()] == [("prod", "uid-of-flaky")]
    credentials = await by_name.client.transport.credentials()
    assert credentials.authorization is not None
    assert credentials.authorization.reveal() == "Bearer token-of-prod"
    assert "token-of-prod" not in repr(credentials)


async def test_a_new_one_needs_no_restart(flaky: FlakyApi, directory: Path, registry: ClusterRegistry) -> None:
    """The directory is read again when it changes; a Secret that is gone is no cluster any more."""
    flaky.add(reply(200, KUBE_SYSTEM), path=NAMESPACE, times=9)
    with pytest.raises(errors.UnknownClusterError, match="no cluster here is called 'prod'"):
        await registry.open(Destination(name="prod"))
    path = secret(directory, "prod", flaky.url)
    assert (await registry.open(Destination(name="prod"))).uid == "uid-of-flaky"
    path.unlink()
    with pytest.raises(errors.UnknownClusterError):
        await registry.open(Destination(name="prod"))


async def test_a_context_of_the_same_name_wins(flaky: FlakyApi, directory: Path, tmp_path: Path) -> None:
    """What a kubeconfig says is nearer."""
    flaky.add(reply(200, KUBE_SYSTEM), path=NAMESPACE, times=9)
    secret(directory, "prod", "https://elsewhere.example.test", {"bearerToken": "token-of-prod"})
    kubeconfig = write(tmp_path / "kubeconfig", {"prod": flaky.url})
    registry = ClusterRegistry(ClusterSettings(kubeconfig=str(kubeconfig), secrets_dir=directory, policy=FAST), environment={})
    try:
        assert (await registry.open(Destination(name="prod"))).uid == "uid-of-flaky"
    finally:
        await registry.close()


async def test_ways_to_log_in(flaky: FlakyApi, directory: Path, registry: ClusterRegistry, tmp_path: Path) -> None:
    """A password, and a plugin that gives a token."""
    flaky.add(reply(200, KUBE_SYSTEM), path=NAMESPACE, times=9)
    secret(directory, "basic", flaky.url, {"username": "ada", "password": "geheim-und-lang"})
    plugin = tmp_path / "plugin"
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "token-of-plugin"}}
    plugin.write_text(f"#!/bin/sh\ntest \"$WHO\" = ada && echo '{json.dumps(answer)}'\n")
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    secret(directory, "plugin", flaky.url, {"execProviderConfig": {"command": str(plugin), "env": {"WHO": "ada"}}})

    given = {}
    for name in ("basic", "plugin"):
        authorization = (await (await registry.open(Destination(name=name))).client.transport.credentials()).authorization
        assert authorization is not None
        given[name] = authorization.reveal()

    assert given == {"basic": "Basic " + base64.b64encode(b"ada:geheim-und-lang").decode(), "plugin": "Bearer token-of-plugin"}


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ('{"bearerToken": 12345678', "`config` of the cluster Secret 'prod' can't be read"),
        ('{"tlsClientConfig": {"caData": "%%%"}}', "caData of the cluster Secret 'prod' is no base64"),
        ('{"awsAuthConfig": {"clusterName": "x"}}', "awsAuthConfig of the cluster Secret 'prod' is not supported"),
    ],
)
async def test_one_that_cant_be_used(config: str, words: str, directory: Path, registry: ClusterRegistry) -> None:
    """It is named with its file, and never shown."""
    path = secret(directory, "prod", "https://127.0.0.1:1", config)
    with pytest.raises(errors.ClusterError, match=words) as caught:
        await registry.open(Destination(name="prod"))
    assert caught.value.file == str(path)
    assert "12345678" not in f"{caught.value!r}{caught.value}"


async def test_a_broken_file_is_in_nobodys_way(flaky: FlakyApi, directory: Path, registry: ClusterRegistry) -> None:
    """Nor are Secrets of repositories."""
    flaky.add(reply(200, KUBE_SYSTEM), path=NAMESPACE, times=9)
    (directory / "a.yaml").write_text("kind: Secret\n  broken: [")
    (directory / "b.yaml").write_text(
        yaml.safe_dump({"kind": "Secret", "metadata": {"labels": {"argocd.argoproj.io/secret-type": "repository"}}})
    )
    secret(directory, "prod", flaky.url)

    assert (await registry.open(Destination(name="prod"))).uid == "uid-of-flaky"


def body_of(namespace: str, name: str, server: str, config: object = None) -> JsonObject:
    fields = {"name": name, "server": server, "config": json.dumps(config or {})}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"cluster-{name}", "namespace": namespace, "labels": {"argocd.argoproj.io/secret-type": "cluster"}},
        "data": {field: base64.b64encode(value.encode()).decode() for field, value in fields.items()},
    }


@asynccontextmanager
async def following(server: Server, namespace: str, directory: Path, clock: ManualClock) -> AsyncIterator[ClusterRegistry]:
    settings = ClusterSettings(
        kubeconfig=str(server.kubeconfig), directory=directory, secrets_dir=directory, secrets_namespace=namespace, policy=FAST
    )
    registry = ClusterRegistry(settings, environment={}, clock=clock)
    try:
        yield registry
    finally:
        await registry.close()


async def authorization_of(registry: ClusterRegistry, name: str) -> str:
    found = (await (await registry.open(Destination(name=name))).client.transport.credentials()).authorization
    return found.reveal() if found is not None else ""


async def test_those_of_a_namespace_are_followed(
    server: Server, cluster: Cluster, namespace: str, flaky: FlakyApi, directory: Path
) -> None:
    """New ones and changed tokens count after some seconds, without a restart; one that is gone is no cluster any more."""
    flaky.add(reply(200, KUBE_SYSTEM), path=NAMESPACE, times=99)
    clock = ManualClock()
    async with following(server, namespace, directory, clock) as registry:
        with pytest.raises(errors.UnknownClusterError):
            await registry.open(Destination(name="prod"))
        made = await cluster.client.create(SECRETS, body_of(namespace, "prod", flaky.url, {"bearerToken": "first-token"}))
        await clock.sleep(11)

        assert await authorization_of(registry, "prod") == "Bearer first-token"
        assert ("prod", "uid-of-flaky") in [(each.name, each.uid) for each in await registry.announce()]
        changed = body_of(namespace, "prod", flaky.url, {"bearerToken": "other-token"})
        await cluster.client.patch(SECRETS, namespace, "cluster-prod", {"data": changed["data"]})
        await clock.sleep(61)
        assert await authorization_of(registry, "prod") == "Bearer other-token"

        await cluster.client.delete(SECRETS, namespace, "cluster-prod", uid=made["metadata"]["uid"])
        await clock.sleep(11)
        with pytest.raises(errors.UnknownClusterError):
            await registry.open(Destination(name="prod"))


async def test_a_broken_secret_is_named_and_in_nobodys_way(
    server: Server, cluster: Cluster, namespace: str, flaky: FlakyApi, directory: Path
) -> None:
    """Without what is in it; and a file of the same name wins."""
    flaky.add(reply(200, KUBE_SYSTEM), path=NAMESPACE, times=99)
    broken = body_of(namespace, "broken", "")
    await cluster.client.create(SECRETS, broken)
    await cluster.client.create(SECRETS, body_of(namespace, "good", flaky.url, {"bearerToken": "token-of-good"}))
    await cluster.client.create(SECRETS, body_of(namespace, "both", "https://elsewhere.example.test", {"bearerToken": "token-of-secret"}))
    secret(directory, "both", flaky.url, {"bearerToken": "token-of-file"})
    with capture_logs() as logs:
        async with following(server, namespace, directory, ManualClock()) as registry:
            given = [await authorization_of(registry, name) for name in ("good", "both")]

    assert given == ["Bearer token-of-good", "Bearer token-of-file"]
    (told,) = (each for each in logs if each["event"] == "cluster.secret_without_server")
    assert told["secret"] == "cluster-broken"
    assert "token-of" not in str(logs)


async def test_what_was_read_last_holds_while_the_api_is_away(flaky: FlakyApi) -> None:
    """And nobody waits for it longer than some seconds."""
    answers: list[list[JsonObject]] = [[body_of("argocd", "prod", flaky.url)]]

    async def listed() -> Sequence[JsonObject]:
        if not answers:
            raise errors.UnreachableError("nobody answers")
        return answers.pop()

    clock = ManualClock()
    secrets = ClusterSecrets(None, listed, clock=clock)
    assert list(await secrets.read()) == ["prod"]
    await clock.sleep(11)
    assert list(await secrets.read()) == ["prod"]


@pytest.mark.parametrize("data", [{"server": "%%%"}, {"server": "/w=="}, ["server"], "server"])
async def test_a_broken_secret_is_in_the_way_of_no_other_of_its_file(
    data: object, flaky: FlakyApi, directory: Path, registry: ClusterRegistry
) -> None:
    """Whatever its data are; it is named in the log."""
    flaky.add(reply(200, KUBE_SYSTEM), path=NAMESPACE, times=9)
    path = secret(directory, "prod", flaky.url)
    whole = yaml.safe_load(path.read_text())
    broken = whole | {"metadata": whole["metadata"] | {"name": "cluster-broken"}, "data": data}
    path.write_text(yaml.safe_dump_all([{"kind": "List", "items": 5}, {"kind": "List", "items": [broken, whole]}]))

    with capture_logs() as logs:
        assert (await registry.open(Destination(name="prod"))).uid == "uid-of-flaky"

    named = {(entry["file"], entry["secret"]) for entry in logs if entry["event"] == "cluster.secret_unreadable"}
    assert named == {(str(path), "cluster-broken")}
