"""What a renderer can't do: reach the network, start programs, read or write elsewhere, take more than it may."""

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from delegate.engine.sources.commands import Completed
from delegate.engine.sources.errors import CacheDirectoryError, RenderLimitError, RenderTimeoutError
from delegate.engine.sources.jails.running import RenderLimits, open_jail, run_jailed
from delegate.engine.sources.limits import MEBIBYTE
from delegate.engine.sources.workshops import words_of

INTERPRETER = Path(sys.executable).resolve()
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has what shuts a renderer in")

LIMITS = RenderLimits(memory_bytes=128 * MEBIBYTE, processor_seconds=5, seconds=20.0, output_bytes=MEBIBYTE, file_bytes=MEBIBYTE)


async def run(folder: Path, program: str, limits: RenderLimits = LIMITS, **environment: str) -> Completed:
    """A Python program in a jail."""
    async with open_jail(folder / "jails", limits) as jail:
        return await run_jailed(
            INTERPRETER, ["-I", "-S", "-c", program], jail, timeout=20, environment=environment, reads=[sys.base_prefix]
        )


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - a directory tells nobody
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("program", "refusal"),
    [
        ("import socket; socket.socket()", "PermissionError"),
        ("import socket; socket.socket(socket.AF_UNIX)", "PermissionError"),
        ("import socket; socket.socketpair()", "PermissionError"),
        ("import os; os.fork()", "PermissionError"),
        ("import os; os.posix_spawn('/bin/true', ['true'], {})", "PermissionError"),
        ("import os; os.kill(os.getppid(), 0)", "PermissionError"),
        ("import os; open('/etc/hostname').read()", "PermissionError"),
        ("import os; os.listdir('/')", "PermissionError"),
        ("import os; open(f'/proc/{os.getppid()}/environ').read()", "PermissionError"),
        ("open('/tmp/written', 'w')", "PermissionError"),
        ("open('big', 'wb').write(bytes(2**21))", "OSError"),
        ("x = bytes(2**28)", "MemoryError"),
        ("import resource; resource.setrlimit(resource.RLIMIT_DATA, (2**40, 2**40))", "ValueError"),
        ("import os; os.chown('.', 1, 1)", "PermissionError"),
        ("import ctypes; ctypes.CDLL(None, use_errno=True).ptrace(0, 0, 0, 0) == -1 and __import__('sys').exit(7)", ""),
    ],
)
async def test_what_is_refused(program: str, refusal: str, tmp_path: Path) -> None:
    """Sockets, processes, signals, other files, size, memory; and limits can't be lifted."""
    completed = await run(tmp_path, program)

    assert completed.exit_code == (1 if refusal else 7), completed.stderr
    assert refusal in completed.stderr


async def test_what_it_may(tmp_path: Path) -> None:
    """Threads, signals to itself, files in its own directory, and an environment that holds nothing of ours."""
    program = """
import os, signal, threading
thread = threading.Thread(target=print, args=("in a thread",)); thread.start(); thread.join()
signal.signal(signal.SIGUSR1, lambda *_: print("signalled")); signal.raise_signal(signal.SIGUSR1)
open("file", "w").write("text"); print(open("file").read())
print(sorted(os.environ), os.environ["HOME"], os.listdir(os.environ["HOME"]))
"""
    completed = await run(tmp_path, program, EXTRA="1")

    assert completed.exit_code == 0, completed.stderr
    words = completed.stdout.decode()
    assert words.startswith("in a thread\nsignalled\ntext\n")
    assert "'EXTRA'" in words
    assert "DELEGATE_TOKEN" not in words
    assert words.rstrip().endswith("[]")


async def test_more_time_than_it_has(tmp_path: Path) -> None:
    """Of the clock, and of the processor."""
    with pytest.raises(RenderTimeoutError, match=r"took longer than 0\.5 s"):
        await run(tmp_path, "import time; time.sleep(30)", RenderLimits(seconds=0.5))
    with pytest.raises(RenderLimitError, match="more than 1 s of work"):
        await run(tmp_path, "while True: pass", RenderLimits(processor_seconds=1, seconds=20.0))


@pytest.mark.parametrize(
    "words",
    [
        "runtime: out of memory: cannot allocate 4194304-byte block\nfatal error: out of memory\n",
        "SIGSEGV: segmentation violation\nPC=0x43783d m=3 sigcode=1 addr=0x0\n\ngoroutine 0 gp=0x15 m=3 [idle]:\nruntime.drain()\ngs 0x0\n",
        "runtime/cgo: pthread_create failed\nfatal: bad g in signal handler\n\ngoroutine 0 [idle]:\n",
    ],
)
async def test_a_runtime_that_breaks_down(words: str, tmp_path: Path) -> None:
    """Go's doesn't always say that it is out of memory; its own death is told from a program's panic."""
    with pytest.raises(RenderLimitError, match="needs more than"):
        await run(tmp_path, f"import sys; sys.stderr.write({words!r}); sys.exit(2)")


async def test_a_runtime_that_dies_without_a_word(tmp_path: Path) -> None:
    """By the signal alone."""
    with pytest.raises(RenderLimitError, match="needs more than"):
        await run(tmp_path, "import os, signal, ctypes; signal.signal(signal.SIGSEGV, signal.SIG_DFL); ctypes.string_at(0)")


async def test_a_panic_is_no_limit(tmp_path: Path) -> None:
    """It is a fault of the program, and its first line says which."""
    words = "panic: runtime error: index out of range [1]\n\ngoroutine 1 [running]:\nmain.main()\n\t/x.go:5 +0x1d\nexit status 2\n"
    async with open_jail(tmp_path / "jails", LIMITS) as jail:
        completed = await run_jailed(
            INTERPRETER,
            ["-I", "-S", "-c", f"import sys; sys.stderr.write({words!r}); sys.exit(2)"],
            jail,
            timeout=20,
            reads=[sys.base_prefix],
        )
        assert words_of(completed.stderr, jail) == "panic: runtime error: index out of range [1]"


async def test_more_output_than_it_may_have(tmp_path: Path) -> None:
    """Half an output is none."""
    with pytest.raises(RenderLimitError, match=f"rendered more than {MEBIBYTE} bytes"):
        await run(tmp_path, "import sys; sys.stdout.write('x' * 2**22)")


async def test_nothing_is_left(tmp_path: Path) -> None:
    """Not after success, not after a cancellation; what a killed process left goes with the next one."""
    stale = tmp_path / "jails" / "stale"
    stale.mkdir(parents=True)
    (stale / "file").write_text("x")
    os.utime(stale, (1, 1))
    running = asyncio.create_task(run(tmp_path, "import time; time.sleep(30)"))
    await until(lambda: any(each != stale for each in (tmp_path / "jails").iterdir()))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    await run(tmp_path, "pass")

    await until(lambda: not any((tmp_path / "jails").iterdir()))


async def test_jails_that_come_and_go_side_by_side_are_in_nobodys_way(tmp_path: Path) -> None:
    """Each looks for what killed processes left, and finds what others take away under its eyes."""

    async def come_and_go() -> None:
        for _ in range(100):
            async with open_jail(tmp_path / "jails", LIMITS):
                pass

    await asyncio.gather(*(come_and_go() for _ in range(4)))

    assert list((tmp_path / "jails").iterdir()) == []


async def test_a_jail_that_cant_be_made(tmp_path: Path) -> None:
    """The directory is named, and what to do."""
    (tmp_path / "file").write_text("")

    with pytest.raises(CacheDirectoryError, match="no directory can be made to render in"):
        async with open_jail(tmp_path / "file", LIMITS):
            pass
