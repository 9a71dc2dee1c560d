"""What of a manifest is sent."""

import base64
import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegate.foundation.errors import ErrorGroup
from delegate.model.errors import DuplicateEntryError, SecretDataError
from delegate.model.normalization import normalize_manifests
from delegate.model.resources import JsonObject, Manifest
from tests.model.manifests import case_of, json_objects, manifest_of, object_of


def _normalized(manifest: Manifest) -> JsonObject:
    return normalize_manifests([manifest]).manifests[0].body


def _decoded(body: JsonObject) -> dict[str, str]:
    return {key: base64.b64decode(value).decode() for key, value in body["data"].items()}


def test_nulls_and_empty_metadata_state_nothing() -> None:
    """Null claims no field; empty maps outside of metadata are left to the dry run; no notice where nothing is lost."""
    (manifest,) = case_of("10-null-and-empty", "input.yaml")

    normalized = normalize_manifests([manifest])

    assert normalized.notices == ()
    assert normalized.manifests[0].body == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "demo"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "volumes": [],
                    "nodeSelector": {},
                    "containers": [{"name": "web", "image": "registry.test/web:1", "resources": {"requests": {}}}],
                },
            },
        },
    }


def test_fields_that_the_server_writes_are_left_out() -> None:
    """An object as `kubectl get -o yaml` prints it is taken for what somebody may mean, and the rest is named."""
    manifest = manifest_of(
        """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: baskets.example.test
  uid: 1-2-3
  resourceVersion: "7"
  generation: 2
  creationTimestamp: "2026-01-01T00:00:00Z"
  selfLink: /x
  managedFields: [{manager: m}]
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: "{}"
    delegate.gitops/applied: a.b
    keep: "yes"
spec: {group: example.test}
status: {storedVersions: [v1]}
"""
    )

    normalized = normalize_manifests([manifest])

    assert normalized.manifests[0].body["metadata"] == {"name": "baskets.example.test", "annotations": {"keep": "yes"}}
    assert "status" not in normalized.manifests[0].body
    (notice,) = normalized.notices
    assert notice.startswith("a.yaml:2: apiextensions.k8s.io/CustomResourceDefinition baskets.example.test: left out status, ")
    for name in ("uid", "resourceVersion", "generation", "creationTimestamp", "selfLink", "managedFields"):
        assert f"metadata.{name}" in notice


def test_an_annotation_map_that_becomes_empty_goes() -> None:
    """What is left of a map after stripping is not claimed either."""
    manifest = object_of("v1", "ConfigMap", "a", metadata={"annotations": {"delegate.gitops/applied": "x"}, "labels": {}})

    assert _normalized(manifest)["metadata"] == {"name": "a"}


def test_string_data_is_folded_into_data() -> None:
    """Keys of stringData win; what is not stated any more is not sent."""
    before, after = (_normalized(case_of("09-secret-stringdata", file)[0]) for file in ("before.yaml", "after.yaml"))

    assert _decoded(before) == {"user": "alpha", "pass": "one", "cert": "cert"}
    assert _decoded(after) == {"account": "alpha", "pass": "two", "cert": "cert"}
    assert "stringData" not in after


def test_base64_is_written_in_one_form() -> None:
    """Line breaks inside a value make no difference."""
    broken, plain = (object_of("v1", "Secret", "s", data={"k": value}) for value in ("aGVs\nbG8=\n", "aGVsbG8="))

    assert _normalized(broken) == _normalized(plain)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"data": {"pass": "hunter2!"}}, "data: the value of 'pass' is no base64"),
        ({"data": {"port": 8080}}, "data: the value of 'port' is no text"),
        ({"stringData": {"port": 8080}}, "stringData: the value of 'port' is no text"),
        ({"stringData": ["hunter2!"]}, "stringData is no mapping of keys to text"),
    ],
)
def test_secret_data_that_cant_be_meant(more: JsonObject, words: str) -> None:
    """The key is named, the value never."""
    with pytest.raises(SecretDataError) as caught:
        normalize_manifests([object_of("v1", "Secret", "s", **more)])

    assert words in caught.value.message
    for text in (str(caught.value), caught.value.hint, repr(caught.value)):
        assert "hunter2" not in text
        assert "8080" not in text
    assert caught.value.__context__ is None


def test_rules_beside_an_aggregation_are_not_sent() -> None:
    """The controller fills them in; sending any, even none, takes them away from it."""
    aggregation = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
    filled = object_of("rbac.authorization.k8s.io/v1", "ClusterRole", "r", aggregationRule=aggregation, rules=[{"verbs": ["get"]}])
    empty = object_of("rbac.authorization.k8s.io/v1", "ClusterRole", "r", aggregationRule=aggregation, rules=[])
    plain = object_of("rbac.authorization.k8s.io/v1", "ClusterRole", "r", rules=[])

    assert "rules" not in _normalized(filled)
    assert "rules" not in _normalized(empty)
    assert _normalized(plain)["rules"] == []
    assert "aggregationRule" in normalize_manifests([filled]).notices[0]
    assert normalize_manifests([empty]).notices == ()


def test_ports_get_the_protocol_that_their_list_is_keyed_by() -> None:
    """53/UDP beside 53 is 53/UDP beside 53/TCP; also for containers, wherever their pod spec lies."""
    service = object_of("v1", "Service", "dns", spec={"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53}]})
    container = {"name": "m", "ports": [{"containerPort": 80}]}
    cron = object_of("batch/v1", "CronJob", "c", spec={"jobTemplate": {"spec": {"template": {"spec": {"initContainers": [container]}}}}})

    assert [port["protocol"] for port in _normalized(service)["spec"]["ports"]] == ["UDP", "TCP"]
    pod = _normalized(cron)["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert pod["initContainers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP"}]


def test_entries_that_are_there_twice() -> None:
    """Key and indexes are named, for all of the set at once."""
    web = manifest_of(
        """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: demo}
spec:
  template:
    spec:
      volumes: [{name: v}, {name: w}, {name: v}]
      containers:
      - name: main
        env: [{name: A, value: "1"}, {name: B}, {name: A, value: "2"}, {name: A}]
        ports: [{containerPort: 80}, {containerPort: 80, protocol: TCP}, {containerPort: 80, protocol: UDP}]
"""
    )
    dns = object_of("v1", "Service", "dns", "demo", spec={"ports": [{"name": "a", "port": 53}, {"name": "b", "port": 53}]})

    with pytest.raises(ErrorGroup) as caught:
        normalize_manifests([web, dns])

    assert all(isinstance(error, DuplicateEntryError) for error in caught.value.errors)
    assert [error.message for error in caught.value.errors] == [
        'spec.template.spec.volumes: name "v" is there more than once, at indexes 0 and 2',
        'spec.template.spec.containers[0].env: name "A" is there more than once, at indexes 0, 2 and 3',
        'spec.template.spec.containers[0].ports: containerPort "80", protocol "TCP" is there more than once, at indexes 0 and 1',
        'spec.ports: port "53", protocol "TCP" is there more than once, at indexes 0 and 1',
    ]


def test_nulls_inside_a_custom_resource_stay() -> None:
    """Only its own schema knows whether null is a value there; on top of the spec it states nothing anywhere."""
    release = object_of("helm.toolkit.fluxcd.io/v2", "HelmRelease", "r", spec={"suspend": None, "values": {"ingress": None}})

    assert _normalized(release)["spec"] == {"values": {"ingress": None}}


@given(json_objects, st.sampled_from([("v1", "Secret"), ("apps/v1", "Deployment"), ("v1", "Service"), ("x.test/v1", "Y")]))
def test_normalizing_is_done_once(more: JsonObject, kind: tuple[str, str]) -> None:
    """Twice is the same as once, and the input is never changed, whatever shape it has."""
    body = {**more, "apiVersion": kind[0], "kind": kind[1], "metadata": {"name": "x", **more}}
    original = copy.deepcopy(body)
    try:
        once = _normalized(Manifest(body))
    except (SecretDataError, ErrorGroup):
        return
    finally:
        assert body == original

    assert _normalized(Manifest(once)) == once
