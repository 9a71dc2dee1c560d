"""The applied mark: what it proves, by the recorded answers of a real server."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegate.model.applied import (
    APPLIED_ANNOTATION,
    PART_OF_LABEL,
    Mark,
    MarkState,
    fields_hash,
    is_synced,
    label_member,
    manifest_hash,
    mark_after,
    mark_of,
    mark_state,
    our_entry,
    with_mark,
    with_pending_mark,
    without_mark,
)
from delegate.model.resources import JsonObject
from tests.model.manifests import json_objects
from tests.model.recordings import body_of, steps_of

# What was done to the object in each step of the recording, and whether an applied field was altered by it.
_FOREIGN_WRITES = {
    1: ("the same applied again", False),
    2: ("the same value written by another", False),
    3: ("fields added that were not applied", False),
    4: ("an applied value changed", True),
    5: ("... and set back: the owner changed", True),
    6: ("applied again", False),
    7: ("an env value changed by a strategic merge", True),
    8: ("an atomic list removed by a JSON patch", True),
    9: ("the image taken by a forced apply", True),
    11: ("everything taken back", False),
}


def _live(step: int) -> JsonObject:
    """The recorded object after a step, as it would be with our mark from the first apply."""
    live = copy.deepcopy(body_of("ownership-drift", step))
    live["metadata"].setdefault("annotations", {})[APPLIED_ANNOTATION] = str(_first_mark())
    return live


def _applied() -> JsonObject:
    body: JsonObject = steps_of("ownership-drift")[0]["request"]["body"]
    return body


def _first_mark() -> Mark:
    return mark_after(body_of("ownership-drift", 0), _applied())


@pytest.mark.parametrize("step", _FOREIGN_WRITES, ids=[words for words, _ in _FOREIGN_WRITES.values()])
def test_foreign_writes_are_seen_by_metadata_alone(step: int) -> None:
    """Every write that alters an applied field is seen, every other one is not."""
    _, altered = _FOREIGN_WRITES[step]
    metadata = _live(step)["metadata"]

    assert is_synced(metadata, manifest_hash(_applied())) is not altered
    assert mark_state(metadata, manifest_hash(_applied())) is (MarkState.FIELDS_CHANGED if altered else MarkState.SYNCED)


def test_the_time_of_an_entry_says_nothing() -> None:
    """An entry with another time is the same entry."""
    entry = our_entry(body_of("ownership-drift", 0)["metadata"])

    assert entry is not None
    assert fields_hash({**entry, "time": "2026-01-01T00:00:00Z"}) == fields_hash(entry)


def test_the_dry_runs_entry_is_that_of_the_real_apply() -> None:
    """The server lists an annotation by its key: the pending mark and the real one leave the same entry behind."""
    body = label_member(_applied(), "applyset-x-v1")
    pending, real = with_pending_mark(body), with_mark(body, Mark("a" * 32, "b" * 32))

    assert pending["metadata"]["annotations"].keys() == real["metadata"]["annotations"].keys()
    assert without_mark(pending) == without_mark(real) == body
    assert mark_of(pending["metadata"]) == Mark(manifest_hash(body), "0" * 32)


def test_what_metadata_says_of_other_states() -> None:
    """Another manifest, no mark, a mark that is none, wiped managedFields, deletion: each is a reason to look closer."""
    wanted, metadata = manifest_hash(_applied()), _live(0)["metadata"]

    assert mark_state(metadata, "f" * 32) is MarkState.MANIFEST_CHANGED
    assert mark_state({**metadata, "annotations": {}}, wanted) is MarkState.UNMARKED
    assert mark_state({**metadata, "annotations": {APPLIED_ANNOTATION: "x.y"}}, wanted) is MarkState.UNMARKED
    assert mark_state({**metadata, "managedFields": []}, wanted) is MarkState.FIELDS_CHANGED
    assert mark_state({**metadata, "deletionTimestamp": "2026-01-01T00:00:00Z"}, wanted) is MarkState.TERMINATING
    assert mark_state({}, wanted) is MarkState.UNMARKED


def test_only_our_own_applies_count() -> None:
    """Entries of other managers, of updates and of subresources are not ours."""
    fields: JsonObject = {"fieldsV1": {"f:spec": {}}}
    entries = [
        {"manager": "other", "operation": "Apply", **fields},
        {"manager": "delegate", "operation": "Update", **fields},
        {"manager": "delegate", "operation": "Apply", "subresource": "status", **fields},
    ]

    assert our_entry({"managedFields": entries}) is None
    assert our_entry({"managedFields": [*entries, {"manager": "delegate", "operation": "Apply", "x": 1}]}) is not None
    assert our_entry({"managedFields": None}) is None


def test_the_label_is_part_of_what_is_hashed() -> None:
    """An object that goes to another Application is not synced, and labelling changes no value that was handed in."""
    body: JsonObject = {"metadata": {"name": "a", "labels": {"x": "y"}}}

    labelled = label_member(body, "applyset-1-v1")

    assert labelled["metadata"]["labels"] == {"x": "y", PART_OF_LABEL: "applyset-1-v1"}
    assert body == {"metadata": {"name": "a", "labels": {"x": "y"}}}
    assert manifest_hash(labelled) != manifest_hash(label_member(body, "applyset-2-v1"))


@given(json_objects, json_objects)
def test_hashes_are_blind_to_the_order_of_keys_and_to_the_mark(body: JsonObject, annotations: JsonObject) -> None:
    """The hash is that of the document, however it is written, with a mark or without."""
    document = {**body, "metadata": {"name": "a", "annotations": annotations}}
    turned = dict(reversed(document.items()))

    assert manifest_hash(document) == manifest_hash(turned)
    assert manifest_hash(document) == manifest_hash(with_mark(document, Mark("1" * 32, "2" * 32)))
    assert manifest_hash(document) == manifest_hash(with_pending_mark(document))
    assert without_mark(with_pending_mark(document)) == without_mark(document)


@given(json_objects, json_objects)
def test_different_documents_have_different_hashes(one: JsonObject, other: JsonObject) -> None:
    """As far as JSON tells them apart."""
    same = repr(_canonical(one)) == repr(_canonical(other))

    assert (manifest_hash({"data": one}) == manifest_hash({"data": other})) is same


def _canonical(value: object) -> object:
    if isinstance(value, dict):
        return sorted((key, _canonical(each)) for key, each in value.items())
    return [_canonical(each) for each in value] if isinstance(value, list) else value


@given(st.text("0123456789abcdef", min_size=32, max_size=32), st.text("0123456789abcdef", min_size=32, max_size=32))
def test_a_mark_is_read_as_it_was_written(manifest: str, fields: str) -> None:
    """The annotation's value carries both hashes."""
    mark = Mark(manifest, fields)

    assert mark_of(with_mark({}, mark)["metadata"]) == mark
