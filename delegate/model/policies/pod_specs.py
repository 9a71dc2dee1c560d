"""Where in an object its pods are described."""

from collections.abc import Iterator
from typing import Any

from delegate.model.resources import JsonObject

_TEMPLATES = (("spec",), ("spec", "template", "spec"), ("spec", "jobTemplate", "spec", "template", "spec"))
_LISTS = ("initContainers", "containers", "ephemeralContainers")


def pod_spec_of(body: JsonObject) -> tuple[str, JsonObject] | None:
    """The pod spec of a Pod, of a CronJob, or of anything that has a pod template, and the way to it."""
    for way in _TEMPLATES:
        found: Any = body
        for name in way:
            found = found.get(name) if isinstance(found, dict) else None
        if isinstance(found, dict) and isinstance(found.get("containers"), list):
            return ".".join(way), found
    return None


def containers_of(body: JsonObject, lists: tuple[str, ...] = _LISTS) -> Iterator[tuple[str, JsonObject]]:
    """Every container with the way to it, init and ephemeral ones too unless only some lists are asked for."""
    found = pod_spec_of(body)
    if found is None:
        return
    way, spec = found
    for name in lists:
        containers = spec.get(name)
        for index, container in enumerate(containers if isinstance(containers, list) else ()):
            if isinstance(container, dict):
                yield f"{way}.{name}[{index}]", container
