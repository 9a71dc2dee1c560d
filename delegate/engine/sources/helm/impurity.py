"""Charts that render anew each time, or that ask the cluster. Pure.

What a template draws by lot changes with every render, so each sync would change the cluster: such leaves are found by
rendering twice. `lookup` finds nothing, because a render reaches no cluster.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from delegate.engine.sources.helm.defaults import PACKED, unpack
from delegate.engine.sources.loader.files import SourceFile
from delegate.model.resources import Manifest

_IMPURE = re.compile(
    rb"\b(?:rand(?:AlphaNum|Alpha|Ascii|Numeric|Bytes|Int)|uuidv4|genPrivateKey|gen(?:CA|SelfSignedCert|SignedCert)(?:WithKey)?|now|ago"
    rb"|htpasswd|bcrypt|encryptAES|shuffle|unixEpoch|getHostByName)\b"
)
_LOOKUP = re.compile(rb"\blookup\s+[\"'(.$]")
_IN_TEMPLATES, _TEXTS = re.compile("/templates/"), re.compile("/templates/|values[^/]*$|^/values/")
_TEMPLATE = (".yaml", ".yml", ".tpl", ".json", ".txt", ".tmpl")


def mentions_chance(files: Iterable[SourceFile]) -> bool:
    """Whether a template calls what gives another answer each time."""
    return any(_IMPURE.search(data) for data in _templates(files))


def mentions_lookup(files: Iterable[SourceFile]) -> bool:
    """Whether a template asks the cluster, or a value that may be made a template of (`tpl`)."""
    return any(_LOOKUP.search(data) for data in _templates(files, _TEXTS))


def differing_leaves(first: Sequence[Manifest], second: Sequence[Manifest]) -> list[str]:
    """Where two renders of the same differ: `Secret web: data.password`. Never a value."""
    found: list[str] = []
    if len(first) != len(second):
        return ["the number of objects"]
    for one, other in zip(first, second, strict=True):
        if one.body != other.body:
            name = f"{one.kind} {one.name or one.generate_name}"
            found += [f"{name}: {path}" for path in sorted(set(_differing(one.body, other.body, "")))]
    return found


def _differing(one: object, other: object, path: str) -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        for key, value in one.items():
            yield from _differing(value, other[key], f"{path}.{key}" if path else str(key))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, value in enumerate(one):
            yield from _differing(value, other[index], f"{path}[{index}]")
    elif one != other:
        yield path


def _templates(files: Iterable[SourceFile], places: re.Pattern[str] = _IN_TEMPLATES) -> Iterator[bytes]:
    for path, data in files:
        if path.endswith(PACKED):
            yield from _templates((SourceFile(f"/{name}", content) for name, content in unpack(data).items()), places)
        elif places.search(f"/{path}") and path.endswith(_TEMPLATE):
            yield data
