"""What every provider answers, whatever its backend speaks."""

from typing import Protocol

import msgspec


class Window(msgspec.Struct, frozen=True):
    """From when to when evidence counts, in seconds since 1970, and the width of its buckets; 0: one number over the whole of it.

    A point of a bucket carries the time at which its bucket begins, one number over the window the window's end.
    """

    start: float
    end: float
    step: float


class Query(msgspec.Struct, frozen=True):
    """What is asked, after substitution. `parameters` are the provider's own (an index, an account, a reducer)."""

    text: str
    window: Window
    parameters: dict[str, str] = {}


class Series(msgspec.Struct, frozen=True):
    """One series: its labels, and points of time (seconds since 1970) and value; None where the backend says that there is none."""

    points: tuple[tuple[float, float | None], ...]
    labels: dict[str, str] = {}


class Answer(msgspec.Struct, frozen=True):
    """No series is no data, never zero. `partial` and `warnings` make an answer an error unless the task takes them.

    `unit` is the backend's own, empty where it has none. `age_seconds`: how old the answer was when it came, where a cache says so.
    `stale`: a cache said that it could not ask (Warning 110, 111); such an answer proves nothing. `at_least`: each value is
    a lower bound, the backend stopped counting. `digest` stands for the raw bytes. `infos`: what the source remarks on its answer, which
    makes it no worse. `wrong`: why this can't be the answer of a version that is well, whatever number stands in it.
    """

    series: tuple[Series, ...]
    unit: str = ""
    warnings: tuple[str, ...] = ()
    partial: bool = False
    age_seconds: float | None = None
    digest: str = ""
    stale: bool = False
    at_least: bool = False
    infos: tuple[str, ...] = ()
    wrong: str = ""


class Provider(Protocol):
    """One configured source. Credentials are its own and never leave it."""

    @property
    def name(self) -> str: ...

    @property
    def grain(self) -> float:
        """The width of the backend's own buckets, in seconds, of which it answers with unfinished ones too; 0: it has none."""
        ...

    async def read(self, query: Query, *, timeout: float) -> Answer:
        """Raises VerificationError: retryable for 408, 429, 5xx and the network, within the timeout; never for what is wrong for good."""
        ...

    async def close(self) -> None: ...


class Providers(Protocol):
    """All the sources that checks may name."""

    def open(self, *, type: str, provider: str, url: str) -> Provider:
        """The provider of that name, or one of that type for a url that needs no credentials. Whoever opens it closes it.

        Raises ProviderConfigurationError: no such name, a type that its entry hasn't, a type that there isn't.
        """
        ...
