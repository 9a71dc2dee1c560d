"""Custom resources: served once established, pruned, defaulted, validated by schema and rules."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.simulator.clients import APPLY, STRATEGIC, Client, owned_by

SPEC: dict[str, Any] = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 10},
        "color": {"type": "string", "enum": ["red", "green"], "default": "red"},
        "label": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
        "ports": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port"],
            "items": {
                "type": "object",
                "required": ["port"],
                "properties": {"port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}},
            },
        },
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "plain": {"type": "array", "items": {"type": "string"}},
        "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "amount": {"x-kubernetes-int-or-string": True},
        "maybe": {"type": "string", "nullable": True},
        "low": {"type": "integer"},
        "high": {"type": "integer"},
    },
    "x-kubernetes-validations": [{"rule": "!has(self.low) || !has(self.high) || self.low <= self.high", "message": "low is above high"}],
}


def definition(group: str, **version: Any) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {"spec": SPEC, "status": {"type": "object", "properties": {"seen": {"type": "integer"}}}},
    }
    made = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
        **version,
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList", "shortNames": ["wd"]},
            "versions": [made],
        },
    }


DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture
def group() -> str:
    return f"g{uuid.uuid4().hex[:8]}.example.com"


@pytest.fixture
async def widgets(admin: Client, place: str, group: str) -> AsyncIterator[str]:
    """The path of Widgets that are served."""
    made = await admin.apply(f"{DEFINITIONS}/widgets.{group}", definition(group))
    assert made.status == 201, made.body
    path = f"/apis/{group}/v1{place}/widgets"
    await admin.until(path, lambda body: isinstance(body, dict) and body.get("kind") == "WidgetList")
    yield path
    await admin.delete(f"{DEFINITIONS}/widgets.{group}")


def widget(group: str, name: str = "w", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": 3, **spec}}


async def test_is_served_once_established(admin: Client, place: str, group: str) -> None:
    """Names accepted, established, in discovery, then gone again with all its objects."""
    path = f"/apis/{group}/v1{place}/widgets"
    assert (await admin.send("GET", path)).status == 404
    await admin.apply(f"{DEFINITIONS}/widgets.{group}", definition(group))

    def established(body: Any) -> bool:
        states = {item["type"]: item["status"] for item in body["status"].get("conditions") or ()}
        return states.get("Established") == states.get("NamesAccepted") == "True"

    crd = await admin.until(f"{DEFINITIONS}/widgets.{group}", established)
    assert crd["status"]["acceptedNames"]["kind"] == "Widget"
    assert crd["status"]["storedVersions"] == ["v1"]
    await admin.until(path, lambda body: isinstance(body, dict) and body.get("kind") == "WidgetList")
    listed = await admin.get(f"/apis/{group}/v1")
    assert [(item["name"], item["kind"], item.get("shortNames")) for item in listed["resources"]] == [
        ("widgets", "Widget", ["wd"]),
        ("widgets/status", "Widget", None),
    ]
    assert (await admin.post(path, widget(group))).status == 201
    await admin.delete(f"{DEFINITIONS}/widgets.{group}")
    await admin.until_gone(f"{DEFINITIONS}/widgets.{group}")
    await admin.until(path, lambda body: body.get("kind") != "WidgetList" if isinstance(body, dict) else True)


async def test_prunes_and_defaults(admin: Client, widgets: str, group: str) -> None:
    """Unknown fields go with a warning, free-form parts keep theirs, defaults come, in lists too."""
    body = widget(group, unknown=1, free={"any": {"thing": [1]}}, ports=[{"port": 1, "odd": True}], maybe=None)
    made = await admin.post(widgets, body)

    assert made.status == 201, made.body
    assert made.body["spec"] == {
        "size": 3,
        "color": "red",
        "free": {"any": {"thing": [1]}},
        "ports": [{"port": 1, "protocol": "TCP"}],
        "maybe": None,
    }
    assert sorted(made.warnings) == ['299 - "unknown field \\"spec.ports[0].odd\\""', '299 - "unknown field \\"spec.unknown\\""']
    strict = await admin.post(widgets, widget(group, "x", unknown=1), fieldValidation="Strict")
    assert (strict.status, strict.body["reason"]) == (400, "BadRequest")


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"size": 0}, "spec.size"),
        ({"size": 11}, "spec.size"),
        ({"size": "3"}, "spec.size"),
        ({"size": None}, "spec.size"),
        ({"color": "blue"}, "spec.color"),
        ({"label": "Ab"}, "spec.label"),
        ({"label": "abcdef"}, "spec.label"),
        ({"ports": [{}]}, "spec.ports[0].port"),
        ({"ports": [{"port": 1}, {"port": 1}]}, "spec.ports[1]"),
        ({"tags": ["a", "a"]}, "spec.tags[1]"),
        ({"tags": [1]}, "spec.tags[0]"),
        ({"whole": {"a": 1}}, "spec.whole.a"),
        ({"amount": True}, "spec.amount"),
        ({"low": 2, "high": 1}, "spec"),
    ],
)
async def test_validates(spec: dict[str, Any], field: str, admin: Client, widgets: str, group: str) -> None:
    """422 with a cause at the field."""
    answer = await admin.post(widgets, widget(group, **spec))

    assert (answer.status, answer.body["reason"]) == (422, "Invalid"), answer.body
    assert field in [place for _, place in answer.causes]


async def test_a_rule_explains_itself(admin: Client, widgets: str, group: str) -> None:
    """The message of a broken CEL rule is its own."""
    answer = await admin.post(widgets, widget(group, low=2, high=1))

    assert "low is above high" in answer.body["message"]


async def test_applies_by_its_lists(admin: Client, widgets: str, group: str) -> None:
    """Keyed lists merge by key, sets by value; plain lists and atomic maps have one owner."""
    mine = widget(group, ports=[{"port": 1}], tags=["a"], plain=["x"], whole={"k": "v"})
    theirs = {**widget(group), "spec": {"ports": [{"port": 2}], "tags": ["b"]}}
    await admin.apply(f"{widgets}/w", mine, manager="one")
    both = await admin.apply(f"{widgets}/w", theirs, manager="two")
    assert both.status == 200, both.body
    assert [port["port"] for port in both.body["spec"]["ports"]] == [1, 2]
    assert both.body["spec"]["tags"] == ["a", "b"]
    assert owned_by(both.body, "two") == {
        "f:spec": {"f:ports": {'k:{"port":2}': {".": {}, "f:port": {}}}, "f:tags": {'v:"b"': {}}},
    }
    for spec, field in (({"plain": ["y"]}, ".spec.plain"), ({"whole": {"l": "w"}}, ".spec.whole")):
        answer = await admin.apply(f"{widgets}/w", {**widget(group), "spec": spec}, manager="two")
        assert (answer.status, answer.causes) == (409, [("FieldManagerConflict", field)])


async def test_status_is_apart(admin: Client, widgets: str, group: str) -> None:
    """Neither resource writes the other's half; only the spec moves the generation."""
    made = await admin.post(widgets, {**widget(group), "status": {"seen": 9}})
    assert "status" not in made.body
    answer = await admin.patch(f"{widgets}/w/status", {"status": {"seen": 1}, "spec": {"size": 9}})
    assert (answer.body["status"], answer.body["spec"]["size"], answer.body["metadata"]["generation"]) == ({"seen": 1}, 3, 1)
    changed = await admin.patch(f"{widgets}/w", {"spec": {"size": 4}, "status": {"seen": 2}})

    assert (changed.body["status"], changed.body["spec"]["size"], changed.body["metadata"]["generation"]) == ({"seen": 1}, 4, 2)


async def test_takes_no_strategic_patch(admin: Client, widgets: str, group: str) -> None:
    """415: nothing says how to merge its lists."""
    await admin.post(widgets, widget(group))
    answer = await admin.patch(f"{widgets}/w", {}, STRATEGIC)

    assert (answer.status, answer.body["reason"]) == (415, "UnsupportedMediaType")


async def test_an_unknown_field_in_an_apply_is_an_error(admin: Client, widgets: str, group: str) -> None:
    """The schema is closed where it doesn't say otherwise."""
    answer = await admin.send("PATCH", f"{widgets}/w", widget(group, unknown=1), kind=APPLY, fieldManager="m", fieldValidation="Strict")

    assert answer.status == 500
    assert ".spec.unknown: field not declared in schema" in answer.body["message"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"group": "other.example.com"}, "metadata.name"),
        ({"scope": "Everywhere"}, "spec.scope"),
        ({"versions": []}, "spec.versions"),
        ({"names": {"plural": "Widgets", "kind": "Widget"}}, "spec.names.plural"),
    ],
)
async def test_refuses_a_definition(change: dict[str, Any], field: str, admin: Client, group: str) -> None:
    """Names, scope and versions have rules."""
    body = definition(group)
    body["spec"] = {**body["spec"], **change}
    answer = await admin.post(DEFINITIONS, body)

    assert answer.status == 422, answer.body
    assert field in [place for _, place in answer.causes]


async def test_a_schema_has_to_be_structural(admin: Client, group: str) -> None:
    """Every field needs a type; no schema at all is refused."""
    for schema in ({"properties": {"spec": {"type": "object"}}}, {"type": "object", "properties": {"spec": {"properties": {"a": {}}}}}):
        answer = await admin.post(DEFINITIONS, definition(group, schema={"openAPIV3Schema": schema}))
        assert answer.status == 422, answer.body
    none = await admin.post(DEFINITIONS, definition(group, schema=None))

    assert none.status == 422


async def test_a_new_field_of_the_schema_is_kept(admin: Client, widgets: str, group: str) -> None:
    """After the definition has changed, objects may have it."""
    body = definition(group)
    body["spec"]["versions"][0]["schema"] = {
        "openAPIV3Schema": {
            "type": "object",
            "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}, "added": {"type": "string"}}}},
        }
    }
    changed = await admin.apply(f"{DEFINITIONS}/widgets.{group}", body, force="true")
    assert changed.status == 200, changed.body
    async with asyncio.timeout(20):
        while True:
            answer = await admin.apply(f"{widgets}/w", widget(group, added="x"))
            if answer.status in (200, 201) and answer.body["spec"].get("added") == "x":
                break
            await asyncio.sleep(0.05)


TYPED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "size": {"type": "integer"},
        "own-name": {"type": "string"},
        "items": {"type": "array", "maxItems": 3, "items": {"type": "object", "properties": {"port": {"type": "integer"}}}},
        "named": {
            "type": "object",
            "maxProperties": 3,
            "additionalProperties": {"type": "object", "properties": {"a": {"type": "integer"}}},
        },
        "either": {"x-kubernetes-int-or-string": True},
        "part": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"namespace": {"type": "string"}}},
        "inside": {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"spec": {"type": "object"}}},
    },
}


def ruled(group: str, rule: str) -> dict[str, Any]:
    spec = {**TYPED, "x-kubernetes-validations": [{"rule": rule, "message": "no"}]}
    return definition(group, schema={"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}})


@pytest.mark.parametrize(
    ("rule", "column", "words"),
    [
        ("self.typo > 3", 5, "undefined field 'typo'"),
        ("self.size > 1 && oldSelf.typo == 1", 25, "undefined field 'typo'"),
        ("has(self.typo)", 4, "undefined field 'typo'"),
        ("!has(self.part) || self.part.typo == 'x'", 29, "undefined field 'typo'"),
        ("self.size.typo == 1", 10, "type 'int' does not support field selection"),
        ("self.items[0].typo == 1", 14, "undefined field 'typo'"),
        ("self.items.all(x, x.typo > 1)", 20, "undefined field 'typo'"),
        ("self.items.filter(x, x.port > 1).all(y, y.typo > 1)", 42, "undefined field 'typo'"),
        ("self.named.all(k, self.named[k].typo > 1)", 32, "undefined field 'typo'"),
        ("self.named.some.typo == 1", 16, "undefined field 'typo'"),
        ("self.inside.metadata.labels == 'x'", 21, "undefined field 'labels'"),
        ("self.metadata.name == 'x'", 5, "undefined field 'metadata'"),
    ],
)
async def test_a_rule_selects_only_fields_that_there_are(rule: str, column: int, words: str, admin: Client, group: str) -> None:
    """Else the definition is refused, with the place."""
    answer = await admin.post(DEFINITIONS, ruled(group, rule), dryRun="All")

    assert (answer.status, len(answer.causes)) == (422, 1), answer.body
    assert f"compilation failed: ERROR: <input>:1:{column}: {words}\n | {rule}\n | {'.' * (column - 1)}^" in answer.body["message"]


@pytest.mark.parametrize(
    "rule",
    [
        "self.own__dash__name == 'x' && self.part.__namespace__ == 'y'",
        "self.items.all(x, x.port > 1) && self.items.map(x, x.port).exists(p, p > 2)",
        "self.named.all(k, self.named[k].a > 1) && self.named.some.a == 1",
        "self.either == 3 || self.either == 'x'",
        "self.inside.metadata.name == 'x' && self.inside.kind == 'y' && has(self.inside.spec)",
        "[1, 2].all(self, self > 0)",
    ],
)
async def test_a_rule_selects_whatever_there_is(rule: str, admin: Client, group: str) -> None:
    """By the names that expressions have for fields, through lists, maps and macros."""
    answer = await admin.post(DEFINITIONS, ruled(group, rule), dryRun="All")

    assert answer.status == 201, answer.body


async def test_every_fault_of_a_rule_is_told(admin: Client, group: str) -> None:
    """One below the other, each in its line."""
    answer = await admin.post(DEFINITIONS, ruled(group, "self.a == 1\n && self.b == 2"), dryRun="All")

    assert (
        "ERROR: <input>:1:5: undefined field 'a'\n | self.a == 1\n | ....^\nERROR: <input>:2:9: undefined field 'b'"
        in answer.body["message"]
    )
