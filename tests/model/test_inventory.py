"""What an Application owns, and the record of it."""

import base64
import gzip
import random
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegate.model.errors import CorruptInventoryError, ForeignInventoryError, InventoryTooLargeError
from delegate.model.inventory import (
    APPLYSET_ID_LABEL,
    GROUP_KINDS_ANNOTATION,
    NAMESPACES_ANNOTATION,
    TOOLING_ANNOTATION,
    Inventory,
    InventoryEntry,
    InventoryState,
    application_applyset_id,
    applyset_id,
    confirmed,
    decode_inventory,
    encode_inventory,
    entry_of,
    intended,
    inventory_config_map,
    read_inventory,
    to_prune,
)
from tests.model.manifests import names, object_of

_entries = st.builds(
    InventoryEntry,
    group=st.sampled_from(["", "apps"]),
    kind=st.sampled_from(["Secret", "Deployment"]),
    namespace=names,
    name=names,
    version=st.just("v1"),
    uid=st.sampled_from(["", "u1", "u2"]),
    wave=st.integers(-2, 2),
)
_inventories = st.builds(
    Inventory,
    entries=st.lists(_entries, max_size=6, unique_by=lambda entry: entry.key).map(tuple),
    fence=st.integers(0, 2**31),
    state=st.sampled_from(InventoryState),
    revision=st.text(max_size=8),
)


def _entry(name: str, uid: str = "", *, group: str = "", kind: str = "ConfigMap") -> InventoryEntry:
    return InventoryEntry(group, kind, "shop", name, "v1", uid)


@given(_inventories)
def test_an_inventory_is_read_as_it_was_written(inventory: Inventory) -> None:
    """Alone and inside its ConfigMap; the same inventory gives the same bytes."""
    assert decode_inventory(encode_inventory(inventory)) == inventory
    assert encode_inventory(inventory) == encode_inventory(decode_inventory(encode_inventory(inventory)))
    assert encode_inventory(inventory)[4:8] == bytes(4)  # gzip's own time
    assert read_inventory(inventory_config_map("shop", "demo", inventory)) == inventory


@given(st.lists(_entries, max_size=6, unique_by=lambda entry: entry.key), st.integers(0, 10**9))
def test_the_order_of_entries_makes_no_difference(entries: list[InventoryEntry], seed: int) -> None:
    """An inventory is a set."""
    shuffled = list(entries)
    random.Random(seed).shuffle(shuffled)

    assert Inventory(tuple(entries)) == Inventory(tuple(shuffled))


def test_an_object_twice() -> None:
    """It would be pruned or kept twice."""
    with pytest.raises(ValueError, match="holds each object once"):
        Inventory((_entry("a"), _entry("a", "u1")))


def test_five_thousand_references_fit_into_one_record() -> None:
    """233 KiB as base64 is what design counts with."""
    chance = random.Random(7)
    entries = tuple(
        InventoryEntry(
            "apps" if index % 4 == 0 else "",
            ("Deployment", "Service", "ConfigMap", "ServiceAccount")[index % 4],
            f"team-{index % 50}",
            f"component-{index}-{chance.getrandbits(24):06x}",
            "v1",
            str(uuid.UUID(int=chance.getrandbits(128), version=4)),
        )
        for index in range(5000)
    )

    record = inventory_config_map("shop", "demo", Inventory(entries))

    assert len(record["binaryData"]["inventory.json.gz"]) <= 233 * 1024


def test_a_record_that_no_config_map_holds() -> None:
    """It is refused before anything is written, with what to do."""
    chance = random.Random(7)
    entries = tuple(_entry(f"{chance.getrandbits(900):x}", str(index)) for index in range(8000))

    with pytest.raises(InventoryTooLargeError) as caught:
        encode_inventory(Inventory(entries))

    assert "split the Application" in caught.value.hint


def test_what_is_intended_forgets_nothing() -> None:
    """All that was owned and all that is wanted, with the uids that are known."""
    previous = Inventory((_entry("kept", "u1"), _entry("old", "u2")), fence=3, revision="r1")

    written = intended(previous, [_entry("kept"), _entry("new")], fence=4, revision="r2")

    assert written == Inventory(
        (_entry("kept", "u1"), _entry("new"), _entry("old", "u2")), fence=4, state=InventoryState.INTENDED, revision="r2"
    )


def test_what_is_confirmed_keeps_the_survivors() -> None:
    """An object whose write failed may exist; one that could not be pruned is still ours."""
    written = Inventory((_entry("applied"), _entry("denied", "u2"), _entry("failed"), _entry("gone", "u3")), fence=4, revision="r2")

    done = confirmed(written, [_entry("applied", "u9")], [_entry("gone").key])

    assert done.entries == (_entry("applied", "u9"), _entry("denied", "u2"), _entry("failed"))
    assert (done.state, done.fence, done.revision) == (InventoryState.CONFIRMED, 4, "r2")


def test_what_is_to_be_pruned() -> None:
    """What was owned and is no longer wanted; never an object that only changed its group."""
    ingress = _entry("web", "u1", group="extensions", kind="Ingress")
    previous = Inventory((_entry("kept", "u2"), _entry("old", "u3"), _entry("unseen"), ingress))
    wanted = [_entry("kept"), _entry("web", "u1", group="networking.k8s.io", kind="Ingress"), _entry("new")]

    assert to_prune(previous, wanted) == (_entry("old", "u3"), _entry("unseen"))


@given(_inventories, st.lists(_entries, max_size=6, unique_by=lambda entry: entry.key))
def test_nothing_is_ever_forgotten(previous: Inventory, wanted: list[InventoryEntry]) -> None:
    """From one record to the next only what is known to be gone leaves."""
    written = intended(previous, wanted, fence=1, revision="r")
    gone = [entry.key for entry in to_prune(previous, wanted)][:1]
    done = confirmed(written, [], gone)

    assert written.keys() == previous.keys() | {entry.key for entry in wanted}
    assert done.keys() == written.keys() - set(gone)


def test_the_id_is_the_one_that_kubectl_computes() -> None:
    """KEP-3659: base64url without padding of a SHA-256 over name.namespace.kind.group."""
    # The value is the one in kubectl's test of `apply --applyset=my-set`.
    assert applyset_id("my-set", "test", "Secret") == "applyset-0eFHV8ySqp7XoShsGvyWFQD3s96yqwHmzc4e0HR1dsY-v1"
    assert application_applyset_id("shop", "demo") == applyset_id("delegate-shop", "demo")


def test_the_config_map_is_an_applyset_parent() -> None:
    """Its label and annotations tell other tools whose the members are and where they may be."""
    entries = (
        entry_of(object_of("apps/v1", "Deployment", "web", "shop")),
        entry_of(object_of("v1", "Secret", "s", "demo")),
        entry_of(object_of("v1", "Namespace", "shop")),
    )

    body = inventory_config_map("shop", "demo", Inventory(entries, fence=2, revision="9f3c"))

    assert body["metadata"]["name"] == "delegate-shop"
    assert body["metadata"]["labels"][APPLYSET_ID_LABEL] == application_applyset_id("shop", "demo")
    assert body["metadata"]["annotations"] == {
        TOOLING_ANNOTATION: "delegate/v1",
        GROUP_KINDS_ANNOTATION: "Deployment.apps,Namespace,Secret",
        NAMESPACES_ANNOTATION: "shop",
    }
    assert body["data"]["summary"] == "3 objects, confirmed by fence 2, revision 9f3c"


@pytest.mark.parametrize(
    ("annotations", "words"),
    [
        ({}, "carries no applyset.kubernetes.io/tooling annotation"),
        ({TOOLING_ANNOTATION: "kubectl/v1.37"}, "belongs to 'kubectl/v1.37'"),
        ({TOOLING_ANNOTATION: "delegate/v2"}, "was written by 'delegate/v2'"),
    ],
)
def test_a_parent_of_another_tool(annotations: dict[str, str], words: str) -> None:
    """It is never taken over."""
    body = inventory_config_map("shop", "demo", Inventory())
    body["metadata"]["annotations"] = annotations

    with pytest.raises(ForeignInventoryError) as caught:
        read_inventory(body)

    assert words in caught.value.message
    assert "demo/delegate-shop" in caught.value.message


def _record(data: bytes) -> dict[str, str]:
    return {"inventory.json.gz": base64.b64encode(data).decode()}


_LATER = b'{"format":2,"state":"confirmed","fence":1,"revision":"","entries":[]}'


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"inventory.json.gz": "no base64"},
        _record(b"no gzip"),
        _record(encode_inventory(Inventory())[:-9]),
        _record(gzip.compress(b"[]")),
        _record(gzip.compress(_LATER)),
        _record(gzip.compress(b" " * 2**27)),
    ],
    ids=["absent", "no base64", "no gzip", "cut short", "another shape", "a later format", "unfolds too far"],
)
def test_a_record_that_cant_be_read(data: dict[str, Any]) -> None:
    """It is said which, and how to go on; it is never taken for an empty one."""
    body = inventory_config_map("shop", "demo", Inventory())
    body["binaryData"] = data

    with pytest.raises(CorruptInventoryError) as caught:
        read_inventory(body)

    assert caught.value.object == "ConfigMap demo/delegate-shop"
    assert caught.value.hint
