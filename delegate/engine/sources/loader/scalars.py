"""What a plain scalar means, exactly as kubectl reads it.

kubectl decodes YAML through sigs.k8s.io/yaml, whose scalars are those of go-yaml v2 (`resolve.go`): YAML 1.1 words for
booleans, Go's integer literals with underscores anywhere, no base 60, timestamps left as text. A float that is a whole
number of 64 bits becomes an integer, because JSON stands in between.
"""

import re

Scalar = str | int | float | bool | None

LEADS = frozenset("+-.0123456789~fFnNoOtTyY")
"""First characters of everything that may mean something else than its own text."""

_TRUE = ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON")
_FALSE = ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF")
_NULL = ("", "~", "null", "Null", "NULL")
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(_TRUE, True),
    **dict.fromkeys(_FALSE, False),
    **dict.fromkeys(_NULL),
}
_NOT_FINITE = frozenset(
    (".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF"),
)
_INTEGER = re.compile(r"([+-]?)(?:0[xX]([0-9a-fA-F]+)|0[oO]([0-7]+)|0[bB]([01]+)|0([0-7]*)|([1-9][0-9]*))")
_SIGNED_BINARY = re.compile(r"0b([+-][01]+)")
"""Go's own integer syntax has no such thing, but go-yaml cuts `0b` off and tries again."""
_DIGITS = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_POINT_FLOAT = re.compile(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?")
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1
_LONGEST_NUMBER = 400


class UnrepresentableError(ValueError):
    """A number that 64 bits or JSON can't hold; its text says why."""


def resolve_plain(text: str) -> Scalar:
    """The value of an untagged plain scalar. Raises UnrepresentableError."""
    if not text:
        return None
    lead = text[0]
    if lead not in LEADS:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if lead in "0123456789+-.":
        return _number(text)
    return text


def resolve_tagged(tag: str, text: str) -> Scalar:
    """The value of a scalar with a core tag (`int`, `float`, `bool`, `null`, `timestamp`).

    Raises UnrepresentableError, and ValueError where the text is none of that.
    """
    if tag == "timestamp":
        return text
    value = resolve_plain(text)
    fits = {
        "int": isinstance(value, int) and not isinstance(value, bool),
        "float": isinstance(value, (int, float)) and not isinstance(value, bool),
        "bool": isinstance(value, bool),
        "null": value is None,
    }
    if not fits[tag]:
        raise ValueError(f"the value is no {tag}")
    return value


def integer_or_float(number: float) -> int | float:
    """A decoded float as JSON carries it between Go programs: whole numbers of 64 bits are integers."""
    return int(number) if number.is_integer() and _SMALLEST <= number <= _LARGEST else number


def bounded_integer(value: int) -> int:
    """The integer itself. Raises UnrepresentableError where 64 bits can't hold it."""
    if _SMALLEST <= value <= _LARGEST:
        return value
    raise UnrepresentableError("integer outside 64 bits, which would be rounded; quote it if it is a text")


def _number(text: str) -> Scalar:
    if text in _NOT_FINITE:
        raise UnrepresentableError("a number that JSON can't hold; quote it if it is a text")
    if text[0] == ".":
        return _float(text.replace("_", ""), text) if _POINT_FLOAT.fullmatch(text) else text
    plain = text.replace("_", "")
    integer = _INTEGER.fullmatch(plain)
    if integer is not None:
        return _integer(integer, plain)
    if _FLOAT.fullmatch(plain) is None:
        binary = _SIGNED_BINARY.fullmatch(plain)
        return bounded_integer(int(binary[1], 2)) if binary else text
    if _DIGITS.fullmatch(plain) and len(plain) > 15:
        # Digits with a leading zero that are no octal number: go-yaml reads them as a float, and rounds.
        return bounded_integer(_decimal(plain))
    return _float(plain, text)


def _integer(match: re.Match[str], plain: str) -> int:
    sign, hexadecimal, octal, binary, old_octal, decimal = match.groups()
    for digits, base in ((hexadecimal, 16), (octal, 8), (binary, 2), (old_octal, 8)):
        if digits is not None:
            value = int(digits or "0", base)
            break
    else:
        value = _decimal(decimal)
    return bounded_integer(-value if sign == "-" else value)


def _decimal(digits: str) -> int:
    if len(digits) > _LONGEST_NUMBER:
        raise UnrepresentableError("integer outside 64 bits, which would be rounded; quote it if it is a text")
    return int(digits)


def _float(plain: str, text: str) -> int | float | str:
    number = float(plain)
    if number in (float("inf"), float("-inf")):
        return text
    return integer_or_float(number)
