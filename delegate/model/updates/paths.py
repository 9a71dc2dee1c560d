"""Ways to a field, as people write them: `spec.containers[name=main].image`, or as a JSON pointer (RFC 6901).

In the dotted form, a key that holds other characters stands in brackets and quotes: `data["app.version"]`.
"""

import re
from typing import NamedTuple

from delegate.model.pointers import steps_of
from delegate.model.updates.errors import UpdateSpecError


class Key(NamedTuple):
    """A member of a mapping; of a list too, where it is a number that came from a pointer."""

    name: str

    def __str__(self) -> str:
        return self.name


class Index(NamedTuple):
    position: int

    def __str__(self) -> str:
        return f"[{self.position}]"


class Match(NamedTuple):
    """The member of a list whose field `name` has a value: `[name=main]`."""

    name: str
    value: str

    def __str__(self) -> str:
        return f"[{self.name}={self.value}]"


Step = Key | Index | Match
_HINT = 'write spec.containers[name=main].image, data["app.version"], or /spec/replicas'
_STEP = re.compile(
    r"""\[(?P<index>[0-9]{1,6})\]
      | \["(?P<double>[^"\]]+)"\] | \['(?P<single>[^'\]]+)'\]
      | \[(?P<field>[A-Za-z0-9_./-]+)=(?P<value>[^\[\]]+)\]
      | (?P<dot>\.?)(?P<key>[^.\[\]]+)""",
    re.VERBOSE,
)


def parse_path(text: str) -> tuple[Step, ...]:
    """The steps of a path. Raises UpdateSpecError."""
    if text.startswith("/"):
        return tuple(map(Key, steps_of(text)))
    steps: list[Step] = []
    position = 0
    while position < len(text):
        found = _STEP.match(text, position)
        if found is None or (found["key"] is not None and bool(found["dot"]) != bool(steps)):
            raise UpdateSpecError(f"{text!r} is no path: it can't be read from {text[position:]!r} on", hint=_HINT)
        position = found.end()
        steps.append(_step(found))
    if not steps:
        raise UpdateSpecError("an edit has no path", hint=_HINT)
    return tuple(steps)


def _step(found: re.Match[str]) -> Step:
    if found["index"] is not None:
        return Index(int(found["index"]))
    if found["field"] is not None:
        return Match(found["field"], found["value"].strip("\"'"))
    return Key(found["double"] or found["single"] or found["key"])


def show_path(steps: tuple[Step, ...]) -> str:
    """A path as it is written in messages."""
    shown = ""
    for step in steps:
        if isinstance(step, Key):
            quoted = not re.fullmatch(r"[^.\[\]]+", step.name)
            shown += f'["{step.name}"]' if quoted else f".{step.name}" if shown else step.name
        else:
            shown += str(step)
    return shown
