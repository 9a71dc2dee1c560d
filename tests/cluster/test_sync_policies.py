"""The gate between plan and apply: what policies refuse, warn of and let pass, seen from a task's result."""

import asyncio
import base64
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import structlog

from delegate.engine.clusters.errors import NotFoundError
from delegate.engine.clusters.registry import Cluster, ClusterRegistry, ClusterSettings
from delegate.engine.policies.gates import Gate
from delegate.engine.sources.manifests import Sources
from delegate.engine.tasks.building import Engine
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.preparing import Parts
from delegate.engine.tasks.querying import PathQueries
from delegate.engine.tasks.stopping import StopSignal
from delegate.foundation.lifecycle.retrying import Retrying
from delegate.model.resource_types import CONFIG_MAPS
from delegate.model.resources import JsonObject
from delegate.model.results import Outcome, TaskResult
from delegate.model.tasks import read_task
from tests.cluster.conftest import Server
from tests.cluster.syncing import deployment, settings_map

FAST = Retrying(max_attempts=4, base_seconds=0.01, max_seconds=0.1, max_duration_seconds=20.0)
EXEMPTIONS = "delegate.gitops/policy-exemptions"
VALUE = "hunter2-Zx9q"


class Gated:
    """An engine with a policy file, and one Application's directory."""

    def __init__(self, server: Server, directory: Path, namespace: str) -> None:
        self.policies = directory / "policies.yaml"
        self.policies.write_text("")
        self._source = directory / "source"
        self._source.mkdir()
        self._namespace = namespace
        registry = ClusterRegistry(
            ClusterSettings(kubeconfig=str(server.kubeconfig), directory=directory / "keys", policy=FAST), environment={}
        )
        sources = Sources(cache_dir=directory / "cache", allow_local=True, environment={})
        queries = PathQueries(directory / "queries")
        self.engine = Engine(Parts(sources=sources, clusters=registry, retrying=FAST, queries=queries, policies=Gate(self.policies)))

    def write(self, *objects: JsonObject) -> None:
        (self._source / "set.yaml").write_text("\n---\n".join(msgspec.json.encode(each).decode() for each in objects))

    def write_text(self, text: str) -> None:
        (self._source / "set.yaml").write_text(text)

    async def run(
        self, kind: str = "sync", environment: str = "prod", annotations: JsonObject | None = None, **options: object
    ) -> TaskResult:
        task = read_task(
            {
                "kind": kind,
                "application": "shop",
                "destination": {"namespace": self._namespace},
                "environment": environment,
                "annotations": annotations or {},
                "spec": {"source": {"path": str(self._source)}},
                "options": {"wait": False, **options},
            }
        )
        deadline = asyncio.get_running_loop().time() + 30
        context = AttemptContext(
            task_id="task-1", attempt_id=str(uuid.uuid4()), deadline=deadline, stop=StopSignal(), report=lambda *_: None
        )
        return await self.engine.run(task, context)


@pytest.fixture
async def gated(server: Server, namespace: str, tmp_path: Path) -> AsyncIterator[Gated]:
    made = Gated(server, tmp_path, namespace)
    yield made
    await made.engine.close()


async def test_a_mutable_tag_is_refused_in_production_before_anything_is_written(gated: Gated, cluster: Cluster, namespace: str) -> None:
    """The result names object, file, line, rule and what to do; elsewhere the same set is synced."""
    gated.write(settings_map(), deployment(image="nginx:latest"))

    refused = await gated.run()

    assert refused.outcome is Outcome.REFUSED, refused
    assert refused.error is not None
    assert (refused.error.category, refused.error.code) == ("policy", "policy.denied")
    assert (refused.error.file, refused.error.line) == ("set.yaml", 3)
    assert refused.error.object == f"apps/Deployment {namespace}/web"
    assert "mutable-tags" in refused.error.message
    assert "digest" in refused.error.hint
    assert refused.requests.writes == 0
    with pytest.raises(NotFoundError):
        await cluster.client.get(CONFIG_MAPS, namespace, "settings")
    assert (await gated.run(environment="dev")).outcome is Outcome.SUCCEEDED


async def test_a_denial_says_the_line_of_the_field(gated: Gated) -> None:
    """Where the image was written, not where the object begins."""
    gated.write_text(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  selector: {matchLabels: {app: web}}\n"
        "  template:\n    metadata: {labels: {app: web}}\n    spec:\n      containers:\n      - name: main\n        image: web:stable\n"
    )

    refused = await gated.run()

    assert refused.error is not None
    assert (refused.error.file, refused.error.line) == ("set.yaml", 11), refused


async def test_a_version_that_is_gone_is_refused_with_what_replaces_it(gated: Gated) -> None:
    """The cluster does not serve it; the advice is what to write."""
    gated.write({"apiVersion": "batch/v1beta1", "kind": "CronJob", "metadata": {"name": "x"}, "spec": {}})
    other = await gated.run()
    gated.write({"apiVersion": "extensions/v1beta1", "kind": "Ingress", "metadata": {"name": "x"}, "spec": {}})
    unknown = await gated.run()

    for result, advice in ((other, "batch/v1"), (unknown, "networking.k8s.io/v1")):
        assert result.outcome is Outcome.REFUSED, result
        assert result.error is not None
        assert f"write apiVersion: {advice}" in result.error.hint


async def test_a_difference_is_shown_though_a_sync_would_be_refused(gated: Gated) -> None:
    """A diff says so in a notice; a dry run is refused as the sync would be."""
    gated.write(deployment(image="nginx:latest"))

    shown = await gated.run("diff")

    assert shown.outcome is Outcome.SUCCEEDED, shown
    assert any("mutable-tags" in notice and "would be refused" in notice for notice in shown.notices)
    assert (await gated.run(dryRun=True)).outcome is Outcome.REFUSED


async def test_what_is_synced_already_is_not_judged_again(gated: Gated) -> None:
    """A rule that comes later refuses the next change, not a sync that writes nothing."""
    gated.write(deployment(image="nginx:latest"))
    assert (await gated.run(environment="dev")).outcome is Outcome.SUCCEEDED

    unchanged = await gated.run()
    gated.write(deployment(image="nginx:latest", replicas=3))
    changed = await gated.run()

    assert (unchanged.outcome, unchanged.requests.writes) == (Outcome.SUCCEEDED, 0)
    assert changed.outcome is Outcome.REFUSED


async def test_a_secret_in_the_source_is_warned_of_without_its_value(gated: Gated) -> None:
    """The sync goes on; its result says where the value stands, and nothing says the value."""
    encoded = base64.b64encode(VALUE.encode()).decode()
    gated.write({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db"}, "data": {"password": encoded}})

    with structlog.testing.capture_logs() as logs:
        result = await gated.run()

    assert result.outcome is Outcome.SUCCEEDED, result
    assert any("set.yaml:1" in notice and "plaintext-secrets" in notice for notice in result.notices), result.notices
    said = msgspec.json.encode(result).decode() + str(logs)
    assert VALUE not in said
    assert encoded not in said
    assert {"event": "policy.violated", "action": "warn"}.items() <= next(
        log for log in logs if log.get("rule") == "plaintext-secrets"
    ).items()


async def test_rules_of_the_file_see_both_objects_and_hold_once_the_file_changes(gated: Gated, cluster: Cluster, namespace: str) -> None:
    """A file that is replaced counts from the next task on; one that can't be meant refuses with its line."""
    gated.write(deployment(replicas=3))
    assert (await gated.run()).outcome is Outcome.SUCCEEDED
    gated.policies.write_text(
        "rules:\n"
        "- name: no-shrinking\n"
        "  match: {kinds: [apps/Deployment]}\n"
        "  expression: oldObject == null || object.spec.replicas >= oldObject.spec.replicas\n"
        "  messageExpression: \"'from ' + string(oldObject.spec.replicas) + ' to ' + string(object.spec.replicas)\"\n"
        "- name: keep\n"
        "  match: {kinds: [ConfigMap], operations: [DELETE]}\n"
        "  expression: has(oldObject.metadata.labels.disposable)\n"
    )

    gated.write(deployment(replicas=1))
    shrunk = await gated.run()
    gated.write(deployment(replicas=4), settings_map())
    grown = await gated.run()
    gated.write(deployment(replicas=4))
    pruned = await gated.run(prune=True)
    gated.policies.write_text("rules:\n- name: broken\n  expression: object.spec ||\n")
    broken = await gated.run()

    assert shrunk.outcome is Outcome.REFUSED
    assert shrunk.error is not None
    assert "no-shrinking" in shrunk.error.message
    assert "from 3 to 1" in shrunk.error.message
    assert grown.outcome is Outcome.SUCCEEDED, grown
    assert pruned.outcome is Outcome.REFUSED, pruned
    assert (await cluster.client.get(CONFIG_MAPS, namespace, "settings"))["data"]
    assert broken.outcome is Outcome.REFUSED, broken
    assert broken.error is not None
    assert (broken.error.code, broken.error.file, broken.error.line) == ("input.policy_file", str(gated.policies), 3)


async def test_an_application_is_exempt_only_where_the_policy_allows(gated: Gated) -> None:
    """Its annotation asks; the rule's mayBeExempt decides, and the result says that the exemption was used."""
    gated.write(deployment(image="nginx:latest"))
    asking: JsonObject = {EXEMPTIONS: "mutable-tags, other"}

    denied = await gated.run(annotations=asking)
    gated.policies.write_text("shipped:\n  mutable-tags: {mayBeExempt: [shop]}\n")
    allowed = await gated.run(annotations=asking)

    assert denied.outcome is Outcome.REFUSED
    assert denied.error is not None
    assert "mayBeExempt" in denied.error.hint
    assert allowed.outcome is Outcome.SUCCEEDED, allowed
    assert any("exempt from policy mutable-tags" in notice for notice in allowed.notices), allowed.notices


async def test_the_end_of_an_application_is_judged_too(gated: Gated, cluster: Cluster, namespace: str) -> None:
    """A rule about deletions holds for all of them at once; a diff of the end says that it would be refused."""
    gated.write(settings_map())
    assert (await gated.run()).outcome is Outcome.SUCCEEDED
    gated.policies.write_text(
        "rules: [{name: keep, match: {kinds: [ConfigMap], operations: [DELETE]}, expression: 'false', message: kept by hand}]\n"
    )

    shown = await gated.run("diff", delete="cascade")
    refused = await gated.run(delete="cascade")
    gated.policies.write_text("")
    ended = await gated.run(delete="cascade")

    assert any("kept by hand" in notice and "would be refused" in notice for notice in shown.notices), shown.notices
    assert refused.outcome is Outcome.REFUSED, refused
    assert refused.error is not None
    assert "kept by hand" in refused.error.message
    assert ended.outcome is Outcome.SUCCEEDED, ended
    with pytest.raises(NotFoundError):
        await cluster.client.get(CONFIG_MAPS, namespace, "settings")


async def test_hooks_are_judged_with_the_objects(gated: Gated) -> None:
    """A hook's image runs in the cluster as any other."""
    hook = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "migrate", "annotations": {"argocd.argoproj.io/hook": "PreSync"}},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "tool"}]}}},
    }
    gated.write(settings_map(), hook)

    refused = await gated.run()

    assert refused.outcome is Outcome.REFUSED, refused
    assert refused.error is not None
    assert "Job" in refused.error.object


def test_an_application_document_brings_its_annotations() -> None:
    """Those of ours reach the task; others are named as without effect."""
    document = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": "shop", "annotations": {EXEMPTIONS: "mutable-tags", "other/note": "x"}},
        "spec": {"source": {"repoURL": "https://git.example/a.git", "path": "a"}, "destination": {"namespace": "shop"}},
    }

    task = read_task(document)

    assert task.annotations == {EXEMPTIONS: "mutable-tags"}
    assert any("metadata.annotations" in notice for notice in task.notices)
