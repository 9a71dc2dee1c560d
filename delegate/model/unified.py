"""The difference of two bodies of one object as a unified diff of their YAML, as people read it in a review.

What the server counts is left out, as in `model.changes`. Values of Secrets are hidden on both sides; one that changes says so.
"""

import copy
import difflib
from typing import Any

import yaml

from delegate.model.applied import APPLIED_ANNOTATION
from delegate.model.changes import HIDDEN
from delegate.model.resources import JsonObject

MOST_CHARACTERS = 20_000
_CHANGED = "(hidden, another value)"
_COUNTED = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class _Dumper(yaml.SafeDumper):
    """Text of several lines as a block, so that a changed line is a changed line."""


def _block(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _block)


def unified_diff(before: JsonObject | None, after: JsonObject | None, name: str) -> str:
    """Empty where nothing differs that anybody would look at; cut off past `MOST_CHARACTERS`, which the last line says."""
    old, new = _shown(before), _shown(after)
    if _is_secret(before) or _is_secret(after):
        _hide(old, new)
    lines = difflib.unified_diff(_lines(old), _lines(new), f"live/{name}" if before else "/dev/null", f"wanted/{name}", lineterm="")
    text = "\n".join(lines)
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}\n… ({len(text) - MOST_CHARACTERS} more characters)"


def _lines(body: JsonObject) -> list[str]:
    return yaml.dump(body, Dumper=_Dumper, sort_keys=True, allow_unicode=True, width=10_000).splitlines() if body else []


def _shown(body: JsonObject | None) -> JsonObject:
    if body is None:
        return {}
    shown = {name: copy.deepcopy(value) for name, value in body.items() if name != "status"}
    metadata: dict[str, Any] = {name: value for name, value in (shown.get("metadata") or {}).items() if name not in _COUNTED}
    annotations = {key: value for key, value in (metadata.pop("annotations", None) or {}).items() if key != APPLIED_ANNOTATION}
    return {**shown, "metadata": metadata | ({"annotations": annotations} if annotations else {})}


def _is_secret(body: JsonObject | None) -> bool:
    return body is not None and body.get("kind") == "Secret" and body.get("apiVersion") == "v1"


def _hide(old: JsonObject, new: JsonObject) -> None:
    for field in ("data", "stringData"):
        was, now = old.get(field) or {}, new.get(field) or {}
        for key in now:
            now[key] = _CHANGED if key in was and was[key] != now[key] else HIDDEN
        for key in was:
            was[key] = HIDDEN
    for body in (old, new):
        annotations = body.get("metadata", {}).get("annotations", {})
        if _LAST_APPLIED in annotations:
            annotations[_LAST_APPLIED] = HIDDEN
