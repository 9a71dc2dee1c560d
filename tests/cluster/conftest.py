"""Fixtures of the cluster suite: the same tests against the simulated cluster, and a real control plane where one is given.

`DELEGATE_TEST_KUBECONFIG` names an administrator's kubeconfig; `limited.kubeconfig` beside it, or
`DELEGATE_TEST_LIMITED_KUBECONFIG`, that of a user without any permission. Each test has a namespace of its own.
"""

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.credentials import build_ssl_context
from delegate.engine.clusters.kubeconfig import KubeconfigSource
from delegate.engine.clusters.registry import Cluster
from delegate.model.leases import LEASE_SECONDS
from delegate.simulator.server import Simulator
from tests.cluster.canaries import Canarist, running_canarist
from tests.cluster.servers import client_of, drop_namespace, new_namespace, opened
from tests.cluster.simulated import simulated_server
from tests.cluster.syncing import Syncer, syncer_for
from tests.fakes.flaky_api import FlakyApi, Upstream, flaky_api
from tests.foundation.clocks import ManualClock


@dataclass(frozen=True)
class Server:
    """A running API server: an administrator's kubeconfig, and that of a user who may do nothing.

    `simulator` is for tests marked `only_simulator`, which make it misbehave.
    """

    kubeconfig: Path
    limited_kubeconfig: Path
    simulator: Simulator | None = None


@pytest.fixture
async def flaky() -> AsyncIterator[FlakyApi]:
    """An API server that answers as the test says."""
    async with flaky_api() as api:
        yield api


@pytest.fixture
async def client(flaky: FlakyApi) -> AsyncIterator[ApiClient]:
    """A client of the flaky server that loses no time between tries."""
    async with client_of(flaky.url) as client:
        yield client


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["simulator", "real"])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Server]:
    """One running server of each kind that there is."""
    only = "only_real" if request.param == "simulator" else "only_simulator"
    marker = request.node.get_closest_marker(only)
    if marker is not None:
        pytest.skip(str(marker.args[0] if marker.args else only))
    if request.param == "real":
        yield _real_server()
        return
    tls = request.node.get_closest_marker("with_tls") is not None
    async with simulated_server(tmp_path, tls=tls) as (kubeconfig, limited, simulator):
        yield Server(kubeconfig, limited, simulator)


def _real_server() -> Server:
    kubeconfig = os.environ.get("DELEGATE_TEST_KUBECONFIG", "")
    if not kubeconfig:
        pytest.skip("DELEGATE_TEST_KUBECONFIG names no control plane")
    limited = os.environ.get("DELEGATE_TEST_LIMITED_KUBECONFIG") or Path(kubeconfig).with_name("limited.kubeconfig")
    return Server(Path(kubeconfig), Path(limited))


@pytest.fixture
async def cluster(server: Server, tmp_path: Path) -> AsyncIterator[Cluster]:
    """The server as the engine sees it, with an administrator's permissions."""
    async with opened(server.kubeconfig, tmp_path / "keys") as cluster:
        yield cluster


@pytest.fixture
async def limited(server: Server, tmp_path: Path) -> AsyncIterator[Cluster]:
    """The same server as a user sees it who may do nothing."""
    async with opened(server.limited_kubeconfig, tmp_path / "limited-keys") as cluster:
        yield cluster


@pytest.fixture
async def namespace(cluster: Cluster) -> AsyncIterator[str]:
    """A fresh namespace, deleted afterwards."""
    made = await new_namespace(cluster.client)
    yield str(made["metadata"]["name"])
    await drop_namespace(cluster.client, made)


@pytest.fixture
async def through_flaky(server: Server) -> AsyncIterator[tuple[FlakyApi, ApiClient]]:
    """A client of the server with a bad network in between: its faults are the test's to add."""
    credentials = await KubeconfigSource(str(server.kubeconfig), "", {}).load()
    authorization = credentials.authorization.reveal() if credentials.authorization is not None else ""
    upstream = Upstream(credentials.server, authorization, build_ssl_context(credentials, None))
    async with flaky_api(upstream) as api, client_of(api.url) as client:
        yield api, client


@pytest.fixture
async def syncer(server: Server, namespace: str, tmp_path: Path) -> AsyncIterator[Syncer]:
    """An Application in the test's namespace, as a local command syncs it."""
    made = syncer_for(server.kubeconfig, tmp_path, namespace)
    yield made
    await made.engine.close()


@pytest.fixture
async def canarist(request: pytest.FixtureRequest, server: Server, namespace: str, tmp_path: Path) -> AsyncIterator[Canarist]:
    """A delegate that runs canaries. `lease_seconds` of the module: how long a dead one of them is in the way of the next."""
    marker = request.node.get_closest_marker("lease_seconds")
    async with running_canarist(server.kubeconfig, tmp_path, namespace, lease_seconds=marker.args[0] if marker else LEASE_SECONDS) as made:
        yield made


@pytest.fixture
async def patient(server: Server, namespace: str, tmp_path: Path) -> AsyncIterator[Canarist]:
    """A delegate whose Lease lives as long as always."""
    async with running_canarist(server.kubeconfig, tmp_path / "patient", namespace) as made:
        yield made
