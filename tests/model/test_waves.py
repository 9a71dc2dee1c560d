"""The order of writing and of pruning."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegate.foundation.errors import ErrorGroup
from delegate.model.errors import AnnotationError
from delegate.model.resources import GroupKind, Manifest, ResourceKey
from delegate.model.waves import StageKind, is_workload, order_for_prune, order_manifests, stage_of, wave_of
from tests.model.manifests import manifests_of, names, object_of

_EVERYTHING = """
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: hook}}
---
{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1.example.test}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}}
---
{apiVersion: example.test/v1, kind: Basket, metadata: {name: fruit, namespace: shop}}
---
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: shop}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: first, namespace: shop, annotations: {argocd.argoproj.io/sync-wave: "-1"}}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: last, namespace: shop, annotations: {delegate.gitops/sync-wave: "3"}}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: web, namespace: shop}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: web, namespace: shop}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: web, namespace: shop}}
---
{apiVersion: v1, kind: LimitRange, metadata: {name: limits, namespace: shop}}
---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: fast}}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}}
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: baskets.example.test}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
"""


def test_stages_in_the_order_of_the_design() -> None:
    """What others refer to stands before a barrier each, then the waves, last what can stand in the way."""
    stages = order_manifests(manifests_of(_EVERYTHING))

    assert [(stage.name, [manifest.kind for manifest in stage.manifests]) for stage in stages] == [
        ("namespaces", ["Namespace"]),
        ("definitions", ["CustomResourceDefinition"]),
        ("classes", ["PriorityClass", "StorageClass"]),
        ("quotas", ["LimitRange"]),
        ("accounts", ["ServiceAccount"]),
        ("roles", ["Role"]),
        ("bindings", ["RoleBinding"]),
        ("wave -1", ["ConfigMap"]),
        ("wave 0", ["ConfigMap", "Service", "Deployment", "Basket"]),
        ("wave 3", ["Job"]),
        ("gatekeepers", ["APIService", "ValidatingWebhookConfiguration"]),
    ]


def test_batches_of_a_stage() -> None:
    """What has the same rank may be written at once, what workloads read comes before them."""
    stage = next(stage for stage in order_manifests(manifests_of(_EVERYTHING)) if stage.name == "wave 0")

    assert [[manifest.kind for manifest in batch] for batch in stage.batches()] == [["ConfigMap"], ["Service"], ["Deployment"], ["Basket"]]


def test_a_webhook_with_a_wave_of_its_own() -> None:
    """Somebody who says when a webhook comes is believed; it comes last in that wave."""
    hook = object_of(
        "admissionregistration.k8s.io/v1",
        "MutatingWebhookConfiguration",
        "hook",
        metadata={"annotations": {"argocd.argoproj.io/sync-wave": "0"}},
    )
    basket, late = (
        object_of("example.test/v1", "Basket", "b", "shop"),
        object_of("v1", "Secret", "s", "shop", metadata={"annotations": {"argocd.argoproj.io/sync-wave": "1"}}),
    )

    stages = order_manifests([late, hook, basket])

    assert [[manifest.kind for manifest in stage.manifests] for stage in stages] == [["Basket", "MutatingWebhookConfiguration"], ["Secret"]]


@pytest.mark.parametrize("text", ["soon", "", "1.0", " 1", "1_0", "99999999999999", 1, True])
def test_a_wave_that_is_no_integer(text: object) -> None:
    """It is refused with its place, not taken for 0."""
    manifest = object_of("v1", "ConfigMap", "a", "shop", line=7, metadata={"annotations": {"argocd.argoproj.io/sync-wave": text}})

    with pytest.raises(AnnotationError, match=r"a\.yaml:7: argocd.argoproj.io/sync-wave: .* is no wave") as caught:
        wave_of(manifest)

    assert caught.value.object == "ConfigMap shop/a"


def test_all_wrong_waves_are_reported_at_once() -> None:
    """One report names every fault of the set."""
    wrong = [object_of("v1", "Secret", name, "x", metadata={"annotations": {"delegate.gitops/sync-wave": "?"}}) for name in ("a", "b")]

    with pytest.raises(ErrorGroup) as caught:
        order_manifests(wrong)

    assert [error.object for error in caught.value.errors] == ["Secret x/a", "Secret x/b"]


def test_our_own_annotation_wins() -> None:
    """Where both are there, ours is meant for us."""
    annotations = {"delegate.gitops/sync-wave": "+2", "argocd.argoproj.io/sync-wave": "9"}

    assert wave_of(object_of("v1", "Secret", "a", metadata={"annotations": annotations})) == 2


def test_prune_mirrors_creation() -> None:
    """Webhooks first, custom resources before their definitions, namespaces last."""
    manifests = manifests_of(_EVERYTHING)
    waves = {manifest.key: wave_of(manifest) for manifest in manifests}

    stages = order_for_prune([manifest.key for manifest in manifests], waves)

    created = [manifest.kind for stage in order_manifests(manifests) for manifest in stage.manifests]
    assert [key.kind for stage in stages for key in stage.keys] == created[::-1]
    assert stages[0].kind is StageKind.GATEKEEPERS
    assert stages[-1].kind is StageKind.NAMESPACES


def test_classes_are_told_by_their_name() -> None:
    """Any kind that ends in Class, also one that only a definition brings."""
    assert stage_of(GroupKind("gateway.networking.k8s.io", "GatewayClass")) is StageKind.CLASSES
    assert stage_of(GroupKind("example.test", "Class")) is StageKind.WAVE
    assert stage_of(GroupKind("example.test", "Role")) is StageKind.WAVE
    assert is_workload(GroupKind("apps", "Deployment"))
    assert not is_workload(GroupKind("example.test", "Deployment"))


_kinds = st.sampled_from(
    [
        ("v1", "Namespace"),
        ("v1", "ConfigMap"),
        ("apps/v1", "Deployment"),
        ("example.test/v1", "Basket"),
        ("rbac.authorization.k8s.io/v1", "ClusterRole"),
        ("apiregistration.k8s.io/v1", "APIService"),
    ]
)
_annotations = st.fixed_dictionaries({}, optional={"argocd.argoproj.io/sync-wave": st.integers(-3, 3).map(str)})
_manifests = st.builds(
    lambda kind, name, namespace, annotations: object_of(kind[0], kind[1], name, namespace, metadata={"annotations": annotations}),
    _kinds,
    names,
    st.sampled_from(["", "a", "b"]),
    _annotations,
)


@given(st.lists(_manifests, max_size=8, unique_by=lambda manifest: manifest.key), st.randoms(use_true_random=False))
def test_the_order_is_total(manifests: list[Manifest], random: "st.DataObject") -> None:
    """Every manifest is in it once, and the order of the input makes no difference."""
    shuffled = list(manifests)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis hands over a random.Random

    stages = order_manifests(manifests)

    assert stages == order_manifests(shuffled)
    assert sorted(m.key for stage in stages for m in stage.manifests) == sorted(m.key for m in manifests)
    assert all(stage.manifests for stage in stages)
    positions = [(list(StageKind).index(stage.kind), stage.wave) for stage in stages]
    assert positions == sorted(set(positions))


@given(
    st.lists(st.builds(ResourceKey, st.just(""), st.sampled_from(["Namespace", "Secret", "Pod"]), names, names), max_size=6, unique=True)
)
def test_prune_order_is_total(keys: list[ResourceKey]) -> None:
    """Every key is in it once, in the same order whatever order they come in."""
    expected = order_for_prune(keys)

    assert sorted(key for stage in expected for key in stage.keys) == sorted(keys)
    for permutation in itertools.islice(itertools.permutations(keys), 20):
        assert order_for_prune(permutation) == expected
