"""A directory of manifests that a simulated cluster starts with.

Every `.yaml`, `.yml` and `.json` file below it is read, in the order of their paths. Namespaces come first (those that nothing
defines are made), then definitions, then the rest as it stands; objects are applied, so that a second start changes nothing.
"""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from delegate.foundation.errors import Category
from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.bodies import YamlLoader
from delegate.simulator.registry import Registry
from delegate.simulator.statuses import SimulatorError
from delegate.simulator.storing import Options
from delegate.simulator.writes import Write

MANAGER = "seed"
SUFFIXES = (".yaml", ".yml", ".json")
ESTABLISHED_SECONDS = 10.0
"""How long a definition may take until its kind is served."""
_UNTYPED = re.compile(r"(?::|^) \.([A-Za-z][^\s:]*): ")
_STEP = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


class SeedError(SimulatorError):
    """A manifest that can't be read or that the cluster refuses; `file` and `line` say where."""

    default_code = "simulator.seed"
    category = Category.INPUT


class Seed(NamedTuple):
    """One object, and where it stands."""

    path: Path
    node: yaml.Node
    body: JsonObject

    def error(self, message: str, *, hint: str, field: str = "") -> SeedError:
        return SeedError(message, hint=hint, file=str(self.path), line=_line_of(self.node, field))


def read(directory: Path) -> list[Seed]:
    """Every object of every file; lists are taken apart. Raises `SeedError`."""
    if not directory.is_dir():
        raise SeedError(f"{directory} is no directory", hint="give a directory with manifests")
    paths = sorted(item for item in directory.rglob("*") if item.suffix in SUFFIXES and item.is_file())
    return [seed for path in paths for seed in _seeds_of(path)]


def _seeds_of(path: Path) -> Iterator[Seed]:
    hint = "correct the file, or take it out of the directory"
    try:
        loader = YamlLoader(path.read_bytes())
        try:
            while loader.check_node():
                node = loader.get_node()
                assert node is not None
                yield from _objects(path, node, loader.construct_document(node))
        finally:
            loader.dispose()
    except OSError as error:
        raise SeedError(f"can't be read: {error.strerror}", hint=hint, file=str(path)) from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else None
        raise SeedError(f"no YAML: {error.problem}", hint=hint, file=str(path), line=line) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SeedError(f"no YAML: {error}", hint=hint, file=str(path)) from error


def _objects(path: Path, node: yaml.Node, document: Any) -> Iterator[Seed]:
    if document is None:
        return
    found = Seed(path, node, document)
    if not isinstance(document, dict) or not isinstance(document.get("metadata") or {}, dict):
        raise found.error("a document that is no object", hint="every document needs apiVersion, kind and metadata")
    if not str(document.get("kind", "")).endswith("List") or not isinstance(document.get("items"), list):
        yield found
        return
    below = _step(node, "items")
    for index, item in enumerate(document["items"]):
        yield from _objects(path, (_step(below, str(index)) if below is not None else None) or node, item)


def _step(node: yaml.Node, key: str) -> yaml.Node | None:
    """What a key or an index leads to."""
    if isinstance(node, yaml.MappingNode):
        return next((value for name, value in node.value if getattr(name, "value", None) == key), None)
    if isinstance(node, yaml.SequenceNode) and key.isdigit() and int(key) < len(node.value):
        found: yaml.Node = node.value[int(key)]
        return found
    return None


def _line_of(node: yaml.Node, field: str) -> int:
    """The line of a field, as a cause names it (`spec.ports[0].port`), as far down as the document has it."""
    for index, name in _STEP.findall(field):
        below = _step(node, index or name)
        if below is None:
            break
        node = below
    return int(node.start_mark.line) + 1


async def load(registry: Registry, directory: Path) -> int:
    """Applies what the directory has; how many objects that were. Raises `SeedError` at the first that is refused."""
    found = read(directory)
    waves: list[list[Seed]] = [[], [], []]
    for seed in found:
        waves[{"Namespace": 0, "CustomResourceDefinition": 1}.get(str(seed.body.get("kind")), 2)].append(seed)
    for seed in waves[0] + waves[1]:
        _apply(registry, seed)
    await _established(registry, waves[1])
    for seed in waves[2]:
        _apply(registry, seed)
    return len(found)


async def _established(registry: Registry, definitions: list[Seed]) -> None:
    loop = asyncio.get_running_loop()
    until = loop.time() + ESTABLISHED_SECONDS
    for seed in definitions:
        spec = seed.body["spec"]
        while registry.find_kind(spec["group"], spec["names"]["kind"]) is None:
            if loop.time() > until:
                raise seed.error("isn't established", hint="check its versions and names", field="spec.versions")
            await asyncio.sleep(0.01)


def _apply(registry: Registry, seed: Seed) -> None:
    body = seed.body
    group, _, version = str(body.get("apiVersion", "")).rpartition("/")
    kind, metadata = str(body.get("kind", "")), body.get("metadata") or {}
    resource = next((item for item in registry.served(group, version) if item.kind == kind), None)
    if resource is None:
        hint = "add its CustomResourceDefinition to the directory, or correct the manifest"
        raise seed.error(f"no kind {kind!r} in {body.get('apiVersion')!r}", hint=hint, field="kind")
    namespace = ""
    if resource.namespaced:
        namespace = metadata.get("namespace") or "default"
        _ensure_namespace(registry, namespace)
    name = metadata.get("name")
    if not isinstance(name, str) or not name:
        raise seed.error("metadata.name is missing", hint="name every object; generateName is not for seeds", field="metadata")
    options = Options(manager=MANAGER, force=True, user="system:admin")
    try:
        Write(registry, resource, namespace, name, options=options).apply(body)
    except statuses.StatusError as error:
        hint = "correct the manifest, or take it out of the directory"
        raise seed.error(error.message, hint=hint, field=_field_of(error)) from error


def _field_of(refusal: statuses.StatusError) -> str:
    """The field that a refusal is about: its first cause's, or the one that it couldn't type."""
    causes = (refusal.details or {}).get("causes") or [{}]
    untyped = _UNTYPED.search(refusal.message)
    return str(causes[0].get("field") or "") or (untyped[1] if untyped is not None else "")


def _ensure_namespace(registry: Registry, name: str) -> None:
    resource = registry.kind("", "Namespace")
    if registry.get(resource, "", name) is None:
        body: JsonObject = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        Write(registry, resource, "", name, options=Options(manager=MANAGER, force=True)).apply(body)
