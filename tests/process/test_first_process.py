"""Case 17: the delegate as the first process of a container, in a PID namespace of its own."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.daemon.harness import running_manager
from tests.daemon.waiting import eventually
from tests.process.harness import CHILD, ROOT, Child, delegate_variables, effects

_WAYS = (("unshare", "--pid", "--fork", "--mount-proc"), ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"))


def namespace() -> tuple[str, ...]:
    """What starts a program as the first process of a namespace, where this machine lets us."""
    for way in _WAYS:
        try:
            if subprocess.run([*way, "true"], capture_output=True, check=False).returncode == 0:
                return way
        except FileNotFoundError:
            break
    pytest.skip("PID namespaces are not permitted here; tests/foundation/test_reaping.py has the same for a subreaper")


def children_of(pid: int) -> dict[int, str]:
    """State by pid."""
    found = {}
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            try:
                fields = (directory / "stat").read_text().rpartition(") ")[2].split()
            except OSError:
                continue
            if int(fields[1]) == pid:
                found[int(directory.name)] = fields[0]
    return found


@asynccontextmanager
async def first_process(directory: Path, **variables: str) -> AsyncIterator[tuple[Child, int]]:
    """The daemon as the first process of a namespace; and its pid as seen from here."""
    errors = directory / "first.log"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DELEGATE_", "NOTIFY_"))}
    with errors.open("ab") as file:
        process = await asyncio.create_subprocess_exec(
            *namespace(),
            sys.executable,
            str(CHILD),
            "run",
            cwd=ROOT,
            env={**kept, "PYTHONPATH": str(ROOT), "EFFECTS_FILE": str(directory / "effects"), **variables},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=file,
        )
    child = Child(process, errors)
    try:
        await child.logged("session.opened")
        [inside] = children_of(process.pid)
        yield child, inside
    finally:
        for pid in children_of(process.pid):
            os.kill(pid, signal.SIGKILL)
        await child.kill()


async def test_orphans_leave_no_zombies_and_sigterm_drains(tmp_path: Path) -> None:
    """Tasks leave orphans behind; a moment later there is no zombie, every exit code was the true one, and SIGTERM ends it with 0."""
    async with running_manager(tmp_path) as operator:
        variables = delegate_variables(operator.manager.url, await operator.token(), tmp_path / "state")
        async with first_process(tmp_path, **variables) as (child, inside):
            tasks = [await operator.submit(f"orphan-{number}") for number in range(12)]
            for task in tasks:
                assert (await operator.finished(task))["task"]["outcome"] == "succeeded"
            assert len(effects(tmp_path, "began")) == 12

            await eventually(lambda: "Z" not in children_of(inside).values())
            os.kill(inside, signal.SIGTERM)

            assert await child.ended() == 0, child.text()
            assert child.logs()[-1]["event"] == "daemon.stopped"
