"""Objects as tables, the form in which kubectl asks for lists (meta.k8s.io `Table`).

Built-in kinds have the columns of the server's printers, custom kinds their definition's.
"""

import re
from typing import Any

import msgspec

from delegate.model.resources import JsonObject
from delegate.simulator import columns
from delegate.simulator.kinds import Resource
from delegate.simulator.times import elapsed

_NAME = columns.Column("Name", "string", "name")
_CREATED = columns.Column("Created At", "date")
_STEP = re.compile(r"\.?([A-Za-z0-9_$-]+)|\[(-?\d+)\]|\[['\"]([^'\"]+)['\"]\]|\[\?\(@\.([\w.-]+)\s*==\s*['\"]([^'\"]*)['\"]\)\]|(\[\*\])")


def table_of(resource: Resource, bodies: list[JsonObject], version: str, now: str, include: str = "") -> JsonObject:
    """`include` says what of each object comes along: None, Metadata or Object."""
    printer = columns.PRINTERS.get((resource.group, resource.kind))
    if resource.definition is not None:
        shown, cells = _custom_columns(resource.definition.columns), _custom_cells
    elif printer is not None:
        shown, cells = printer.columns, None
    else:
        shown, cells = (_NAME, _CREATED), None
    rows = []
    for body in bodies:
        metadata = body["metadata"]
        if cells is not None and resource.definition is not None:
            values = cells(body, resource.definition.columns, now)
        elif printer is not None:
            values = printer.cells(body, now)
        else:
            values = [metadata.get("name", ""), metadata.get("creationTimestamp", "")]
        rows.append({"cells": values, "object": _included(body, include)})
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": version},
        "columnDefinitions": [column.body() for column in shown],
        "rows": rows,
    }


def _included(body: JsonObject, include: str) -> JsonObject | None:
    match include:
        case "None":
            return None
        case "Object":
            return body
        case _:
            return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": body["metadata"]}


def _custom_columns(defined: tuple[JsonObject, ...]) -> tuple[columns.Column, ...]:
    if not defined:
        return (_NAME, columns.Column("Age", "date"))
    found = [columns.Column(item["name"], item["type"], item.get("format", ""), item.get("priority", 0)) for item in defined]
    return (_NAME, *found)


def _custom_cells(body: JsonObject, defined: tuple[JsonObject, ...], now: str) -> list[Any]:
    metadata = body["metadata"]
    cells: list[Any] = [metadata.get("name", "")]
    if not defined:
        return [*cells, elapsed(metadata.get("creationTimestamp"), now)]
    for column in defined:
        value = _at(body, column["jsonPath"])
        if column["type"] == "date":
            cells.append(elapsed(value, now) if isinstance(value, str) else None)
        elif isinstance(value, dict | list) or (column["type"] == "string" and value is not None and not isinstance(value, str)):
            cells.append(_shown(value))
        else:
            cells.append(value)
    return cells


def _at(body: Any, path: str) -> Any:
    """What a simple JSON path leads to (fields, indexes, one filter by equality); None where it leads nowhere."""
    values = [body]
    for field, index, quoted, filtered, wanted, every in _STEP.findall(path):
        below: list[Any] = []
        for value in values:
            if every and isinstance(value, list):
                below += value
            elif filtered and isinstance(value, list):
                below += [item for item in value if str(_at(item, f".{filtered}")) == wanted]
            elif index and isinstance(value, list):
                below += value[int(index) : int(index) + 1 or None]
            elif (field or quoted) and isinstance(value, dict) and (field or quoted) in value:
                below.append(value[field or quoted])
        values = below
    if not values:
        return None
    return values[0] if len(values) == 1 else ",".join(str(value) for value in values)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
