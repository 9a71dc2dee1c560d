"""What is shown of the difference between two bodies."""

import copy
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegate.model.applied import APPLIED_ANNOTATION
from delegate.model.changes import HIDDEN, LONGEST_TEXT, diff_bodies
from delegate.model.resources import JsonObject
from delegate.model.results import Change
from tests.model.manifests import json_objects
from tests.model.recordings import body_of


def _changes(before: JsonObject | None, after: JsonObject | None) -> list[tuple[str, Any, Any]]:
    return [(change.path, change.before, change.after) for change in diff_bodies(before, after)]


_ABSENT = msgspec.UNSET


def test_one_leaf() -> None:
    """A changed value is one change with both sides, in the result's own words."""
    changes = diff_bodies({"spec": {"replicas": 1}}, {"spec": {"replicas": 3}})

    assert msgspec.json.encode(changes) == b'[{"path":"/spec/replicas","from":1,"to":3}]'


def test_a_side_that_is_absent_is_left_out() -> None:
    """What is added has no from, what is removed no to; the leaves of a mapping are named each."""
    assert _changes({}, {"spec": {"a": {"b": 1}, "c": {}}}) == [("/spec/a/b", _ABSENT, 1), ("/spec/c", _ABSENT, {})]
    assert _changes({"spec": {"a": None}}, {"spec": {}}) == [("/spec/a", None, _ABSENT)]
    assert msgspec.json.encode(diff_bodies({"a": 1}, {})) == b'[{"path":"/a","from":1}]'


def test_a_dry_run_of_a_real_server() -> None:
    """Against the live object only what the apply changes is left."""
    dry_run, live = body_of("dry-run", 2), body_of("dry-run", 3)

    assert _changes(live, dry_run) == [
        ("/spec/replicas", 7, 9),
        ("/spec/template/spec/containers/0/image", "nginx:1.0", "nginx:9"),
    ]


def test_what_the_server_counts_is_no_change() -> None:
    """Nor is status, nor our mark, also where it is the only annotation."""
    before = {"metadata": {"uid": "1", "generation": 1, "resourceVersion": "1", "managedFields": [], "creationTimestamp": "x"}}
    after = {"metadata": {"annotations": {APPLIED_ANNOTATION: "m"}, "generation": 2}, "status": {"x": 1}}

    assert _changes(before, after) == []


def test_an_added_port_is_one_added_port() -> None:
    """Entries of keyed lists are matched by their key; the pointer counts in the new list."""
    udp, tcp = {"name": "u", "port": 53, "protocol": "UDP"}, {"name": "t", "port": 53, "protocol": "TCP"}

    assert _changes({"spec": {"ports": [udp]}}, {"spec": {"ports": [tcp, udp]}}) == [("/spec/ports/0", _ABSENT, tcp)]
    assert _changes({"spec": {"ports": [tcp, udp]}}, {"spec": {"ports": [udp]}}) == [("/spec/ports/0", tcp, _ABSENT)]


def test_containers_and_env_are_matched_by_name() -> None:
    """An injected sidecar in front doesn't make every container another one."""
    main: JsonObject = {"name": "main", "image": "a:1", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}
    changed = {"name": "main", "image": "a:2", "env": [{"name": "B", "value": "3"}]}
    sidecar = {"name": "proxy", "image": "p"}

    assert _changes({"containers": [main]}, {"containers": [sidecar, changed]}) == [
        ("/containers/0", _ABSENT, sidecar),
        ("/containers/1/env/0/value", "2", "3"),
        ("/containers/1/env/0", {"name": "A", "value": "1"}, _ABSENT),
        ("/containers/1/image", "a:1", "a:2"),
    ]


def test_the_order_of_a_keyed_list() -> None:
    """It has a meaning in some, so it is a change of the list and of none of its entries."""
    first, second = {"name": "a", "image": "1"}, {"name": "b", "image": "2"}

    assert _changes({"initContainers": [first, second]}, {"initContainers": [second, first]}) == [
        ("/initContainers", ["a", "b"], ["b", "a"])
    ]


def test_lists_that_nothing_keys() -> None:
    """Plain values are shown whole; of others what is equal at both ends is left out. Duplicate keys are no keys."""
    assert _changes({"args": ["a", "b"]}, {"args": ["b"]}) == [("/args", ["a", "b"], ["b"])]
    rules = [{"verbs": ["get"]}, {"verbs": ["list"]}]
    assert _changes({"rules": rules}, {"rules": [rules[0], {"verbs": ["watch"]}, rules[1]]}) == [
        ("/rules/1", _ABSENT, {"verbs": ["watch"]})
    ]
    twice = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    assert _changes({"env": twice}, {"env": twice[:1]}) == [("/env/1", twice[1], _ABSENT)]


@pytest.mark.parametrize(("old", "new", "differ"), [(True, 1, True), (1, 1.0, False), ("1", 1, True), (None, False, True), ({}, [], True)])
def test_values_are_equal_as_json_has_it(old: object, new: object, differ: bool) -> None:
    """true is not 1, and 1.0 is 1."""
    assert bool(_changes({"x": old}, {"x": new})) is differ


def test_pointers_are_escaped() -> None:
    """RFC 6901: `/` and `~` inside a name."""
    assert _changes({}, {"metadata": {"annotations": {"a.b/c~d": "1"}}}) == [("/metadata/annotations/a.b~1c~0d", _ABSENT, "1")]


def test_no_value_of_a_secret_is_shown() -> None:
    """The keys are, and that they changed; a copy in the last-applied annotation is hidden as well."""
    last_applied = "kubectl.kubernetes.io/last-applied-configuration"

    def secret(value: str, **more: Any) -> JsonObject:
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "s", "annotations": {last_applied: value, "plain": value[:3]}},
            "data": {"pass": value, **more},
            "type": "Opaque",
        }

    before, after = secret("b25lb25l"), secret("dHdvdHdv", added="dGhyZWU=")

    assert _changes(before, after) == [
        ("/data/added", _ABSENT, HIDDEN),
        ("/data/pass", HIDDEN, HIDDEN),
        (f"/metadata/annotations/{last_applied.replace('/', '~1')}", HIDDEN, HIDDEN),
        ("/metadata/annotations/plain", "b25", "dHd"),
    ]
    for one, other in (
        (None, after),
        (before, None),
        (before, {**before, "data": "b25lb25l!"}),
        (before, {**before, "stringData": after["data"]}),
    ):
        shown = json.dumps(msgspec.to_builtins(diff_bodies(one, other)))
        assert "b25lb25l" not in shown
        assert "dHdvdHdv" not in shown
    assert _changes(before, {**before, "type": "other"}) == [("/type", "Opaque", "other")]


def test_what_is_shown_is_bounded() -> None:
    """Long texts are shortened, large values named by size, and past a number of changes only that number is said."""
    before: JsonObject = {"data": {f"k{index:03}": "a" for index in range(150)}}
    after: JsonObject = {"data": {f"k{index:03}": "b" for index in range(150)}}
    changes = diff_bodies(before, after)

    assert len(changes) == 101
    assert changes[-1] == Change(path="", after="(50 more changes)")
    assert diff_bodies(before, after, most=1)[1].after == "(149 more changes)"
    (long,) = diff_bodies({}, {"x": "y" * 5000})
    assert long.after == "y" * LONGEST_TEXT + "… (5000 characters)"
    (large,) = diff_bodies({"l": []}, {"l": [{"name": str(index), "v": "x" * 50} for index in range(50)]})[:1]
    assert len(json.dumps(msgspec.to_builtins(large))) < 1000
    (whole,) = diff_bodies({"l": ["a"]}, {"l": ["x" * 50] * 100})
    assert str(whole.after).startswith("(list of 100, ")


@given(json_objects)
def test_equal_bodies_have_no_changes(body: JsonObject) -> None:
    """However the keys are ordered."""
    turned = dict(reversed(copy.deepcopy(body).items()))

    assert diff_bodies(body, turned) == ()


_entries = st.lists(st.fixed_dictionaries({"name": st.sampled_from("abcd"), "v": st.integers(0, 2)}), max_size=4)
_bodies = st.fixed_dictionaries(
    {}, optional={"env": _entries, "ports": _entries, "spec": json_objects, "args": st.lists(st.text(max_size=2))}
)


@given(_bodies, _bodies)
def test_differences_are_found_from_both_sides(one: JsonObject, other: JsonObject) -> None:
    """A change there is one back, with its sides exchanged; there is none exactly where the bodies are equal."""
    there, back = diff_bodies(one, other), diff_bodies(other, one)

    assert sorted(repr((change.before, change.after)) for change in there) == sorted(repr((change.after, change.before)) for change in back)
    assert (not there) is _is_equal(one, other)


def _is_equal(one: Any, other: Any) -> bool:
    """Equality as JSON has it; an absent mapping and one without leaves of its own are told apart elsewhere."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_equal(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_equal, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other)
