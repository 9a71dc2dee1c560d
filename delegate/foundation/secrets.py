"""Values that must not be seen: they print as `(hidden)` wherever they end up by accident."""

import hmac
from pathlib import Path
from typing import NoReturn, Self

HIDDEN = "(hidden)"
"""What stands in the place of a masked value, everywhere."""


class Secret:
    """A text whose only way out is `reveal()`. Formatting, repr, pickling and JSON encoders never see it.

    `file` is where it was read, for whoever reads it again when it is replaced there.
    """

    __slots__ = ("_value", "file")

    def __init__(self, value: str, file: Path | None = None) -> None:
        self._value = value
        self.file = file

    def reveal(self) -> str:
        return self._value

    @property
    def shown(self) -> str:
        """What people may see of it."""
        return HIDDEN

    def __str__(self) -> str:
        return self.shown

    def __format__(self, specification: str) -> str:
        return format(self.shown, specification)

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

    @property
    def password(self) -> Secret | None:
        """The part that must not be seen, as written (it may be URL-encoded); None where there is none."""
        rest = _split_scheme(self._value)[2]
        userinfo, at, _ = rest.rpartition("@")
        _, colon, password = userinfo.partition(":")
        return Secret(password if colon else userinfo) if at else None


def hide_credentials(url: str) -> str:
    """The URL with user and password replaced; one that has none, or a bare user as in `ssh://git@host`, unchanged."""
    scheme, separator, rest = _split_scheme(url)
    authority, slash, path = rest.partition("/")
    userinfo, at, address = authority.rpartition("@")
    if at:
        if scheme.lower() in ("http", "https") or ":" in userinfo:
            return f"{scheme}{separator}{HIDDEN}@{address}{slash}{path}"
        return url
    port = authority.rpartition("]")[2].rpartition(":")[2]
    if "@" in path and ":" in authority and not port.isdigit():  # a password with a slash in it
        return f"{scheme}{separator}{HIDDEN}@{path.rpartition('@')[2]}"
    return url


def hide_before_at(text: str) -> str:
    """For messages about what may be no URL at all: everything between the scheme and the last `@` is hidden."""
    scheme, separator, rest = _split_scheme(text)
    _, at, address = rest.rpartition("@")
    return f"{scheme}{separator}{HIDDEN}@{address}" if at else text


def _split_scheme(url: str) -> tuple[str, str, str]:
    scheme, separator, rest = url.partition("://")
    return (scheme, separator, rest) if separator else ("", "", url)
