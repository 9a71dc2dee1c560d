"""Calls with everything around them: retries, counting, warnings, and answers turned into objects or errors."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import structlog

from delegate.engine.clusters import errors
from delegate.engine.clusters.answers import explain_answer
from delegate.engine.clusters.metering import OnRequest, RequestMeter
from delegate.engine.clusters.retrying import is_worth_retrying, note_retry
from delegate.engine.clusters.transport import Answer, Call, Transport
from delegate.foundation.clocks import SYSTEM_CLOCK, Clock
from delegate.foundation.lifecycle.retrying import Dice, Retrying
from delegate.model.resources import JsonObject

log = structlog.get_logger()

DEFAULT_TIMEOUT = 30.0
"""Seconds for one try of a call, from when it has one of the places."""


class Caller:
    """Sends calls through a transport until they succeed, fail for good, or the policy ends.

    Several callers may share one transport: each task has its own meter and policy.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        policy: Retrying,
        meter: RequestMeter,
        on_request: OnRequest | None = None,
        clock: Clock = SYSTEM_CLOCK,
        dice: Dice = random.random,
        urgent: bool = False,
    ) -> None:
        self.transport = transport
        self.policy = policy
        self.meter = meter
        self.clock = clock
        self._on_request = on_request
        self._urgent = urgent
        self._dice = dice

    def viewed(self, *, policy: Retrying | None = None, meter: RequestMeter | None = None, urgent: bool | None = None) -> "Caller":
        """The same way to the same server with another policy or meter; urgent calls don't wait for a place."""
        return Caller(
            self.transport,
            policy=policy or self.policy,
            meter=meter or self.meter,
            on_request=self._on_request,
            clock=self.clock,
            dice=self._dice,
            urgent=self._urgent if urgent is None else urgent,
        )

    async def call(self, call: Call, timeout: float = DEFAULT_TIMEOUT) -> JsonObject:
        """The object that the server answered. Raises ClusterError."""
        answer = await self.ask(call, timeout)
        return answer.body if isinstance(answer.body, dict) else {}

    async def ask(self, call: Call, timeout: float = DEFAULT_TIMEOUT) -> Answer:
        """The whole answer, of a 2xx status with a JSON object, or a 304 without. Raises ClusterError."""
        started = self.clock.monotonic()
        attempt = 0
        while True:
            attempt += 1
            try:
                answer = await self._try(call, timeout)
            except errors.ClusterError as error:
                delay = self.policy.wait_after(attempt, error.retry_after, self._dice)
                spent = self.clock.monotonic() - started
                worth = is_worth_retrying(error, idempotent=call.idempotent)
                if not worth or attempt >= self.policy.max_attempts or spent + delay > self.policy.max_duration_seconds:
                    note_retry("")
                    raise
                note_retry(error.message)
                log.info(
                    "cluster.request_retried",
                    verb=call.question.verb,
                    object=call.question.what,
                    code=error.code,
                    attempt=attempt,
                    delay_seconds=round(delay, 3),
                )
            else:
                note_retry("")
                return answer
            await self.clock.sleep(delay)

    @asynccontextmanager
    async def open_watch(self, call: Call, timeout: float = DEFAULT_TIMEOUT) -> AsyncIterator[aiohttp.StreamReader]:
        """The lines of a watch, opened once. Raises ClusterError, also while it is being read."""
        code = "error"
        try:
            async with self.transport.stream(call, timeout) as (answer, reader):
                code = str(answer.status)
                self._count(call, code)
                if reader is None:
                    raise self._explained(call, answer)
                self._take_warnings(answer)
                yield reader
        except errors.ClusterError:
            if code == "error":
                self._count(call, code)
            raise

    async def _try(self, call: Call, timeout: float) -> Answer:
        code = "error"
        try:
            answer = await self.transport.send(call, timeout, urgent=self._urgent)
            code = str(answer.status)
        finally:
            self._count(call, code)
        if answer.status >= 400:
            raise self._explained(call, answer)
        if answer.status != 304 and (answer.status >= 300 or isinstance(answer.body, str)):
            raise self._no_json(call, answer)
        self._take_warnings(answer)
        return answer

    def _explained(self, call: Call, answer: Answer) -> errors.ClusterError:
        if answer.status < 400:
            return self._no_json(call, answer)
        question = call.question._replace(host=self.transport.host, path=call.path)
        return explain_answer(answer.status, answer.body, question, answer.retry_after)

    def _no_json(self, call: Call, answer: Answer) -> errors.NotJsonError:
        text = answer.body if isinstance(answer.body, str) and not call.question.sensitive else ""
        begin = " ".join(text.split())[:80]
        return errors.NotJsonError(
            f"{self.transport.host} answered {answer.status} to {call.question.verb} {call.question.what} with no JSON object: {begin!r}",
            hint="something else than an API server answers there: check the server address and the proxies on the way",
            object=call.question.subject,
        )

    def _count(self, call: Call, code: str) -> None:
        self.meter.count(call.effect)
        if self._on_request is not None:
            self._on_request(call.question.verb, code)

    def _take_warnings(self, answer: Answer) -> None:
        for warning in answer.warnings:
            self.meter.warn(warning)
