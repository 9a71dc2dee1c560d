"""Which revision of a Helm release a rollback means (case 18), and what can be read of its records."""

import base64
import gzip
import json

import pytest

from delegate.model.errors import CorruptReleaseError, NoReleaseError, ReleaseBusyError
from delegate.model.helm_releases import HelmChoice, as_failed, choose_record, manifest_of, read_records
from delegate.model.resources import JsonObject

NOW = 1_772_445_600.0


def secret(version: int, status: str, *, age: float = 3600.0, packed: bytes | None = None) -> JsonObject:
    body = json.dumps({"manifest": f"# {version}", "info": {"status": status}}).encode()
    data = base64.b64encode(base64.b64encode(gzip.compress(body) if packed is None else packed)).decode()
    labels = {"owner": "helm", "name": "heronbase", "status": status, "version": str(version), "modifiedAt": str(int(NOW - age))}
    return {"metadata": {"name": f"v{version}", "namespace": "ops", "labels": labels}, "data": {"release": data}}


def choose(*states: tuple[int, str], revision: int = 0, unlock_after: float | None = None) -> HelmChoice:
    records = read_records([secret(*state) for state in states])
    return choose_record(records, "heronbase", revision, now=NOW, unlock_after=unlock_after)


BASE = ((3, "superseded"), (4, "failed"), (5, "deployed"))


@pytest.mark.parametrize(
    ("states", "target"),
    [
        (BASE, 3),
        ((*BASE, (6, "failed")), 5),
        ((*BASE, (6, "failed"), (7, "failed")), 5),
        (((2, "superseded"), (3, "deployed"), (5, "deployed")), 2),
        (((9, "superseded"), (10, "superseded"), (11, "deployed")), 10),
    ],
)
def test_it_is_chosen_by_state_and_number(states: tuple[tuple[int, str], ...], target: int) -> None:
    """Not by subtraction, and not by the order of texts."""
    assert choose(*states).target.version == target


def test_several_that_are_deployed_are_told() -> None:
    """The newest counts."""
    choice = choose((3, "deployed"), (4, "superseded"), (5, "deployed"))

    assert (choice.current.version, choice.target.version) == (5, 4)
    assert "5 is the newest, 3 are left as they are" in choice.notices[0]


@pytest.mark.parametrize(
    ("states", "revision", "words"),
    [
        (((4, "failed"), (5, "deployed")), 3, "has no revision 3"),
        (((4, "failed"), (5, "deployed")), 4, r"revision 4 \(failed\) of 'heronbase' has never worked"),
        (((4, "failed"), (5, "deployed")), 0, "no revision of 'heronbase' before 5 has ever worked"),
        ((), 0, "Helm has no release 'heronbase' there"),
    ],
)
def test_no_neighbour_is_chosen_silently(states: tuple[tuple[int, str], ...], revision: int, words: str) -> None:
    """What there is stands in the hint."""
    with pytest.raises(NoReleaseError, match=words):
        choose(*states, revision=revision)


def test_one_that_is_pending_is_left_until_it_is_old_enough() -> None:
    """By the age that somebody has named; without one, for ever."""
    with pytest.raises(ReleaseBusyError, match="is at work since"):
        choose(*BASE, (6, "pending-upgrade"))
    with pytest.raises(ReleaseBusyError):
        choose(*BASE, (6, "pending-upgrade"), unlock_after=7200.0)

    choice = choose(*BASE, (6, "pending-upgrade"), unlock_after=1800.0)

    assert (choice.pending and choice.pending.version, choice.target.version) == (6, 5)
    (failed,) = read_records([as_failed(choice.pending)]) if choice.pending else ()
    assert (failed.status, manifest_of(failed)) == ("failed", "# 6")


def test_an_old_record_without_gzip_is_read() -> None:
    """By what it begins with."""
    (record,) = read_records([secret(3, "superseded", packed=b'{"manifest": "# old"}')])

    assert manifest_of(record) == "# old"


@pytest.mark.parametrize(
    "packed",
    [b"\x1f\x8bnothing", b"no json", gzip.compress(b"x" * 10)[:-4], gzip.compress(b"[]")],
    ids=["no gzip", "no JSON", "cut off", "no object"],
)
def test_a_broken_record_is_named_and_not_shown(packed: bytes) -> None:
    """Whatever is wrong with it."""
    (record,) = read_records([secret(3, "superseded", packed=packed)])

    with pytest.raises(CorruptReleaseError, match="Secret ops/v3 holds no release that can be read"):
        manifest_of(record)


def test_a_record_that_would_unpack_to_anything_is_refused() -> None:
    """Some kilobytes that are hundreds of megabytes."""
    (record,) = read_records([secret(3, "superseded", packed=gzip.compress(b" " * (65 * 2**20)))])

    with pytest.raises(CorruptReleaseError):
        manifest_of(record)
