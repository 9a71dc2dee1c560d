"""Where an image's tag stands: kustomizations, the values of charts, and manifests.

Where a kustomization sets an image, that is the place, and not the manifests below, which it overrides.
"""

from collections.abc import Iterator
from typing import NamedTuple

from delegate.model.updates.errors import NotScalarError
from delegate.model.updates.splicing import Insertion, Renaming, Replacement, Splice
from delegate.model.updates.texts import AnyNode, ListNode, Mapping, Scalar, YamlText

KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")


class ImagePlaces(NamedTuple):
    """What a file has of an image: entries of a kustomization, and fields of values and manifests."""

    overrides: tuple[Splice, ...] = ()
    fields: tuple[Splice, ...] = ()


def find_image(yaml: YamlText, name: str, reference: str) -> ImagePlaces:
    """The splices that give an image a tag or digest in one file.

    Raises NotScalarError where its tag is an alias, or anchored for others.
    """
    wanted = _Wanted(name, reference)
    fields: list[Splice] = []
    overrides: list[Splice] = []
    is_kustomization = yaml.file.rpartition("/")[2] in KUSTOMIZATIONS
    for document in yaml.documents:
        for mapping, way in _mappings(document, ""):
            if is_kustomization and way.startswith("images["):
                overrides += _kustomized(mapping, way, wanted, yaml.file)
            else:
                fields += _valued(mapping, way, wanted, yaml.file)
                fields += _written(mapping, way, wanted, yaml.file)
    return ImagePlaces(tuple(overrides), tuple(fields))


class _Wanted:
    def __init__(self, name: str, reference: str) -> None:
        self.name = name
        tag, at, digest = reference.partition("@")
        self.is_digest = tag.startswith("sha256:")
        self.tag = "" if self.is_digest else tag
        self.digest = tag if self.is_digest else digest if at else ""
        self.whole = f"{name}@{tag}" if self.is_digest else f"{name}:{reference}"


def _mappings(node: AnyNode, way: str) -> Iterator[tuple[Mapping, str]]:
    """Every mapping of a document with the way to it."""
    if isinstance(node, Mapping):
        yield node, way
        for key, value in node.members:
            yield from _mappings(value, f"{way}.{key.value}" if way else key.value)
    elif isinstance(node, ListNode):
        for number, item in enumerate(node.items):
            yield from _mappings(item, f"{way}[{number}]")


def _kustomized(entry: Mapping, way: str, wanted: _Wanted, file: str) -> Iterator[Splice]:
    """An entry of a kustomization's `images`; a digest in it would win over a tag, so the one takes the other's place."""
    if wanted.name not in (entry.text_of("name"), entry.text_of("newName")):
        return
    members = {key.value: (key, value) for key, value in entry.members}
    field, value, other = ("digest", wanted.digest, "newTag") if wanted.digest else ("newTag", wanted.tag, "digest")
    if field in members:
        yield Replacement(_plain(members[field][1], f"{way}.{field}", file), value, f"{way}.{field}")
        if field == "newTag" and "digest" in members:
            raise NotScalarError(f"{way} has both newTag and digest", file=file, line=entry.line, hint="remove one of them by hand")
    elif other in members:
        key, old = members[other]
        yield Renaming(key, _plain(old, f"{way}.{other}", file), field, value, f"{way}.{field}")
    elif entry.in_flow:
        hint = f"write the entry as a block, or add `{field}` by hand once"
        raise NotScalarError(f"{way} has neither newTag nor digest", file=file, line=entry.line, hint=hint)
    else:
        key, last = entry.members[-1]
        yield Insertion(key, _plain(last, f"{way}.{key.value}", file), field, value, f"{way}.{field}")


def _valued(mapping: Mapping, way: str, wanted: _Wanted, file: str) -> Iterator[Splice]:
    """`repository` and `tag` beside each other, as the values of charts have them; a `registry` may stand there too."""
    tag, repository = mapping.get("tag"), mapping.text_of("repository") or mapping.text_of("name")
    if tag is None or not repository:
        return
    registry = mapping.text_of("registry")
    if wanted.name != repository and (not registry or wanted.name != f"{registry}/{repository}"):
        return
    place = f"{way}." if way else ""
    digest = mapping.get("digest")
    if digest is not None:
        yield Replacement(_plain(digest, f"{place}digest", file), wanted.digest, f"{place}digest")
    elif wanted.is_digest:
        hint = "give the values a digest field, or name a tag"
        raise NotScalarError(f"{place}tag has no digest beside it", file=file, line=mapping.line, hint=hint)
    if wanted.tag:
        tag_with_digest = f"{wanted.tag}@{wanted.digest}" if wanted.digest and digest is None else wanted.tag
        yield Replacement(_plain(tag, f"{place}tag", file), tag_with_digest, f"{place}tag")


def _written(mapping: Mapping, way: str, wanted: _Wanted, file: str) -> Iterator[Splice]:
    """`image: name:tag`, in containers and elsewhere."""
    image = mapping.get("image")
    if isinstance(image, Scalar) and name_of(image.value) == wanted.name:
        place = f"{way}.image" if way else "image"
        yield Replacement(_plain(image, place, file), wanted.whole, place)


def name_of(image: str) -> str:
    """An image's name without tag and digest."""
    bare = image.partition("@")[0]
    head, slash, last = bare.rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}"


def _plain(node: AnyNode, way: str, file: str) -> Scalar:
    if not isinstance(node, Scalar) or node.decorated or node.style in ("|", ">"):
        hint = "write the value there as a plain scalar"
        raise NotScalarError(f"{way} is no scalar of its own", file=file, line=node.line, hint=hint)
    return node
