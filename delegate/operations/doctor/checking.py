"""Runs checks side by side: each with its deadline, each ending in findings whatever happens in it."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec
import structlog

from delegate.foundation.errors import DelegateError, flatten
from delegate.operations.doctor.findings import Area, Finding, Status, finding_of

log = structlog.get_logger(__name__)
Run = Callable[[], Awaitable[Iterable[Finding]]]


@dataclass(frozen=True)
class Check:
    """One of them. `seconds` is its deadline; `where` is what it looks at, for findings that don't say."""

    name: str
    area: Area
    run: Run
    where: str = ""
    seconds: float = 20.0


async def run_checks(
    checks: Sequence[Check], on_done: Callable[[Check, Sequence[Finding]], None] = lambda check, found: None
) -> list[Finding]:
    """Everything that was found, in the order of the checks. `on_done` is told of each as it ends."""

    async def run(check: Check) -> list[Finding]:
        found = await _run(check)
        on_done(check, found)
        return found

    return [finding for found in await asyncio.gather(*map(run, checks)) for finding in found]


async def _run(check: Check) -> list[Finding]:
    began_at = time.monotonic()
    try:
        async with asyncio.timeout(check.seconds):
            found = list(await check.run())
    except TimeoutError:
        words = f"no end within {check.seconds:g} s"
        hint = "something on the way drops what is sent without a word, or answers very slowly"
        found = [Finding(check=check.name, area=check.area, status=Status.FAILED, what=words, where=check.where, hint=hint)]
    except DelegateError as error:
        found = [finding_of(each, check.name, check.area, check.where) for each in flatten(error)]
    except Exception as error:
        log.error("doctor.check_broken", check=check.name, error=repr(error), exc_info=error)
        words = f"the check itself broke: {type(error).__name__}"
        found = [Finding(check=check.name, area=check.area, status=Status.FAILED, what=words, where=check.where, hint="report this")]
    seconds = round(time.monotonic() - began_at, 3)
    return [msgspec.structs.replace(finding, seconds=seconds) for finding in found]
