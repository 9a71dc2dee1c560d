"""Cases 17 and 18: as the first process of a container, orphans are seen off, and no child's exit code is taken from whoever waits."""

import subprocess
import sys
import textwrap

import pytest

LOOPS = ["asyncio", "uvloop"]


def run_program(program: str, loop: str, *before: str) -> str:
    """What a program prints; it is started by itself, for it changes what becomes of orphans."""
    start = {"asyncio": "asyncio.run(main())", "uvloop": "import uvloop; uvloop.run(main())"}[loop]
    code = textwrap.dedent(program) + "\n" + start
    ended = subprocess.run([*before, sys.executable, "-c", code], capture_output=True, text=True, timeout=55, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


PROGRAM = """
import asyncio, ctypes, os, sys, time
from delegate.engine.sources.commands import Command, minimal_environment, run_command
from delegate.foundation.lifecycle.reaping import Reaper, _zombies, adopts_orphans

if os.getpid() != 1:
    assert not adopts_orphans()
    assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0  # PR_SET_CHILD_SUBREAPER
assert adopts_orphans()
reaper = Reaper(look_seconds=0.05)

async def code_of(number):
    # A child that leaves an orphan behind, which ends a moment later.
    script = f"(sleep 0.0{number % 10} & ) ; exit {number % 256}"
    return (await run_command(Command(("/bin/sh", "-c", script), minimal_environment({})), timeout=50)).exit_code

async def main():
    looking = asyncio.create_task(reaper.run())
    for start in range(0, 256, 32):
        codes = await asyncio.gather(*(code_of(number) for number in range(start, start + 32)))
        assert codes == list(range(start, start + 32)), codes
    until = time.monotonic() + 20
    while list(_zombies()) and time.monotonic() < until:
        await asyncio.sleep(0.05)
    assert not list(_zombies())
    print(reaper.reaped)
    looking.cancel()
"""


@pytest.mark.parametrize("loop", LOOPS)
def test_orphans_are_seen_off_and_every_exit_code_is_the_true_one(loop: str) -> None:
    """256 children that each leave an orphan behind: no zombie stays, and each code from 0 to 255 arrives."""
    assert int(run_program(PROGRAM, loop).splitlines()[-1]) > 0


def test_a_stuck_loop_loses_no_exit_code() -> None:
    """A child that ended while the loop was busy is still its own: the reaper looks from the same loop."""
    program = """
    import asyncio, ctypes, time
    from delegate.foundation.lifecycle.reaping import Reaper
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)

    async def main():
        reaper = Reaper(look_seconds=0.01)
        looking = asyncio.create_task(reaper.run())
        children = [await asyncio.create_subprocess_exec("/bin/sh", "-c", f"exit {code}") for code in range(20)]
        for _ in range(5):
            time.sleep(0.1)
            await asyncio.sleep(0.005)
        codes = [await child.wait() for child in children]
        assert codes == list(range(20)), codes
        looking.cancel()
    """
    for loop in LOOPS:
        run_program(program, loop)
