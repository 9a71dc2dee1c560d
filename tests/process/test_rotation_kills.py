"""A delegate that is killed at any step of a rotation has an identity that works, with nothing but what is on its disk."""

import asyncio
import signal
import time
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from delegate.daemon.identity.generations import Generations
from tests.daemon.harness import Operator
from tests.daemon.secured import secured_manager
from tests.daemon.waiting import eventually
from tests.process.harness import Child, child_delegate, delegate_variables, effects, started

CHILD = Path(__file__).with_name("rotating_child.py")
NETWORK = [f"{step} {when}" for step in ("renewal", "trial") for when in ("before", "after")]
# Of 23 calls before old generations go: the directory, the key's file, the last file's, naming and flushing, the switch, and after it.
DISK = [f"disk {number}" for number in (1, 2, 3, 4, 17, 18, 19, 20, 21, 22, 23)]


def started_child(directory: Path, operator: Operator, token: str, dies_at: str) -> AbstractAsyncContextManager[Child]:
    variables = delegate_variables(operator.manager.url, token, directory / "state")
    return started(
        directory / "delegate.log",
        "-m",
        "tests.process.rotating_child",
        "run",
        **variables,
        DELEGATE_MANAGER_CA_FILE=str(directory / "manager" / "authorities.pem"),
        EFFECTS_FILE=str(directory / "effects"),
        KILLS_FILE=str(directory / "kills"),
        DIES_AT=dies_at,
    )


async def works(operator: Operator) -> None:
    shown = await operator.finished(await operator.submit("quick"))
    assert shown["task"]["outcome"] == "succeeded"


@pytest.mark.parametrize("steps", [NETWORK, DISK[:6], DISK[6:]], ids=["network", "writing", "switching"])
async def test_a_death_at_each_step_leaves_an_identity_that_works(tmp_path: Path, steps: list[str]) -> None:
    """Killed there, the next process connects with a certificate, does a task without any token, and dies at the next step."""
    generations = Generations(tmp_path / "state" / "certs")
    async with secured_manager(tmp_path) as operator:
        token = await operator.token()
        for number, step in enumerate(steps):
            async with started_child(tmp_path, operator, token if number == 0 else "", step) as child:
                assert await child.ended() == -9, child.text()
            current = generations.load_current()
            assert current is not None
            assert current.number == generations.current_number()
        async with started_child(tmp_path, operator, "", "") as child:
            await rotated(child, tmp_path)
            await works(operator)

        assert (tmp_path / "kills").read_text().splitlines() == steps
        assert len(await operator.delegates()) == 1
        assert [line for line in child.logs() if line["level"] == "error"] == []
        (line,) = effects(tmp_path, "rotated")
        assert int(line.split()[2]) >= 23


async def rotated(child: Child, directory: Path) -> None:
    await eventually(lambda: effects(directory, "rotated") or child.process.returncode is not None, within=20.0)
    assert child.process.returncode is None, child.text()


async def test_a_process_that_was_stopped_through_the_end_of_its_certificate_goes_on(tmp_path: Path) -> None:
    """Case 04: SIGSTOP for longer than the certificate lives; within its next look it has another one, and no call has failed."""
    async with secured_manager(tmp_path) as operator:
        variables = {
            "DELEGATE_MANAGER_CA_FILE": str(tmp_path / "manager" / "authorities.pem"),
            "DELEGATE_ROTATE_INTERVAL": "1s",
        }
        async with child_delegate(tmp_path, operator.manager.url, await operator.token(), **variables) as child:
            await works(operator)
            certificates = Generations(tmp_path / "first" / "certs")
            for _ in range(2):
                child.signal(signal.SIGSTOP)
                current = certificates.load_current()
                assert current is not None
                ends_in = current.material.certificate.not_after.timestamp() - time.time()
                await asyncio.sleep(ends_in + 0.5)
                child.signal(signal.SIGCONT)
                await works(operator)
                await eventually(lambda number=current.number: (certificates.current_number() or 0) > number)  # type: ignore[misc]
            assert child.logs("connection.failed") == []
            assert len(await operator.delegates()) == 1
