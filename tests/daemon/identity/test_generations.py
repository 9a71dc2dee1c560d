"""Generations on disk: whatever happens at whichever system call, there is a whole one, and no reader ever sees a mixed one."""

import errno
import os
import ssl
import stat
import threading
from pathlib import Path

import pytest

from delegate.daemon.directories import StateDirectoryError
from delegate.daemon.identity.disk import Disk
from delegate.daemon.identity.generations import Generations
from delegate.protocol.pki.pairs import Material, read_pair
from tests.daemon.identity.disks import DyingDisk, FailingDisk, PowerCutDisk, ShortDisk, calls_of, until_it_dies
from tests.protocol.pki.authorities import authority, material

SIGNER = authority()
MATERIALS = [material(SIGNER, f"d-{number}") for number in range(5)]


def rotate(generations: Generations, new: Material) -> None:
    generations.activate(generations.write(new))


def serial_of_current(directory: Path) -> str:
    current = Generations(directory).load_current()
    assert current is not None
    return current.material.certificate.serial


def serials(materials: list[Material]) -> set[str]:
    return {each.certificate.serial for each in materials}


def test_a_generation_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Private, flushed, named by `current`, with key and chain also in one file."""
    generations = Generations(tmp_path / "certs")
    assert (generations.load_current(), generations.current_number()) == (None, None)

    rotate(generations, MATERIALS[0])

    current = generations.load_current()
    assert current is not None
    assert current.number == generations.current_number() == 1
    assert current.material.pair.chain == MATERIALS[0].pair.chain
    assert current.material.authorities == MATERIALS[0].authorities
    assert {stat.S_IMODE(path.stat().st_mode) for path in current.directory.iterdir()} == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "certs", current.directory)} == {0o700}
    ssl.create_default_context().load_cert_chain(tmp_path / "certs" / "current" / "tls.pem")


def test_what_was_written_is_not_current_before_it_is_activated(tmp_path: Path) -> None:
    """A new one is tried first, and can be taken away again."""
    generations = Generations(tmp_path)
    rotate(generations, MATERIALS[0])
    candidate = generations.write(MATERIALS[1])

    assert serial_of_current(tmp_path) == MATERIALS[0].certificate.serial
    generations.discard(candidate)
    assert not candidate.directory.exists()
    assert [each.name for each in (tmp_path / "generations").iterdir()] == ["1"]


def test_old_generations_go(tmp_path: Path) -> None:
    """Two stay for readers that are just at them; the current one can't be discarded."""
    generations = Generations(tmp_path, kept_seconds=0.0)
    for each in MATERIALS:
        rotate(generations, each)

    assert sorted(path.name for path in (tmp_path / "generations").iterdir()) == ["3", "4", "5"]
    assert [each.number for each in generations.usable()] == [5, 4, 3]
    generations.discard(generations.usable()[0])
    assert serial_of_current(tmp_path) == MATERIALS[4].certificate.serial


@pytest.mark.parametrize("damage", ["link", "key", "chain", "file gone", "swapped key", "directory gone"])
def test_a_damaged_generation_gives_way_to_the_one_before(tmp_path: Path, damage: str) -> None:
    """A person or a disk spoiled it: the start uses what can be used."""
    generations = Generations(tmp_path)
    rotate(generations, MATERIALS[0])
    rotate(generations, MATERIALS[1])
    current = tmp_path / "generations" / "2"
    match damage:
        case "link":
            (tmp_path / "current").unlink()
            (current / "tls.key").write_bytes(b"")
        case "key" | "chain":
            (current / {"key": "tls.key", "chain": "tls.crt"}[damage]).write_bytes(b"\x00" * 100)
        case "file gone":
            (current / "tls.crt").unlink()
        case "swapped key":
            (current / "tls.key").write_bytes(MATERIALS[0].pair.key.to_pem())
        case _:
            current.rename(tmp_path / "elsewhere")

    assert serial_of_current(tmp_path) == MATERIALS[0].certificate.serial
    rotate(generations, MATERIALS[2])
    assert serial_of_current(tmp_path) == MATERIALS[2].certificate.serial


def two_rotations(directory: Path, disk: Disk, promise: list[str]) -> None:
    """A process that rotates twice beside a candidate that it gives up; `promise` holds the serial that was promised last."""
    generations = Generations(directory, disk, kept_seconds=0.0)
    for number in (1, 2):
        new = generations.write(MATERIALS[number])
        generations.activate(new)
        promise.append(MATERIALS[number].certificate.serial)
    generations.discard(generations.write(MATERIALS[3]))
    generations.activate(generations.write(MATERIALS[4]))
    promise.append(MATERIALS[4].certificate.serial)


def prepared(directory: Path) -> Path:
    directory.mkdir()
    rotate(Generations(directory), MATERIALS[0])
    return directory


@pytest.mark.parametrize("kind", ["killed", "power cut"])
def test_a_death_before_each_system_call_leaves_a_working_identity(tmp_path: Path, kind: str) -> None:
    """The last one that was promised or the next one, whole; and the next process rotates on. Also from an empty directory."""
    for first in (True, False):
        base = tmp_path / ("from-nothing" if first else "from-one")
        base.mkdir()
        dry = base / "dry" if first else prepared(base / "dry")
        calls = calls_of(lambda disk, dry=dry: two_rotations(dry, disk, []))  # type: ignore[misc]
        assert calls > 60
        for dies_at in range(1, calls + 1):
            directory = base / str(dies_at)
            if first:
                directory.mkdir()
            else:
                prepared(directory)
            disk = DyingDisk(dies_at) if kind == "killed" else PowerCutDisk(dies_at, directory)
            promised = [] if first else [MATERIALS[0].certificate.serial]
            until_it_dies(lambda d=directory, disk=disk, promised=promised: two_rotations(d, disk, promised))  # type: ignore[misc]
            assert disk.died

            found = Generations(directory).load_current()
            if found is None:
                assert promised == []
            else:
                order = [each.certificate.serial for each in MATERIALS]
                least = order.index(promised[-1]) if promised else 0
                assert order.index(found.material.certificate.serial) >= least
                ssl.create_default_context().load_cert_chain(found.pair_file)
            rotate(Generations(directory), MATERIALS[4])
            assert serial_of_current(directory) == MATERIALS[4].certificate.serial


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EROFS, errno.EACCES])
def test_an_error_at_any_system_call_keeps_the_old_one_and_says_why(tmp_path: Path, error: int) -> None:
    """A rotation that failed left the old generation in place or had already switched; nothing lies around; the next one works."""
    dry = prepared(tmp_path / "dry")
    calls = calls_of(lambda disk: rotate(Generations(dry, disk), MATERIALS[1]))
    failed = 0
    for fails_at in range(1, calls + 1):
        directory = prepared(tmp_path / str(fails_at))
        generations = Generations(directory, FailingDisk(fails_at, error))
        try:
            rotate(generations, MATERIALS[1])
        except StateDirectoryError as fault:
            failed += str(directory) in str(fault) and "DELEGATE_CERT_DIR" in fault.hint
        assert serial_of_current(directory) in serials(MATERIALS[:2])
        assert not [path.name for path in directory.rglob(".*")]
        rotate(generations, MATERIALS[2])
        assert serial_of_current(directory) == MATERIALS[2].certificate.serial
    assert failed > 10


def test_short_writes_go_on_where_they_stopped(tmp_path: Path) -> None:
    """A disk may take a file in any number of bites, but one that takes nothing is a fault and no endless loop."""
    rotate(Generations(tmp_path / "short", ShortDisk(100)), MATERIALS[0])

    assert serial_of_current(tmp_path / "short") == MATERIALS[0].certificate.serial
    with pytest.raises(StateDirectoryError):
        Generations(tmp_path / "none", ShortDisk(0)).write(MATERIALS[0])


def test_a_directory_that_can_t_be_written_is_named(tmp_path: Path) -> None:
    """With the setting that moves it."""
    (tmp_path / "file").write_text("")

    with pytest.raises(StateDirectoryError) as caught:
        Generations(tmp_path / "file" / "certs").write(MATERIALS[0])

    assert "DELEGATE_CERT_DIR" in caught.value.hint


def test_two_processes_may_write_at_once(tmp_path: Path) -> None:
    """Each generation gets a number of its own."""
    generations = [Generations(tmp_path), Generations(tmp_path)]
    threads = [
        threading.Thread(target=lambda each=each: [each.write(MATERIALS[number % 5]) for number in range(20)]) for each in generations
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [each.number for each in generations[0].usable()] == list(range(40, 0, -1))


def read_pairs(directory: Path, stop: threading.Event, seen: set[str], faults: list[BaseException], *, by_file: bool) -> None:
    """What another process does: loads the pair again and again. In the directory that `current` names, or the one file."""
    generations = Generations(directory)
    while not stop.is_set():
        try:
            if by_file:
                whole = (directory / "current" / "tls.pem").read_bytes()
                read_pair(whole, whole)
            else:
                base = directory / os.readlink(directory / "current")
                ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(base / "tls.crt", base / "tls.key")
            current = generations.load_current()
            assert current is not None
            seen.add(current.material.certificate.serial)
        except BaseException as error:  # noqa: BLE001 - carried over to the test
            faults.append(error)
            return


def test_readers_never_see_a_key_without_its_certificate(tmp_path: Path) -> None:
    """Three readers load the pair in a tight loop while 300 generations come and go."""
    writer = Generations(tmp_path)
    rotate(writer, MATERIALS[0])
    stop, seen, faults = threading.Event(), set[str](), list[BaseException]()
    readers = [
        threading.Thread(target=read_pairs, args=(tmp_path, stop, seen, faults), kwargs={"by_file": by_file})
        for by_file in (False, False, True)
    ]
    for reader in readers:
        reader.start()
    for number in range(300):
        rotate(writer, MATERIALS[number % 5])
    stop.set()
    for reader in readers:
        reader.join()

    assert faults == []
    assert len(seen) > 1
