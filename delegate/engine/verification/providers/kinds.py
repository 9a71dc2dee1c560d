"""What each type of source is to the others: one small declaration, and one function that asks and reads."""

from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import quote

import msgspec

from delegate.engine.verification.answers import Answer, Window
from delegate.engine.verification.errors import ProviderConfigurationError
from delegate.engine.verification.providers.calls import Calls
from delegate.engine.verification.providers.credentials import BASIC, BEARER, Login
from delegate.engine.verification.providers.entries import SECRETS, Shape


class Question(msgspec.Struct, frozen=True):
    """A query with what the provider's entry says where the query doesn't."""

    text: str
    window: Window
    options: Mapping[str, str] = {}

    def option(self, key: str, default: str = "") -> str:
        return self.options.get(key) or default

    def needed(self, key: str) -> str:
        """Raises ProviderConfigurationError."""
        value = self.options.get(key, "")
        if not value:
            raise ProviderConfigurationError(
                f"the query names no {key}", hint=f"give {key} in the check's parameters, or in the provider's entry"
            )
        return value

    def in_path(self, key: str) -> str:
        """One that becomes a part of a URL's path: nothing in it leads elsewhere."""
        value = self.needed(key)
        if value in (".", ".."):
            raise ProviderConfigurationError(f"{key} {value!r} can't be meant")
        return quote(value, safe="*,")

    def choice(self, key: str, *known: str) -> str:
        """One of the known words, the first by default. Raises ProviderConfigurationError."""
        value = self.option(key, known[0])
        if value not in known:
            raise ProviderConfigurationError(f"{key} is {value!r}", hint=f"it may be {', '.join(known)}")
        return value

    @property
    def is_range(self) -> bool:
        """Whether buckets are wanted, not one number over the window."""
        return self.window.step > 0


Read = Callable[[Calls, Question], Awaitable[Answer]]


class Kind(msgspec.Struct, frozen=True):
    """A type of source. `settings` may stand in an entry, `parameters` in a query; `right`: what its credentials must be allowed to;
    `grain`: the width in seconds of buckets that it answers with before they are over."""

    types: tuple[str, ...]
    read: Read
    logins: tuple[Login, ...] = (BASIC, BEARER)
    settings: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    address: Callable[[Mapping[str, str]], str] | None = None
    right: str = ""
    grain: float = 0.0

    @property
    def shape(self) -> Shape:
        """What an entry may hold."""
        needs = [login.needs for login in self.logins]
        secrets = frozenset(key for login in needs for key in login if key in SECRETS)
        settings = frozenset((*self.settings, *(key for login in needs for key in login if key not in SECRETS)))
        return Shape(settings, secrets, tuple(needs), self.address)


def milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def nanoseconds(seconds: float) -> int:
    return milliseconds(seconds) * 1_000_000
