"""The demo's delegate: the real daemon in a process of its own, `python -m delegate run`, and nothing told it but by settings."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from delegate.demo.errors import UnexpectedError
from delegate.demo.operators import Operator
from delegate.foundation.secrets import Secret

_REGISTER_SECONDS = 30.0
_STOP_SECONDS = 20.0
_POLL_SECONDS = 0.05
_LOG_LINES = 15
_LOG_BYTES = 16 * 2**10
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV", "PYTHONPATH", "LD_LIBRARY_PATH")


class DelegateProcess:
    """A running delegate, with its state and its log in a directory of its own."""

    def __init__(self, directory: Path, *, name: str, manager_url: str, token: Secret, kubeconfig: str) -> None:
        self.name = name
        self.log = directory / f"{name}.log"
        self._directory = directory
        self._manager_url = manager_url
        self._token = token
        self._kubeconfig = kubeconfig
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        environment = await asyncio.to_thread(self._lay_out)
        with self.log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "delegate",
                "run",
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,  # Ctrl-C reaches the demo alone, which stops the delegate in order
            )
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._process is not None and self._process.returncode is None:
            await self._end(self._process)

    async def wait_until_connected(self, operator: Operator) -> None:
        """Returns when the manager sees it. Raises UnexpectedError that has its last log lines."""
        assert self._process is not None
        try:
            async with asyncio.timeout(_REGISTER_SECONDS):
                while self._process.returncode is None:
                    seen = await operator.find_delegate(self.name)
                    if seen is not None and seen["connection"] == "Connected" and seen["clusters"]:
                        return
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            raise UnexpectedError(f"the delegate has not registered within {_REGISTER_SECONDS:g} s{self._last_words()}") from None
        raise UnexpectedError(f"the delegate ended with {self._process.returncode} before it registered{self._last_words()}")

    async def drain(self) -> None:
        """Stops it as an operator would. Raises UnexpectedError where it doesn't end with 0."""
        assert self._process is not None
        code = await self._end(self._process)
        if code != 0:
            raise UnexpectedError(f"the delegate ended with {code} after SIGTERM, and 0 was expected{self._last_words()}")

    async def _end(self, process: asyncio.subprocess.Process) -> int:
        process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                return await process.wait()
        except TimeoutError:
            return -signal.SIGKILL
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    def _lay_out(self) -> dict[str, str]:
        state = self._directory / "state"
        state.mkdir(mode=0o700)
        return {
            **{name: os.environ[name] for name in _PASSED_ON if name in os.environ},
            "HOME": str(self._directory),
            "DELEGATE_MANAGER_URL": self._manager_url,
            "DELEGATE_NAME": self.name,
            "DELEGATE_TOKEN_FILE": str(_private(self._directory / "token", self._token.reveal())),
            "DELEGATE_KUBECONFIG": str(_private(self._directory / "kubeconfig", self._kubeconfig)),
            "DELEGATE_STATE_DIR": str(state),
            "DELEGATE_DLQ_DIR": str(self._directory / "dead-letters"),
            "DELEGATE_HTTP_HOST": "127.0.0.1",
            "DELEGATE_HTTP_PORT": "0",
        }

    def _last_words(self) -> str:
        """The end of its log, for an error."""
        try:
            with self.log.open("rb") as log:
                log.seek(max(0, self.log.stat().st_size - _LOG_BYTES))
                lines = log.read().decode(errors="replace").splitlines()[-_LOG_LINES:]
        except OSError:
            return ""
        return "".join(f"\n    {line}" for line in lines)


def _private(path: Path, content: str) -> Path:
    path.touch(mode=0o600)
    path.write_text(content)
    return path
