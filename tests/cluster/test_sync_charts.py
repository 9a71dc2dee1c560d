"""Charts and several sources, synced: what a chart asks the cluster is answered by that cluster."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from delegate.engine.clusters.registry import Cluster
from delegate.engine.sources.commands import Command, Completed, run_command
from delegate.engine.sources.jails import running
from delegate.engine.sources.manifests import Sources
from delegate.engine.tasks.building import Engine
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.stopping import StopSignal
from delegate.model.resource_types import CONFIG_MAPS, SECRETS
from delegate.model.resources import JsonObject
from delegate.model.results import Outcome, TaskResult
from delegate.model.tasks import read_task
from tests.cluster.conftest import Server
from tests.cluster.syncing import Syncer, actions, syncer_for
from tests.sources.charts import chart
from tests.sources.repositories import ENVIRONMENT, HttpServer, Repository
from tests.tools import require_tool

PASSWORD = """\
apiVersion: v1
kind: Secret
metadata: {name: keys}
data:
  {{- $old := lookup "v1" "Secret" .Release.Namespace "keys" }}
  password: {{ if $old }}{{ $old.data.password }}{{ else }}{{ randAlphaNum 20 | b64enc }}{{ end }}
"""
SEEN = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: seen}
data:
  release: {{ .Release.Name }}
  namespace: {{ .Release.Namespace }}
  version: {{ .Capabilities.KubeVersion.Version }}
  served: {{ .Capabilities.APIVersions.Has "apps/v1/Deployment" | quote }}
  custom: {{ .Capabilities.APIVersions.Has "shop.example/v1" | quote }}
  level: {{ .Values.level }}
"""


@pytest.fixture
async def syncer(server: Server, namespace: str, tmp_path: Path) -> AsyncIterator[Syncer]:
    require_tool("helm")
    made = syncer_for(server.kubeconfig, tmp_path, namespace)
    sources = Sources(cache_dir=tmp_path / "cache", allow_local=True, environment=ENVIRONMENT)
    made.engine = Engine(msgspec.structs.replace(made.engine._parts, sources=sources))
    yield made
    await made.engine.close()


async def run(syncer: Syncer, spec: JsonObject, kind: str = "sync", seconds: int = 40, **options: object) -> TaskResult:
    place = {"destination": {"namespace": syncer.namespace}, "timeout": f"{seconds}s"}
    task = read_task({"kind": kind, "application": "shop", **place, "spec": spec, "options": options})
    context = AttemptContext(
        task_id="task-1",
        attempt_id=str(uuid.uuid4()),
        deadline=asyncio.get_running_loop().time() + task.timeout_seconds,
        stop=StopSignal(),
        report=lambda event, data: None,
    )
    return await syncer.engine.run(task, context)


async def test_a_chart_sees_its_target(syncer: Syncer, cluster: Cluster, tmp_path: Path) -> None:
    """Name and namespace of the Application, version and kinds of the cluster."""
    repository = Repository(tmp_path, "charts")
    repository.commit(chart(files={"templates/config.yaml": SEEN}, directory="shop"))
    version = (await cluster.client.get_path("/version")).body
    assert isinstance(version, dict)

    result = await run(syncer, {"source": {"repoURL": repository.url, "targetRevision": "main", "path": "shop", "helm": {}}})

    assert result.outcome == "succeeded", result
    seen = (await cluster.client.get(CONFIG_MAPS, syncer.namespace, "seen"))["data"]
    assert seen == {
        "release": "shop",
        "namespace": syncer.namespace,
        "version": str(version["gitVersion"]).partition("+")[0],
        "served": "true",
        "custom": "false",
        "level": "chart",
    }


async def test_a_generated_password_stays(syncer: Syncer, cluster: Cluster, tmp_path: Path) -> None:
    """`lookup` finds what the first sync wrote: the second one writes nothing, and rotates nothing."""
    repository = Repository(tmp_path, "charts")
    repository.commit(chart(files={"templates/config.yaml": PASSWORD}, directory="shop"))
    spec = {"source": {"repoURL": repository.url, "targetRevision": "main", "path": "shop", "helm": {}}}

    first = await run(syncer, spec)
    password = (await cluster.client.get(SECRETS, syncer.namespace, "keys"))["data"]["password"]
    second = await run(syncer, spec)

    assert (first.outcome, second.outcome) == ("succeeded", "succeeded"), (first, second)
    assert (actions(second), second.requests.writes) == ({"Secret/keys": "unchanged"}, 0)
    assert second.requests.reads <= 25
    assert (await cluster.client.get(SECRETS, syncer.namespace, "keys"))["data"]["password"] == password


async def test_values_from_another_repository(syncer: Syncer, cluster: Cluster, tmp_path: Path) -> None:
    """An Argo CD Application with `sources` and `$values`: one set, one inventory; both revisions are told."""
    charts, values = Repository(tmp_path, "charts"), Repository(tmp_path, "values")
    first = charts.commit(chart(files={"templates/config.yaml": SEEN}, directory="shop"))
    second = values.commit({"prod/values.yaml": "level: prod\n", "extra/cm.yaml": EXTRA})
    spec = {
        "sources": [
            {"repoURL": charts.url, "targetRevision": "main", "path": "shop", "helm": {"valueFiles": ["$values/prod/values.yaml"]}},
            {"repoURL": values.url, "targetRevision": "main", "ref": "values", "path": "extra"},
        ]
    }

    result = await run(syncer, spec)

    assert result.outcome == "succeeded", result
    assert result.revision == f"{first},{second}"
    assert actions(result) == {"ConfigMap/seen": "created", "ConfigMap/extra": "created"}
    assert (await cluster.client.get(CONFIG_MAPS, syncer.namespace, "seen"))["data"]["level"] == "prod"
    origins = {each.name: each.origin for each in result.resources}
    assert origins == {"seen": "sources[0]:shop/templates/config.yaml", "extra": "sources[1]:extra/cm.yaml:1"}

    values.commit({"extra/cm.yaml": None})
    values.commit({"extra/other.yaml": EXTRA.replace("extra", "other")})
    pruned = await run(syncer, spec, prune=True)
    assert actions(pruned) == {"ConfigMap/seen": "unchanged", "ConfigMap/other": "created", "ConfigMap/extra": "pruned"}


async def test_a_host_that_is_busy_is_asked_again(syncer: Syncer, tmp_path: Path) -> None:
    """While it says so; a host that refuses us is asked once."""
    repository = Repository(tmp_path)
    repository.commit({"cm.yaml": EXTRA})
    async with HttpServer(tmp_path).running() as server:
        statuses = [503, 503]
        server.interfere = lambda request: web.Response(status=statuses.pop()) if statuses else None
        spec = {"source": {"repoURL": server.url("origin.git"), "targetRevision": "main"}}
        assert (await run(syncer, spec)).outcome == "succeeded"

        server.requests.clear()
        server.logins = {"ada": "somebody else"}
        server.interfere = None
        refused = await run(syncer, spec)
        assert refused.error is not None
        assert (refused.outcome, refused.error.code, len(server.requests)) == ("refused", "permission.git_authentication", 1)


EXTRA = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra}\ndata: {a: b}\n"


def helm_record(name: str, version: int, status: str, namespace: str) -> JsonObject:
    """A release as Helm keeps it."""
    labels = {"owner": "helm", "name": name, "status": status, "version": str(version), "modifiedAt": "1790000000"}
    metadata = {"name": f"sh.helm.release.v1.{name}.v{version}", "namespace": namespace, "labels": labels}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "type": "helm.sh/release.v1",
        "data": {"release": "c2VjcmV0LXZhbHVlcw=="},
    }


@pytest.mark.parametrize("kind", ["sync", "diff"])
async def test_a_release_that_helm_left_pending_is_told(syncer: Syncer, cluster: Cluster, tmp_path: Path, kind: str) -> None:
    """Agent case 19: name, state, since when, by whom and what to do; the sync succeeds, and Helm's record stays as it is, unread."""
    repository = Repository(tmp_path, "charts")
    repository.commit(chart(files={"templates/config.yaml": SEEN}, directory="shop"))
    for name, version, status in (("shop", 1, "deployed"), ("shop", 2, "pending-upgrade"), ("other", 1, "deployed")):
        await cluster.client.apply(SECRETS, helm_record(name, version, status, syncer.namespace), manager="helm")
    before = await cluster.client.list(SECRETS, syncer.namespace, labels="owner=helm")

    result = await run(syncer, {"source": {"repoURL": repository.url, "targetRevision": "main", "path": "shop", "helm": {}}}, kind)

    assert result.outcome is Outcome.SUCCEEDED, result
    [told] = [notice for notice in result.notices if "Helm release" in notice]
    assert "'shop' (revision 2) is pending-upgrade since 2026-09-21T14:13:20Z, written by helm" in told
    assert f"helm rollback shop -n {syncer.namespace}" in told
    assert "secret-values" not in str(result)
    after = await cluster.client.list(SECRETS, syncer.namespace, labels="owner=helm")
    assert [each["metadata"]["resourceVersion"] for each in after.items] == [each["metadata"]["resourceVersion"] for each in before.items]


async def test_helm_is_only_asked_to_render(syncer: Syncer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Agent case 19: what is synced and synced again starts no helm that writes to a cluster, so none can be left pending."""
    called: list[tuple[str, ...]] = []

    async def note(command: Command, **rest: Any) -> Completed:
        called.append(command.arguments)
        return await run_command(command, **rest)

    monkeypatch.setattr(running, "run_command", note)
    repository = Repository(tmp_path, "charts")
    spec: JsonObject = {"source": {"repoURL": repository.url, "targetRevision": "main", "path": "shop", "helm": {}}}
    for level in ("info", "debug"):
        repository.commit(chart(files={"templates/config.yaml": SEEN.replace("{{ .Values.level }}", level)}, directory="shop"))
        assert (await run(syncer, spec)).outcome is Outcome.SUCCEEDED

    words = {word for arguments in called for word in arguments}
    assert "template" in words
    assert words.isdisjoint({"install", "upgrade", "rollback", "uninstall", "delete", "test"})
