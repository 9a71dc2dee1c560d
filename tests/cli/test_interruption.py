"""Ctrl-C and SIGTERM end a command in order: it cleans up, says so in a word, and ends with 3."""

import json
import signal
import subprocess
import sys

import pytest

from tests.cli.programs import environment
from tests.cli.test_program import COMMAND

WAITING = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # tests that run in the background have it ignored

@click.command()
@output_option
def command(output):
    async def wait():
        try:
            print("started", flush=True)
            await asyncio.Event().wait()
        finally:
            print("cleaned up", file=sys.stderr, flush=True)
    run_async(wait())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_signal_ends_a_command_in_order(number: signal.Signals, form: str) -> None:
    """Its `finally` blocks run; there is no traceback."""
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND.format(body=WAITING), "test", "-o", form],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "started\n"
        child.send_signal(number)
        stdout, stderr = child.communicate(timeout=50)

    assert child.returncode == 3
    told = [line for line in stderr.splitlines() if line]
    if form == "text":
        assert told == ["cleaned up", "error: interrupted"]
    else:
        assert told == ["cleaned up"]
        assert json.loads(stdout)["error"]["message"] == "interrupted"


def test_the_loop_is_the_fast_one_where_there_is_one() -> None:
    """uvloop, if it is installed."""
    pytest.importorskip("uvloop")
    body = """
@click.command()
def command():
    async def tell():
        print(type(asyncio.get_running_loop()).__module__)
    run_async(tell())
"""

    told = subprocess.run(
        [sys.executable, "-c", COMMAND.format(body=body), "test"], capture_output=True, text=True, timeout=50, env=environment(), check=True
    )

    assert told.stdout == "uvloop\n"
