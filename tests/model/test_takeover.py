"""Taking objects over from client-side apply, held to what a real server recorded."""

from delegate.model.resources import JsonObject
from delegate.model.takeover import can_take_over, handed_over, removed_by_takeover
from tests.model.recordings import steps_of


def recorded() -> tuple[JsonObject, list[JsonObject], JsonObject]:
    """The object before the takeover, the patch that hands its fields over, and the object after the next apply."""
    found = steps_of("ssa-migration")
    return found[2]["response"]["body"], found[3]["request"]["body"], found[4]["response"]["body"]


def test_the_fields_of_client_side_apply_are_handed_to_us_as_recorded() -> None:
    """The managedFields that we send are those that the real server took."""
    live, patch, _ = recorded()

    ours = handed_over(live["metadata"])

    assert ours == patch[0]["value"]


def test_after_the_takeover_nothing_is_left_of_client_side_apply() -> None:
    """An object is taken over once."""
    live, _, after = recorded()

    assert can_take_over(live["metadata"])
    assert not can_take_over(after["metadata"])


def test_what_the_takeover_removes_is_named_with_its_value() -> None:
    """The field that only client-side apply owns goes; the annotation goes in silence."""
    live, _, after = recorded()
    ours: JsonObject = {"f:data": {"f:keep": {}}}

    changes = removed_by_takeover(live, ours, secret=False)

    assert [(change.path, change.before) for change in changes] == [("/data/drop", "1")]
    assert after["data"] == {"keep": "1"}


def test_a_removed_value_of_a_secret_is_hidden() -> None:
    """The takeover of a Secret shows that a key goes, and not its value."""
    live, _, _ = recorded()

    changes = removed_by_takeover(live, {"f:data": {"f:keep": {}}}, secret=True)

    assert [change.before for change in changes] == ["(hidden)"]


def test_entries_of_keyed_lists_are_found_by_their_keys() -> None:
    """A container that only client-side apply owns is named by its index in the live list."""
    live: JsonObject = {
        "metadata": {
            "managedFields": [
                {
                    "manager": "kubectl-client-side-apply",
                    "operation": "Update",
                    "fieldsV1": {"f:spec": {"f:containers": {'k:{"name":"a"}': {".": {}}, 'k:{"name":"b"}': {".": {}, "f:image": {}}}}},
                }
            ]
        },
        "spec": {"containers": [{"name": "a"}, {"name": "b", "image": "x"}]},
    }
    ours: JsonObject = {"f:spec": {"f:containers": {'k:{"name":"a"}': {".": {}}}}}

    changes = removed_by_takeover(live, ours, secret=False)

    assert [change.path for change in changes] == ["/spec/containers/1"]
