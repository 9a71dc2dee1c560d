"""An Application's kustomize options, written into a kustomization as `kustomize edit` writes them. Pure.

Argo CD edits the kustomization itself, and puts no other on top: a prefix takes the place of the one that is there, images
and replicas win by name, patches and components come after those that are there.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from delegate.engine.sources.errors import KustomizationError
from delegate.engine.sources.kustomize.documents import Reference, Role
from delegate.engine.sources.variables import substitute
from delegate.model.resources import JsonObject
from delegate.model.sources import KustomizeOptions

_KEPT = "*"
_OPTIONS = "spec.source.kustomize"


def references_of_options(options: KustomizeOptions, components: Iterable[str]) -> list[Reference]:
    """The paths that options mention, as if they stood in the kustomization already."""
    found = [Reference(text, Role.DIRECTORY, ()) for text in components]
    return found + [Reference(patch.path, Role.FILE, ()) for patch in options.patches if patch.path]


def edit(body: JsonObject, options: KustomizeOptions, components: Sequence[str], variables: Mapping[str, str]) -> JsonObject:
    """The kustomization with the options in it. `components` are those of the options that are to be added.

    Raises KustomizationError for options that say nothing, or that clash with the kustomization.
    """
    edited = _Edited(body)
    for field, text in (("namePrefix", options.name_prefix), ("nameSuffix", options.name_suffix), ("namespace", options.namespace)):
        if text:
            edited.set(field, text)
    if options.images:
        edited.set("images", _images(edited, [substitute(image, variables) for image in options.images]))
    if options.replicas:
        edited.set("replicas", _replicas(edited, options))
    labels = {name: substitute(value, variables) for name, value in options.common_labels.items()}
    if labels and options.label_without_selector:
        _add_labels(edited, labels, options)
    elif labels:
        _add_to_map(edited, "commonLabels", labels, force=options.force_common_labels)
    annotations = options.common_annotations
    if options.common_annotations_envsubst:
        annotations = {name: substitute(value, variables) for name, value in annotations.items()}
    if annotations:
        _add_to_map(edited, "commonAnnotations", annotations, force=options.force_common_annotations)
    if options.patches:
        edited.set("patches", [*edited.items("patches"), *msgspec.to_builtins(options.patches)])
    if components:
        edited.set("components", [*edited.items("components"), *(each for each in components if each not in edited.items("components"))])
    return edited.body


class _Edited:
    """A copy that fields are set in, whatever the case that their names are written in."""

    def __init__(self, body: JsonObject) -> None:
        self.body = dict(body)

    def get(self, field: str) -> object:
        return self.body.get(self._name(field))

    def set(self, field: str, value: object) -> None:
        self.body[self._name(field)] = value

    def items(self, field: str) -> list[object]:
        value = self.get(field)
        if value is not None and not isinstance(value, list):
            raise KustomizationError(f"{field} is no list", hint="the options of the Application add to it")
        return list(value or [])

    def _name(self, field: str) -> str:
        return next((name for name in self.body if name.lower() == field.lower()), field)


def _images(edited: _Edited, wanted: Sequence[str]) -> list[JsonObject]:
    images = {image["name"]: image for image in map(_read_image, wanted)}
    for present in (*edited.items("images"), *edited.items("imageTags")):
        if not isinstance(present, dict) or not isinstance(present.get("name"), str):
            continue
        name = present["name"]
        if name in images:
            kept = {field: present.get(field, "") for field, value in images[name].items() if value == _KEPT}
            images[name] |= kept
        else:
            images[name] = present
    edited.body.pop("imageTags", None)
    found = [{field: value for field, value in image.items() if value not in ("", _KEPT)} for image in images.values()]
    return sorted(found, key=lambda image: str(image.get("name")))


def _read_image(text: str) -> JsonObject:
    """`name:tag`, `name@digest`, `name=new`, `name=new:tag@digest`; `*` keeps what is there."""
    name, equals, value = text.partition("=")
    new, tag, digest = split_image(value if equals else text)
    if not equals and not tag and not digest:
        hint = "write name:tag, name@digest, name=new-name or name=new-name:tag"
        raise KustomizationError(f"{_OPTIONS}.images: {text!r} changes nothing", hint=hint)
    return {"name": name, "newName": new, "newTag": tag, "digest": digest} if equals else {"name": new, "newTag": tag, "digest": digest}


def split_image(text: str) -> tuple[str, str, str]:
    """Name, tag and digest of an image."""
    rest, _, digest = text.partition("@")
    slash = rest.rfind("/")
    colon = rest.find(":", slash + 1)
    return (rest, "", digest) if colon < 0 else (rest[:colon], rest[colon + 1 :], digest)


def _replicas(edited: _Edited, options: KustomizeOptions) -> list[JsonObject]:
    replicas: dict[str, JsonObject] = {}
    for present in edited.items("replicas"):
        if isinstance(present, dict):
            replicas[str(present.get("name"))] = present
    for wanted in options.replicas:
        try:
            replicas[wanted.name] = {"name": wanted.name, "count": int(wanted.count)}
        except ValueError:
            raise KustomizationError(f"{_OPTIONS}.replicas: {wanted.count!r} of {wanted.name} is no number") from None
    return [replicas[name] for name in sorted(replicas)]


def _add_to_map(edited: _Edited, field: str, wanted: Mapping[str, str], *, force: bool) -> None:
    present = edited.get(field) or {}
    if not isinstance(present, dict):
        raise KustomizationError(f"{field} is no mapping", hint="the options of the Application add to it")
    edited.set(field, _added(present, field, wanted, force=force))


def _add_labels(edited: _Edited, wanted: Mapping[str, str], options: KustomizeOptions) -> None:
    """Into the first entry of `labels` of the same kind."""
    entries = edited.items("labels")
    for index, entry in enumerate(entries):
        same = isinstance(entry, dict) and not entry.get("includeSelectors")
        if same and isinstance(entry, dict) and bool(entry.get("includeTemplates")) == options.label_include_templates:
            entries[index] = {**entry, "pairs": _added(entry.get("pairs") or {}, "labels", wanted, force=options.force_common_labels)}
            break
    else:
        new: JsonObject = {"pairs": dict(wanted)}
        entries.append(new | {"includeTemplates": True} if options.label_include_templates else new)
    edited.set("labels", entries)


def _added(present: JsonObject, field: str, wanted: Mapping[str, str], *, force: bool) -> JsonObject:
    clashes = sorted(present.keys() & wanted.keys())
    if clashes and not force:
        forced = "forceCommonAnnotations" if field == "commonAnnotations" else "forceCommonLabels"
        hint = f"say {forced}: true to take their place"
        raise KustomizationError(f"{_OPTIONS}: {', '.join(clashes)} stands in the kustomization's {field} already", hint=hint)
    return {**present, **wanted}
