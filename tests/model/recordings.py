"""The recorded answers of a real control plane, as the tests of the model read them."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from delegate.model.resources import GroupKind, JsonObject

_FOLDER = Path(__file__).parent.parent / "data" / "recordings"


@cache
def _steps(name: str) -> list[Any]:
    document = json.loads((_FOLDER / f"{name}.json").read_text())
    steps: list[Any] = document["steps"]
    return steps


def steps_of(name: str) -> list[JsonObject]:
    return _steps(name)


def body_of(name: str, step: int) -> JsonObject:
    """The object that a step was answered with."""
    body: JsonObject = _steps(name)[step]["response"]["body"]
    return body


def versions_of(name: str, group: str) -> list[JsonObject]:
    """Every version of the object that a recording watches, with the apiVersion that its watch events leave out."""
    versions = []
    for step in _steps(name):
        for event in step["response"].get("events", ()):
            version = "v1" if not group else f"{group}/v1"
            versions.append({"apiVersion": version, **event["object"]})
    return versions


def items_of(name: str, kind: str) -> list[JsonObject]:
    """The items of a list in a recording, each with its kind, which lists leave out."""
    items = []
    for step in _steps(name):
        body = step["response"].get("body")
        if isinstance(body, dict) and body.get("kind") == f"{kind}List":
            items += [{"kind": kind, **item} for item in body["items"]]
    return items


def group_kind(body: JsonObject) -> GroupKind:
    group, slash, _ = str(body["apiVersion"]).partition("/")
    return GroupKind(group if slash else "", str(body["kind"]))
