"""Kustomization files: which other files and directories one refers to, and where it says so. Pure.

Fields are those of kustomize 5 (kustomize/api/types/kustomization.go), deprecated ones included. Their names are taken
in any case, as kustomize takes them.
"""

import enum
import re
from collections.abc import Iterator
from typing import NamedTuple

from delegate.engine.sources.errors import KustomizationError
from delegate.engine.sources.limits import SourceLimits
from delegate.engine.sources.loader.documents import Document, Path, as_object
from delegate.engine.sources.loader.files import SourceFile
from delegate.engine.sources.loader.plain import decode_documents
from delegate.model.resources import JsonObject

NAMES = ("kustomization.yaml", "kustomization.yml", "Kustomization")

_HELM_FIELDS = ("helmcharts", "helmchartinflationgenerator", "helmglobals")
_SCHEME = re.compile(r"(?:git::)?[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_HOST = re.compile(r"(?:git::)?(?:[\w.-]+@[\w.-]+[:/]|gh:|(?:[a-z0-9-]+\.)+[a-z]{2,}[:/])", re.IGNORECASE)
_LONGEST_PATH = 1024


class Role(enum.Enum):
    """What a reference may lead to."""

    FILE = enum.auto()
    FILE_OR_TEXT = enum.auto()
    DIRECTORY = enum.auto()
    FILE_OR_DIRECTORY = enum.auto()
    PLUGIN = enum.auto()
    """A generator, transformer or validator: a file, a directory, or its own text."""


class Reference(NamedTuple):
    """A path that a kustomization mentions, and the field that it stands in."""

    text: str
    role: Role
    field: Path


class Kustomization(NamedTuple):
    """A kustomization file, decoded."""

    path: str
    body: JsonObject
    document: Document

    def line(self, field: Path) -> int:
        return self.document.lines.find(self.body, field)


def read_kustomization(file: SourceFile, limits: SourceLimits) -> Kustomization:
    """Raises KustomizationError, and the faults of a file that can't be decoded."""
    documents = decode_documents(file, limits)
    body = as_object(documents[0].body) if len(documents) == 1 else None
    if body is None or all(field.lower() in ("apiversion", "kind") for field in body):
        words = "a kustomization is one mapping" if documents and not body else "the kustomization is empty"
        raise KustomizationError(words, hint="it has at least `resources`", file=file.path, line=1)
    kustomization = Kustomization(file.path, body, documents[0])
    for field in body:
        if field.lower() in _HELM_FIELDS and body[field]:
            hint = "render the chart as a source of its own (`helm`), or commit what it renders"
            words = f"{field}: charts inside a kustomization are not rendered"
            raise KustomizationError(words, hint=hint, file=file.path, line=kustomization.line((field,)))
    return kustomization


def references_of(body: JsonObject) -> Iterator[Reference]:
    """What a kustomization refers to. Values of the wrong type are left for kustomize to refuse."""
    for field, value in body.items():
        match field.lower():
            case "resources":
                yield from _each(value, Role.FILE_OR_DIRECTORY, field)
            case "bases" | "components":
                yield from _each(value, Role.DIRECTORY, field)
            case "crds" | "configurations":
                yield from _each(value, Role.FILE, field)
            case "patchesstrategicmerge":
                yield from _each(value, Role.FILE_OR_TEXT, field)
            case "generators" | "transformers" | "validators":
                yield from _each(value, Role.PLUGIN, field)
            case "patches" | "patchesjson6902" | "replacements":
                yield from _paths_of_items(value, field)
            case "configmapgenerator" | "secretgenerator":
                yield from _generator_files(value, field)
            case "openapi":
                yield from _member(value, "path", Role.FILE, (field,))
            case _:
                pass


def texts_of(value: object) -> Iterator[str]:
    """Every text of a plugin's configuration that could be a path. Which are, only the tree tells."""
    pending = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            pending.extend(node.values())
        elif isinstance(node, list):
            pending.extend(node)
        elif isinstance(node, str) and node and len(node) <= _LONGEST_PATH and "\n" not in node:
            yield node.partition("=")[2] or node


def has_scheme(text: str) -> bool:
    return _SCHEME.match(text) is not None


def looks_remote(text: str) -> bool:
    """Whether a path that doesn't exist is meant to be fetched (kustomize/api/internal/git/repospec.go)."""
    return has_scheme(text) or _HOST.match(text) is not None


def _each(value: object, role: Role, field: str) -> Iterator[Reference]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, str):
                yield Reference(item, role, (field, index))


def _paths_of_items(value: object, field: str) -> Iterator[Reference]:
    if not isinstance(value, list):
        return
    for index, item in enumerate(value):
        if isinstance(item, str):  # `patches` of old kustomizations
            yield Reference(item, Role.FILE_OR_TEXT, (field, index))
        else:
            yield from _member(item, "path", Role.FILE, (field, index))


def _generator_files(value: object, field: str) -> Iterator[Reference]:
    if not isinstance(value, list):
        return
    for index, item in enumerate(value):
        generator = as_object(item) or {}
        for name in ("files", "envs"):
            entries = generator.get(name)
            if isinstance(entries, list):
                for position, entry in enumerate(entries):
                    if isinstance(entry, str):
                        text = entry.partition("=")[2] if name == "files" and "=" in entry else entry
                        yield Reference(text, Role.FILE, (field, index, name, position))
        yield from _member(generator, "env", Role.FILE, (field, index))


def _member(value: object, name: str, role: Role, field: Path) -> Iterator[Reference]:
    text = (as_object(value) or {}).get(name)
    if isinstance(text, str) and text:
        yield Reference(text, role, (*field, name))
