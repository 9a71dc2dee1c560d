"""Kubernetes resource quantities in their canonical form (apimachinery `resource.Quantity`)."""

import functools
import re
from fractions import Fraction

_FORM = re.compile(r"^([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E|[eE][+-]?[0-9]+)?\Z")
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX = {exponent: suffix for suffix, exponent in _BINARY.items()}
PATTERN = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def parse(text: str | int | float) -> Fraction:
    """The value of a quantity. Raises ValueError."""
    sign, number, suffix = _split(str(text))
    return _value(sign, number, suffix)


def _split(text: str) -> tuple[str, str, str]:
    text = text.strip()
    found = _FORM.match(f"{text}0" if text in ("+", "-") else text)
    if not found:
        raise ValueError(PATTERN)
    return found[1], found[2], found[3] or ""


def _value(sign: str, number: str, suffix: str) -> Fraction:
    value = Fraction(number if not number.endswith(".") else number + "0")
    if suffix in _BINARY:
        value *= 1024 ** _BINARY[suffix]
    elif suffix[:1] in ("e", "E") and suffix != "E":
        value *= Fraction(10) ** int(suffix[1:])
    else:
        value *= Fraction(10) ** _DECIMAL[suffix]
    return -value if sign == "-" else value


@functools.lru_cache(maxsize=4096)
def canonical(text: str) -> str:
    """The form that the server writes: the largest suffix without a fraction, in the notation that was given."""
    sign, number, suffix = _split(text)
    value = _value(sign, number, suffix)
    nano = value * 10**9
    value = Fraction(-(-nano.numerator // nano.denominator), 10**9)
    if value == 0:
        return "0"
    if suffix in _BINARY and abs(value) >= 1024:
        whole = -(-value.numerator // value.denominator)
        exponent = 0
        while whole % 1024 == 0 and exponent < 6:
            whole //= 1024
            exponent += 1
        return f"{whole}{_BINARY_SUFFIX.get(exponent, '')}"
    exponent = -9
    mantissa = int(value * 10**9)
    while mantissa % 1000 == 0 and exponent < 18:
        mantissa //= 1000
        exponent += 3
    if suffix[:1] in ("e", "E") and suffix != "E":
        return f"{mantissa}e{exponent}" if exponent else str(mantissa)
    return f"{mantissa}{_DECIMAL_SUFFIX[exponent]}"
