"""Values that must not be seen: they print as `(hidden)` wherever they end up by accident."""

import hmac
from typing import NoReturn, Self
from urllib.parse import urlsplit, urlunsplit

HIDDEN = "(hidden)"
"""What stands in the place of a masked value, everywhere."""


class Secret:
    """A text whose only way out is `reveal()`. Formatting, repr, pickling and JSON encoders never see it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    @property
    def shown(self) -> str:
        """What people may see of it."""
        return HIDDEN

    def __str__(self) -> str:
        return self.shown

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shown})"

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not pickled")


class SecretUrl(Secret):
    """A URL that may carry credentials; only those are hidden."""

    __slots__ = ()

    @property
    def shown(self) -> str:
        return hide_credentials(self._value)


def hide_credentials(url: str) -> str:
    """The URL with its user and password replaced; any other text unchanged, unparsable URLs hidden whole."""
    if "@" not in url:
        return url
    try:
        parts = urlsplit(url)
    except ValueError:
        return HIDDEN
    userinfo, at, address = parts.netloc.rpartition("@")
    if not at or not userinfo:
        return url if not at else HIDDEN
    return urlunsplit(parts._replace(netloc=f"{HIDDEN}@{address}"))
