"""A Git repository with the demo's manifests, and its server: Git's smart protocol over HTTP, by `git upload-pack` itself."""

import asyncio
import os
import subprocess
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from types import TracebackType
from typing import Self

from aiohttp import web

from delegate.demo.errors import DemoError

MANIFESTS = ("web.yaml", "worker.yaml")
_DIRECTORY = "shop"
_BRANCH = "main"
_LARGEST_REQUEST = 8 * 2**20
_GIT_SECONDS = 30.0
_AUTHOR = "delegate demo"
_ADDRESS = "demo@localhost"


class Repository:
    """A work tree in a directory of its own, served read-only on loopback while the context is entered."""

    def __init__(self, directory: Path) -> None:
        self._work_tree = directory / "config"
        self._environment = _git_environment(directory)
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._lay_out)
        await self._git("init", "--quiet", "--initial-branch", _BRANCH)
        application = web.Application(client_max_size=_LARGEST_REQUEST)
        application.router.add_get("/config.git/info/refs", self._advertise)
        application.router.add_post("/config.git/git-upload-pack", self._upload_pack)
        self._runner = web.AppRunner(application, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/config.git"
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def path(self) -> str:
        """Where in the repository the application is."""
        return _DIRECTORY

    def edit(self, name: str, before: str, after: str) -> int:
        """Replaces the one place where a manifest says `before`, and answers its line. Nothing is committed."""
        file = self._work_tree / _DIRECTORY / name
        text = file.read_text()
        if text.count(before) != 1:
            raise DemoError(f"{name} says {before!r} {text.count(before)} times, and once was expected")
        file.write_text(text.replace(before, after))
        return text[: text.index(before)].count("\n") + 1

    async def commit(self, message: str) -> str:
        """Commits what the work tree holds; the id of the commit."""
        await self._git("add", "--all")
        await self._git("commit", "--quiet", "--message", message)
        return (await self._git("rev-parse", "HEAD")).decode().strip()

    async def revert(self) -> str:
        """Takes the last commit back with another one."""
        await self._git("revert", "--no-edit", "HEAD")
        return (await self._git("rev-parse", "HEAD")).decode().strip()

    def _lay_out(self) -> None:
        target = self._work_tree / _DIRECTORY
        target.mkdir(parents=True)
        for name in MANIFESTS:
            (target / name).write_bytes(files("delegate.demo").joinpath(name).read_bytes())

    async def _advertise(self, request: web.Request) -> web.Response:
        if request.query.get("service") != "git-upload-pack":
            raise web.HTTPForbidden(text="only fetching is served\n")
        refs = await self._git("upload-pack", "--stateless-rpc", "--advertise-refs", ".git", protocol=_protocol(request))
        # Protocol 2 greets without the service line of the older ones.
        head = b"" if "version=2" in _protocol(request) else b"001e# service=git-upload-pack\n0000"
        return _git_answer("git-upload-pack-advertisement", head + refs)

    async def _upload_pack(self, request: web.Request) -> web.Response:
        body = await request.read()
        pack = await self._git("upload-pack", "--stateless-rpc", ".git", protocol=_protocol(request), stdin=body)
        return _git_answer("git-upload-pack-result", pack)

    async def _git(self, *arguments: str, protocol: str = "", stdin: bytes = b"") -> bytes:
        environment = {**self._environment, "GIT_PROTOCOL": protocol} if protocol else self._environment
        return await asyncio.to_thread(self._run_git, arguments, environment, stdin)

    def _run_git(self, arguments: tuple[str, ...], environment: Mapping[str, str], stdin: bytes) -> bytes:
        try:
            ended = subprocess.run(
                ["git", *arguments],
                cwd=self._work_tree,
                env=environment,
                input=stdin,
                capture_output=True,
                timeout=_GIT_SECONDS,
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise DemoError(f"git {arguments[0]}: {error}", hint="check that git works on this machine") from error
        if ended.returncode != 0:
            raise DemoError(f"git {arguments[0]} ended with {ended.returncode}: {ended.stderr.decode(errors='replace').strip()}")
        return ended.stdout


def _git_environment(directory: Path) -> Mapping[str, str]:
    """Git as it comes, whatever this machine and its user have configured."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(directory),
        "LC_ALL": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_AUTHOR_NAME": _AUTHOR,
        "GIT_AUTHOR_EMAIL": _ADDRESS,
        "GIT_COMMITTER_NAME": _AUTHOR,
        "GIT_COMMITTER_EMAIL": _ADDRESS,
    }


def _protocol(request: web.Request) -> str:
    """The protocol version asked for; only known words reach a child's environment."""
    return "version=2" if "version=2" in request.headers.get("Git-Protocol", "") else ""


def _git_answer(kind: str, body: bytes) -> web.Response:
    return web.Response(body=body, content_type=f"application/x-{kind}", headers={"Cache-Control": "no-cache"})
