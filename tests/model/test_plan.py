"""The plan as a value."""

import copy
from typing import Any

import msgspec
import pytest

from delegate.model.applied import Mark, label_member, manifest_hash, with_mark
from delegate.model.deferrals import Deferral
from delegate.model.plan import (
    Plan,
    describe_summary,
    plan_change,
    plan_deferred,
    plan_failed,
    plan_hash,
    plan_prune,
    plan_unchanged,
    result_of,
    summarize,
)
from delegate.model.resources import JsonObject, Manifest, Origin, ResourceKey
from delegate.model.results import Action, Change, ErrorDetail, Summary
from tests.model.manifests import object_of

_MANIFEST = Manifest(label_member(object_of("v1", "ConfigMap", "a", "shop", data={"k": "2"}).body, "applyset-1-v1"), Origin("a.yaml", 4))


def _live(value: str, mark: Mark | None, **metadata: Any) -> JsonObject:
    body = {**_MANIFEST.body, "data": {"k": value}}
    if mark:
        body = with_mark(body, mark)
    return {**body, "metadata": {**body["metadata"], "uid": "u1", "resourceVersion": "7", **metadata}}


_OWN_MARK = Mark(manifest_hash(_MANIFEST.body), "f" * 32)
_OLD_MARK = Mark("0" * 32, "f" * 32)


def test_a_new_object_is_created() -> None:
    """It carries no changes: all of it is new."""
    planned = plan_change(_MANIFEST, None, _live("2", _OWN_MARK), "f" * 32, stage="wave 0")

    assert (planned.action, planned.writes, planned.changes, planned.uid) == (Action.CREATED, True, (), "")
    assert (planned.stage, planned.origin, planned.fields) == ("wave 0", "a.yaml:4", "f" * 32)


def test_a_changed_object_is_configured() -> None:
    """The plan holds the leaves, and whom it was made against."""
    planned = plan_change(_MANIFEST, _live("1", _OLD_MARK), _live("2", _OWN_MARK), "f" * 32)

    assert (planned.action, planned.writes) == (Action.CONFIGURED, True)
    assert planned.changes == (Change("/data/k", "1", "2"),)
    assert (planned.uid, planned.resource_version) == ("u1", "7")


@pytest.mark.parametrize(("mark", "writes"), [(_OWN_MARK, False), (_OLD_MARK, True), (None, True)])
def test_an_equal_object_is_written_only_to_renew_its_mark(mark: Mark | None, writes: bool) -> None:
    """A value that somebody set back is no drift; a manifest that is written differently costs one write, once."""
    planned = plan_change(_MANIFEST, _live("2", mark), _live("2", _OWN_MARK), "f" * 32)

    assert (planned.action, planned.writes, planned.changes) == (Action.UNCHANGED, writes, ())


def test_a_synced_object_needs_no_dry_run() -> None:
    """Its metadata is enough."""
    planned = plan_unchanged(_MANIFEST, _live("2", _OWN_MARK)["metadata"], stage="wave 0")

    assert (planned.action, planned.writes, planned.uid, planned.manifest_hash) == (Action.UNCHANGED, False, "u1", _OWN_MARK.manifest)


def _plan(**changes: Any) -> Plan:
    planned = plan_change(_MANIFEST, _live("1", _OLD_MARK), _live("2", _OWN_MARK), "f" * 32)
    prune = plan_prune(ResourceKey("", "Secret", "shop", "old"), "v1", "u9")
    return Plan("shop", "9f3c", (msgspec.structs.replace(planned, **changes),), (prune,))


def test_the_hash_of_the_same_plan_made_again() -> None:
    """resourceVersions, the revision, origins and notices have no part in it."""
    again = plan_change(
        Manifest(copy.deepcopy(_MANIFEST.body), Origin("b.yaml", 9)),
        _live("1", _OLD_MARK, resourceVersion="8", generation=3),
        _live("2", _OWN_MARK, resourceVersion="8"),
        "e" * 32,
    )

    assert plan_hash(_plan()) == plan_hash(Plan("shop", "77ab", (again,), _plan().prunes, ("a notice",)))
    assert len(plan_hash(_plan())) == 64


@pytest.mark.parametrize(
    "changes",
    [
        {"action": Action.UNCHANGED},
        {"uid": "u2"},
        {"changes": (Change("/data/k", "0", "2"),)},
        {"manifest_hash": "1" * 32},
        {"key": ResourceKey("", "ConfigMap", "shop", "b")},
    ],
)
def test_the_hash_of_a_plan_that_does_something_else(changes: dict[str, Any]) -> None:
    """Another object, another action, other values: another approval."""
    assert plan_hash(_plan(**changes)) != plan_hash(_plan())
    assert plan_hash(Plan("shop", "9f3c", _plan().items)) != plan_hash(_plan())
    assert plan_hash(Plan("other", "9f3c", _plan().items, _plan().prunes)) != plan_hash(_plan())


def test_whether_a_plan_writes_and_changes() -> None:
    """Renewing a mark is a write and no change."""
    same = plan_change(_MANIFEST, _live("2", _OLD_MARK), _live("2", _OWN_MARK), "f" * 32)
    synced = plan_unchanged(_MANIFEST, {})

    assert (_plan().has_writes, _plan().has_changes) == (True, True)
    assert (Plan("a", items=(same,)).has_writes, Plan("a", items=(same,)).has_changes) == (True, False)
    assert (Plan("a", items=(synced,)).has_writes, Plan("a", items=(synced,)).has_changes) == (False, False)
    assert Plan("a", prunes=_plan().prunes).has_changes


def test_deferred_and_failed_objects() -> None:
    """A deferred one says what it waits for; a failed one carries its fault into the result."""
    deferral = Deferral(ResourceKey("", "Namespace", "", "shop"), "is checked once Namespace shop exists")
    error = ErrorDetail("input.invalid", "input", "no")

    deferred, failed = plan_deferred(_MANIFEST, deferral), plan_failed(_MANIFEST, error, immutable=True)

    assert (deferred.action, deferred.deferral, deferred.writes) == (Action.CREATED, deferral, True)
    assert (failed.action, failed.writes, failed.immutable) == (Action.FAILED, False, True)
    assert (result_of(failed).error, result_of(failed).origin, result_of(failed).name) == (error, "a.yaml:4", "a")


def test_summaries() -> None:
    """Counted by fate, and in one line."""
    actions = [Action.CREATED, Action.CONFIGURED, *[Action.UNCHANGED] * 9, Action.FAILED]

    summary = summarize(actions)

    assert summary == Summary(created=1, configured=1, unchanged=9, failed=1)
    assert describe_summary(summary) == "12 resources, 2 changed, 1 failed"
    assert describe_summary(Summary(unchanged=1)) == "1 resource, 0 changed"
    assert describe_summary(Summary(created=2, pruned=1, skipped=3)) == "6 resources, 2 changed, 1 pruned, 3 skipped"
