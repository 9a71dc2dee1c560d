"""Custom resources against the definition in their own set."""

from typing import Any

import pytest
from hypothesis import given

from delegate.model.errors import SchemaMismatchError
from delegate.model.resources import GroupKind, JsonObject, Manifest
from delegate.model.schemas import MOST_FAULTS, check_custom_resource, definitions_by_kind
from tests.model.manifests import case_of, json_values, object_of
from tests.model.recordings import steps_of


def _definition(spec_schema: JsonObject, **version: Any) -> Manifest:
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec_schema}}}
    versions = [{"name": "v1", "served": True, "schema": schema, **version}]
    spec = {"group": "example.test", "scope": "Namespaced", "names": {"kind": "Basket"}, "versions": versions}
    return object_of("apiextensions.k8s.io/v1", "CustomResourceDefinition", "baskets.example.test", line=5, spec=spec)


def _faults(value: Any, schema: JsonObject) -> list[str]:
    basket = object_of("example.test/v1", "Basket", "b", "shop", spec=value)
    return [error.message for error in check_custom_resource(basket, _definition(schema))]


_SCHEMA: JsonObject = {
    "type": "object",
    "required": ["size", "mode"],
    "properties": {
        "size": {"type": "integer", "minimum": 0, "maximum": 10},
        "mode": {"type": "string", "enum": ["auto", "hand"], "default": "auto"},
        "note": {"type": "string", "nullable": True, "maxLength": 3},
        "port": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"a": {"type": "integer"}}},
        "template": {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"spec": {"type": "object"}}},
        "parts": {
            "type": "array",
            "minItems": 1,
            "items": {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}},
        },
        "choice": {
            "type": "object",
            "properties": {"one": {"type": "string"}, "other": {"type": "string"}},
            "oneOf": [{"required": ["one"]}, {"required": ["other"]}],
        },
    },
}


@pytest.mark.parametrize(
    ("value", "faults"),
    [
        ({"size": 3}, []),
        ({"size": 3, "note": None, "mode": None, "port": "http", "labels": {"a": "b"}}, []),
        ({"size": 3.0, "free": {"a": 1, "whatever": [None]}, "template": {"apiVersion": "v1", "kind": "X", "metadata": {}}}, []),
        ({"size": 3, "parts": [{"id": "a"}], "choice": {"one": "x"}}, []),
        ({}, ["spec.size: required and missing"]),
        ({"size": None}, ["spec.size: required and missing"]),
        ({"size": "three"}, ["spec.size: expected integer, got string"]),
        ({"size": True}, ["spec.size: expected integer, got boolean"]),
        ({"size": 1.5}, ["spec.size: expected integer, got number"]),
        ({"size": -1}, ["spec.size: below the minimum of 0"]),
        ({"size": 11}, ["spec.size: above the maximum of 10"]),
        ({"size": 1, "mode": "other"}, ["spec.mode: not one of auto, hand"]),
        ({"size": 1, "note": "long"}, ["spec.note: has 4 characters, at most 3 are allowed"]),
        ({"size": 1, "port": 1.5}, ["spec.port: expected an integer or a string, got number"]),
        ({"size": 1, "labels": {"a": 1}}, ["spec.labels.a: expected string, got integer"]),
        ({"size": 1, "free": {"a": "x"}}, ["spec.free.a: expected integer, got string"]),
        ({"size": 1, "colour": "red"}, ["spec.colour: field not declared in schema"]),
        ({"size": 1, "parts": []}, ["spec.parts: has 0 items, at least 1 are required"]),
        (
            {"size": 1, "parts": [{"id": "a"}, {"n": 1}]},
            ["spec.parts[1].id: required and missing", "spec.parts[1].n: field not declared in schema"],
        ),
        ({"size": 1, "choice": {}}, ["spec.choice: fits none of the alternatives of its schema"]),
        ({"size": 1, "choice": {"one": "x", "other": "y"}}, ["spec.choice: fits more than one of the alternatives of its schema"]),
        ([], ["spec: expected object, got array"]),
    ],
)
def test_what_a_schema_allows(value: Any, faults: list[str]) -> None:
    """Every fault is named with its path; defaults and nulls are taken as the server takes them."""
    assert _faults(value, _SCHEMA) == faults


def test_parts_of_combined_schemas_need_not_name_every_field() -> None:
    """A field that one alternative doesn't mention is no unknown field; what is forbidden is."""
    base: JsonObject = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}

    assert _faults({"a": 1, "b": 1}, {**base, "anyOf": [{"properties": {"a": {"minimum": 1}}}]}) == []
    assert _faults({"a": 0, "b": 1}, {**base, "allOf": [{"properties": {"a": {"minimum": 1}}}]}) == ["spec.a: below the minimum of 1"]
    assert _faults({"a": 0}, {**base, "not": {"required": ["a"]}}) == ["spec: is of a form that its schema forbids"]


def test_the_recorded_resources() -> None:
    """What a real server refused or took by its definition is judged alike."""
    body = steps_of("crd")[1]["request"]["body"]
    definition = object_of(body["apiVersion"], body["kind"], "widgets.example.com", spec=body["spec"])
    for step in (4, 5, 6, 7):
        request = steps_of("crd")[step]["request"]["body"]
        widget = Manifest(request)

        faults = check_custom_resource(widget, definition)

        assert bool(faults) is (steps_of("crd")[step]["response"]["status"] >= 400)


def test_the_basket_of_the_case() -> None:
    """It fits its definition, which stands behind it in the same file; a bad one would not."""
    basket, namespace, definition = case_of("11-crd-and-cr-together", "input.yaml")

    assert definitions_by_kind([basket, namespace, definition]) == {GroupKind("shop.example.test", "Basket"): definition}
    assert check_custom_resource(basket, definition) == ()
    bad = Manifest({**basket.body, "spec": {"size": "three"}}, basket.origin)
    (fault,) = check_custom_resource(bad, definition)
    assert isinstance(fault, SchemaMismatchError)
    assert (fault.file, fault.line, fault.object) == ("input.yaml", 1, "shop.example.test/Basket shop/main")
    assert fault.hint == "its schema is in input.yaml:10"


def test_a_version_that_is_not_served() -> None:
    """It is named with those that are."""
    basket = object_of("example.test/v2", "Basket", "b")

    (fault,) = check_custom_resource(basket, _definition({}))
    assert "serves no version v2" in fault.message
    assert fault.hint == "it serves v1"


def test_faults_are_bounded() -> None:
    """A wrong schema doesn't flood a report."""
    many = {f"k{index}": 1 for index in range(100)}

    assert len(_faults(many, {"type": "object", "properties": {"a": {}}})) == MOST_FAULTS


def test_definitions_without_a_schema_judge_nothing() -> None:
    """What can't be told is left to the server."""
    basket = object_of("example.test/v1", "Basket", "b", spec={"any": "thing"})

    assert check_custom_resource(basket, _definition({}, schema={})) == ()
    assert check_custom_resource(basket, _definition({"type": "object"})) == ()


@given(json_values)
def test_any_value_can_be_judged(value: Any) -> None:
    """Whatever shape it has."""
    assert all(fault.startswith("spec") for fault in _faults({"size": 1, "parts": value, "labels": value}, _SCHEMA))
