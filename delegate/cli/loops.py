"""Runs a command's coroutine on the fastest loop there is, and ends it in order when somebody interrupts it."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_async(main: Coroutine[Any, Any, T]) -> T:
    """What `main` returns. SIGINT and SIGTERM cancel it, so that it cleans up; then KeyboardInterrupt is raised.

    The daemon and servers, which drain, take the signals over with `stop_on_signals`.
    """
    terminated = False
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        loop = runner.get_loop()

        async def body() -> T:
            task = asyncio.current_task()
            assert task is not None

            def terminate() -> None:
                nonlocal terminated
                terminated = True
                task.cancel()

            loop.add_signal_handler(signal.SIGTERM, terminate)
            return await main

        try:
            return runner.run(body())
        except asyncio.CancelledError:
            if terminated:
                raise KeyboardInterrupt from None
            raise


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed, else the standard library's (None)."""
    try:
        import uvloop  # noqa: PLC0415 - optional, and commands without a loop do without its start time
    except ImportError:
        return None
    return uvloop.new_event_loop
