"""Where the objects of a kustomization were written, as well as that can be told from outside. Pure.

kustomize can note origins in an annotation, but that annotation changes what is rendered: a patch that adds to annotations
where there are none then applies. So what is written is compared with what came out: a name may have got a prefix, a
suffix, a hash, but its kind stays.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from delegate.engine.sources.kustomize.documents import Kustomization
from delegate.model.resources import Manifest, Origin

_GENERATORS = {"configmapgenerator": "ConfigMap", "secretgenerator": "Secret"}


class Written(NamedTuple):
    """An object that a file holds or that a kustomization generates."""

    kind: str
    name: str
    origin: Origin


class Origins:
    """All that is written in the files of a kustomization."""

    def __init__(self, written: Iterable[Written], otherwise: Origin) -> None:
        self._by_kind: dict[str, list[Written]] = {}
        self._otherwise = otherwise
        for each in written:
            if each.name:
                self._by_kind.setdefault(each.kind, []).append(each)

    def find(self, manifest: Manifest) -> Origin:
        """Of the object of the same kind whose name is the longest part of this one's; else of the kustomization."""
        name = manifest.name or manifest.generate_name
        alike = [each for each in self._by_kind.get(manifest.kind, ()) if each.name in name]
        return max(alike, key=lambda each: len(each.name)).origin if alike else self._otherwise


def generated_by(kustomization: Kustomization) -> Iterator[Written]:
    """The ConfigMaps and Secrets that a kustomization makes."""
    for field, value in kustomization.body.items():
        kind = _GENERATORS.get(field.lower())
        if kind is None or not isinstance(value, list):
            continue
        for index, item in enumerate(value):
            if isinstance(item, dict) and isinstance(item.get("name"), str):
                yield Written(kind, item["name"], Origin(kustomization.path, kustomization.line((field, index))))
