"""Manifests for tests, from YAML text or a few words."""

from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

from delegate.model.resources import JsonObject, Manifest, Origin

_CASES = Path(__file__).parent.parent / "data" / "cases" / "sync"


def manifests_of(text: str, file: str = "a.yaml") -> list[Manifest]:
    """The documents of a YAML text, with the line that each begins at."""
    manifests = []
    for number, node in enumerate(yaml.compose_all(text, Loader=yaml.SafeLoader), start=1):
        body = yaml.SafeLoader("").construct_document(node)
        manifests.append(Manifest(body, Origin(file, node.start_mark.line + 1, number)))
    return manifests


def manifest_of(text: str) -> Manifest:
    (manifest,) = manifests_of(text)
    return manifest


def case_of(folder: str, file: str) -> list[Manifest]:
    """The documents of a file of a recorded case."""
    return manifests_of((_CASES / folder / file).read_text(), file)


def object_of(api_version: str, kind: str, name: str, namespace: str = "", *, line: int = 1, **more: Any) -> Manifest:
    metadata: JsonObject = {"name": name, **({"namespace": namespace} if namespace else {}), **more.pop("metadata", {})}
    return Manifest({"apiVersion": api_version, "kind": kind, "metadata": metadata, **more}, Origin("a.yaml", line))


names = st.text("abcdefgh-", min_size=1, max_size=8)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
json_objects: st.SearchStrategy[JsonObject] = st.dictionaries(st.text(max_size=6), json_values, max_size=5)
