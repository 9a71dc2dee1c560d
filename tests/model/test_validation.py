"""Manifests against the schemas of Kubernetes, offline: what is found, with which advice, and what is left to the server."""

from importlib import resources
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegate.model.resources import GroupKind, JsonObject, Manifest, Origin
from delegate.model.validation.checking import MOST_FAULTS, check_manifests
from delegate.model.validation.condensing import condense
from delegate.model.validation.definitions import definitions

DEPLOYMENT: JsonObject = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}, "creationTimestamp": None},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "containers": [
                    {
                        "name": "main",
                        "image": "web:1",
                        "env": [{"name": "A", "value": "1"}],
                        "ports": [{"containerPort": 80}],
                        "resources": {"requests": {"cpu": 0.5, "memory": "1Gi"}, "limits": {"cpu": 1}},
                        "livenessProbe": {"httpGet": {"port": "http"}},
                        "readinessProbe": {"httpGet": {"port": 80}},
                    }
                ]
            },
        },
    },
    "status": {"nonsense": True},
}


def changed(pointer: str, value: Any) -> JsonObject:
    """The Deployment with one field set; `DEL` takes it out."""
    body: JsonObject = msgspec.json.decode(msgspec.json.encode(DEPLOYMENT))
    *way, last = pointer.split("/")[1:]
    node: Any = body
    for step in way:
        node = node[int(step)] if isinstance(node, list) else node[step]
    if value == "DEL":
        del node[last]
    else:
        node[last] = value
    return body


def faults(*bodies: JsonObject) -> list[tuple[str, str]]:
    manifests = [Manifest(body, Origin("set.yaml", 1, index + 1)) for index, body in enumerate(bodies)]
    return [(error.message, error.hint) for error in check_manifests(manifests).errors]


def test_what_is_written_well_has_no_fault() -> None:
    """Whole and fractional quantities, ports by name and number, nulls, and whatever stands in the status."""
    assert faults(DEPLOYMENT) == []
    assert faults(changed("/spec/replicas", None)) == []
    assert faults(changed("/spec/replicas", 2.0)) == []


CONTAINER = "/spec/template/spec/containers/0"


@pytest.mark.parametrize(
    ("pointer", "value", "message", "hint"),
    [
        ("/spec/replica", 2, "spec.replica: there is no such field", "did you mean replicas?"),
        ("/spec/Replicas", 2, "spec.Replicas: there is no such field", "did you mean replicas?"),
        ("/metadata/label", {}, "metadata.label: there is no such field", "did you mean labels?"),
        (f"{CONTAINER}/imagePullPolicies", "Always", "containers[0].imagePullPolicies: there is no such field", "imagePullPolicy"),
        ("/spec/replicas", "2", "spec.replicas: is text, and must be a whole number", "take off the quotes"),
        ("/spec/replicas", True, "is true or false, and must be a whole number", ""),
        ("/spec/replicas", 1.5, "is a number, and must be a whole number", ""),
        (f"{CONTAINER}/env/0/value", 8080, "env[0].value: is a number, and must be text", "quotes"),
        (f"{CONTAINER}/env/0/value", True, "is true or false, and must be text", "quotes"),
        (f"{CONTAINER}/env", {"A": "1"}, "env: is a mapping, and must be a list", "dash"),
        (f"{CONTAINER}/ports/0/containerPort", "http", "containerPort: is text, and must be a whole number", ""),
        (f"{CONTAINER}/resources/requests/memory", "1 GB", "must be a quantity such as 500m or 1Gi", ""),
        (f"{CONTAINER}/resources/limits/cpu", [1], "is a list, and must be a quantity", ""),
        (f"{CONTAINER}/livenessProbe/httpGet/port", {}, "is a mapping, and must be a whole number or text", ""),
        ("/metadata/labels/app", 1, "metadata.labels.app: is a number, and must be text", "quotes"),
        (f"{CONTAINER}/name", "DEL", "containers[0]: the field name is required and missing", ""),
        (f"{CONTAINER}/name", None, "containers[0]: the field name is required and missing", ""),
        ("/spec/selector", "DEL", "spec: the field selector is required and missing", ""),
        ("/spec", "DEL", "the object: the field spec is required and missing", ""),
        ("/spec/template", [], "spec.template: is a list, and must be a mapping", ""),
    ],
)
def test_one_fault(pointer: str, value: Any, message: str, hint: str) -> None:
    """Unknown fields with the nearest name, types that don't fit with what to do, required fields."""
    ((said, advice),) = faults(changed(pointer, value))

    assert message in said
    assert said.startswith("apps/Deployment shop/web: ")
    assert hint in advice


def test_all_faults_of_a_set_are_told_and_those_of_one_object_bounded() -> None:
    """In the order of the set."""
    many = changed("/spec", {f"field{index}": 1 for index in range(100)})

    found = faults(changed("/spec/replica", 1), many, DEPLOYMENT)

    assert len(found) == 1 + MOST_FAULTS


def test_a_fault_says_the_line_of_its_field() -> None:
    """Whoever loaded the set knows where a field stands."""
    manifest = Manifest(changed("/spec/replica", 1), Origin("set.yaml", 1))

    checked = check_manifests([manifest], lambda found, pointer: Origin(found.origin.file, 7 if pointer == "/spec/replica" else 1))

    assert [(error.file, error.line, error.object, error.code) for error in checked.errors] == [
        ("set.yaml", 7, "apps/Deployment shop/web", "input.schema")
    ]


@pytest.mark.parametrize(
    ("api_version", "kind", "message", "hint"),
    [
        ("extensions/v1beta1", "Ingress", "gone since Kubernetes 1.22: write apiVersion: networking.k8s.io/v1", ""),
        ("policy/v1beta1", "PodSecurityPolicy", "nothing replaces it", ""),
        ("apps/v1beta3", "Deployment", "does not serve Deployment in apps/v1beta3", "it serves apps/v1"),
        ("v2", "Pod", "does not serve Pod in v2", "it serves v1"),
        ("apps/v1", "Deploymnet", "knows no Deploymnet", "did you mean Deployment?"),
        ("apps/v1", "ConfigMap", "knows no ConfigMap in apps/v1", "ConfigMap is of"),
        ("v1", "Ingress", "knows no Ingress in v1", "networking.k8s.io"),
    ],
)
def test_versions_and_kinds_that_kubernetes_does_not_have(api_version: str, kind: str, message: str, hint: str) -> None:
    """Removed versions with what replaces them, other versions with what is served, kinds with the nearest name."""
    ((said, advice),) = faults({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}})

    assert message in said
    assert hint in advice


def test_custom_resources_are_held_to_a_definition_of_the_set() -> None:
    """A kind that nobody defines is told apart, since nothing is known of it."""
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "baskets.example.org"},
        "spec": {
            "group": "example.org",
            "scope": "Namespaced",
            "names": {"kind": "Basket", "plural": "baskets"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
                        }
                    },
                }
            ],
        },
    }
    basket = {"apiVersion": "example.org/v1", "kind": "Basket", "metadata": {"name": "x"}, "spec": {"size": "big"}}
    route = {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": "x"}}

    checked = check_manifests([Manifest(definition), Manifest(basket), Manifest(route)])

    assert len(checked.errors) == 1
    assert "spec.size" in checked.errors[0].message
    assert checked.unknown == (GroupKind("gateway.networking.k8s.io", "HTTPRoute"),)


def test_no_value_of_a_secret_is_said() -> None:
    """A wrong type is named by its place."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}, "stringData": {"password": 31337}, "data": {"a": ["s3cr3t"]}}

    said = str(faults(secret))

    assert "stringData.password: is a number, and must be text" in said
    assert "31337" not in said
    assert "s3cr3t" not in said


def test_the_condensed_definitions_are_those_of_the_newest_release() -> None:
    """Made anew from the published ones, they are the same, byte for byte."""
    schemas = resources.files("kubernetes_validate") / "kubernetes-json-schema"
    releases = {entry.name.removeprefix("v").removesuffix("-local"): entry for entry in schemas.iterdir() if entry.name.endswith("-local")}
    newest = max(releases, key=lambda release: tuple(int(part) for part in release.split(".")))
    release = ".".join(newest.split(".")[:2])

    made = condense(msgspec.json.decode((releases[newest] / "_definitions.json").read_bytes())["$defs"], release)

    assert made == (resources.files("delegate.model.validation") / "definitions.json.gz").read_bytes()
    assert definitions().release == release


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["metadata", "labels", "spec", "template", "containers", "name", "ports", "data", "a/b", "~"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(
    _json, _json, st.sampled_from(["apps/v1/Deployment", "v1/ConfigMap", "v1/Secret", "apiextensions.k8s.io/v1/CustomResourceDefinition"])
)
def test_objects_of_any_shape_are_checked(metadata: Any, spec: Any, kind: str) -> None:
    """Whatever stands where something else is expected, the answer is a list of faults."""
    api_version, _, name = kind.rpartition("/")

    checked = check_manifests([Manifest({"apiVersion": api_version, "kind": name, "metadata": metadata, "spec": spec, "data": spec})])

    assert all(error.message for error in checked.errors)
