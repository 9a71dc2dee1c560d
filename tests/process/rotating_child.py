"""A daemon as `child.py` starts it that asks for a new certificate as soon as it is registered, and kills itself at one step of that.

DIES_AT names the step: `disk 7` (before the seventh system call on the directory of certificates), or `renewal before`, `renewal after`,
`trial before`, `trial after` (the call to the manager). Without it the rotation comes to its end. KILLS_FILE gets a line before.
"""

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from delegate.cli import running
from delegate.cli.program import main
from delegate.daemon.certificates import Certificates
from delegate.daemon.identity.disk import Disk
from delegate.daemon.identity.rotator import Rotator
from tests.process import child

DIES_AT = os.environ.get("DIES_AT", "")
armed: list[bool] = []
calls: list[str] = []
"""Made since the rotation began."""


def die() -> None:
    with Path(os.environ["KILLS_FILE"]).open("a") as file:
        file.write(f"{DIES_AT}\n")
    os.kill(os.getpid(), signal.SIGKILL)


def counted(method: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        if armed:
            calls.append(method.__name__)
            if f"disk {len(calls)}" == DIES_AT:
                die()
        return method(*arguments)

    return call


def around(step: str, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def call(*arguments: Any) -> Any:
        if armed and f"{step} before" == DIES_AT:
            die()
        answer = await method(*arguments)
        if armed and f"{step} after" == DIES_AT:
            die()
        return answer

    return call


async def rotate_at_once(rotator: Rotator) -> None:
    while not rotator._hooks.is_enrolled():
        await rotator._pause(0.01)
    armed.append(True)
    await rotator.rotate()
    child.note(f"rotated after {len(calls)} calls")
    while True:
        await rotator._pause(60.0)


if __name__ == "__main__":
    for name in [name for name in vars(Disk) if not name.startswith("_")]:
        setattr(Disk, name, counted(getattr(Disk, name)))
    Certificates._renew = around("renewal", Certificates._renew)  # type: ignore[method-assign,assignment]
    Certificates._try_out = around("trial", Certificates._try_out)  # type: ignore[method-assign,assignment]
    Rotator.run = rotate_at_once  # type: ignore[method-assign, assignment]
    running._build_engine = lambda settings, metrics: child.ChildEngine()
    main(sys.argv[1:])
