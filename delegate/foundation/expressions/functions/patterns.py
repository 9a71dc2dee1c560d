"""Regular expressions (the regex library of Kubernetes). `text.matches(pattern)` is the interpreter's own and linear in time.

These run on Python's engine, which goes back over its steps: a pattern whose repetitions stand in each other, or that refers back, could
keep it busy for ever, and RE2 has no words for half of them. Such patterns are refused, and the text is bounded.
"""

import functools
import re
from typing import Any

from delegate.foundation.expressions.functions.kinds import Functions, number, text

MOST_CHARACTERS = 65_536
_PIECE = re.compile(
    r"(?P<back>\\[1-9]|\(\?(?:[=!]|<[=!]|P=))|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(?P<open>\()|(?P<close>\))|(?P<repeat>[*+]|\{\d*,?\d*\})|.",
    re.DOTALL,
)


@functools.lru_cache(maxsize=256)
def _compiled(pattern: str) -> "re.Pattern[str]":
    _refuse_dear(pattern)
    try:
        return re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        raise ValueError("no valid regular expression") from None


def _refuse_dear(pattern: str) -> None:
    """Whether a group that is repeated holds a repetition; for each open group, whether it holds one."""
    holding, closed = [False], False
    for piece in _PIECE.finditer(pattern):
        if piece["back"]:
            raise ValueError("regular expression refers back or looks around, which RE2 does not know")
        if piece["repeat"]:
            if closed:
                raise ValueError("regular expression has a repetition inside of a repetition; use matches() for it")
            holding[-1] = True
        closed = False
        if piece["open"]:
            holding.append(False)
        elif piece["close"] and len(holding) > 1:
            closed = holding.pop()
            holding[-1] = holding[-1] or closed


def _bounded(value: Any) -> str:
    if len(text(value)) > MOST_CHARACTERS:
        raise ValueError("text too long to search")
    return text(value)


def find(value: Any, pattern: Any) -> str:
    """The first match, empty for none."""
    match = _compiled(text(pattern)).search(_bounded(value))
    return match[0] if match else ""


def find_all(value: Any, pattern: Any, limit: Any = -1) -> list[str]:
    found = (match[0] for match in _compiled(text(pattern)).finditer(_bounded(value)))
    most = number(limit)
    return list(found) if most < 0 else [match for match, _ in zip(found, range(most), strict=False)]


def matches(value: Any, pattern: Any) -> bool:
    return _compiled(text(pattern)).search(_bounded(value)) is not None


FUNCTIONS: Functions = {"find": find, "findAll": find_all, "matches": matches}
