"""The client keeps the event loop free, and costs nothing that isn't used."""

import subprocess
import sys
from pathlib import Path

import yaml
from blockbuster import blockbuster_ctx

from delegate.engine.clusters.registry import ClusterRegistry, ClusterSettings
from delegate.engine.records.leases import hold_lease
from delegate.model.resource_types import CONFIG_MAPS
from delegate.model.resources import GroupKind
from delegate.model.tasks import Destination
from tests.cluster.conftest import Server
from tests.cluster.servers import config_map, drop_namespace, new_namespace

_USES = """
import asyncio, sys
from pathlib import Path
import delegate.engine.clusters.registry
import delegate.engine.records.guarding, delegate.engine.records.inventories, delegate.engine.records.leases
from delegate.engine.clusters.in_cluster import InClusterSource
source = InClusterSource({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, Path(sys.argv[1]))
asyncio.run(source.load())
heavy = {"kubernetes_asyncio", "aioboto3", "sqlalchemy"} & set(sys.modules)
assert not heavy, heavy
"""


def test_nothing_heavy_is_imported_before_a_kubeconfig_is_used(tmp_path: Path) -> None:
    """A delegate in its cluster never loads kubernetes_asyncio."""
    (tmp_path / "token").write_text("token-of-pod")
    (tmp_path / "ca.crt").write_text("")

    done = subprocess.run([sys.executable, "-c", _USES, str(tmp_path)], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


async def test_no_call_blocks_the_loop(server: Server, tmp_path: Path) -> None:
    """From the kubeconfig to the lease: files are read and TLS is set up in threads."""
    document = yaml.safe_load(server.kubeconfig.read_text())
    token = document["users"][0]["user"].pop("token")
    (tmp_path / "token").write_text(token)
    document["users"][0]["user"]["tokenFile"] = "token"
    (tmp_path / "config").write_text(yaml.safe_dump(document))
    settings = ClusterSettings(kubeconfig=str(tmp_path / "config"), directory=tmp_path / "keys")
    registry = ClusterRegistry(settings, environment={})
    with blockbuster_ctx("delegate.engine", excluded_modules=["delegate.simulator"]):
        cluster = await registry.open(Destination())
        await cluster.discovery.resource_for(GroupKind("apps", "Deployment"))
        namespace = await new_namespace(cluster.client)
        name = namespace["metadata"]["name"]
        async with hold_lease(cluster.client, "shop", name, holder="attempt-1"):
            await cluster.client.apply(CONFIG_MAPS, config_map(name))
            await cluster.client.list(CONFIG_MAPS, name)
        await drop_namespace(cluster.client, namespace)
        await registry.close()
