"""Compares manifests with the schemas of their kinds."""

import difflib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from delegate.foundation.errors import DelegateError
from delegate.foundation.expressions.functions.quantities import parse_quantity
from delegate.model.errors import SchemaMismatchError, UnknownKindError, located
from delegate.model.pointers import escaped, steps_of
from delegate.model.removals import describe_removal
from delegate.model.resources import GroupKind, Manifest, Origin
from delegate.model.schemas import check_custom_resource, definitions_by_kind
from delegate.model.validation.definitions import Definitions, Schema, definitions

MOST_FAULTS = 20
"""Of one object; the rest says the same."""
_LEFT_OUT = frozenset({"apiVersion", "kind", "status"})
_KEPT_METADATA = frozenset({"creationTimestamp", "managedFields", "resourceVersion", "uid", "generation", "selfLink"})
_NAMES = {dict: "a mapping", list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number"}
_WANTED = {
    "object": "a mapping",
    "array": "a list",
    "string": "text",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "quantity": "a quantity such as 500m or 1Gi",
    "int-or-string": "a whole number or text",
}
_QUOTING = "put it into quotes"

Locate = Callable[[Manifest, str], Origin]


class Fault(NamedTuple):
    """`pointer` is a JSON pointer into the object."""

    pointer: str
    message: str
    hint: str = ""


class Checked(NamedTuple):
    """`unknown` are the kinds that no schema is known for: neither of Kubernetes, nor defined in the set."""

    errors: tuple[DelegateError, ...]
    unknown: tuple[GroupKind, ...]


def check_manifests(manifests: Iterable[Manifest], locate: Locate | None = None) -> Checked:
    """Every fault of a set, in its order, with file and line (of the field, where `locate` tells it) and the nearest known name."""
    manifests = tuple(manifests)
    known, own = definitions(), definitions_by_kind(manifests)
    errors: list[DelegateError] = []
    unknown: dict[GroupKind, None] = {}
    for manifest in manifests:
        definition = own.get(manifest.group_kind)
        schema = known.schema_of(manifest.group, manifest.version, manifest.kind)
        if definition is not None:
            errors += check_custom_resource(manifest, definition)
        elif schema is not None:
            errors += [_located(manifest, fault, locate) for fault in _faults_of(manifest, schema, known)]
        elif fault := _unserved(manifest, known):
            errors.append(fault)
        else:
            unknown[manifest.group_kind] = None
    return Checked(tuple(errors), tuple(unknown))


def _located(manifest: Manifest, fault: Fault, locate: Locate | None) -> DelegateError:
    error = located(SchemaMismatchError, manifest, f"{manifest.key}: {_field(fault.pointer)}: {fault.message}", fault.hint)
    if locate is not None:
        place = locate(manifest, fault.pointer)
        error.file, error.line = place.file, place.line or None
    return error


def _unserved(manifest: Manifest, known: Definitions) -> DelegateError | None:
    """A kind of Kubernetes in a version, or under a group, that the release doesn't have; None for anybody else's kind."""
    removal = describe_removal(manifest.api_version, manifest.kind)
    if removal:
        return located(UnknownKindError, manifest, removal)
    versions = known.versions_of(manifest.group, manifest.kind)
    if versions:
        served = ", ".join(f"{manifest.group}/{version}" if manifest.group else version for version in versions)
        message = f"Kubernetes {known.release} does not serve {manifest.kind} in {manifest.api_version}"
        return located(UnknownKindError, manifest, message, f"it serves {served}: change apiVersion")
    if manifest.group not in known.groups:
        return None
    groups = known.groups_of(manifest.kind)
    names = [key.rpartition("/")[2] for key in known.kinds if key.startswith(f"{manifest.group}/")]
    nearest = difflib.get_close_matches(manifest.kind, names, n=1, cutoff=0.7)
    hint = f"did you mean {nearest[0]}?" if nearest else f"{manifest.kind} is of {' or '.join(groups)}" if groups else ""
    return located(UnknownKindError, manifest, f"Kubernetes {known.release} knows no {manifest.kind} in {manifest.api_version}", hint)


def _faults_of(manifest: Manifest, schema: Schema, known: Definitions) -> list[Fault]:
    body = {name: value for name, value in manifest.body.items() if name not in _LEFT_OUT}
    metadata = body.get("metadata")
    if isinstance(metadata, dict):
        body["metadata"] = {name: value for name, value in metadata.items() if name not in _KEPT_METADATA}
    found: list[Fault] = []
    for fault in _faults(body, schema, known, ""):
        found.append(fault)
        if len(found) == MOST_FAULTS:
            break
    return found


def _faults(value: Any, schema: Schema, known: Definitions, pointer: str) -> Iterator[Fault]:
    schema = known.resolved(schema)
    wanted = schema.get("t")
    if value is None or wanted is None:
        return  # null means "not stated"
    wrong = _wrong_type(value, wanted)
    if wrong:
        yield Fault(pointer, *wrong)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _faults(item, schema.get("i", {}), known, f"{pointer}/{index}")
    elif isinstance(value, dict) and "p" in schema:
        yield from _faults_of_fields(value, schema, known, pointer)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _faults(item, schema.get("v", {}), known, f"{pointer}/{escaped(name)}")


def _faults_of_fields(value: dict[str, Any], schema: Schema, known: Definitions, pointer: str) -> Iterator[Fault]:
    properties: dict[str, Schema] = schema["p"]
    missing = [name for name in schema.get("r", ()) if value.get(name) is None and name not in _LEFT_OUT]
    for name in missing:
        yield Fault(pointer, f"the field {name} is required and missing")
    for name, item in value.items():
        place = f"{pointer}/{escaped(name)}"
        if name in properties:
            yield from _faults(item, properties[name], known, place)
        else:
            yield Fault(place, "there is no such field", _nearest(name, properties))


def _wrong_type(value: Any, wanted: str) -> tuple[str, str] | None:
    """What to say of a value of another type, and what to do; None where it fits."""
    fits = {
        "object": isinstance(value, dict),
        "array": isinstance(value, list),
        "string": isinstance(value, str),
        "boolean": isinstance(value, bool),
        "integer": _is_whole(value),
        "number": isinstance(value, int | float) and not isinstance(value, bool),
        "quantity": _is_quantity(value),
        "int-or-string": isinstance(value, str) or _is_whole(value),
    }
    if fits.get(wanted, True):
        return None
    hint = ""
    if wanted == "string" and isinstance(value, str | int | float):
        hint = _QUOTING
    elif wanted in ("integer", "number") and isinstance(value, str):
        hint = "take off the quotes" if value.strip().lstrip("-").isdecimal() else ""
    elif wanted == "array" and isinstance(value, dict | str):
        hint = "begin each item with a dash"
    return f"is {_NAMES.get(type(value), 'something else')}, and must be {_WANTED.get(wanted, wanted)}", hint


def _is_whole(value: Any) -> bool:
    return not isinstance(value, bool) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))


def _is_quantity(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return False
    try:
        parse_quantity(value if isinstance(value, str) else f"{value:.15g}")
    except ValueError:
        return False
    return True


def _nearest(name: str, properties: Iterable[str]) -> str:
    known = sorted(properties)
    same = [each for each in known if each.lower() == str(name).lower()]
    nearest = same or difflib.get_close_matches(str(name), known, n=1, cutoff=0.6)
    if nearest:
        return f"did you mean {nearest[0]}?"
    return f"known here are {', '.join(known)}" if len(known) <= 12 else ""


def _field(pointer: str) -> str:
    """`/spec/containers/0/image` as people write it; the object itself where it is empty."""
    written = ""
    for name in steps_of(pointer):
        written += f"[{name}]" if name.isdecimal() else f".{name}" if written else name
    return written or "the object"
