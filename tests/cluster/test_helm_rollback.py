"""A release of Helm's own back to the last revision that worked; every step of its history is the real helm's."""

import asyncio
import base64
import gzip
import json
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from delegate.engine.clusters.registry import Cluster
from delegate.engine.tasks.building import Engine
from delegate.engine.tasks.helm_commands import HelmCommands
from delegate.model.resource_types import DEPLOYMENTS, SECRETS
from delegate.model.resources import JsonObject
from delegate.model.results import Outcome, TaskResult
from tests.cluster.conftest import Server
from tests.cluster.syncing import Syncer, actions, syncer_for
from tests.cluster.test_sync_charts import run
from tests.tools import require_tool, search_path

pytestmark = pytest.mark.with_tls  # helm sends no token in the clear
CHART = {
    "Chart.yaml": "apiVersion: v2\nname: shop\nversion: 1.0.0\n",
    "templates/all.yaml": """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: "registry.example/web:{{ .Values.tag }}"}]}
---
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {key: "{{ .Values.key }}"}
""",
}


class Helm:
    """The real one, as an operator runs it."""

    def __init__(self, server: Server, namespace: str, directory: Path) -> None:
        self._program = require_tool("helm")
        self._namespace = namespace
        self._chart = directory / "shop"
        self._environment = {"PATH": os.environ["PATH"], "HOME": str(directory), "KUBECONFIG": str(server.kubeconfig)}
        for name, content in CHART.items():
            path = self._chart / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)

    async def __call__(self, *arguments: str, ends: int = 0) -> str:
        command = [str(self._program), *arguments, "--namespace", self._namespace]
        ended = await asyncio.to_thread(
            subprocess.run, command, env=self._environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert ended.returncode == ends, ended.stderr
        return ended.stdout

    async def deploy(self, tag: str, key: str, *more: str, ends: int = 0) -> None:
        await self("upgrade", "--install", "shop", str(self._chart), "--set", f"tag={tag},key={key}", *more, ends=ends)

    async def history(self) -> list[tuple[int, str]]:
        return [(each["revision"], each["status"]) for each in json.loads(await self("history", "shop", "-o", "json"))]


@pytest.fixture
async def helm(server: Server, namespace: str, tmp_path: Path) -> Helm:
    return Helm(server, namespace, tmp_path)


@pytest.fixture
async def syncer(server: Server, namespace: str, tmp_path: Path) -> AsyncIterator[Syncer]:
    made = syncer_for(server.kubeconfig, tmp_path, namespace)
    commands = HelmCommands("helm", tmp_path / "homes", {"PATH": search_path()})
    made.engine = Engine(msgspec.structs.replace(made.engine._parts, helm=commands))
    yield made
    await made.engine.close()


async def roll_back(syncer: Syncer, *, options: JsonObject | None = None, **target: object) -> TaskResult:
    return await run(syncer, {"helmRelease": {"name": "shop", **target}}, kind="rollback", **(options or {}))


async def image_of(cluster: Cluster, namespace: str) -> str:
    live = await cluster.client.get(DEPLOYMENTS, namespace, "web")
    return str(live["spec"]["template"]["spec"]["containers"][0]["image"]).rpartition(":")[2]


async def test_it_never_lands_on_a_revision_that_failed(helm: Helm, syncer: Syncer, cluster: Cluster, tmp_path: Path) -> None:
    """Case 18: the one before has failed, so that Helm's own choice would put a broken version back."""
    await helm.deploy("one", "first-key-of-all")
    await helm.deploy("broken", "second-key-of-all", "--wait", "--timeout", "2s", ends=1)
    await helm.deploy("two", "third-key-of-all")
    assert await helm.history() == [(1, "superseded"), (2, "failed"), (3, "deployed")]

    result = await roll_back(syncer)

    assert result.outcome is Outcome.SUCCEEDED, result
    assert await image_of(cluster, syncer.namespace) == "one"
    assert (await helm.history())[-2:] == [(3, "superseded"), (4, "deployed")]
    assert actions(result) == {"Deployment/web": "configured", "Secret/keys": "configured"}
    text = msgspec.json.encode(result).decode()
    assert "key-of-all" not in text
    assert not any(base64.b64encode(f"{which}-key-of-all".encode()).decode() in text for which in ("first", "third"))
    assert list((tmp_path / "homes").iterdir()) == []


async def test_after_an_upgrade_that_failed_it_is_the_one_that_is_deployed(helm: Helm, syncer: Syncer, cluster: Cluster) -> None:
    """Helm still calls it deployed, and half of the other one is there."""
    await helm.deploy("one", "k")
    await helm.deploy("two", "k")
    await helm.deploy("broken", "k", "--wait", "--timeout", "2s", ends=1)

    result = await roll_back(syncer)

    assert result.outcome is Outcome.SUCCEEDED, result
    assert await image_of(cluster, syncer.namespace) == "two"


async def test_what_would_change_nothing_fails(helm: Helm, syncer: Syncer) -> None:
    """By what runs, not by the records; and nothing is written."""
    await helm.deploy("one", "k")
    await helm.deploy("one", "k")

    result = await roll_back(syncer)

    assert (result.outcome, result.requests.writes) == (Outcome.REFUSED, 0), result
    assert result.error is not None
    assert result.error.code == "policy.nothing_to_roll_back"


async def test_a_dry_run_shows_what_would_change(helm: Helm, syncer: Syncer, cluster: Cluster) -> None:
    """And leaves it."""
    await helm.deploy("one", "k")
    await helm.deploy("two", "k")

    result = await roll_back(syncer, options={"dryRun": True})

    assert (result.outcome, result.requests.writes) == (Outcome.SUCCEEDED, 0), result
    assert actions(result) == {"Deployment/web": "configured", "Secret/keys": "unchanged"}
    assert await image_of(cluster, syncer.namespace) == "two"


async def test_one_that_somebody_is_at_work_on_is_left_to_them(helm: Helm, syncer: Syncer, cluster: Cluster) -> None:
    """Unless it has been pending for longer than anybody works: then its record says that it failed, and the rollback goes on."""
    await helm.deploy("one", "k")
    await helm.deploy("two", "k")
    newest = await cluster.client.get(SECRETS, syncer.namespace, "sh.helm.release.v1.shop.v2")
    release = json.loads(gzip.decompress(base64.b64decode(base64.b64decode(newest["data"]["release"]))))
    release |= {"version": 3, "info": release["info"] | {"status": "pending-upgrade"}}
    packed = base64.b64encode(base64.b64encode(gzip.compress(json.dumps(release).encode()))).decode()
    labels = newest["metadata"]["labels"] | {"status": "pending-upgrade", "version": "3", "modifiedAt": "1700000000"}
    metadata = {"name": "sh.helm.release.v1.shop.v3", "namespace": syncer.namespace, "labels": labels}
    pending = {"apiVersion": "v1", "kind": "Secret", "type": newest["type"], "metadata": metadata, "data": {"release": packed}}
    await cluster.client.create(SECRETS, pending)

    left = await roll_back(syncer, revision=1)
    taken = await roll_back(syncer, revision=1, unlockAfter="1h")

    assert (left.outcome, left.requests.writes) == (Outcome.REFUSED, 0), left
    assert "revision 3 (pending-upgrade) of 'shop' is at work since 2023-11-14T22:13:20Z" in left.message
    assert taken.outcome is Outcome.SUCCEEDED, taken
    assert await image_of(cluster, syncer.namespace) == "one"
    assert (await helm.history())[-2:] == [(3, "failed"), (4, "deployed")]


async def test_what_a_controller_sets_back_is_refused(helm: Helm, syncer: Syncer, cluster: Cluster) -> None:
    """With its name; Helm itself sets nothing back."""
    await helm.deploy("one", "k")
    await helm.deploy("two", "k")
    labels = {"metadata": {"labels": {"helm.toolkit.fluxcd.io/name": "shop"}}}
    await cluster.client.patch(DEPLOYMENTS, syncer.namespace, "web", labels)

    result = await roll_back(syncer)

    assert result.outcome is Outcome.REFUSED, result
    assert f"belongs to the Flux HelmRelease {syncer.namespace}/shop, which would set it back" in result.message
    assert len(await helm.history()) == 2


async def test_helms_words_are_the_reason_where_it_fails(helm: Helm, syncer: Syncer) -> None:
    """A version that is no longer ready, in time; the records say failed."""
    await helm.deploy("broken", "k")
    await helm.deploy("two", "k")

    result = await run(syncer, {"helmRelease": {"name": "shop"}}, kind="rollback", seconds=24)

    assert result.outcome is Outcome.FAILED, result
    assert result.error is not None
    assert result.error.code == "dependency.helm"
    assert (await helm.history())[-1][1] == "failed"


async def test_a_release_that_is_not_there(syncer: Syncer) -> None:
    """And a revision that was pruned."""
    result = await roll_back(syncer)

    assert result.outcome is Outcome.REFUSED, result
    assert "Helm has no release 'shop' there" in result.message
