"""Whether a decoded document is an object that can be sent, and whether its plainest fields have the right types.

Only what is certain without the cluster's schemas is checked here: the rest is the server's dry run's to find.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from delegate.engine.sources.errors import (
    EncodingError,
    FieldTypeError,
    ForeignDocumentError,
    IncompleteObjectError,
    TooLargeError,
)
from delegate.engine.sources.limits import CONFIG_DATA_BYTES, OBJECT_BYTES
from delegate.engine.sources.loader.documents import Path, as_object, describe_path, describe_type
from delegate.model.errors import ManifestError
from delegate.model.resources import JsonObject

_WORKLOAD_GROUPS = ("apps", "batch")
_METADATA_MAPS = ("labels", "annotations")


class Fault(NamedTuple):
    """A fault of an object, before it has a place: the field that it is about, and its words."""

    kind: type[ManifestError]
    path: Path
    message: str
    hint: str = ""


def is_manifest(body: JsonObject) -> bool:
    """Whether a mapping means to be an object: it states an apiVersion or a kind."""
    return bool(body.get("apiVersion") or body.get("kind"))


def check_object(body: JsonObject) -> Iterator[Fault]:
    """Every fault of an object that states an apiVersion or a kind."""
    incomplete = list(_check_type(body))
    if incomplete:
        yield from incomplete
        return
    if str(body["apiVersion"]).startswith("kustomize.config.k8s.io/"):
        yield kustomization()
        return
    yield from _check_metadata(body)
    for path in _string_maps(body):
        yield from _check_string_map(body, path)
    yield from _check_size(body)


def kustomization() -> Fault:
    hint = "make its directory the path of a source, or leave it out with `exclude`"
    return Fault(ForeignDocumentError, (), "a kustomization is not an object of a cluster", hint)


def name_of(body: JsonObject) -> str:
    """How messages call an object: `Deployment demo/web`."""
    metadata = as_object(body.get("metadata")) or {}
    group, slash, _ = str(body.get("apiVersion", "")).partition("/")
    kind = f"{group}/{body.get('kind', '')}" if slash else str(body.get("kind", ""))
    name = str(metadata.get("name") or metadata.get("generateName") or "")
    namespace = str(metadata.get("namespace") or "")
    return " ".join(filter(None, (kind, f"{namespace}/{name}" if namespace else name)))


def _check_type(body: JsonObject) -> Iterator[Fault]:
    for field, other in (("apiVersion", "kind"), ("kind", "apiVersion")):
        value = body.get(field)
        if value in (None, ""):
            hint = "a chart is rendered with Helm, not applied" if field == "kind" and "name" in body and "version" in body else ""
            glued = next((key for key in body if key.startswith("---")), None)
            if glued is not None:
                hint = f"looks like a document separator glued to `{glued.lstrip('-')}`"
            yield Fault(IncompleteObjectError, (other,), f"has {other} but no {field}", hint or f"add {field}, or leave the file out")
        elif not isinstance(value, str):
            yield _wrong_type((field,), value, "string")


def _check_metadata(body: JsonObject) -> Iterator[Fault]:
    metadata = body.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        yield _wrong_type(("metadata",), metadata, "mapping")
        return
    metadata = metadata or {}
    for field in ("name", "generateName", "namespace"):
        value = metadata.get(field)
        if value is not None and not isinstance(value, str):
            yield _wrong_type(("metadata", field), value, "string")
    if not metadata.get("name") and not metadata.get("generateName"):
        words = "has neither metadata.name nor metadata.generateName"
        yield Fault(IncompleteObjectError, ("metadata",), words, "name it")


def _string_maps(body: JsonObject) -> Iterator[Path]:
    """The fields whose values are strings whatever the cluster's version."""
    for name in _METADATA_MAPS:
        yield ("metadata", name)
    if "stringData" in body:
        yield ("stringData",)
    if body["apiVersion"] == "v1" and body["kind"] in ("ConfigMap", "Secret"):
        yield ("data",)
        yield ("binaryData",)
    if str(body["apiVersion"]).partition("/")[0] in _WORKLOAD_GROUPS:
        job_template: Path = ("spec", "jobTemplate") if body["kind"] == "CronJob" else ()
        for name in _METADATA_MAPS:
            yield (*(job_template or ()), "spec", "template", "metadata", name)
        yield (*job_template, "spec", "selector", "matchLabels")


def _check_string_map(body: JsonObject, path: Path) -> Iterator[Fault]:
    value: object = body
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    if value is None:
        return
    if not isinstance(value, dict):
        yield _wrong_type(path, value, "mapping of strings")
        return
    for key, member in value.items():
        if not isinstance(member, str):
            yield _wrong_type((*path, key), member, "string")


def _check_size(body: JsonObject) -> Iterator[Fault]:
    if body["apiVersion"] == "v1" and body["kind"] in ("ConfigMap", "Secret"):
        size = _data_size(body)
        if size > CONFIG_DATA_BYTES:
            words = f"holds {size} bytes of data; the limit is {CONFIG_DATA_BYTES} (1 MiB)"
            yield Fault(TooLargeError, ("data",), words, "split it, or mount the data in another way")
            return
    try:
        size = len(msgspec.json.encode(body))
    except UnicodeEncodeError:
        words = "a string holds half of a surrogate pair (\\ud800 to \\udfff), which UTF-8 can't carry"
        yield Fault(EncodingError, (), words)
        return
    if size > OBJECT_BYTES:
        yield Fault(TooLargeError, (), f"takes {size} bytes as JSON; the limit is {OBJECT_BYTES} (1.5 MiB, what etcd stores)")


def _data_size(body: JsonObject) -> int:
    """The bytes that the API server counts: decoded data."""
    total = 0
    for field, encoded in (("data", body["kind"] == "Secret"), ("binaryData", True), ("stringData", False)):
        for value in (as_object(body.get(field)) or {}).values():
            if isinstance(value, str):
                size = len(value) if value.isascii() else len(value.encode(errors="replace"))
                total += size * 3 // 4 if encoded else size
    return total


def _wrong_type(path: Path, value: object, wanted: str) -> Fault:
    got = describe_type(value)
    quotable = wanted == "string" and got in ("boolean", "integer", "number")
    remedy = "; quote it" if quotable else '; write "" if it is meant to be empty' if got == "null" else ""
    return Fault(FieldTypeError, path, f"{describe_path(path)} must be a {wanted}, got {got}{remedy}")
