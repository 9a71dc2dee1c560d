"""Kubernetes objects as values: what identifies one, where a manifest came from, and how the API addresses its kind."""

from functools import cached_property
from typing import Any, NamedTuple

import msgspec

JsonObject = dict[str, Any]
"""A JSON object as the API speaks it. Used only for bodies of Kubernetes objects and for opaque documents."""


class GroupKind(NamedTuple):
    """A kind without its version; the core group is the empty string."""

    group: str
    kind: str

    def __str__(self) -> str:
        return f"{self.group}/{self.kind}" if self.group else self.kind


class ResourceKey(NamedTuple):
    """The identity of an object inside one cluster. The version is no part of it; cluster-scoped: namespace is empty."""

    group: str
    kind: str
    namespace: str
    name: str

    @property
    def group_kind(self) -> GroupKind:
        return GroupKind(self.group, self.kind)

    def __str__(self) -> str:
        """`apps/Deployment checkout/checkout`, as results and messages name an object."""
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.group_kind} {place}"


class Origin(msgspec.Struct, frozen=True, order=True):
    """Where a manifest was read: path relative to the source, line of its first key (from 1), document number (from 1)."""

    file: str = ""
    line: int = 0
    document: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


class ResourceType(msgspec.Struct, frozen=True):
    """How a cluster serves a kind, as discovery tells it."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    verbs: frozenset[str] = frozenset()
    subresources: frozenset[str] = frozenset()

    @property
    def group_kind(self) -> GroupKind:
        return GroupKind(self.group, self.kind)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


class Manifest(msgspec.Struct, frozen=True, dict=True):
    """A desired object as it was written, with the place it was written at.

    `body` is a JSON object that nobody else holds a reference to; it is never changed in place, so its identity is worked out once.
    """

    body: JsonObject
    origin: Origin = Origin()

    @property
    def api_version(self) -> str:
        return str(self.body.get("apiVersion", ""))

    @property
    def kind(self) -> str:
        return str(self.body.get("kind", ""))

    @property
    def group(self) -> str:
        group, slash, _ = self.api_version.partition("/")
        return group if slash else ""

    @property
    def version(self) -> str:
        return self.api_version.rpartition("/")[2]

    @cached_property
    def group_kind(self) -> GroupKind:
        return GroupKind(self.group, self.kind)

    @property
    def metadata(self) -> JsonObject:
        metadata = self.body.get("metadata")
        return metadata if isinstance(metadata, dict) else {}

    @property
    def name(self) -> str:
        return str(self.metadata.get("name") or "")

    @property
    def generate_name(self) -> str:
        return str(self.metadata.get("generateName") or "")

    @property
    def namespace(self) -> str:
        return str(self.metadata.get("namespace") or "")

    @property
    def annotations(self) -> dict[str, str]:
        annotations = self.metadata.get("annotations")
        return annotations if isinstance(annotations, dict) else {}

    @property
    def labels(self) -> dict[str, str]:
        labels = self.metadata.get("labels")
        return labels if isinstance(labels, dict) else {}

    @cached_property
    def key(self) -> ResourceKey:
        """Its identity as written; the namespace is settled by `model.scoping` once the scope of the kind is known."""
        return ResourceKey(*self.group_kind, self.namespace, self.name or self.generate_name)
