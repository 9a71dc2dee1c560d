"""The demo, end to end: a manager, a delegate in a process of its own, a simulated cluster, a Git repository, and the story."""

import asyncio
import contextlib
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import aiohttp
import pytest

from delegate.demo import stages, stories, tasks
from delegate.demo.errors import UnexpectedError
from delegate.demo.narration import OnEvent
from delegate.model.results import TaskResult
from delegate.simulator.faults import Fault
from tests.cli.programs import environment, run

CHAPTERS = [
    "The parts",
    "A first sync",
    "Somebody changes an object by hand",
    "A commit that is broken, twice",
    "The commit is reverted, and a new version rolled out",
    "The same again, with nothing changed",
    "What runs is verified",
    "A new version that fails checkouts, beside the old one",
    "A new version that is good",
    "Back to the verified version after all",
    "The delegate is stopped",
]


class QuietNarrator:
    """Keeps what it was told."""

    def __init__(self) -> None:
        self.chapters: list[str] = []
        self.facts: list[str] = []
        self.results: list[TaskResult] = []

    def chapter(self, title: str) -> None:
        self.chapters.append(title)

    def say(self, words: str) -> None:
        pass

    def watching(self) -> AbstractContextManager[OnEvent]:
        return contextlib.nullcontext(lambda event, data: None)

    def result(self, result: TaskResult) -> None:
        self.results.append(result)

    def verified(self, words: str) -> None:
        self.facts.append(words)


def test_it_tells_the_whole_story_once(tmp_path: Path) -> None:
    """0, every chapter verified, nothing of it left behind."""
    ended = run("demo", "--once", env={"HOME": str(tmp_path), "TMPDIR": str(tmp_path)})

    assert ended.code == 0, ended.stdout + ended.stderr
    titles = [line.partition(". ")[2] for line in ended.stdout.splitlines() if re.match(r"\d+\. ", line)]
    assert titles == CHAPTERS
    assert "/spec/replicas: 7 -> 3" in ended.stdout
    assert "error: shop/web.yaml:33: " in ended.stderr
    assert "error: shop/worker.yaml:8: " in ended.stderr
    assert re.search(r"^error: errors: \d+ of \d+ against \d+ of \d+: p = ", ended.stderr, re.MULTILINE)
    assert ended.stdout.splitlines()[-1] == "All of it worked."
    assert list(tmp_path.glob("delegate-demo-*")) == []


def test_without_git_it_says_what_to_install(tmp_path: Path) -> None:
    """Before anything is started; 2."""
    ended = run("demo", "--once", env={"PATH": str(tmp_path)})

    assert ended.code == 2
    assert ended.stderr.splitlines() == ["error: git is not on PATH", "hint: install git first"]


@contextlib.contextmanager
def _demo(home: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "delegate", "demo"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment({"HOME": str(home), "TMPDIR": str(home)})
    ) as child:
        try:
            yield child
        finally:
            child.kill()


async def test_the_page_stays_up_until_it_is_ended(tmp_path: Path) -> None:
    """The address that is told logs a person in; Ctrl-C ends the demo in order, with 0."""
    with _demo(tmp_path) as child:
        stdout = child.stdout
        assert stdout is not None

        def read_address() -> str:
            told = []
            for line in stdout:
                told.append(line)
                if found := re.search(r"http://127\.0\.0\.1:\d+/login\?code=\S+", line):
                    return found[0]
            pytest.fail("no address was told:\n" + "".join(told))

        address = await asyncio.to_thread(read_address)
        # The cookies of an address are kept only if asked for.
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session, session.get(address) as page:
            text = await page.text()
        child.send_signal(signal.SIGINT)
        rest = await asyncio.to_thread(child.communicate, timeout=40)

    assert page.status == 200
    assert tasks.APPLICATION in text
    assert "All of it worked." in rest[0]
    assert child.returncode == 0


async def test_a_story_that_is_not_true_ends_it() -> None:
    """What was expected and what was found are told, with the reason."""
    narrator = QuietNarrator()
    async with stages.set_stage() as stage:
        stage.simulator.faults.add(Fault(kind="server_error", verbs=("patch",), resources=("services",), status=500))

        with pytest.raises(UnexpectedError, match="outcome: expected 'succeeded', found 'failed'"):
            await stories.tell(stage, narrator)

    assert narrator.chapters == CHAPTERS[:2]
    assert narrator.facts == []
    assert narrator.results[0].summary.failed >= 1


async def test_a_change_that_nobody_put_right_is_noticed() -> None:
    """The story looks into the cluster, past what the result says."""
    async with stages.set_stage() as stage:
        narrator = QuietNarrator()
        await stories.first_sync(stage, narrator)
        await stage.cluster.patch("deployments/web", {"spec": {"replicas": 5}}, "somebody")

        with pytest.raises(UnexpectedError, match="objects unchanged: expected 6, found 5"):
            await stories.nothing_to_do(stage, narrator)


def test_the_delegate_process_ends_with_the_demo(tmp_path: Path) -> None:
    """Also when the demo is ended in the middle."""
    with _demo(tmp_path) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if "A first sync" in line:
                break
        running = _processes_below(tmp_path)
        child.send_signal(signal.SIGTERM)
        child.communicate(timeout=40)

    assert child.returncode == 3
    assert len(running) >= 2  # the demo and its delegate
    assert _processes_below(tmp_path) == []


def _processes_below(directory: Path) -> list[int]:
    """Processes that keep their temporary files there: it is in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and f"TMPDIR={directory}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found
