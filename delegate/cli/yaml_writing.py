"""Kubernetes objects as YAML that every reader takes back for the same: kubectl, PyYAML, and the YAML 1.2 of others.

A text is quoted wherever one of them would read something else into it when it stands bare: `y`, `on`, `1e3`, `0o14`, `1:30`.
"""

import json
from collections.abc import Iterable
from typing import Any

import yaml

from delegate.engine.sources.loader.scalars import LEADS, UnrepresentableError, resolve_plain
from delegate.model.resources import JsonObject

_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_WIDTH = 2**20
"""No line is folded: a folded one is harder to read and to compare."""


class _ManifestDumper(_Dumper):  # type: ignore[misc]  # the C one where there is one
    """Quotes texts by the rules above; writes no anchors."""

    def ignore_aliases(self, data: object) -> bool:
        del data
        return True


def _represent_text(dumper: Any, text: str) -> Any:
    style = None
    if _is_ambiguous(text):
        style = '"'
    elif "\n" in text and _is_block(text):
        style = "|"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _is_ambiguous(text: str) -> bool:
    if not text or text[0] not in LEADS:
        return False
    try:
        return resolve_plain(text) != text
    except UnrepresentableError:
        return True


def _is_block(text: str) -> bool:
    """Whether a literal block says it exactly and is seen to do so: no spaces at line ends, nothing unprintable."""
    lines = text.split("\n")
    return all(line == line.rstrip() and line.replace("\t", "").isprintable() for line in lines) and not text[0].isspace()


def _represent_number(dumper: Any, number: float) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:float", json.dumps(number))


_ManifestDumper.add_representer(str, _represent_text)
_ManifestDumper.add_representer(float, _represent_number)


def write_yaml(bodies: Iterable[JsonObject]) -> str:
    """The objects as the documents of one file; fields in their order. Empty where there is none."""
    written: str = yaml.dump_all(
        bodies, Dumper=_ManifestDumper, explicit_start=True, sort_keys=False, allow_unicode=True, width=_WIDTH, default_flow_style=False
    )
    return written
