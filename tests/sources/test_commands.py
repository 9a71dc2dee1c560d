"""Child processes end in time, with all that they started, and their output costs bounded memory."""

import asyncio
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from delegate.engine.sources.commands import Command, Completed, minimal_environment, run_command, run_logged, start_command
from delegate.engine.sources.errors import CommandNotFoundError, CommandOutputError, CommandTimeoutError
from delegate.engine.sources.outputs import BoundedOutput

Run = Callable[[Coroutine[Any, Any, Any]], Any]
ENVIRONMENT = minimal_environment(os.environ)


def shell(script: str, **changes: Any) -> Command:
    return Command(("/bin/sh", "-c", script), ENVIRONMENT, **changes)


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Runs a coroutine to its end on a loop of each kind."""
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        yield runner.run


def wait_until(condition: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def read_pid(file: Path) -> int:
    wait_until(lambda: file.exists() and file.read_text().strip() != "")
    return int(file.read_text())


def test_output_input_and_exit_code(run: Run) -> None:
    """What goes in comes out, and the code is the child's own."""
    completed: Completed = run(run_command(shell("cat; echo told >&2; exit 7"), timeout=20, stdin=b"asked\n" * 50_000))

    assert completed.stdout == b"asked\n" * 50_000
    assert (completed.exit_code, completed.stderr) == (7, "told\n")


def test_every_exit_code_is_the_true_one(run: Run) -> None:
    """Many short children at once don't mix up their codes."""

    async def all_codes() -> list[int]:
        gate = asyncio.Semaphore(16)

        async def one(code: int) -> int:
            async with gate:
                completed = await run_command(shell(f"exit {code}"), timeout=30)
                return completed.exit_code

        return await asyncio.gather(*map(one, range(0, 256, 4)))

    assert run(all_codes()) == list(range(0, 256, 4))


def test_a_child_sees_only_the_minimal_environment(run: Run) -> None:
    """No token of ours gets to a child."""
    environment = minimal_environment({"PATH": os.environ["PATH"], "DELEGATE_TOKEN": "geheim", "HOME": "/root"})
    completed: Completed = run(run_command(Command(("env",), environment), timeout=20))

    names = {line.split(b"=")[0] for line in completed.stdout.splitlines()}
    assert names == {b"PATH", b"LC_ALL", b"LANGUAGE", b"DELEGATE_COMMAND_ID"}


def test_a_program_that_is_missing_is_named(run: Run, tmp_path: Path) -> None:
    """Also when it's the directory that is missing."""
    with pytest.raises(CommandNotFoundError, match="no-such-program can't be started: No such file"):
        run(run_command(Command(("no-such-program",), ENVIRONMENT), timeout=20))
    with pytest.raises(CommandNotFoundError, match=f"in {tmp_path}/gone"):
        run(run_command(shell("true", directory=tmp_path / "gone"), timeout=20))


def test_a_child_that_reads_nothing_is_no_fault(run: Run) -> None:
    """A broken pipe on its input is its own affair."""
    completed: Completed = run(run_command(shell("exec <&-; echo done"), timeout=20, stdin=b"x" * 1_000_000))

    assert completed.stdout == b"done\n"


def test_a_deadline_ends_the_whole_tree(run: Run, tmp_path: Path) -> None:
    """Children that ignore TERM are killed, and grandchildren too."""
    script = f"trap '' TERM; sleep 300 & echo $! > {tmp_path}/grandchild; echo $$ > {tmp_path}/child; wait"

    with pytest.raises(CommandTimeoutError, match="/bin/sh took longer than 1 s and was ended"):
        run(run_command(shell(script, grace_seconds=0.2), timeout=1))

    wait_until(lambda: not is_running(read_pid(tmp_path / "child")))
    wait_until(lambda: not is_running(read_pid(tmp_path / "grandchild")))


def test_a_child_may_tidy_up_in_its_grace(run: Run, tmp_path: Path) -> None:
    """TERM comes first."""
    script = f"trap 'echo tidied > {tmp_path}/note; exit 0' TERM; while true; do sleep 0.05; done"

    with pytest.raises(CommandTimeoutError):
        run(run_command(shell(script, grace_seconds=10), timeout=0.5))

    assert (tmp_path / "note").read_text() == "tidied\n"


def test_cancellation_ends_the_tree_keeps_the_log_and_is_raised(run: Run, tmp_path: Path) -> None:
    """Cancelled twice, with a grandchild in a session of its own: nothing survives, and the log so far is there."""
    log = BoundedOutput()
    stray = f"import os, time; open('{tmp_path}/stray', 'w').write(str(os.getpid())); time.sleep(300)"
    script = f'echo begun; setsid {sys.executable} -c "{stray}" & wait'

    async def cancelled() -> None:
        task = asyncio.ensure_future(run_logged(shell(script, grace_seconds=0.5), timeout=60, log=log))
        await asyncio.to_thread(wait_until, lambda: (tmp_path / "stray").exists() and "begun" in log.text())
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(cancelled())

    assert log.text() == "begun\n"
    wait_until(lambda: not is_running(read_pid(tmp_path / "stray")))


def test_a_child_that_left_somebody_holding_its_pipes_is_done(run: Run, tmp_path: Path) -> None:
    """A daemon that keeps standard output open holds nobody up."""
    script = f"setsid sh -c 'echo $$ > {tmp_path}/stray; exec sleep 300' & while [ ! -s {tmp_path}/stray ]; do sleep 0.01; done; echo done"
    completed: Completed = run(run_command(shell(script), timeout=30))

    assert (completed.exit_code, completed.stdout) == (0, b"done\n")
    wait_until(lambda: not is_running(read_pid(tmp_path / "stray")))


def test_too_much_output_is_no_output(run: Run) -> None:
    """Where all of it is needed, a part is not returned, and the child is ended."""
    with pytest.raises(CommandOutputError, match="/bin/sh printed more than 1000 bytes"):
        run(run_command(shell("yes"), timeout=30, stdout_limit=1000))


def test_a_child_can_be_talked_with(run: Run) -> None:
    """Questions and answers over its pipes, and the end when the block is left."""

    async def talk() -> tuple[bytes, int]:
        async with start_command(shell("while read word; do echo heard $word; done")) as child:
            await child.write(b"a\n")
            answer = await child.stdout.readline()
            return answer, child.pid

    answer, pid = run(talk())
    assert answer == b"heard a\n"
    assert not is_running(pid)


def test_logs_keep_both_streams_in_order(run: Run) -> None:
    """What was printed first stands first."""
    log = BoundedOutput()
    code = run(run_logged(shell("echo a; echo b >&2; echo c; exit 3"), timeout=20, log=log))

    assert (code, log.text()) == (3, "a\nb\nc\n")


def open_and_close_files(stopped: threading.Event, stolen: list[int]) -> None:
    """Holds files open for moments, and records each that somebody else has closed."""
    while not stopped.is_set():
        for descriptor in [os.open(os.devnull, os.O_RDONLY) for _ in range(8)]:
            try:
                os.close(descriptor)
            except OSError:
                stolen.append(descriptor)


def test_files_of_other_threads_stay_open(run: Run) -> None:
    """A pipe's number is closed once: by the second time it may be somebody else's file."""
    stopped, stolen = threading.Event(), list[int]()
    threads = [threading.Thread(target=open_and_close_files, args=(stopped, stolen)) for _ in range(4)]

    async def many_commands() -> list[Completed]:
        return [
            completed
            for _ in range(20)
            for completed in await asyncio.gather(*(run_command(shell("echo a"), timeout=30) for _ in range(16)))
        ]

    for thread in threads:
        thread.start()
    try:
        outputs = [completed.stdout for completed in run(many_commands())]
    finally:
        stopped.set()
        for thread in threads:
            thread.join()

    assert (stolen, outputs) == ([], [b"a\n"] * 320)


def test_nothing_stays_open(run: Run) -> None:
    """Commands that end, that can't start, and that are cancelled at every step of their start leave no descriptor behind."""

    async def cancelled_after(steps: int) -> None:
        task = asyncio.ensure_future(run_command(shell("exec sleep 300", grace_seconds=0.1), timeout=60))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def all_ways() -> tuple[set[str], set[str]]:
        await run_command(shell("true"), timeout=20)
        before = set(os.listdir("/proc/self/fd"))
        await run_command(shell("true"), timeout=20)
        with pytest.raises(CommandNotFoundError):
            await run_command(Command(("no-such-program",), ENVIRONMENT), timeout=20)
        for steps in range(12):
            await cancelled_after(steps)
        await asyncio.sleep(0)
        return before, set(os.listdir("/proc/self/fd"))

    before, after = run(all_ways())
    assert after == before


@pytest.mark.parametrize("what", ["short lines", "one line"])
def test_a_flood_of_output_costs_bounded_memory(what: str, tmp_path: Path) -> None:
    """Agent case 16: 300 MB of lines and one line of 100 MB: the process stays small, the child never waits for ever, the end is there."""
    floods = {"short lines": "yes 'a line of some length' | head -c 300000000", "one line": "yes | tr -d '\\n' | head -c 100000000"}
    program = textwrap.dedent(
        f"""
        import asyncio, resource, sys
        from delegate.engine.sources.commands import Command, minimal_environment, run_logged
        from delegate.engine.sources.outputs import BoundedOutput
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        log = BoundedOutput(8 * 1024 * 1024)
        command = Command(("/bin/sh", "-c", {floods[what] + "; printf 'the end'"!r}), minimal_environment({{}}))
        code = asyncio.run(run_logged(command, timeout=50, log=log))
        text = log.text()
        assert code == 0 and text.endswith("the end") and log.dropped_bytes > 80_000_000, (code, log.dropped_bytes)
        assert max(map(len, text.split("\\n"))) <= 64 * 1024
        print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
        """
    )
    grown = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=55).stdout

    assert int(grown) < 100, "MiB that the process grew by"
