"""Objects as tables, the form in which kubectl asks for lists: name and age, and for custom kinds their printer columns."""

from delegate.model.resources import JsonObject
from delegate.simulator.kinds import Resource


def table_of(resource: Resource, bodies: list[JsonObject], version: str, now: str) -> JsonObject:
    columns = [
        {"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0},
        {"name": "Age", "type": "string", "format": "", "description": "", "priority": 0},
    ]
    rows = [
        {
            "cells": [body["metadata"].get("name", ""), body["metadata"].get("creationTimestamp", "")],
            "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": body["metadata"]},
        }
        for body in bodies
    ]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": version},
        "columnDefinitions": columns,
        "rows": rows,
    }
