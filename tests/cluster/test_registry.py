"""Clusters by their names: the one around us, the contexts, and what none of them is."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from delegate.engine.clusters import errors
from delegate.engine.clusters.in_cluster import InClusterSource
from delegate.engine.clusters.registry import Cluster, ClusterRegistry, ClusterSettings
from delegate.model.resources import GroupKind
from delegate.model.tasks import Destination
from tests.cluster.conftest import Server
from tests.cluster.servers import FAST
from tests.fakes.flaky_api import FlakyApi, flaky_api, hang, reply, reset, status_body

KUBE_SYSTEM = {"kind": "PartialObjectMetadata", "metadata": {"name": "kube-system", "uid": "uid-of-flaky"}}
NAMESPACE = "/api/v1/namespaces/kube-system"


def write(path: Path, servers: dict[str, str], current: str = "") -> Path:
    """A kubeconfig with a context for each name."""
    document: dict[str, Any] = {
        "kind": "Config",
        "current-context": current,
        "contexts": [{"name": name, "context": {"cluster": name, "user": "u"}} for name in servers],
        "clusters": [{"name": name, "cluster": {"server": server}} for name, server in servers.items()],
        "users": [{"name": "u", "user": {"token": "flaky-token"}}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


@asynccontextmanager
async def registry_of(
    kubeconfig: Path | str = "", context: str = "", in_cluster: InClusterSource | None = None
) -> AsyncIterator[ClusterRegistry]:
    settings = ClusterSettings(kubeconfig=str(kubeconfig), context=context, policy=FAST)
    registry = ClusterRegistry(settings, environment={}, in_cluster=in_cluster)
    try:
        yield registry
    finally:
        await registry.close()


class _Pod(InClusterSource):
    """A service account whose API server speaks plain http, as the flaky one does."""

    def __init__(self, url: str) -> None:
        super().__init__({}, Path("/nowhere"))
        self._url = url

    async def load(self, *, rejected: bool = False) -> Any:
        from delegate.engine.clusters.credentials import Credentials

        return Credentials(server=self._url)


async def test_a_running_cluster_is_its_uid(cluster: Cluster) -> None:
    """The uid of kube-system is the cluster's."""
    namespace = await cluster.client.get(await cluster.discovery.resource_for(GroupKind("", "Namespace")), "", "kube-system")

    assert cluster.uid == namespace["metadata"]["uid"]


async def test_two_names_of_one_cluster(server: Server, tmp_path: Path) -> None:
    """Both names are announced, with the same uid."""
    document = yaml.safe_load(server.kubeconfig.read_text())
    first = document["contexts"][0]
    document["contexts"].append({"name": "another-name", "context": first["context"]})
    path = tmp_path / "both"
    path.write_text(yaml.safe_dump(document))
    async with registry_of(path) as registry:
        announced = await registry.announce()

    assert [each.name for each in announced] == [first["name"], "another-name"]
    assert len({each.uid for each in announced}) == 1


async def test_a_user_who_may_not_read_the_namespace(limited: Cluster) -> None:
    """Without the permission, the address and the CA tell clusters apart."""
    assert limited.uid.startswith("address-")
    assert len(limited.uid) == len("address-") + 32


async def test_contexts_are_opened_when_they_are_used(flaky: FlakyApi, tmp_path: Path) -> None:
    """Opening one asks nothing of the others; a second time asks nothing at all."""
    flaky.add(reply(200, KUBE_SYSTEM), path=NAMESPACE)
    path = write(tmp_path / "config", {"here": flaky.url, "elsewhere": "http://127.0.0.1:9"})
    async with registry_of(path) as registry:
        one, two = await asyncio.gather(*(registry.open(Destination(name="here")) for _ in range(2)))

    assert one is two
    assert (one.name, one.uid) == ("here", "uid-of-flaky")
    assert flaky.count() == 1


async def test_an_unknown_name_names_the_known(flaky: FlakyApi, tmp_path: Path) -> None:
    """The error lists what there is, and the nearest."""
    path = write(tmp_path / "config", {"prod": flaky.url, "staging": flaky.url})
    async with registry_of(path) as registry:
        with pytest.raises(errors.UnknownClusterError, match="'prodd'") as caught:
            await registry.open(Destination(name="prodd"))
        with pytest.raises(errors.UnknownClusterError) as address:
            await registry.open(Destination(server="https://elsewhere.example"))

    assert "did you mean 'prod'?" in caught.value.hint
    assert "prod, staging" in address.value.hint


async def test_without_any_cluster(tmp_path: Path) -> None:
    """Neither in a cluster nor with a kubeconfig: says how to give one."""
    async with registry_of() as registry:
        for destination in (Destination(), Destination(name="in-cluster"), Destination(server="https://kubernetes.default.svc")):
            with pytest.raises(errors.UnknownClusterError, match="there is no cluster") as caught:
                await registry.open(destination)
            assert "DELEGATE_KUBECONFIG" in caught.value.hint
        assert await registry.announce() == ()


async def test_an_address_is_looked_up(flaky: FlakyApi, tmp_path: Path) -> None:
    """A destination by server address finds its context."""
    flaky.add(reply(200, KUBE_SYSTEM), path=NAMESPACE)
    path = write(tmp_path / "config", {"prod": "http://127.0.0.1:9", "staging": flaky.url})
    async with registry_of(path) as registry:
        cluster = await registry.open(Destination(server=f"{flaky.url}/"))

    assert cluster.name == "staging"


@pytest.mark.parametrize(
    ("destination", "context", "expected"),
    [
        (Destination(), "", "in-cluster"),
        (Destination(name="in-cluster"), "", "in-cluster"),
        (Destination(server="https://kubernetes.default.svc"), "", "in-cluster"),
        (Destination(name="one"), "", "one"),
        (Destination(), "two", "two"),
        (Destination(name="in-cluster"), "two", "two"),
    ],
)
async def test_inside_a_cluster(destination: Destination, context: str, expected: str, flaky: FlakyApi, tmp_path: Path) -> None:
    """In a cluster, that one is meant unless a name or a person's choice says otherwise."""
    flaky.add(reply(200, KUBE_SYSTEM), path=NAMESPACE, times=9)
    path = write(tmp_path / "config", {"one": flaky.url, "two": flaky.url}, current="one")
    async with registry_of(path, context, _Pod(flaky.url)) as registry:
        assert (await registry.open(destination)).name == expected


@pytest.mark.parametrize(
    ("destination", "context", "expected"),
    [
        (Destination(), "", "one"),
        (Destination(name="in-cluster"), "", "one"),
        (Destination(), "two", "two"),
        (Destination(server="https://kubernetes.default.svc"), "two", "two"),
        (Destination(name="one"), "two", "one"),
    ],
)
async def test_on_a_persons_machine(destination: Destination, context: str, expected: str, flaky: FlakyApi, tmp_path: Path) -> None:
    """A document that was written for a delegate in its cluster means the chosen context, or the current one."""
    flaky.add(reply(200, KUBE_SYSTEM), path=NAMESPACE, times=9)
    path = write(tmp_path / "config", {"one": flaky.url, "two": flaky.url}, current="one")
    async with registry_of(path, context) as registry:
        assert (await registry.open(destination)).name == expected


async def test_a_context_that_is_called_in_cluster(flaky: FlakyApi, tmp_path: Path) -> None:
    """A context by that very name is the one that is meant."""
    flaky.add(reply(200, KUBE_SYSTEM), path=NAMESPACE)
    path = write(tmp_path / "config", {"one": "http://127.0.0.1:9", "in-cluster": flaky.url}, current="one")
    async with registry_of(path) as registry:
        assert (await registry.open(Destination(name="in-cluster"))).name == "in-cluster"


async def test_clusters_that_are_away_stand_in_nobodys_way(flaky: FlakyApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only those that answer are announced; of the others, the reason is kept, until they answer."""
    from delegate.engine.clusters import registry as module

    monkeypatch.setattr(module, "_ANNOUNCE_SECONDS", 0.3)
    flaky.add(reply(200, KUBE_SYSTEM), path=NAMESPACE)
    async with flaky_api() as hanging, flaky_api() as cutting:
        hanging.add(hang)
        cutting.add(reset, times=2)
        path = write(tmp_path / "config", {"good": flaky.url, "hangs": hanging.url, "cuts": cutting.url, "refuses": "http://127.0.0.1:9"})
        async with registry_of(path) as registry:
            announced = await registry.announce()
            faults = registry.faults
            opened = await registry.open(Destination(name="good"))
            for other in (hanging, cutting):
                other.add(reply(200, KUBE_SYSTEM), path=NAMESPACE)
            later = await registry.announce()

            assert [each.name for each in announced] == ["good"]
            assert set(faults) == {"hangs", "cuts", "refuses"}
            assert isinstance(faults["hangs"], errors.DeadlineError)
            assert opened.uid == "uid-of-flaky"
            assert [each.name for each in later] == ["good", "hangs", "cuts"]
            assert set(registry.faults) == {"refuses"}


async def test_an_unusable_kubeconfig_leaves_the_cluster_around_us(flaky: FlakyApi, tmp_path: Path) -> None:
    """A missing kubeconfig is an error for its own contexts only."""
    flaky.add(reply(200, KUBE_SYSTEM), path=NAMESPACE)
    async with registry_of(tmp_path / "missing", in_cluster=_Pod(flaky.url)) as registry:
        announced = await registry.announce()
        opened = await registry.open(Destination(name="in-cluster"))
        with pytest.raises(errors.KubeconfigError):
            await registry.open(Destination(name="prod"))

    assert [each.name for each in announced] == ["in-cluster"]
    assert opened.name == "in-cluster"


async def test_a_context_that_leads_elsewhere_now(flaky: FlakyApi, tmp_path: Path) -> None:
    """What was known of a cluster is forgotten when its name means another address."""
    flaky.add(reply(200, KUBE_SYSTEM), path=NAMESPACE, times=9)
    async with flaky_api() as other:
        other.add(reply(200, {"metadata": {"uid": "uid-of-other"}}), path=NAMESPACE)
        path = write(tmp_path / "config", {"prod": flaky.url})
        async with registry_of(path) as registry:
            first = await registry.open(Destination(name="prod"))
            write(path, {"prod": other.url})
            second = await registry.open(Destination(name="prod"))

    assert (first.uid, second.uid) == ("uid-of-flaky", "uid-of-other")


async def test_a_cluster_without_the_permission_or_the_namespace(flaky: FlakyApi, tmp_path: Path) -> None:
    """403 and 404 fall back to the address; other faults don't: they would change a cluster's identity."""
    path = write(tmp_path / "config", {"prod": flaky.url})
    for status in (403, 404):
        flaky.add(reply(status, status_body(status, "x", "no", name="kube-system", kind="namespaces")), path=NAMESPACE)
    uids = []
    for _ in range(2):
        async with registry_of(path) as registry:
            uids.append((await registry.open(Destination(name="prod"))).uid)
    flaky.add(reply(500, status_body(500, "InternalError", "boom")), path=NAMESPACE)
    async with registry_of(path) as registry:
        with pytest.raises(errors.InternalServerError):
            await registry.open(Destination(name="prod"))

    assert uids[0] == uids[1]
    assert uids[0].startswith("address-")
