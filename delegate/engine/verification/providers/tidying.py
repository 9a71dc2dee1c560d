"""Taking away at the end what a reading has made elsewhere: search jobs, Jobs."""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any

from delegate.foundation.errors import DelegateError

TIDYING_SECONDS = 1.0


async def tidy(call: Coroutine[Any, Any, object]) -> None:
    """Carries a call through, for a second at most, and takes no notice of its fault: what is left behind ends by itself.

    A cancellation that was requested before, and would be raised at the first await here, comes after the call.
    """
    calling = asyncio.ensure_future(_bounded(call))
    try:
        await asyncio.shield(calling)
    except asyncio.CancelledError:
        await asyncio.wait([calling])
        raise


async def _bounded(call: Coroutine[Any, Any, object]) -> None:
    with contextlib.suppress(DelegateError, TimeoutError):
        async with asyncio.timeout(TIDYING_SECONDS):
            await call
