"""What a reading has made elsewhere is taken away, however the reading ends."""

import asyncio

import pytest

from delegate.engine.verification.errors import ProviderUnavailableError
from delegate.engine.verification.providers.tidying import tidy


async def test_tidies_up_before_a_cancellation_that_is_due() -> None:
    """A deadline that passes in the moment of another fault is raised after the call, not in its place."""
    gone = asyncio.Event()

    async def delete() -> None:
        await asyncio.sleep(0)
        gone.set()

    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        try:
            raise ProviderUnavailableError("its time is over")
        finally:
            await tidy(delete())

    working = asyncio.create_task(work())
    with pytest.raises(asyncio.CancelledError):
        await working
    assert gone.is_set()


async def test_takes_no_notice_of_a_fault() -> None:
    """What can't be deleted ends by itself, and hides no other fault."""

    async def fail() -> None:
        raise ProviderUnavailableError("it is away")

    await tidy(fail())
