"""Strings (`ext.Strings` of cel-go, KEP-2876)."""

from typing import Any

from delegate.foundation.expressions.functions.conversions import to_text
from delegate.foundation.expressions.functions.kinds import NO_OVERLOAD, Functions, items, number, text

MOST_CHARACTERS = 1_000_000
"""What `replace` and `join` may make: an object is not larger."""

_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}


def char_at(value: Any, index: Any) -> str:
    """The empty string just past the end."""
    if not 0 <= number(index) <= len(text(value)):
        raise ValueError("index out of range")
    return text(value)[index : index + 1]


def substring(value: Any, start: Any, end: Any = None) -> str:
    stop = len(text(value)) if end is None else number(end)
    if not 0 <= number(start) <= stop <= len(value):
        raise ValueError("index out of range")
    return text(value)[start:stop]


def replace(value: Any, old: Any, new: Any, limit: Any = -1) -> str:
    count = number(limit)
    times = text(value).count(text(old)) if count < 0 else min(count, value.count(old))
    if len(value) + times * len(text(new)) > MOST_CHARACTERS:
        raise ValueError("text too long")
    return text(value).replace(old, new, count if count >= 0 else -1)


def split(value: Any, separator: Any, limit: Any = -1) -> list[str]:
    """At most `limit` parts; all of them where it is negative, none where it is 0."""
    most = number(limit)
    if most == 0:
        return []
    if text(separator):
        return text(value).split(separator, most - 1 if most > 0 else -1)
    if most < 0 or most >= len(text(value)):
        return list(value)
    return [*value[: most - 1], value[most - 1 :]]


def join(parts: Any, separator: Any = "") -> str:
    if sum(len(text(part)) + len(text(separator)) for part in items(parts)) > MOST_CHARACTERS:
        raise ValueError("text too long")
    return text(separator).join(parts)


def format_text(value: Any, arguments: Any) -> str:
    """`%s`, `%d` and `%%`; the other clauses are not known."""
    given, made = iter(items(arguments)), list[str]()
    parts = text(value).split("%")
    made.append(parts[0])
    rest = iter(parts[1:])
    for part in rest:
        if not part:
            made.append("%" + next(rest, ""))
        elif part[0] in "sd":
            try:
                argument = next(given)
            except StopIteration:
                raise ValueError("more clauses than arguments") from None
            if part[0] == "d":
                number(argument)
            made.append(to_text(argument) + part[1:])
        else:
            raise ValueError(f"unknown formatting clause %{part[0]}")
    return "".join(made)


def last_index_of(value: Any, part: Any, offset: Any = None) -> int:
    if isinstance(value, list):
        raise TypeError(NO_OVERLOAD)
    if offset is None:
        return text(value).rfind(text(part))
    if not 0 <= number(offset) <= len(text(value)):
        raise ValueError("index out of range")
    return text(value).rfind(text(part), 0, offset + len(part))


FUNCTIONS: Functions = {
    "charAt": char_at,
    "format": format_text,
    "join": join,
    "lowerAscii": lambda value: text(value).translate(_LOWER),
    "replace": replace,
    "split": split,
    "substring": substring,
    "trim": lambda value: text(value).strip(),
    "upperAscii": lambda value: text(value).translate(_UPPER),
}
