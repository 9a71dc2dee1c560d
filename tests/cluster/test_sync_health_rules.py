"""Health rules of operators in a sync: a kind of their own is waited for as their file says."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from delegate.engine.clusters.registry import Cluster, ClusterRegistry, ClusterSettings
from delegate.engine.sources.manifests import Sources
from delegate.engine.tasks.building import Engine
from delegate.engine.tasks.health_books import HealthBook
from delegate.engine.tasks.preparing import Parts
from delegate.engine.tasks.querying import PathQueries
from delegate.foundation.errors import DelegateError
from delegate.foundation.lifecycle.retrying import Retrying
from delegate.model.health.shipped import shipped_rules
from delegate.model.health.verdicts import HealthStatus
from delegate.model.resources import GroupKind, JsonObject, ResourceType
from delegate.model.results import Outcome
from tests.cluster.conftest import Server
from tests.cluster.syncing import Syncer, resource

FAST = Retrying(max_attempts=4, base_seconds=0.01, max_seconds=0.1, max_duration_seconds=20.0)
RULES = """\
rules:
- kinds: ["*/Database"]
  degraded: object.spec.phase == 'Failed'
  healthy: object.spec.phase == 'Running'
  reason: "'Database' + object.spec.phase"
  message: "'it says ' + object.spec.phase"
"""
DEFINITIONS = ResourceType(
    group="apiextensions.k8s.io", version="v1", kind="CustomResourceDefinition", plural="customresourcedefinitions", namespaced=False
)


def definition(group: str) -> JsonObject:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"phase": {"type": "string"}}}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"databases.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "Database", "plural": "databases", "singular": "database", "listKind": "DatabaseList"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


@pytest.fixture
async def rules(tmp_path: Path) -> Path:
    path = tmp_path / "health.yaml"
    path.write_text(RULES)
    return path


@pytest.fixture
async def syncer(server: Server, namespace: str, tmp_path: Path, rules: Path) -> AsyncIterator[Syncer]:
    registry = ClusterRegistry(ClusterSettings(kubeconfig=str(server.kubeconfig), directory=tmp_path / "keys", policy=FAST), environment={})
    parts = Parts(
        sources=Sources(cache_dir=tmp_path / "cache", allow_local=True, environment={}),
        clusters=registry,
        retrying=FAST,
        queries=PathQueries(tmp_path / "queries"),
        health_rules=HealthBook(rules),
    )
    made = Syncer(Engine(parts), tmp_path / "source", namespace)
    yield made
    await made.engine.close()


@pytest.fixture
async def group(cluster: Cluster) -> AsyncIterator[str]:
    """A served group with the kind Database."""
    name = f"g{uuid.uuid4().hex[:8]}.example.org"
    made = await cluster.client.apply(DEFINITIONS, definition(name))

    async def is_served() -> bool:
        cluster.discovery.invalidate(name)
        try:
            return bool(await cluster.discovery.resource_for(GroupKind(name, "Database")))
        except DelegateError:
            return False

    async with asyncio.timeout(20):
        while not await is_served():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.05)
    yield name
    await cluster.client.delete(DEFINITIONS, "", f"databases.{name}", uid=made["metadata"]["uid"])


async def test_a_kind_is_waited_for_as_its_rule_says(syncer: Syncer, group: str) -> None:
    """Healthy where the rule says so; a failure ends the wait with the rule's own words."""
    database: JsonObject = {"apiVersion": f"{group}/v1", "kind": "Database", "metadata": {"name": "main"}}

    syncer.write([{**database, "spec": {"phase": "Running"}}])
    well = await syncer.sync()
    syncer.write([{**database, "spec": {"phase": "Failed"}}])
    failed = await syncer.sync(failFastAfter="100ms")

    assert well.outcome is Outcome.SUCCEEDED, well
    assert resource(well, "Database", "main").health.status is HealthStatus.HEALTHY
    assert failed.outcome is Outcome.FAILED, failed
    health = resource(failed, "Database", "main").health
    assert (health.status, health.reason, health.message) == (HealthStatus.DEGRADED, "DatabaseFailed", "it says Failed")
    assert failed.error is not None
    assert "it says Failed" in failed.error.message


async def test_a_wait_that_runs_out_says_what_the_rule_says(syncer: Syncer, group: str) -> None:
    """What no question of the rule answers is progressing until the deadline."""
    syncer.write([{"apiVersion": f"{group}/v1", "kind": "Database", "metadata": {"name": "main"}, "spec": {"phase": "Creating"}}])

    result = await syncer.sync(timeout="2s", failIfTimesOut=False)

    assert result.outcome is Outcome.SUCCEEDED, result
    assert resource(result, "Database", "main").health.reason == "DatabaseCreating"


def test_a_file_is_read_again_and_a_broken_one_changes_nothing(rules: Path) -> None:
    """At the start it is refused with its line; later the rules from before stay."""
    book = HealthBook(rules)
    first = book()
    rules.write_text(RULES.replace("Failed", "Lost"))
    second = book()
    rules.write_text(RULES.replace("== 'Failed'", "=="))
    third = book()

    assert first.rules[0].degraded == "object.spec.phase == 'Failed'"
    assert second.rules[0].degraded == "object.spec.phase == 'Lost'"
    assert third is second
    assert len(first.rules) == len(shipped_rules().rules) + 1
    assert HealthBook()() is shipped_rules()
    with pytest.raises(DelegateError) as refused:
        HealthBook(rules)
    assert (refused.value.file, refused.value.line) == (str(rules), 3)
