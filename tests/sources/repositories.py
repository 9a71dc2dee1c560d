"""Real repositories in temporary directories, and real servers in front of them: smart HTTP and SSH."""

import asyncio
import base64
import contextlib
import os
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, Self

import asyncssh
import pytest
from aiohttp import web

from delegate.engine.sources.git.settings import GitSettings
from delegate.engine.sources.limits import SourceLimits
from delegate.engine.sources.manifests import Sources
from delegate.engine.sources.renders import Rendered, ResolvedRevision
from delegate.engine.sources.targets import Target
from delegate.foundation.errors import DelegateError
from delegate.model.sources import DirectoryOptions, Source
from tests.sources.loading import CASES
from tests.tools import search_path

ENVIRONMENT = {"PATH": search_path()}
GIT_ENVIRONMENT = {
    **ENVIRONMENT,
    **{
        f"GIT_{role}_{field}": value
        for role in ("AUTHOR", "COMMITTER")
        for field, value in (("NAME", "Test"), ("EMAIL", "test@example.test"))
    },
    **{"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "HOME": "/nonexistent", "GIT_ALLOW_PROTOCOL": "file"},
}


def config_map(name: str, **data: str) -> str:
    members = "".join(f"  {key}: {value!r}\n" for key, value in data.items())
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n" + (f"data:\n{members}" if data else "")


class Repository:
    """A bare repository that is pushed to from a work tree beside it."""

    def __init__(self, folder: Path, name: str = "origin") -> None:
        self.bare = folder / f"{name}.git"
        self.work = folder / f"{name}.work"
        git("init", "-q", "--bare", "-b", "main", str(self.bare))
        git("init", "-q", "-b", "main", str(self.work))
        self.git("remote", "add", "origin", str(self.bare))

    @property
    def url(self) -> str:
        return f"file://{self.bare}"

    def git(self, *arguments: str) -> str:
        return git("-C", str(self.work), *arguments)

    def commit(self, files: Mapping[str, str | bytes | None], *, push: str = "main") -> str:
        """Writes files (None removes one), commits and pushes to a branch. Returns the commit's id."""
        for name, content in files.items():
            path = self.work / name
            if content is None:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return self.commit_work_tree(push=push)

    def commit_work_tree(self, *, push: str = "main") -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "change")
        self.git("push", "-q", "-f", "origin", f"HEAD:refs/heads/{push}")
        return self.git("rev-parse", "HEAD")


def git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], env=GIT_ENVIRONMENT, check=True, capture_output=True, stdin=subprocess.DEVNULL, text=True, timeout=50
    ).stdout.strip()


def run_case(name: str, folder: Path) -> str:
    """Runs a case's make.sh in a folder and returns what it printed."""
    command = ["/bin/sh", str(CASES / name / "make.sh"), str(folder)]
    return subprocess.run(command, env=GIT_ENVIRONMENT, check=True, capture_output=True, text=True, timeout=50).stdout


def make_sources(folder: Path, settings: GitSettings | None = None, limits: SourceLimits | None = None, **environment: str) -> Sources:
    return Sources(
        cache_dir=folder / "cache", allow_local=True, settings=settings, limits=limits, environment={**ENVIRONMENT, **environment}
    )


def source_of(url: str, revision: str = "HEAD", path: str = ".", *, recurse: bool = True, include: str = "", exclude: str = "") -> Source:
    return Source(repo_url=url, target_revision=revision, path=path, directory=DirectoryOptions(recurse, include, exclude))


async def resolve(sources: Sources, url: str, revision: str = "HEAD") -> ResolvedRevision:
    return await sources.resolve(source_of(url, revision), timeout=40)


async def render(sources: Sources, source: Source, target: Target | None = None) -> Rendered:
    return await sources.render(source, await sources.resolve(source, timeout=40), timeout=40, target=target)


async def fault_of(sources: Sources, source: Source) -> DelegateError:
    """The one fault that rendering a source ends with."""
    with pytest.raises(DelegateError) as caught:
        await render(sources, source)
    return caught.value


def names(rendered: Rendered) -> list[str]:
    return [manifest.name for manifest in rendered.manifests]


class HttpServer:
    """git-http-backend behind aiohttp, as a host would run it.

    `logins` are the accepted users and passwords (none: anybody may read). `interfere` may answer a request itself.
    """

    def __init__(self, root: Path, logins: Mapping[str, str] | None = None, tls: ssl.SSLContext | None = None) -> None:
        self.root = root
        self.tls = tls
        self.logins = logins or {}
        self.requests: list[str] = []
        self.interfere: Callable[[web.Request], object] | None = None
        self.address = ""

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["HttpServer"]:
        application = web.Application(client_max_size=64 * 1024 * 1024)
        application.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self.tls)
        await site.start()
        self.address = f"127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()

    def url(self, name: str, login: str = "") -> str:
        return f"{'https' if self.tls else 'http'}://{login}{self.address}/{name}"

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(f"{request.method} {request.path_qs}")
        if self.interfere is not None:
            answer = self.interfere(request)
            if asyncio.iscoroutine(answer):
                answer = await answer
            if isinstance(answer, web.StreamResponse):
                return answer
        user = self._user(request)
        if self.logins and user is None:
            return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="git"'})
        return await self._run_backend(request, user or "")

    def _user(self, request: web.Request) -> str | None:
        scheme, _, encoded = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "basic":
            return None
        user, _, password = base64.b64decode(encoded).decode().partition(":")
        return user if self.logins.get(user) == password else None

    async def _run_backend(self, request: web.Request, user: str) -> web.Response:
        body = await request.read()
        environment = {
            **GIT_ENVIRONMENT,
            **{"GIT_PROJECT_ROOT": str(self.root), "GIT_HTTP_EXPORT_ALL": "1", "REMOTE_USER": user},
            **{"PATH_INFO": request.path, "QUERY_STRING": request.query_string, "REQUEST_METHOD": request.method},
            **{"CONTENT_TYPE": request.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(len(body))},
            **{
                "HTTP_CONTENT_ENCODING": request.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": request.headers.get("Git-Protocol", ""),
            },
        }
        process = await asyncio.create_subprocess_exec(
            "/usr/lib/git-core/git-http-backend", stdin=-1, stdout=-1, stderr=-3, env=environment
        )
        output, _ = await process.communicate(body)
        head, _, content = output.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        status = int(headers.pop("Status", "200").split()[0])
        return web.Response(status=status, headers=headers, body=content)


_SERVICES = ("git-upload-pack", "git-receive-pack")


class SshServer:
    """git-upload-pack and git-receive-pack behind asyncssh: keys only, one host key."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root = root
        self.host_key = asyncssh.generate_private_key("ssh-ed25519")
        self.user_key = asyncssh.generate_private_key("ssh-ed25519")
        self.key_file = folder / "id_ed25519"
        self.key_file.write_bytes(self.user_key.export_private_key())
        self.key_file.chmod(0o600)
        self.port = 0
        self.commands: list[str] = []

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        keys = asyncssh.import_authorized_keys(self.user_key.export_public_key().decode())
        server = await asyncssh.listen(
            "127.0.0.1", 0, server_host_keys=[self.host_key], authorized_client_keys=keys, process_factory=self._serve, encoding=None
        )
        self.port = server.get_port()
        try:
            yield self
        finally:
            server.close()
            await server.wait_closed()

    def url(self, name: str) -> str:
        return f"ssh://git@127.0.0.1:{self.port}/{name}"

    def write_known_hosts(self, file: Path, key: asyncssh.SSHKey | None = None) -> Path:
        public = (key or self.host_key).export_public_key().decode()
        file.write_text(f"[127.0.0.1]:{self.port} {public}")
        return file

    async def _serve(self, process: "asyncssh.SSHServerProcess[bytes]") -> None:
        command = process.command or ""
        self.commands.append(command)
        service, _, quoted = command.partition(" ")
        name = quoted.strip("'").lstrip("/")
        if service not in _SERVICES or ".." in name:
            process.exit(1)
            return
        environment = GIT_ENVIRONMENT | {"GIT_PROTOCOL": process.env.get("GIT_PROTOCOL", "")}
        child = await asyncio.create_subprocess_exec(service, str(self.root / name), stdin=-1, stdout=-1, stderr=-1, env=environment)
        asking = asyncio.ensure_future(_copy(process.stdin, child.stdin))
        await asyncio.gather(_copy(child.stdout, process.stdout), _copy(child.stderr, process.stderr))
        process.exit(await child.wait())
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


async def _copy(source: Any, target: Any) -> None:
    with contextlib.suppress(BrokenPipeError, ConnectionResetError, asyncssh.BreakReceived):
        while chunk := await source.read(65536):
            target.write(chunk)
            await target.drain()
    if isinstance(target, asyncio.StreamWriter):
        target.close()
