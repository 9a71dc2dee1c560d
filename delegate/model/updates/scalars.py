"""How a value is written in the place of another one: in its quotes where it has some, plain where that means the same to all.

What a plain scalar means differs: `1e3` and `12e5` are texts to YAML 1.1 and numbers to Go's reader, `0o17` the other way round,
`1.10` is the number 1.1 to both. A text that any of them could take for something else is quoted.
"""

import math
import re

from delegate.model.updates.texts import Scalar, resolves_to_text

Value = str | int | float | bool | None

_PLAIN = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./@+-]*(?::[A-Za-z0-9_./@+-]+)*")
_LIKE_A_NUMBER = re.compile(
    r"""[-+]?(?:[0-9][0-9_]*)?\.?[0-9_]*(?:[eE][-+]?[0-9]+)?     # 1, 1.10, .5, 1e3, 12e5
      | [-+]?0[xXoObB][0-9a-fA-F_]+
      | [-+]?[0-9_]+(?::[0-9_]+)+(?:\.[0-9_]*)?                  # sexagesimal
      | [0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*                         # dates
      | [-+]?\.(?:inf|nan)
      | =|<<|null|true|false|yes|no|on|off|y|n""",
    re.VERBOSE | re.IGNORECASE,
)
_SHORT_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def write_scalar(value: Value, old: Scalar | None = None) -> str:
    """The text of a value; where a quoted text stands, a number is written as a text too."""
    quote = old.style if old is not None else ""
    if not isinstance(value, str):
        text = _write_number(value)
        return text if quote not in ("'", '"') or value is None else _quoted(text, quote)
    if quote in ("'", '"'):
        return _quoted(value, quote)
    return value if stays_text(value) else _quoted(value, '"')


def value_text(value: Value) -> str:
    """What a reader of the written scalar gets, before it is told what type that is."""
    return value if isinstance(value, str) else _write_number(value)


def stays_text(value: str) -> bool:
    """Whether a text, written plain, is that text to every reader of YAML."""
    return bool(_PLAIN.fullmatch(value)) and not _LIKE_A_NUMBER.fullmatch(value) and resolves_to_text(value)


def _write_number(value: int | float | bool | None) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    return repr(value)


def _quoted(value: str, quote: str) -> str:
    if quote == "'" and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    return '"' + "".join(_escaped(character) for character in value) + '"'


def _escaped(character: str) -> str:
    if character in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
