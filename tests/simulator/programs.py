"""kubectl and helm against a simulated cluster, with nothing of the machine's own settings."""

import asyncio
from pathlib import Path
from typing import NamedTuple

from delegate.simulator.server import Simulator
from tests.tools import require_tool, search_path

SECONDS_EACH = 90.0
"""More than any command waits by its own flags."""


class Printed(NamedTuple):
    code: int
    stdout: list[str]
    stderr: list[str]


class Person:
    """Somebody at a terminal: a home with a kubeconfig, a folder to work in, and a namespace that helm works in."""

    def __init__(self, simulator: Simulator, home: Path, namespace: str = "default") -> None:
        kubeconfig = home / "kubeconfig"
        kubeconfig.touch(mode=0o600)
        kubeconfig.write_text(simulator.kubeconfig(), encoding="utf-8")
        self.folder = home / "work"
        self.folder.mkdir()
        places = {"HOME": str(home), "TMPDIR": str(home), "KUBECONFIG": str(kubeconfig)}
        self._environment = {"PATH": search_path(), "HELM_NAMESPACE": namespace, **places}

    async def run(self, command: str) -> Printed:
        """A command as recorded: words without quotes."""
        program, *arguments = command.split()
        pipe = asyncio.subprocess.PIPE
        child = await asyncio.create_subprocess_exec(
            require_tool(program),
            *arguments,
            cwd=self.folder,
            env=self._environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
        )
        try:
            async with asyncio.timeout(SECONDS_EACH):
                out, err = await child.communicate()
        except TimeoutError:
            child.kill()
            await child.wait()
            raise
        assert child.returncode is not None
        return Printed(child.returncode, _lines(out), _lines(err))


def _lines(output: bytes) -> list[str]:
    """Without the empty lines around, as recorded."""
    return output.decode().strip("\n").splitlines()
