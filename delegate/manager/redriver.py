"""The redriver: has letters of the redrive under way sent round again, at its rate, whichever manager of the database gets to it."""

import asyncio

import structlog

from delegate.foundation.errors import DelegateError
from delegate.manager.store.database import Database
from delegate.manager.store.redriving import advance

log = structlog.get_logger(__name__)
_IDLE_SECONDS = 1.0
_STEP_SECONDS = 0.02


class Redriver:
    """`run` it for as long as the manager lives; `wake` it when a redrive was begun here."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._begun = asyncio.Event()

    def wake(self) -> None:
        self._begun.set()

    async def run(self) -> None:
        while True:
            self._begun.clear()
            try:
                going_on = await self._database.write(advance)
            except DelegateError as error:
                log.warning("redrive.put_off", error=str(error))
                going_on = False
            if going_on:
                await asyncio.sleep(_STEP_SECONDS)
                continue
            try:
                async with asyncio.timeout(_IDLE_SECONDS):
                    await self._begun.wait()
            except TimeoutError:
                continue
