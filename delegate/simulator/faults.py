"""Faults on demand: refusals, slowness, silence and expiry for the requests that a rule names."""

import asyncio
from typing import Literal

import msgspec

from delegate.simulator import statuses
from delegate.simulator.requests import RequestInfo

Kind = Literal["refuse", "too_many_requests", "server_error", "slow", "hang", "drop_watch"]


class Fault(msgspec.Struct):
    """One rule. Empty filters match everything; `times` counts down, below zero it is without end.

    `refuse` closes the connection without an answer; `too_many_requests` is a 429 with `retry_after` seconds; `server_error` answers
    `status`; `slow` waits `seconds` first; `hang` never answers; `drop_watch` cuts a watch after `seconds`.
    """

    kind: Kind
    verbs: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    times: int = -1
    status: int = 500
    retry_after: int = 1
    seconds: float = 0.0

    def matches(self, info: RequestInfo) -> bool:
        return (
            self.times != 0
            and (not self.verbs or info.verb in self.verbs)
            and (not self.resources or info.plural in self.resources)
            and (not self.names or info.name in self.names)
        )


class RefusedConnectionError(Exception):
    """The connection is to be closed without an answer."""


class Faults:
    """The rules in force; the first one that matches a request acts."""

    def __init__(self) -> None:
        self._rules: list[Fault] = []

    def add(self, fault: Fault) -> Fault:
        self._rules.append(fault)
        return fault

    def clear(self) -> None:
        self._rules.clear()

    def take(self, info: RequestInfo) -> Fault | None:
        for rule in self._rules:
            if rule.matches(info):
                if rule.times > 0:
                    rule.times -= 1
                return rule
        return None


async def act(fault: Fault) -> None:
    """Does what a fault does before the request is answered; raises what answers it instead."""
    match fault.kind:
        case "refuse":
            raise RefusedConnectionError
        case "too_many_requests":
            details = {"retryAfterSeconds": fault.retry_after}
            raise statuses.StatusError(
                429,
                "Too many requests, please try again later.",
                reason="TooManyRequests",
                details=details,
                headers={"Retry-After": str(fault.retry_after)},
            )
        case "server_error":
            reasons = {500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout"}
            raise statuses.StatusError(fault.status, "the server is faulty on demand", reason=reasons.get(fault.status, ""))
        case "slow":
            await asyncio.sleep(fault.seconds)
        case "hang":
            await asyncio.Event().wait()
        case "drop_watch":
            pass  # acts later, in the watch itself
