"""Waiting for a condition, with a deadline instead of a guess."""

import asyncio
from collections.abc import Callable


async def eventually(condition: Callable[[], object], *, within: float = 20.0, every: float = 0.01) -> None:
    """Returns once the condition holds; AssertionError names it when it does not in time."""
    try:
        async with asyncio.timeout(within):
            while not condition():  # noqa: ASYNC110 - what is waited for has no event
                await asyncio.sleep(every)
    except TimeoutError:
        raise AssertionError(f"not so within {within:g} s: {condition}") from None
