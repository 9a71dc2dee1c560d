"""What sources give: which revision was meant, and the objects that it holds. Values."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import msgspec

from delegate.engine.sources.loader.documents import Lines
from delegate.engine.sources.loader.positions import parse_pointer
from delegate.engine.sources.workshops import Product, key_of
from delegate.model.resources import Manifest, Origin


class ResolvedRevision(msgspec.Struct, frozen=True):
    """What a source means right now. `repo_url` shows no credentials and is empty for a directory of this machine.

    `revision` is a commit id, never that of a tag object; the version of a chart; empty for a directory, whose content is
    hashed when it is read. `ref` is the full name of the ref that led to a commit, empty for an id. `digest` and `place` say
    which file of a chart repository it is.
    """

    repo_url: str = ""
    revision: str = ""
    ref: str = ""
    digest: str = ""
    place: str = ""


@dataclass(frozen=True)
class Rendered:
    """The objects of a source, in file and document order, as they were written.

    `revision` is the commit id or version, or `sha256:...` of a local source's content. `content` is the same wherever the
    files read are the same, whatever the commit. `lines` stand beside the manifests, one each, or there are none.
    """

    revision: str
    manifests: tuple[Manifest, ...] = field(repr=False)
    notices: tuple[str, ...] = ()
    content: str = ""
    lines: tuple[Lines, ...] = field(default=(), repr=False)

    def locate(self, manifest: Manifest, pointer: str) -> Origin:
        """The place of a field: of its key, or of the nearest ancestor that was written.

        `pointer` is a JSON pointer (`/spec/replicas`) or a field path of the API server
        (`spec.containers[0].image`, `.spec.containers[name="web"]`). The manifest may have been changed since it was
        rendered, as long as it kept its origin.
        """
        same_place = self._by_origin.get(manifest.origin, ())
        named = [index for index in same_place if self.manifests[index].name == manifest.name]
        for index in named or same_place[:1]:
            if index < len(self.lines):
                written = self.manifests[index].body
                line = self.lines[index].find(written, parse_pointer(pointer, written))
                return Origin(manifest.origin.file, line or manifest.origin.line, manifest.origin.document)
        return manifest.origin

    @cached_property
    def _by_origin(self) -> dict[Origin, list[int]]:
        indexes: dict[Origin, list[int]] = {}
        for index, manifest in enumerate(self.manifests):
            indexes.setdefault(manifest.origin, []).append(index)
        return indexes


def rendered_from(product: Product, revision: str, notices: Sequence[str] = ()) -> Rendered:
    """`revision` is empty for a directory of this machine, which its content stands for."""
    loaded = product.loaded
    told = (*notices, *product.notices, *loaded.notices)
    return Rendered(revision or f"sha256:{product.content}", loaded.manifests, told, product.content, loaded.lines)


def merged(parts: Sequence[tuple[int, Rendered]]) -> Rendered:
    """The objects of several sources as one set, in order; `parts` are the indexes of sources and what they gave.

    Origins say from which source each comes. An object that two of them have is in the set twice: that is for the rules of
    sets to refuse, with both places.
    """
    manifests: list[Manifest] = []
    lines: list[Lines] = []
    complete = all(len(rendered.lines) == len(rendered.manifests) for _, rendered in parts)
    for index, rendered in parts:
        for manifest in rendered.manifests:
            origin = msgspec.structs.replace(manifest.origin, file=f"sources[{index}]:{manifest.origin.file}")
            manifests.append(Manifest(manifest.body, origin))
        lines += rendered.lines if complete else ()
    return Rendered(
        revision=",".join(rendered.revision for _, rendered in parts),
        manifests=tuple(manifests),
        notices=tuple(f"sources[{index}]: {notice}" for index, rendered in parts for notice in rendered.notices),
        content=key_of(*(rendered.content for _, rendered in parts)),
        lines=tuple(lines),
    )
