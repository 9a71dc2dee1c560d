"""Where a path leads in the documents of a file: to exactly one scalar, or to a refusal that says why."""

import difflib
from collections.abc import Iterator

from delegate.model.updates.errors import AmbiguousEditError, EditNotFoundError, NotScalarError
from delegate.model.updates.paths import Index, Key, Match, Step, show_path
from delegate.model.updates.texts import Alias, AnyNode, ListNode, Mapping, Scalar, YamlText


def find_scalar(yaml: YamlText, steps: tuple[Step, ...], wanted: str = "") -> Scalar:
    """The one scalar that a path leads to; `wanted` names the object (`Deployment/checkout`) among several.

    Raises EditNotFoundError with the nearest name, AmbiguousEditError with the lines, NotScalarError.
    """
    documents = [node for node in yaml.documents if not wanted or _is_object(node, wanted)]
    shown = show_path(steps)
    if not documents:
        what = f"there is no object {wanted}" if wanted else "the file is empty"
        raise EditNotFoundError(what, file=yaml.file, hint=_known_objects(yaml))
    found = [node for document in documents for node in _follow(document, steps)]
    if not found:
        raise EditNotFoundError(f"{shown} is not there", file=yaml.file, hint=_nearest(documents[0], steps))
    if len(found) > 1:
        lines = ", ".join(str(node.line) for node in found[:10])
        hint = "name the object (object: Deployment/checkout), or the member by [name=...]"
        raise AmbiguousEditError(f"{shown} is there {len(found)} times, on the lines {lines}", file=yaml.file, hint=hint)
    return _as_scalar(found[0], shown, yaml.file)


def _as_scalar(node: AnyNode, shown: str, file: str) -> Scalar:
    match node:
        case Scalar(decorated=True):
            raise NotScalarError(
                f"{shown} carries an anchor or a tag", file=file, line=node.line, hint="edit it by hand: others may follow it"
            )
        case Scalar(style=style) if style in ("|", ">"):
            raise NotScalarError(f"{shown} is a block of text", file=file, line=node.line, hint="an edit sets a value on one line")
        case Scalar():
            return node
        case Alias():
            raise NotScalarError(f"{shown} is an alias", file=file, line=node.line, hint="edit what it stands for")
        case Mapping():
            raise NotScalarError(f"{shown} is a mapping, not a scalar", file=file, line=node.line, hint="go on to one of its fields")
        case ListNode():
            raise NotScalarError(f"{shown} is a list, not a scalar", file=file, line=node.line, hint="go on to one of its members")


def _follow(node: AnyNode, steps: tuple[Step, ...]) -> Iterator[AnyNode]:
    if not steps:
        yield node
        return
    for child in _children(node, steps[0]):
        yield from _follow(child, steps[1:])


def _children(node: AnyNode, step: Step) -> Iterator[AnyNode]:
    match node, step:
        case Mapping(), Key(name):
            yield from (value for key, value in node.members if key.value == name)
        case ListNode(), Index(position) if position < len(node.items):
            yield node.items[position]
        case ListNode(), Key(name) if name.isdecimal() and name.isascii() and int(name) < len(node.items):
            yield node.items[int(name)]
        case ListNode(), Match(name, value):
            yield from (item for item in node.items if isinstance(item, Mapping) and item.text_of(name) == value)
        case _:
            return


def _is_object(node: AnyNode, wanted: str) -> bool:
    if not isinstance(node, Mapping):
        return False
    kind, _, name = wanted.partition("/")
    metadata = node.get("metadata")
    return node.text_of("kind") == kind and (not name or (isinstance(metadata, Mapping) and metadata.text_of("name") == name))


def _known_objects(yaml: YamlText) -> str:
    names = []
    for node in yaml.documents:
        metadata = node.get("metadata") if isinstance(node, Mapping) else None
        if isinstance(node, Mapping) and isinstance(metadata, Mapping):
            names.append(f"{node.text_of('kind')}/{metadata.text_of('name')}")
    return f"there are {', '.join(names[:10])}" if names else ""


def _nearest(document: AnyNode, steps: tuple[Step, ...]) -> str:
    """The first step that leads nowhere, and what stands in its place."""
    node = document
    for number, step in enumerate(steps):
        following = next(_children(node, step), None)
        if following is not None:
            node = following
            continue
        where = show_path(steps[:number]) or "the document"
        if isinstance(node, Mapping):
            names = [key.value for key, _ in node.members]
            close = difflib.get_close_matches(str(step), names, n=1, cutoff=0.5)
            return f"did you mean {close[0]} in {where}?" if close else f"{where} has {', '.join(names[:10]) or 'no fields'}"
        if isinstance(node, ListNode):
            return f"{where} is a list of {len(node.items)}"
        return f"{where} ends there"
    return ""
