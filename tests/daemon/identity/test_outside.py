"""Certificates that somebody else writes: watched, checked, swapped in when whole."""

import os
import threading
from pathlib import Path

import pytest

from delegate.daemon.identity.errors import CertificateDamagedError, IdentityError, TrialError
from delegate.daemon.identity.outside import OutsideDirectory
from delegate.protocol.pki.pairs import Material
from tests.daemon.identity.issuers import Bench, bench
from tests.protocol.pki.authorities import NOON, authority, material

SIGNER = authority()


def write(directory: Path, new: Material, *names: str) -> None:
    """As a sidecar does that knows nothing of atomicity."""
    directory.mkdir(exist_ok=True, parents=True)
    contents = {
        "tls.crt": new.pair.chain_pem().encode(),
        "tls.key": new.pair.key.to_pem(),
        "ca.crt": new.authorities.to_pem().encode(),
    }
    for name in names or contents:
        (directory / name).write_bytes(contents[name])


def mount(directory: Path, new: Material, revision: str) -> None:
    """As the kubelet does: a directory for each revision, and one link that is switched."""
    write(directory / f"..{revision}", new)
    (directory / "..data_tmp").symlink_to(f"..{revision}")
    (directory / "..data_tmp").rename(directory / "..data")
    for name in ("tls.crt", "tls.key", "ca.crt"):
        if not (directory / name).is_symlink():
            (directory / name).symlink_to(f"..data/{name}")


def fresh(made: Bench) -> Material:
    return material(made.issuer.signer, at=made.clock.now())


async def test_a_pair_from_outside_is_used_from_the_start(tmp_path: Path) -> None:
    """And none is asked for."""
    made = bench(tmp_path)
    first = fresh(made)
    write(tmp_path / "outside", first)

    made.rotator.load()
    await made.look()

    assert made.shown == ["", first.certificate.serial]
    assert (made.outcomes, made.issuer.requests) == (["adopted"], [])
    assert made.holder.current is not None
    assert made.holder.current.material.authorities == first.authorities


@pytest.mark.parametrize("way", ["in place", "mounted"])
async def test_a_new_pair_is_swapped_in_when_it_is_there(tmp_path: Path, way: str) -> None:
    """Whether files are rewritten or a mounted Secret is switched."""
    made = bench(tmp_path)
    first, second = fresh(made), fresh(made)

    def put(new: Material, revision: str) -> None:
        if way == "in place":
            write(tmp_path / "outside", new)
        else:
            mount(tmp_path / "outside", new, revision)

    put(first, "1")
    made.rotator.load()
    put(second, "2")
    await made.look()

    assert made.serial == second.certificate.serial == made.serial_on_disk()
    assert made.outcomes == ["adopted", "adopted"]


async def test_half_of_a_rotation_keeps_the_last_good_pair(tmp_path: Path) -> None:
    """Case 06: counted once, tried again, and swapped in when the other half comes. Also over a restart in between."""
    made = bench(tmp_path)
    first, second = fresh(made), fresh(made)
    write(tmp_path / "outside", first)
    made.rotator.load()
    write(tmp_path / "outside", second, "tls.key")
    for _ in range(3):
        await made.look()

    assert made.serial == first.certificate.serial
    assert made.outcomes == ["adopted", "rejected"]
    again = bench(tmp_path)
    again.rotator.load()
    assert again.serial == first.certificate.serial

    write(tmp_path / "outside", second, "tls.crt")
    for each in (made, again):
        await each.look()
        assert each.serial == second.certificate.serial


async def test_a_pair_that_the_manager_does_not_take_is_tried_and_left(tmp_path: Path) -> None:
    """The last good one stays; the new one is tried again."""
    made = bench(tmp_path)
    first, second = fresh(made), fresh(made)
    write(tmp_path / "outside", first)
    made.rotator.load()
    write(tmp_path / "outside", second)
    made.issuer.trial_faults = [TrialError("unknown authority")]

    await made.look()
    assert made.serial == first.certificate.serial
    made.clock.seconds += 60
    await made.look()
    assert made.serial == second.certificate.serial
    assert made.outcomes == ["adopted", "failed", "adopted"]


async def test_nothing_is_renewed_where_somebody_else_writes(tmp_path: Path) -> None:
    """At its end the delegate says whose turn it is."""
    made = bench(tmp_path)
    write(tmp_path / "outside", fresh(made))
    made.rotator.load()
    made.clock.jump(86400)
    await made.look()

    assert made.issuer.requests == []
    assert str(tmp_path / "outside") in made.rotator.reason()
    assert made.shown[-1] == ""
    with pytest.raises(IdentityError):
        await made.rotator.rotate()


@pytest.mark.parametrize("what", ["no key", "no certificate", "not readable text", "ended", "of the future", "a directory", "huge"])
def test_what_can_t_be_used_is_refused_with_words(tmp_path: Path, what: str) -> None:
    """Each names the directory, and none repeats a key."""
    new = material(SIGNER)
    write(tmp_path, new)
    now = NOON
    match what:
        case "no key":
            (tmp_path / "tls.key").unlink()
        case "no certificate":
            (tmp_path / "tls.crt").write_bytes(b"")
        case "not readable text":
            (tmp_path / "tls.key").write_bytes(bytes(range(256)))
        case "ended":
            now = new.certificate.not_after
        case "of the future":
            now = NOON.replace(year=2029)
        case "a directory":
            (tmp_path / "tls.crt").unlink()
            (tmp_path / "tls.crt").mkdir()
        case _:
            (tmp_path / "tls.key").write_bytes(b"x" * 2**21)

    with pytest.raises(CertificateDamagedError) as caught:
        OutsideDirectory(tmp_path).look(now)

    assert str(tmp_path) in str(caught.value)


def test_a_directory_without_the_files_is_nobody_s(tmp_path: Path) -> None:
    """One of them is enough to say that somebody writes here."""
    outside = OutsideDirectory(tmp_path / "certs")
    assert not outside.is_in_use()
    (tmp_path / "certs").mkdir()
    assert not outside.is_in_use()
    os.symlink("nowhere", tmp_path / "certs" / "tls.key")
    assert outside.is_in_use()


def test_a_writer_in_a_hurry_never_gets_a_mixed_pair_through(tmp_path: Path) -> None:
    """Case 06: key, then certificate, again and again while it is read: each pair that is taken belongs together."""
    pairs = [material(SIGNER, f"d-{number}") for number in range(4)]
    write(tmp_path, pairs[0])
    stop = threading.Event()

    def rewrite() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            write(tmp_path, pairs[number % 4], "tls.key")
            write(tmp_path, pairs[number % 4], "tls.crt")

    writer = threading.Thread(target=rewrite)
    writer.start()
    outside, good, refused = OutsideDirectory(tmp_path), 0, 0
    try:
        for _ in range(2000):
            try:
                found = outside.look(NOON).material
            except CertificateDamagedError:
                refused += 1
            else:
                good += 1
                assert found.pair.key.fingerprint == found.certificate.key_fingerprint
    finally:
        stop.set()
        writer.join()

    assert refused > 0
    write(tmp_path, pairs[0])
    assert outside.look(NOON).material.certificate == pairs[0].certificate
