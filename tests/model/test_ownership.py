"""Whose fields are whose: what is sent onto an object that others write too."""

import copy

import pytest

from delegate.model.ownership import (
    OWNERSHIP_ANNOTATION,
    IgnoredDifference,
    Mode,
    Ownership,
    OwnershipRule,
    leave_conflicts,
    ownership_of,
    settle,
    settle_new,
)
from delegate.model.resources import JsonObject, Manifest


def deployment(replicas: int = 2, side: str = "side:1") -> JsonObject:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "demo", "labels": {"app.kubernetes.io/name": "web"}},
        "spec": {
            "replicas": replicas,
            "template": {"spec": {"containers": [{"name": "web", "image": "web:2"}, {"name": "side", "image": side}]}},
        },
    }


def owned_by(manager: str, fields: JsonObject, operation: str = "Update") -> JsonObject:
    return {"manager": manager, "operation": operation, "apiVersion": "apps/v1", "fieldsType": "FieldsV1", "fieldsV1": fields}


def live_with(*entries: JsonObject, replicas: int = 7, side: str = "side:9") -> JsonObject:
    """The containers stand the other way round than in the manifest, as an injector leaves them."""
    live = deployment(replicas, side)
    live["spec"]["template"]["spec"]["containers"].reverse()
    live["metadata"]["managedFields"] = list(entries)
    return live


SIDE_IMAGE: JsonObject = {"f:spec": {"f:template": {"f:spec": {"f:containers": {'k:{"name":"side"}': {".": {}, "f:image": {}}}}}}}


def ignoring(*pointers: str) -> Ownership:
    return ownership_of(Manifest(deployment()), [IgnoredDifference(group="apps", kind="Deployment", json_pointers=pointers)])


def test_a_field_that_another_manager_owns_is_not_sent() -> None:
    """The other keeps its value, and nothing of ours is in its way."""
    live = live_with(owned_by("hpa", {"f:spec": {"f:replicas": {}}}))
    settled = settle(deployment(), live, ignoring("/spec/replicas"))
    assert "replicas" not in settled.body["spec"]
    assert settled.left == ("/spec/replicas",)


def test_a_field_that_we_own_alone_is_sent_with_its_live_value() -> None:
    """Left out, the server would take it away and put its default of 1 in its place."""
    live = live_with(owned_by("delegate", {"f:spec": {"f:replicas": {}}}, "Apply"))
    assert settle(deployment(), live, ignoring("/spec/replicas")).body["spec"]["replicas"] == 7


def test_a_field_that_somebody_took_away_is_not_put_back() -> None:
    """Nobody owns it any more, and it is not there."""
    live = live_with()
    del live["spec"]["replicas"]
    assert "replicas" not in settle(deployment(), live, ignoring("/spec/replicas")).body["spec"]


def test_an_entry_of_a_list_is_found_by_its_key() -> None:
    """Index 1 of the manifest is index 0 of the live list; the other container is applied as it stands."""
    live = live_with(owned_by("injector", SIDE_IMAGE))
    containers = settle(deployment(), live, ignoring("/spec/template/spec/containers/1/image")).body["spec"]["template"]["spec"][
        "containers"
    ]
    assert containers == [{"name": "web", "image": "web:2"}, {"name": "side"}]


def test_a_whole_list_is_left_but_its_keys() -> None:
    """An ignored list is no emptied list: its entries stay, without what others own of them."""
    live = live_with(owned_by("injector", SIDE_IMAGE))
    settled = settle(deployment(), live, ignoring("/spec/template/spec/containers"))
    assert settled.body["spec"]["template"]["spec"]["containers"] == [{"name": "web", "image": "web:2"}, {"name": "side"}]


def test_what_a_named_manager_owns_is_left_to_it() -> None:
    """By manager no field has to be named; other managers' fields are not left."""
    live = live_with(owned_by("injector", SIDE_IMAGE), owned_by("hpa", {"f:spec": {"f:replicas": {}}}))
    rule = IgnoredDifference(kind="Deployment", managed_fields_managers=("injector",))
    body = settle(deployment(), live, ownership_of(Manifest(deployment()), [rule])).body
    assert body["spec"]["replicas"] == 2
    assert body["spec"]["template"]["spec"]["containers"][1] == {"name": "side"}


def test_paths_that_an_expression_leads_to_are_left() -> None:
    """They come from outside, as places in the manifest."""
    ownership = ownership_of(Manifest(deployment()), [IgnoredDifference(kind="Deployment", jq_path_expressions=(".spec.replicas",))])
    live = live_with(owned_by("hpa", {"f:spec": {"f:replicas": {}}}))
    settled = settle(deployment(), live, ownership, found={".spec.replicas": [("spec", "replicas")]})
    assert "replicas" not in settled.body["spec"]
    assert settle(deployment(), live, ownership, found={}).unused == (".spec.replicas",)


def test_a_rule_that_matches_nothing_is_told() -> None:
    """Neither in the manifest nor in the cluster: most likely a slip."""
    assert settle(deployment(), live_with(), ignoring("/spec/replica")).unused == ("/spec/replica",)
    live = live_with()
    live["spec"]["paused"] = True
    assert settle(deployment(), live, ignoring("/spec/paused")).unused == ()


def test_what_makes_an_object_known_again_is_never_left() -> None:
    """Neither its name nor the label of its Application, whoever owns them."""
    live = live_with(owned_by("other", {"f:metadata": {"f:labels": {".": {}, "f:applyset.kubernetes.io/part-of": {}}}}))
    wanted = deployment()
    wanted["metadata"]["labels"]["applyset.kubernetes.io/part-of"] = "applyset-x-v1"
    live["metadata"]["labels"]["applyset.kubernetes.io/part-of"] = "applyset-x-v1"
    settled = settle(wanted, live, ignoring("/metadata"))
    assert settled.body["metadata"]["name"] == "web"
    assert settled.body["metadata"]["labels"]["applyset.kubernetes.io/part-of"] == "applyset-x-v1"


def test_the_body_that_was_given_is_not_touched() -> None:
    """Manifests are shared values."""
    body, live = deployment(), live_with(owned_by("hpa", {"f:spec": {"f:replicas": {}}}))
    before = copy.deepcopy(body)
    settle(body, live, ignoring("/spec/replicas", "/spec/template"))
    assert body == before


def test_fields_are_stated_when_an_object_is_created_unless_never() -> None:
    """create-only speaks of what exists; ignore of everything."""
    created = ownership_of(Manifest(deployment()), [], [OwnershipRule(kind="Deployment", mode=Mode.CREATE_ONLY, paths=("/spec/replicas",))])
    assert settle_new(deployment(), created)["spec"]["replicas"] == 2
    never = ownership_of(Manifest(deployment()), [], [OwnershipRule(kind="Deployment", mode=Mode.IGNORE, paths=("/spec/replicas",))])
    assert "replicas" not in settle_new(deployment(), never)["spec"]


@pytest.mark.parametrize(
    ("field", "pointer"),
    [
        (".spec.replicas", "/spec/replicas"),
        ('.spec.template.spec.containers[name="side"].image', "/spec/template/spec/containers/1/image"),
        (".metadata.labels.app.kubernetes.io/name", "/metadata/labels/app.kubernetes.io~1name"),
    ],
)
def test_fields_of_a_conflict_are_found_in_the_manifest(field: str, pointer: str) -> None:
    """Server-side apply names them in a notation of its own, in which a dot may be part of a name."""
    body, left = leave_conflicts(deployment(), [field])
    assert left == (pointer,)
    assert body != deployment()


def test_a_conflict_in_a_field_that_is_not_in_the_manifest_leaves_it_whole() -> None:
    """Nothing is guessed."""
    assert leave_conflicts(deployment(), ['.spec.template.spec.containers[name="none"].image', ".spec.paused"]) == (deployment(), ())


def test_the_annotation_of_an_object_wins_over_the_rules_of_its_application() -> None:
    """And may speak of single fields."""
    body = deployment()
    body["metadata"]["annotations"] = {OWNERSHIP_ANNOTATION: "merge; override /spec/template"}
    ownership = ownership_of(Manifest(body), [], [OwnershipRule(mode=Mode.CREATE_ONLY)])
    assert ownership.mode is Mode.MERGE
    assert ownership.mode_at(("spec", "replicas"), body) is Mode.MERGE
    assert ownership.mode_at(("spec", "template", "spec"), body) is Mode.OVERRIDE


@pytest.mark.parametrize("text", ["mine", "merge spec.replicas"])
def test_an_annotation_that_says_nothing_known_is_refused(text: str) -> None:
    """With the words that are known."""
    body = deployment()
    body["metadata"]["annotations"] = {OWNERSHIP_ANNOTATION: text}
    with pytest.raises(ValueError, match="gitops/ownership"):
        ownership_of(Manifest(body))


@pytest.mark.parametrize(
    ("rule", "fits"),
    [
        (IgnoredDifference(kind="Deployment"), True),
        (IgnoredDifference(group="apps", kind="Deployment"), True),
        (IgnoredDifference(group="*", kind="*"), True),
        (IgnoredDifference(group="batch", kind="Deployment"), False),
        (IgnoredDifference(kind="Deployment", name="other"), False),
        (IgnoredDifference(kind="Deployment", namespace="demo"), True),
    ],
)
def test_rules_are_about_the_objects_that_they_name(rule: IgnoredDifference, fits: bool) -> None:
    """By group, kind, name and namespace."""
    assert rule.is_about(Manifest(deployment())) is fits
