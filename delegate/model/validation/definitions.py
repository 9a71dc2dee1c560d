"""The condensed definitions of one release of Kubernetes, read on the first use."""

import functools
import gzip
from importlib import resources
from typing import Any

import msgspec

Schema = dict[str, Any]


class Definitions(msgspec.Struct, frozen=True, dict=True):
    """See `condensing.condense` for the form."""

    release: str
    kinds: dict[str, str]
    types: dict[str, Schema]

    def schema_of(self, group: str, version: str, kind: str) -> Schema | None:
        """The schema of a kind in a version; None where this release doesn't serve it."""
        name = self.kinds.get(f"{group}/{version}/{kind}")
        return self.types.get(name) if name else None

    def versions_of(self, group: str, kind: str) -> tuple[str, ...]:
        """The versions that a kind is served in by this release, in their order."""
        found = (key.split("/") for key in self.kinds)
        return tuple(sorted(version for of_group, version, of_kind in found if (of_group, of_kind) == (group, kind)))

    def groups_of(self, kind: str) -> tuple[str, ...]:
        """The groups that have a kind of this name."""
        return tuple(sorted({group for group, _, named in (key.split("/") for key in self.kinds) if named == kind}))

    @functools.cached_property
    def groups(self) -> frozenset[str]:
        return frozenset(key.partition("/")[0] for key in self.kinds)

    def resolved(self, schema: Schema) -> Schema:
        return self.types.get(schema["ref"], {}) if "ref" in schema else schema


@functools.cache
def definitions() -> Definitions:
    packed = (resources.files("delegate.model.validation") / "definitions.json.gz").read_bytes()
    return msgspec.json.decode(gzip.decompress(packed), type=Definitions)
