"""What printers are made of: columns, and the cells that many kinds share."""

from collections.abc import Callable
from typing import Any

import msgspec

from delegate.model.resources import JsonObject
from delegate.simulator.selectors import shown_selector
from delegate.simulator.times import elapsed

NONE = "<none>"
UNSET = "<unset>"
WORKLOAD = "Containers+, Images+, Selector+"


class Column(msgspec.Struct, frozen=True):
    name: str
    type: str = "string"
    format: str = ""
    priority: int = 0

    def body(self) -> JsonObject:
        return {"name": self.name, "type": self.type, "format": self.format, "description": "", "priority": self.priority}


class Printer(msgspec.Struct, frozen=True):
    """The columns of a kind and the cells of one object, in that order."""

    columns: tuple[Column, ...]
    cells: Callable[[JsonObject, str], list[Any]]


def columns(text: str) -> tuple[Column, ...]:
    """`Ready`, `Desired:integer`, `Images+` (for wide output only)."""
    found = [Column("Name", "string", "name")]
    for part in text.split(","):
        name, _, kind = part.strip().rstrip("+").partition(":")
        found.append(Column(name, kind or "string", "", 1 if part.strip().endswith("+") else 0))
    return tuple(found)


def name_of(body: JsonObject) -> str:
    name: str = body["metadata"].get("name", "")
    return name


def age_of(body: JsonObject, now: str) -> str:
    return elapsed(body["metadata"].get("creationTimestamp"), now)


def status_of(body: JsonObject) -> JsonObject:
    return body.get("status") or {}


def leaves(body: JsonObject) -> bool:
    return bool(body["metadata"].get("deletionTimestamp"))


def pod_spec_of(body: JsonObject) -> JsonObject:
    template = body["spec"].get("template") or body["spec"].get("jobTemplate", {}).get("spec", {}).get("template") or {}
    return template.get("spec") or {}


def containers_of(spec: JsonObject) -> list[str]:
    containers = spec.get("containers") or ()
    return [",".join(item.get("name", "") for item in containers), ",".join(item.get("image", "") for item in containers)]


def selected(selector: Any) -> str:
    return (shown_selector(selector) if selector else "") or NONE


def labelled(selector: Any) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((selector or {}).items())) or NONE


def only_age(body: JsonObject, now: str) -> list[Any]:
    return [name_of(body), age_of(body, now)]


def created(body: JsonObject, _now: str) -> list[Any]:
    return [name_of(body), body["metadata"].get("creationTimestamp", "")]
