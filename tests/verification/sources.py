"""Sources that answer as a script says, at the seam that every provider has."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from delegate.engine.verification.answers import Answer, Query, Series
from delegate.engine.verification.errors import (
    ProviderConfigurationError,
    ProviderQuestionError,
    ProviderRefusedError,
    ProviderUnavailableError,
    UnreadableAnswerError,
)
from tests.verification.clocks import VirtualClock

Script = Callable[[float, Query], Answer | Exception | None]
"""What is answered so many seconds after the beginning; None: nothing, ever."""


class ScriptedProvider:
    def __init__(self, name: str, clock: VirtualClock, script: Script, *, seconds: float = 0.0) -> None:
        self._name = name
        self._clock = clock
        self._script = script
        self._seconds = seconds
        self.grain = 0.0
        self.asked: list[tuple[float, Query]] = []
        self.closed = 0
        self.cancelled = 0

    @property
    def name(self) -> str:
        return self._name

    @property
    def times(self) -> list[float]:
        return [at for at, _ in self.asked]

    async def read(self, query: Query, *, timeout: float) -> Answer:
        del timeout
        self.asked.append((self._clock.seconds, query))
        answer = self._script(self._clock.seconds, query)
        try:
            if answer is None:
                await asyncio.Event().wait()
            if self._seconds:
                await self._clock.sleep(self._seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if isinstance(answer, Exception):
            raise answer
        assert answer is not None
        return answer

    async def close(self) -> None:
        self.closed += 1


class ScriptedProviders:
    """By the name that a check gives; one for all where there is only one."""

    def __init__(self, *providers: ScriptedProvider) -> None:
        self._providers = {each.name: each for each in providers}

    def open(self, *, type: str, provider: str, url: str) -> ScriptedProvider:
        del type, url
        if provider not in self._providers:
            raise ProviderConfigurationError(f"there is no provider {provider!r}")
        return self._providers[provider]


def number(value: float | None, at: float = 0.0, **labels: str) -> Answer:
    """One number over the window."""
    return Answer((Series(((at, value),), labels),))


def at_window_end(value: float | None) -> Script:
    """The same number at every time, as an instant query gives it."""
    return lambda _, query: Answer((Series(((query.window.end, value),)),))


def scripted(entries: Sequence[Mapping[str, Any]]) -> Script:
    """The `answers` of a case: of a Prometheus API, or anything with a status and a body."""

    def script(seconds: float, query: Query) -> Answer | Exception | None:
        entry = max((each for each in entries if each["from"] <= seconds + 1e-9), key=lambda each: each["from"])
        if entry.get("after") == "hang":
            return None
        status, body = entry["status"], entry.get("body")
        if status == 429:
            reset = (entry.get("headers") or {}).get("X-RateLimit-Reset")
            return ProviderUnavailableError("it answered 429", retry_after=float(reset) if reset else None)
        if status >= 500:
            return ProviderUnavailableError(f"it answered {status}: {body}")
        if status in (401, 403):
            return ProviderRefusedError(f"it answered {status}: {body}")
        if status >= 400:
            return ProviderQuestionError(f"it answered {status}: {body}")
        return _prometheus(body, query)

    return script


def _prometheus(body: Any, query: Query) -> Answer | Exception:
    if not isinstance(body, dict):
        return UnreadableAnswerError("it answered with what is no JSON")
    series = tuple(Series(((query.window.end, float(each["value"][1])),), each["metric"]) for each in body["data"]["result"])
    return Answer(series, warnings=tuple(body.get("warnings") or ()), digest=str(hash(json.dumps(body))))
