"""Which refusals another member of the set explains."""

import pytest

from delegate.foundation.errors import DelegateError
from delegate.model.deferrals import Refusal, explain_deferral, members_of, refusal_of
from delegate.model.resources import Manifest
from tests.model.manifests import case_of, manifests_of, object_of
from tests.model.recordings import body_of

_SET = manifests_of(
    """
{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: baskets.example.test}
spec: {group: example.test, names: {kind: Basket}, scope: Namespaced}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}}
---
{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: gvisor}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: app, namespace: shop}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: reader, namespace: shop}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: "system:reader"}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: shop}}
"""
)
_MEMBERS = members_of(_SET)
_POD = object_of("v1", "Pod", "p", "shop")
_BINDING = object_of("rbac.authorization.k8s.io/v1", "RoleBinding", "b", "shop")


def _explained(refusal: Refusal, manifest: Manifest = _POD) -> str:
    deferral = explain_deferral(refusal, manifest, _MEMBERS)
    return str(deferral.needs) if deferral else ""


@pytest.mark.parametrize(
    ("message", "manifest", "needs"),
    [
        ('namespaces "shop" not found', _POD, "Namespace shop"),
        (
            'pods "p" is forbidden: error looking up service account shop/app: serviceaccount "app" not found',
            _POD,
            "ServiceAccount shop/app",
        ),
        ('pods "p" is forbidden: no PriorityClass with name high was found', _POD, "scheduling.k8s.io/PriorityClass high"),
        ('pods "p" is forbidden: pod rejected: RuntimeClass "gvisor" not found', _POD, "node.k8s.io/RuntimeClass gvisor"),
        ('roles.rbac.authorization.k8s.io "reader" not found', _BINDING, "rbac.authorization.k8s.io/Role shop/reader"),
        (
            'clusterroles.rbac.authorization.k8s.io "system:reader" not found',
            _BINDING,
            "rbac.authorization.k8s.io/ClusterRole system:reader",
        ),
    ],
)
def test_refusals_that_the_set_explains(message: str, manifest: Manifest, needs: str) -> None:
    """By the words of the server, and by what its Status says where the client has read it."""
    assert _explained(Refusal("some.code", message=message), manifest) == needs


@pytest.mark.parametrize(
    ("message", "manifest"),
    [
        ('namespaces "other" not found', _POD),
        ('serviceaccount "app" not found', object_of("v1", "Pod", "p", "elsewhere")),
        ('configmaps "settings" not found', _POD),
        ('pods "p" is forbidden: exceeded quota: q', _POD),
        ('roles.rbac.authorization.k8s.io "high" not found', _BINDING),
        ("admission webhook denied the request: image not found", _POD),
        ("", _POD),
    ],
)
def test_refusals_that_stay_faults(message: str, manifest: Manifest) -> None:
    """Another name, another namespace, another kind, another cause."""
    assert _explained(Refusal("some.code", message=message), manifest) == ""


def test_what_the_client_has_read_of_the_answer() -> None:
    """The error's own words for what is missing are enough, without the message."""

    class MissingError(DelegateError):
        missing_kind = "namespaces"
        missing_name = "shop"

    refusal = refusal_of(MissingError("whatever it says", code="dependency.namespace_not_found"))

    assert refusal == Refusal("dependency.namespace_not_found", "namespaces", "shop", "whatever it says")
    assert _explained(refusal) == "Namespace shop"


def test_the_recorded_answer_for_a_missing_namespace() -> None:
    """As a real server words it."""
    message = body_of("errors", 16)["message"]

    members = members_of([object_of("v1", "Namespace", "nowhere")])

    assert explain_deferral(Refusal("x", message=message), object_of("v1", "ConfigMap", "a", "nowhere"), members) is not None


def test_custom_resources_wait_for_their_definition() -> None:
    """A kind that is not served yet is explained by its definition; one that nobody brings is a fault."""
    basket, other = object_of("example.test/v1", "Basket", "b", "shop"), object_of("nope.test/v1", "Thing", "t", "shop")
    refusal = Refusal("dependency.unknown_kind")

    assert _explained(refusal, basket) == "apiextensions.k8s.io/CustomResourceDefinition baskets.example.test"
    assert _explained(refusal, other) == ""


def test_a_new_field_waits_for_the_new_definition() -> None:
    """A resource that doesn't fit the cluster's schema is explained by a definition in the set that it does fit."""
    basket, namespace, definition = case_of("11-crd-and-cr-together", "input.yaml")
    members = members_of([basket, namespace, definition])
    undeclared = Refusal("input.schema", message=".spec.colour: field not declared in schema")
    coloured = Manifest({**basket.body, "spec": {"size": 3, "colour": "red"}})
    misspelt = Manifest({**basket.body, "spec": {"size": 3, "color": "red"}})

    deferral = explain_deferral(undeclared, coloured, members)

    assert deferral is not None
    assert deferral.needs == definition.key
    assert explain_deferral(undeclared, misspelt, members) is None


def test_a_rule_that_only_the_server_can_judge() -> None:
    """An invalid value is explained only where the plan changes the definition."""
    basket = object_of("example.test/v1", "Basket", "b", "shop")
    refusal = Refusal("input.invalid", message="spec.size: failed rule")
    (definition,) = _MEMBERS.definitions.values()

    assert explain_deferral(refusal, basket, _MEMBERS) is None
    deferral = explain_deferral(refusal, basket, _MEMBERS, changing={definition.key})
    assert deferral is not None
    assert deferral.reason == "is checked once apiextensions.k8s.io/CustomResourceDefinition baskets.example.test exists"


def test_nothing_explains_itself() -> None:
    """An object that names itself in its refusal does not wait for itself."""
    account = object_of("v1", "ServiceAccount", "app", "shop")

    assert _explained(Refusal("x", message='serviceaccounts "app" not found'), account) == ""
