"""The whole cluster as one file: every object with its uid and version, and the version counter.

A restored cluster goes on from there, in versions and in time: watches from before are answered that their version has expired,
controllers look at everything again. Users and tokens are not in it; Secrets are, so that the file is for its owner's eyes only.
"""

import datetime as dt
import os
from pathlib import Path

import msgspec

from delegate.foundation.errors import Category
from delegate.model.resources import JsonObject
from delegate.simulator.clocks import no_earlier
from delegate.simulator.registry import Registry
from delegate.simulator.statuses import SimulatorError
from delegate.simulator.store import Change, Stored

FORMAT = 1


class SnapshotError(SimulatorError):
    """A file that holds no snapshot, or can't be read or written."""

    default_code = "simulator.snapshot"
    category = Category.INPUT


class _Written(msgspec.Struct):
    """An object as it is written: its bytes as they are stored."""

    group: str
    plural: str
    body: msgspec.Raw


class Held(msgspec.Struct):
    """One object; `group` and `plural` say in which table."""

    group: str
    plural: str
    body: JsonObject


class Snapshot(msgspec.Struct):
    version: int
    objects: list[Held]
    time: dt.datetime
    format: int = FORMAT


def take(registry: Registry) -> bytes:
    """The snapshot as JSON."""
    held = [_Written(key[0], key[1], msgspec.Raw(stored.raw)) for key, stored in registry.store.everything()]
    return msgspec.json.encode({"version": registry.store.version, "format": FORMAT, "time": registry.clock(), "objects": held})


def restore(registry: Registry, data: bytes) -> None:
    """Fills an empty store. Raises `SnapshotError`."""
    try:
        snapshot = msgspec.json.decode(data, type=Snapshot)
    except msgspec.DecodeError as error:
        raise SnapshotError(f"no snapshot of a simulator: {error}", hint="give a file that the simulator wrote, or a new one") from error
    if snapshot.format != FORMAT:
        raise SnapshotError(f"a snapshot of format {snapshot.format}, this simulator reads {FORMAT}", hint="start from a new file")
    store = registry.store
    try:
        for held in sorted(snapshot.objects, key=lambda item: int(item.body["metadata"]["resourceVersion"])):
            metadata = held.body["metadata"]
            version = int(metadata["resourceVersion"])
            stored = Stored(metadata.get("namespace", ""), metadata["name"], held.body, version)
            store.put_back((held.group, held.plural), Change("ADDED", version, stored, None))
            _remember(registry, held)
    except (KeyError, TypeError, ValueError) as error:
        raise SnapshotError(f"a snapshot with an object that is none: {error!r}", hint="start from a new file") from error
    registry.clock = no_earlier(registry.clock, snapshot.time)
    store.version = max(store.version, snapshot.version)
    for resource in registry.all_resources():
        store.table(resource.storage).forget(store.version)


def _remember(registry: Registry, held: Held) -> None:
    """What an object holds besides itself: addresses and ports, and the kinds of a definition."""
    match held.group, held.plural:
        case "", "services":
            registry.addresses.allocate(msgspec.json.decode(msgspec.json.encode(held.body)), keep=True)
        case "", "pods" if (held.body.get("status") or {}).get("podIP"):
            registry.addresses.keep_pod_address(held.body["status"]["podIP"])
        case "apiextensions.k8s.io", "customresourcedefinitions":
            conditions = (held.body.get("status") or {}).get("conditions") or ()
            if any(item.get("type") == "Established" for item in conditions):
                registry.serve_definition(held.body)
        case _:
            pass


def load(registry: Registry, path: Path) -> bool:
    """Fills an empty store from a file; false where there is no file yet. Raises `SnapshotError`."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise SnapshotError(f"can't be read: {error.strerror}", hint="check the snapshot file", file=str(path)) from error
    try:
        restore(registry, data)
    except SnapshotError as error:
        error.file = str(path)
        raise
    return True


def write(path: Path, data: bytes) -> None:
    """Whole or not at all, for its owner only."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.touch(mode=0o600)
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise SnapshotError(
            f"can't be written: {error.strerror}", hint="check the snapshot file and its directory", file=str(path)
        ) from error
