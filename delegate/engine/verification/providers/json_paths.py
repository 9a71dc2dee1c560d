"""A small part of JSONPath (RFC 9535), enough to name the numbers of a document; pure.

`$.a.b`, `$['a b']`, `$.list[0]`, `[-1]`, `[*]` and `.*`. Braces around it, as kubectl and Argo write, are taken off. Filters, slices and
`..` are refused: a source that needs them is asked better in its own language, and a subset of 60 lines keeps out an interpreter that
would run expressions from tasks.
"""

import re
from typing import NamedTuple

from delegate.engine.verification.errors import ProviderConfigurationError

_STEP = re.compile(
    r"""\.(?P<name>[A-Za-z_\u0080-\uffff][\w\u0080-\uffff-]*)|\.(?P<any>\*)|\[(?P<all>\*)\]|\[(?P<index>-?\d{1,9})\]"""
    r"""|\['(?P<single>[^'\\]*)'\]|\["(?P<double>[^"\\]*)"\]"""
)
_HINT = "write names, indices and * alone, such as $.data.items[0].value or $.results[*].ratio"
_MOST_FOUND = 10_000


class Found(NamedTuple):
    """A value, and where it stands."""

    where: str
    value: object


def find(document: object, path: str) -> list[Found]:
    """Every value at a path, in order. Raises ProviderConfigurationError for a path that can't be meant."""
    text = path.strip()
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1].strip()
    if not text.startswith("$"):
        text = f"${text}" if text.startswith((".", "[")) else f"$.{text}"
    found, position = [Found("$", document)], 1
    while position < len(text):
        step = _STEP.match(text, position)
        if step is None:
            raise ProviderConfigurationError(f"the path {path!r} can't be read from {text[position:]!r} on", hint=_HINT)
        found = [each for one in found for each in _below(one, step)][:_MOST_FOUND]
        position = step.end()
    return found


def _below(one: Found, step: "re.Match[str]") -> list[Found]:
    where, value = one
    if step["any"] or step["all"]:
        if isinstance(value, list):
            return [Found(f"{where}[{index}]", each) for index, each in enumerate(value)]
        return [Found(f"{where}[{key!r}]", each) for key, each in value.items()] if isinstance(value, dict) else []
    if step["index"] is not None:
        index = int(step["index"])
        if not isinstance(value, list) or not -len(value) <= index < len(value):
            return []
        return [Found(f"{where}[{index}]", value[index])]
    name = next(text for text in (step["name"], step["single"], step["double"]) if text is not None)
    return [Found(f"{where}[{name!r}]", value[name])] if isinstance(value, dict) and name in value else []
