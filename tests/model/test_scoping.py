"""Namespaces and identities of a set."""

import pytest

from delegate.foundation.errors import ErrorGroup
from delegate.model.errors import (
    DuplicateObjectError,
    MissingNamespaceError,
    SchemaMismatchError,
    UnavailableGroupError,
    UnknownKindError,
)
from delegate.model.resources import GroupKind, Manifest
from delegate.model.scoping import scopes_of_definitions, settle_namespaces
from tests.model.manifests import case_of, manifests_of, object_of
from tests.model.recordings import steps_of

_SCOPES = {
    GroupKind("", "ConfigMap"): True,
    GroupKind("", "Namespace"): False,
    GroupKind("networking.k8s.io", "Ingress"): True,
    GroupKind("rbac.authorization.k8s.io", "ClusterRole"): False,
}
_DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: baskets.example.test}
spec: {group: example.test, names: {kind: Basket, plural: baskets}, scope: %s}
"""


def test_a_set_with_an_object_twice_is_refused() -> None:
    """Both places are named, once the destination's namespace makes them the same object."""
    manifests = [*case_of("26-duplicates-and-scope", "a.yaml"), *case_of("26-duplicates-and-scope", "b.yaml")]

    with pytest.raises(DuplicateObjectError) as caught:
        settle_namespaces(manifests, scopes=_SCOPES, destination_namespace="demo")

    assert "ConfigMap demo/dup is in the set twice: a.yaml:1 and b.yaml:1" in str(caught.value)
    assert (caught.value.file, caught.value.line) == ("b.yaml", 1)


def test_the_last_of_an_object_that_is_there_twice_counts_where_that_is_said() -> None:
    """In the order of the sources, with a notice that names both places (sync case 26.2)."""
    manifests = [*case_of("26-duplicates-and-scope", "a.yaml"), *case_of("26-duplicates-and-scope", "b.yaml")]

    settled = settle_namespaces(manifests, scopes=_SCOPES, destination_namespace="demo", last_wins=True)

    assert [manifest.body["data"] for manifest in settled.manifests if manifest.name == "dup"] == [{"from": "b"}]
    assert any("a.yaml:1 and b.yaml:1: the last one counts" in notice for notice in settled.notices)


def test_scopes_settle_namespaces() -> None:
    """Cluster-scoped objects lose theirs with a notice, namespaced ones get the destination's."""
    settled = settle_namespaces(case_of("26-duplicates-and-scope", "a.yaml"), scopes=_SCOPES, destination_namespace="demo")

    assert [str(manifest.key) for manifest in settled.manifests] == [
        "ConfigMap demo/dup",
        "rbac.authorization.k8s.io/ClusterRole reader",
        "networking.k8s.io/Ingress demo/web",
    ]
    assert settled.notices == (
        "a.yaml:6: rbac.authorization.k8s.io/ClusterRole reader is cluster-scoped; its namespace 'demo' was left out",
    )
    assert "namespace" not in settled.manifests[1].metadata


def test_the_input_is_not_changed() -> None:
    """Manifests are values: the ones that were handed in stay as they are."""
    manifests = case_of("26-duplicates-and-scope", "a.yaml")

    settle_namespaces(manifests, scopes=_SCOPES, destination_namespace="demo")

    assert "namespace" not in manifests[2].metadata
    assert manifests[1].namespace == "demo"


def test_no_namespace_anywhere() -> None:
    """An object with nowhere to go is an error that says what to add."""
    manifest = object_of("v1", "ConfigMap", "a", line=3)

    with pytest.raises(MissingNamespaceError, match="names no namespace and the task has no destination") as caught:
        settle_namespaces([manifest], scopes=_SCOPES, destination_namespace="")

    assert caught.value.line == 3


def test_another_version_is_the_same_object() -> None:
    """The version of an apiVersion is no part of an identity."""
    twice = [object_of("example.test/v1", "Basket", "b", "x"), object_of("example.test/v2", "Basket", "b", "x")]

    with pytest.raises(DuplicateObjectError):
        settle_namespaces(twice, scopes={GroupKind("example.test", "Basket"): True}, destination_namespace="")


def test_generated_names_are_no_duplicates() -> None:
    """Each generateName makes an object of its own."""
    text = "{apiVersion: v1, kind: ConfigMap, metadata: {generateName: run-}}"

    settled = settle_namespaces(manifests_of(f"{text}\n---\n{text}"), scopes=_SCOPES, destination_namespace="demo")

    assert len(settled.manifests) == 2


@pytest.mark.parametrize(("scope", "namespaced"), [("Namespaced", True), ("Cluster", False)])
def test_a_definition_in_the_set_tells_its_scope(scope: str, namespaced: bool) -> None:
    """A kind that the cluster doesn't know yet is settled by its definition beside it."""
    definition = manifests_of(_DEFINITION % scope)
    basket = object_of("example.test/v1", "Basket", "fruit", "demo")

    scopes = {GroupKind("apiextensions.k8s.io", "CustomResourceDefinition"): False}
    settled = settle_namespaces([*definition, basket], scopes=scopes, destination_namespace="")

    assert scopes_of_definitions(definition) == {GroupKind("example.test", "Basket"): namespaced}
    assert settled.manifests[1].namespace == ("demo" if namespaced else "")


def test_the_recorded_definition_tells_its_scope() -> None:
    """Also as a real one writes it; malformed ones tell nothing."""
    body = steps_of("crd")[1]["request"]["body"]

    manifests = [object_of(body["apiVersion"], body["kind"], "widgets.example.com", spec=body["spec"])]
    shapes: list[object] = [None, [], {"names": 1}, {"names": {}}]
    malformed = [object_of(body["apiVersion"], body["kind"], "x", spec=spec) for spec in shapes]

    assert scopes_of_definitions([*manifests, *malformed]) == {GroupKind("example.com", "Widget"): True}


def test_a_resource_that_its_definition_in_the_set_does_not_allow() -> None:
    """No server can dry-run it yet, so it is refused here; once the cluster serves the kind, that is the server's business."""
    basket, namespace, definition = case_of("11-crd-and-cr-together", "input.yaml")
    bad = Manifest({**basket.body, "spec": {"size": "three"}}, basket.origin)
    scopes = {GroupKind("apiextensions.k8s.io", "CustomResourceDefinition"): False, GroupKind("", "Namespace"): False}

    with pytest.raises(SchemaMismatchError, match=r"spec\.size: expected integer, got string"):
        settle_namespaces([bad, namespace, definition], scopes=scopes, destination_namespace="")

    served = {**scopes, basket.group_kind: True}
    assert len(settle_namespaces([bad, namespace, definition], scopes=served, destination_namespace="").manifests) == 3
    assert len(settle_namespaces([basket, namespace, definition], scopes=scopes, destination_namespace="").manifests) == 3


def test_unknown_kinds_and_unavailable_groups() -> None:
    """A kind that nobody knows is input; a group that is away for now is something else and may be tried again."""
    manifests = [object_of("nope.test/v1", "Thing", "t", "x"), object_of("metrics.test/v1", "Metric", "m", "x", line=9)]

    with pytest.raises(ErrorGroup) as caught:
        settle_namespaces(
            manifests, scopes=_SCOPES, destination_namespace="", unavailable_groups={"metrics.test": "the server is currently unable"}
        )

    unknown, away = caught.value.errors
    assert isinstance(unknown, UnknownKindError)
    assert not unknown.retryable
    assert isinstance(away, UnavailableGroupError)
    assert away.retryable
    assert "the server is currently unable" in away.message
    assert (away.file, away.line) == ("a.yaml", 9)
