"""The renderers on this machine: where they are, and which version, because that is part of what a render depends on."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from delegate.engine.sources.errors import CommandNotFoundError, RenderFailedError
from delegate.engine.sources.jails.running import RenderLimits, open_jail, run_jailed

_VERSION_SECONDS = 30.0
_VERSION_CHARACTERS = 200


class Program:
    """A renderer by its name on PATH or its path, and how it says its version."""

    def __init__(self, name: str, version_arguments: tuple[str, ...], *, outside: Mapping[str, str], variable: str) -> None:
        self.name = name
        self._version_arguments = version_arguments
        self._search = outside.get("PATH") or os.defpath
        self._variable = variable
        self._known: tuple[object, str] | None = None

    def find(self) -> Path:
        """Raises CommandNotFoundError."""
        found = shutil.which(self.name, path=self._search)
        if found is None:
            raise CommandNotFoundError(f"{self.name} is not installed", hint=f"install it on PATH, or set {self._variable} to its path")
        return Path(found).resolve()

    async def version(self, parent: Path, limits: RenderLimits) -> str:
        """What it says its version is, in one line. Asked once for each file that it is."""
        path = self.find()
        status = path.stat()
        known = (path, status.st_mtime_ns, status.st_size)
        if self._known is None or self._known[0] != known:
            async with open_jail(parent, limits) as jail:
                completed = await run_jailed(path, self._version_arguments, jail, timeout=_VERSION_SECONDS)
            if completed.exit_code != 0:
                raise RenderFailedError(f"{path} doesn't say its version: {completed.stderr[:_VERSION_CHARACTERS]}")
            self._known = (known, " ".join(completed.stdout.decode(errors="replace").split())[:_VERSION_CHARACTERS])
        return self._known[1]
