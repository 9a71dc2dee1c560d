"""Regular expressions as the server reads them: RE2's, which takes what Python's own refuses (`a(?i)b`) and the other way round."""

import functools
from typing import Any

import re2

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False


class InvalidPatternError(ValueError):
    """A pattern that RE2 does not take; the text is RE2's."""


@functools.lru_cache(maxsize=2048)
def _compiled(pattern: str) -> Any:
    try:
        return re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        words = error.args[0] if error.args else ""
        raise InvalidPatternError(words.decode() if isinstance(words, bytes) else str(words)) from error


def check_pattern(pattern: str) -> None:
    """Raises InvalidPatternError."""
    _compiled(pattern)


def finds(pattern: str, text: str) -> bool:
    """Whether a pattern is somewhere in a text. Raises InvalidPatternError."""
    return _compiled(pattern).search(text) is not None
