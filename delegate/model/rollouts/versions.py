"""What makes a version: its pod template, and the content of the configuration that the template refers to.

A ConfigMap that changes under running pods changes them too, so a new version gets copies of its own, named after their content, and the
stable version keeps what it has until it is promoted.
"""

import copy
import hashlib
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from delegate.model.resources import JsonObject
from delegate.model.rollouts.errors import CanarySpecError

CONFIG_ANNOTATION = "delegate.gitops/config"
_canonical = msgspec.json.Encoder(order="deterministic")
_LONGEST_NAME = 253
Reference = tuple[str, str]
"""Kind (ConfigMap or Secret) and name."""


def digest(value: object) -> str:
    """16 hex digits, blind to the order of keys."""
    return hashlib.sha256(_canonical.encode(value)).hexdigest()[:16]


def images_of(template: JsonObject) -> dict[str, str]:
    """The image of each container, by its name."""
    spec = template.get("spec") or {}
    found = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    return {str(each.get("name")): str(each.get("image") or "") for each in found}


def with_images(template: JsonObject, images: Mapping[str, str]) -> JsonObject:
    """A copy with these images. Raises CanarySpecError for a container that the template does not hold."""
    known = images_of(template)
    for name in images:
        if name not in known:
            raise CanarySpecError(
                f"spec.images names the container {name!r}, which the workload doesn't have", hint=f"it has: {', '.join(known)}"
            )
    changed = copy.deepcopy(template)
    for container in _containers(changed):
        container["image"] = images.get(str(container.get("name")), container.get("image"))
    return changed


def config_references(template: JsonObject) -> frozenset[Reference]:
    """The ConfigMaps and Secrets that the containers read, by environment or as files. Pull secrets are no configuration."""
    return frozenset((kind, str(holder[field])) for kind, holder, field in _places(template) if holder.get(field))


def with_copies(template: JsonObject, copies: Mapping[Reference, str]) -> JsonObject:
    """A copy that reads other objects instead."""
    changed = copy.deepcopy(template)
    for kind, holder, field in _places(changed):
        holder[field] = copies.get((kind, str(holder.get(field))), holder.get(field))
    return changed


def content_of(body: JsonObject) -> JsonObject:
    """What of a ConfigMap or Secret its readers see."""
    fields = ("data", "binaryData", "stringData", "type")
    return {field: body[field] for field in fields if body.get(field)}


def copy_name(name: str, content: JsonObject) -> str:
    suffix = digest(content)[:10]
    return f"{name[: _LONGEST_NAME - len(suffix) - 1]}-{suffix}"


def config_copy(body: JsonObject, namespace: str, labels: Mapping[str, str]) -> JsonObject:
    """An object of the same content under a name that says so; nobody changes it."""
    name = str((body.get("metadata") or {}).get("name") or "")
    content = content_of(body)
    return {
        "apiVersion": "v1",
        "kind": body.get("kind"),
        "metadata": {"name": copy_name(name, content), "namespace": namespace, "labels": dict(labels)},
        **content,
        "immutable": True,
    }


def _containers(template: JsonObject) -> Iterator[JsonObject]:
    spec = template.get("spec") or {}
    for field in ("initContainers", "containers"):
        yield from spec.get(field) or ()


def _places(template: JsonObject) -> Iterator[tuple[str, JsonObject, str]]:
    """Where a template names configuration: the kind, the object that holds the name, and its field."""
    for container in _containers(template):
        for source in container.get("envFrom") or ():
            yield from _named(source.get("configMapRef"), source.get("secretRef"))
        for variable in container.get("env") or ():
            value = variable.get("valueFrom") or {}
            yield from _named(value.get("configMapKeyRef"), value.get("secretKeyRef"))
    for volume in (template.get("spec") or {}).get("volumes") or ():
        yield from _of_volume(volume)
        for source in (volume.get("projected") or {}).get("sources") or ():
            yield from _named(source.get("configMap"), source.get("secret"))


def _named(config_map: JsonObject | None, secret: JsonObject | None) -> Iterable[tuple[str, JsonObject, str]]:
    if config_map:
        yield "ConfigMap", config_map, "name"
    if secret:
        yield "Secret", secret, "name"


def _of_volume(volume: JsonObject) -> Iterable[tuple[str, JsonObject, str]]:
    if volume.get("configMap"):
        yield "ConfigMap", volume["configMap"], "name"
    if volume.get("secret"):
        yield "Secret", volume["secret"], "secretName"
