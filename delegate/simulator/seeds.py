"""A directory of manifests that a simulated cluster starts with.

Every `.yaml`, `.yml` and `.json` file below it is read, in the order of their paths. Namespaces come first (those that nothing
defines are made), then definitions, then the rest as it stands; objects are applied, so that a second start changes nothing.
"""

import asyncio
from pathlib import Path
from typing import Any

import yaml

from delegate.foundation.errors import Category
from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.registry import Registry
from delegate.simulator.requests import YamlLoader
from delegate.simulator.statuses import SimulatorError
from delegate.simulator.storing import Options
from delegate.simulator.writes import Write

MANAGER = "seed"
SUFFIXES = (".yaml", ".yml", ".json")
ESTABLISHED_SECONDS = 10.0
"""How long a definition may take until its kind is served."""


class SeedError(SimulatorError):
    """A manifest that can't be read or that the cluster refuses."""

    default_code = "simulator.seed"
    category = Category.INPUT


def read(directory: Path) -> list[tuple[Path, JsonObject]]:
    """Every object with the file that has it; lists are taken apart. Raises `SeedError`."""
    if not directory.is_dir():
        raise SeedError(f"{directory} is no directory", hint="give a directory with manifests")
    found = []
    for path in sorted(item for item in directory.rglob("*") if item.suffix in SUFFIXES and item.is_file()):
        try:
            documents = list(yaml.load_all(path.read_bytes(), Loader=YamlLoader))  # a safe loader of our own
        except (OSError, yaml.YAMLError) as error:
            raise SeedError(f"{path} can't be read: {error}", hint="correct the file, or take it out of the directory") from error
        for document in documents:
            found += [(path, body) for body in _objects(path, document)]
    return found


def _objects(path: Path, document: Any) -> list[JsonObject]:
    if document is None:
        return []
    if not isinstance(document, dict) or not isinstance(document.get("metadata", {}), dict):
        raise SeedError(f"{path} has a document that is no object", hint="correct the file")
    if str(document.get("kind", "")).endswith("List") and isinstance(document.get("items"), list):
        return [body for item in document["items"] for body in _objects(path, item)]
    return [document]


async def load(registry: Registry, directory: Path) -> int:
    """Applies what the directory has; how many objects that were. Raises `SeedError` at the first that is refused."""
    found = read(directory)
    waves: list[list[tuple[Path, JsonObject]]] = [[], [], []]
    for path, body in found:
        waves[{"Namespace": 0, "CustomResourceDefinition": 1}.get(str(body.get("kind")), 2)].append((path, body))
    for path, body in waves[0] + waves[1]:
        _apply(registry, path, body)
    await _established(registry, waves[1])
    for path, body in waves[2]:
        _apply(registry, path, body)
    return len(found)


async def _established(registry: Registry, definitions: list[tuple[Path, JsonObject]]) -> None:
    loop = asyncio.get_running_loop()
    until = loop.time() + ESTABLISHED_SECONDS
    for path, body in definitions:
        spec = body["spec"]
        while registry.find_kind(spec["group"], spec["names"]["kind"]) is None:
            if loop.time() > until:
                raise SeedError(f"{path}: {body['metadata'].get('name')} isn't established", hint="check its versions")
            await asyncio.sleep(0.01)


def _apply(registry: Registry, path: Path, body: JsonObject) -> None:
    group, _, version = str(body.get("apiVersion", "")).rpartition("/")
    kind, metadata = str(body.get("kind", "")), body.get("metadata") or {}
    resource = next((item for item in registry.served(group, version) if item.kind == kind), None)
    if resource is None:
        raise SeedError(f"{path}: no kind {kind} in {body.get('apiVersion')!r}", hint="add its definition, or correct the manifest")
    namespace = ""
    if resource.namespaced:
        namespace = metadata.get("namespace") or "default"
        _ensure_namespace(registry, namespace)
    options = Options(manager=MANAGER, force=True, user="system:admin")
    try:
        Write(registry, resource, namespace, str(metadata.get("name", "")), options=options).apply(body)
    except statuses.StatusError as error:
        raise SeedError(f"{path}: {error.message}", hint="correct the manifest, or take it out of the directory") from error


def _ensure_namespace(registry: Registry, name: str) -> None:
    resource = registry.kind("", "Namespace")
    if registry.get(resource, "", name) is None:
        body: JsonObject = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        Write(registry, resource, "", name, options=Options(manager=MANAGER, force=True)).apply(body)
