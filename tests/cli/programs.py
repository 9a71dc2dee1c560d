"""Runs the program as a child process, the way people and scripts do."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_KEPT = ("PATH", "HOME", "TMPDIR", "LANG", "SSL_CERT_FILE")


@dataclass(frozen=True)
class Ended:
    """A child process that ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> Any:
        """Standard output, which must be one JSON document and nothing else."""
        return json.loads(self.stdout)


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a child process sees: nothing of DELEGATE_* but what the test gives."""
    return {name: os.environ[name] for name in _KEPT if name in os.environ} | dict(extra or {})


def run(*arguments: str, env: Mapping[str, str] | None = None) -> Ended:
    """`python -m delegate ARGUMENTS`, to its end."""
    return run_python("-m", "delegate", *arguments, env=env)


def run_python(*arguments: str, env: Mapping[str, str] | None = None) -> Ended:
    """The interpreter of the tests, to its end; no expected fault shows a traceback."""
    ended = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=50, env=environment(env), check=False)
    assert "Traceback" not in ended.stderr, ended.stderr
    return Ended(ended.returncode, ended.stdout, ended.stderr)
