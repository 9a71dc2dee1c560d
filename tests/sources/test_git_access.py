"""Who we are to Git repositories: Secrets and ConfigMaps in Argo CD's formats, real servers of SSH, proxies and GitHub's API."""

import asyncio
import base64
import contextlib
import datetime as dt
import json
import os
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest
import trustme
from aiohttp import web
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from delegate.engine.sources.errors import (
    AccessError,
    AuthenticationError,
    CertificateError,
    FetchAuthenticationError,
    HostKeyError,
    HostUnreachableError,
)
from delegate.engine.sources.manifests import Sources
from delegate.foundation.errors import DelegateError
from tests.sources.chart_servers import free_port, server_context, tinyproxy, until_open
from tests.sources.repositories import HttpServer, Repository, config_map, names, render, resolve, source_of
from tests.sources.test_chart_repositories import sources_in, trust, write_document, write_secret
from tests.tools import require_tool

PASSWORD = "geheim-und-lang"


@pytest.fixture
def origin(tmp_path: Path) -> Repository:
    made = Repository(tmp_path)
    made.commit({"cm.yaml": config_map("one")})
    return made


@pytest.fixture
def sources(tmp_path: Path) -> Iterator[Sources]:
    made = sources_in(tmp_path)
    yield made
    made.close()


def told(error: DelegateError) -> str:
    return f"{error!r} {error} {error.hint} {error.__cause__!r}"


class TestSecrets:
    async def test_one_is_read_again_when_it_changes(
        self, origin: Repository, tmp_path: Path, sources: Sources, capfd: pytest.CaptureFixture[str]
    ) -> None:
        """No restart: the password of the day is used with the next call; no password is shown."""
        async with HttpServer(tmp_path, {"ada": PASSWORD}).running() as server:
            url = server.url("origin.git")
            write_secret(tmp_path, "one", type="git", url=url, username="ada", password=PASSWORD)
            assert names(await render(sources, source_of(url))) == ["one"]

            server.logins = {"ada": "ganz-neues-wort"}
            with pytest.raises(AuthenticationError) as caught:
                await resolve(sources, url)
            write_secret(tmp_path, "one", type="git", url=url, username="ada", password="ganz-neues-wort")
            assert names(await render(sources, source_of(url))) == ["one"]

        assert PASSWORD not in told(caught.value) + "".join(capfd.readouterr())

    async def test_the_longest_template_wins(self, origin: Repository, tmp_path: Path, sources: Sources) -> None:
        """And a repository's own credentials win over any template; one without takes the template's."""
        async with HttpServer(tmp_path, {"ada": PASSWORD}).running() as server:
            base = server.url("").rstrip("/")
            write_secret(tmp_path, "any", template=True, url="http://127.0.0.1", username="eve", password="falsch-falsch")
            write_secret(tmp_path, "host", template=True, url=base, username="ada", password=PASSWORD)
            write_secret(tmp_path, "bare", url=server.url("origin"))
            assert names(await render(sources, source_of(server.url("origin.git")))) == ["one"]

            write_secret(tmp_path, "bare", url=server.url("origin"), username="ada", password="falsch-falsch")
            with pytest.raises(AuthenticationError, match="refuses the credentials of ada"):
                await resolve(sources, server.url("origin.git"))

    async def test_a_prefix_ends_at_a_slash(self, origin: Repository, tmp_path: Path, sources: Sources) -> None:
        """`.../team` is no template for `.../team-two`."""
        async with HttpServer(tmp_path, {"ada": PASSWORD}).running() as server:
            write_secret(tmp_path, "one", template=True, url=server.url("orig"), username="ada", password=PASSWORD)
            with pytest.raises(AuthenticationError, match="none are set for it"):
                await resolve(sources, server.url("origin.git"))

    async def test_a_bearer_token(self, origin: Repository, tmp_path: Path, sources: Sources) -> None:
        """As Bitbucket's access tokens are sent; in no argument list."""
        seen: list[str] = []
        async with HttpServer(tmp_path).running() as server:

            def check(request: web.Request) -> web.Response | None:
                seen.append(request.headers.get("Authorization", ""))
                for process in Path("/proc").glob("[0-9]*/cmdline"):
                    with contextlib.suppress(OSError):
                        assert b"tok-3n-tok-3n" not in process.read_bytes()
                return None if seen[-1] == "Bearer tok-3n-tok-3n" else web.Response(status=401)

            server.interfere = check
            write_secret(tmp_path, "one", url=server.url("origin.git"), bearerToken="tok-3n-tok-3n")
            assert names(await render(sources, source_of(server.url("origin.git")))) == ["one"]
        assert set(seen) == {"Bearer tok-3n-tok-3n"}

    @pytest.mark.parametrize(
        ("fields", "words"),
        [
            ({"username": "ada"}, "has no url"),
            ({"url": "https://git.example.test/x", "type": "svn"}, "type 'svn' of a repository's Secret is not known"),
            ({"url": "https://git.example.test/x", "githubAppPrivateKey": "x", "githubAppID": "one"}, "githubAppID .* is no number"),
        ],
    )
    async def test_one_that_cant_be_read_is_named(self, fields: dict[str, str], words: str, tmp_path: Path, sources: Sources) -> None:
        """The file, and never a value."""
        path = write_secret(tmp_path, "one", fields)
        with pytest.raises(AccessError, match=words) as caught:
            await resolve(sources, "https://git.example.test/x")
        assert caught.value.file == str(path)

    async def test_a_broken_file_leaves_what_was_known(self, origin: Repository, tmp_path: Path, sources: Sources) -> None:
        """Half a file, while it is being written, locks nobody out."""
        async with HttpServer(tmp_path, {"ada": PASSWORD}).running() as server:
            url = server.url("origin.git")
            write_secret(tmp_path, "one", url=url, username="ada", password=PASSWORD)
            await resolve(sources, url)
            (tmp_path / "repositories/two.yaml").write_text("kind: Secret\n  broken: [")
            assert names(await render(sources, source_of(url))) == ["one"]


class TestTls:
    async def test_an_authority_of_the_host(self, origin: Repository, tmp_path: Path, sources: Sources) -> None:
        """From argocd-tls-certs-cm, by name of the host."""
        authority = trustme.CA()
        async with HttpServer(tmp_path, tls=server_context(authority)).running() as server:
            with pytest.raises(CertificateError):
                await resolve(sources, server.url("origin.git"))
            trust(tmp_path, authority)
            assert names(await render(sources, source_of(server.url("origin.git")))) == ["one"]

    async def test_a_client_certificate(self, origin: Repository, tmp_path: Path, sources: Sources) -> None:
        """Its key lies in a file for its owner alone, and only while git runs."""
        authority, ours = trustme.CA(), trustme.CA()
        shown = ours.issue_cert("delegate@example.test")
        key, certificate = shown.private_key_pem.bytes().decode(), shown.cert_chain_pems[0].bytes().decode()
        modes: list[int] = []
        async with HttpServer(tmp_path, tls=server_context(authority, ours)).running() as server:
            trust(tmp_path, authority)
            with pytest.raises(DelegateError):
                await resolve(sources, server.url("origin.git"))
            write_secret(tmp_path, "one", url=server.url("origin.git"), tlsClientCertData=certificate, tlsClientCertKey=key)
            server.interfere = lambda request: modes.extend(
                path.stat().st_mode & 0o777 for path in (tmp_path / "cache/keys").rglob("*") if path.is_file()
            )
            assert names(await render(sources, source_of(server.url("origin.git")))) == ["one"]

        assert modes
        assert set(modes) == {0o600}
        assert not list((tmp_path / "cache/keys").iterdir())
        assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and key[100:160].encode() in path.read_bytes()]


class TestSsh:
    """OpenSSH's own server, on a port of its own."""

    async def test_a_key_and_a_known_host(self, origin: Repository, tmp_path: Path, sources: Sources) -> None:
        """Key and host key from a Secret and a ConfigMap; both forms of addresses."""
        async with sshd(tmp_path) as server:
            server.know(tmp_path)
            write_secret(tmp_path, "one", template=True, url=f"ssh://{server.user}@127.0.0.1:{server.port}", sshPrivateKey=server.key)
            assert names(await render(sources, source_of(server.url(origin)))) == ["one"]
        assert not list((tmp_path / "cache/keys").iterdir())

    async def test_a_host_that_nobody_knows(self, origin: Repository, tmp_path: Path, sources: Sources) -> None:
        """Refused, and nothing is remembered: no trust on first use."""
        async with sshd(tmp_path) as server:
            write_secret(tmp_path, "one", url=server.url(origin), sshPrivateKey=server.key)
            write_document(
                tmp_path,
                "hosts",
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": "argocd-ssh-known-hosts-cm"},
                    "data": {
                        "ssh_known_hosts": "[127.0.0.2]:22 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ5cTWgNL1xnlbKiSHEgP9Yb2Ax5L0nXNfCQyTCWnkMm"
                    },
                },
            )
            for _ in range(2):
                with pytest.raises(HostKeyError, match=r"127\.0\.0\.1: its SSH host key is not the one that is known"):
                    await resolve(sources, server.url(origin))

            server.know(tmp_path)
            assert names(await render(sources, source_of(server.url(origin)))) == ["one"]

    async def test_a_host_that_has_become_another(self, origin: Repository, tmp_path: Path, sources: Sources) -> None:
        """Another key than the known one is refused, unless the Secret says that it doesn't matter."""
        async with sshd(tmp_path) as server:
            server.know(tmp_path, key=_new_key(tmp_path / "other")[1])
            write_secret(tmp_path, "one", url=server.url(origin), sshPrivateKey=server.key)
            with pytest.raises(HostKeyError):
                await resolve(sources, server.url(origin))

            write_secret(tmp_path, "one", url=server.url(origin), sshPrivateKey=server.key, insecureIgnoreHostKey="true")
            assert names(await render(sources, source_of(server.url(origin)))) == ["one"]

    async def test_a_key_that_is_not_let_in(self, origin: Repository, tmp_path: Path, sources: Sources) -> None:
        """Nobody is prompted; a new key in the Secret is used at once."""
        async with sshd(tmp_path) as server:
            server.know(tmp_path)
            write_secret(tmp_path, "one", url=server.url(origin), sshPrivateKey=_new_key(tmp_path / "stranger")[0])
            with pytest.raises(AuthenticationError):
                await resolve(sources, server.url(origin))
            write_secret(tmp_path, "one", url=server.url(origin), sshPrivateKey=server.key)
            assert names(await render(sources, source_of(server.url(origin)))) == ["one"]


class SshDaemon:
    def __init__(self, port: int, key: str, host_key: str) -> None:
        self.port = port
        self.key = key
        self.host_key = host_key
        self.user = os.environ.get("USER") or "root" if os.geteuid() == 0 else os.environ.get("USER", "")

    def url(self, repository: Repository) -> str:
        return f"ssh://{self.user}@127.0.0.1:{self.port}{repository.bare}"

    def know(self, folder: Path, key: str = "", host: str = "127.0.0.1") -> None:
        data = {"ssh_known_hosts": f"[{host}]:{self.port} {key or self.host_key}"}
        metadata = {"name": "argocd-ssh-known-hosts-cm"}
        write_document(folder, "hosts", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


@contextlib.asynccontextmanager
async def sshd(folder: Path, listen: str = "127.0.0.1") -> AsyncIterator[SshDaemon]:
    require_tool("ssh-keygen")
    program = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin") or str(require_tool("sshd"))
    _make_room()
    key, public = _new_key(folder / "user_key")
    _, host_key = _new_key(folder / "host_key")
    authorized = folder / "authorized_keys"
    authorized.write_text(public)
    port = free_port()
    configuration = folder / "sshd_config"
    configuration.write_text(
        f"Port {port}\nListenAddress {listen}\nHostKey {folder / 'host_key'}\nAuthorizedKeysFile {authorized}\nPidFile none\n"
        "StrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\nPermitRootLogin prohibit-password\n"
    )
    process = await asyncio.create_subprocess_exec(
        program, "-D", "-e", "-f", str(configuration), stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        await until_open(port)
        yield SshDaemon(port, key, host_key)
    finally:
        process.terminate()
        await process.wait()


def _make_room() -> None:
    """Where sshd of root wants to separate its privileges."""
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)


def _new_key(path: Path) -> tuple[str, str]:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)], check=True, timeout=30)
    return path.read_text(), path.with_name(f"{path.name}.pub").read_text().strip()


class TestProxies:
    """Debian's tinyproxy, with a login of its own."""

    async def test_of_a_repository(self, origin: Repository, tmp_path: Path, sources: Sources) -> None:
        """The Secret's proxy is used, with its login, for https by CONNECT; a wrong login is a fault that shows no password."""
        authority = trustme.CA()
        trust(tmp_path, authority, "0.0.0.0")
        context = server_context(authority, host="0.0.0.0")
        async with HttpServer(tmp_path, tls=context).running() as server, tinyproxy(tmp_path) as (port, log):
            # An address of this machine that is none of those which are always reached directly.
            url = server.url("origin.git").replace("127.0.0.1", "0.0.0.0")
            write_secret(tmp_path, "one", url=url, proxy=f"http://ada:falsches-wort@127.0.0.1:{port}")
            with pytest.raises(HostUnreachableError, match="through the proxy") as caught:
                await resolve(sources, url)
            assert "falsches-wort" not in told(caught.value)

            write_secret(tmp_path, "one", url=url, proxy=f"http://ada:proxy-passwort@127.0.0.1:{port}")
            assert names(await render(sources, source_of(url))) == ["one"]
            assert f"CONNECT {url.split('/')[2]}" in log.read_text()

            write_secret(tmp_path, "one", url=url, proxy="http://127.0.0.1:1", noProxy="0.0.0.0")
            await resolve(sources, url)

    async def test_for_ssh(self, origin: Repository, tmp_path: Path, sources: Sources) -> None:
        """By CONNECT, with its login, which stands in no argument list; the host's own key is checked as ever."""
        async with sshd(tmp_path, listen="0.0.0.0") as server, tinyproxy(tmp_path) as (port, log):
            url = server.url(origin).replace("127.0.0.1", "0.0.0.0")
            server.know(tmp_path, host="0.0.0.0")
            write_secret(tmp_path, "one", url=url, sshPrivateKey=server.key, proxy=f"http://ada:falsches-wort@127.0.0.1:{port}")
            with pytest.raises(HostUnreachableError, match=r"through the proxy: .*the proxy answers 40\d") as caught:
                await resolve(sources, url)
            assert "falsches-wort" not in told(caught.value)

            write_secret(tmp_path, "one", url=url, sshPrivateKey=server.key, proxy=f"http://ada:proxy-passwort@127.0.0.1:{port}")
            assert names(await render(sources, source_of(url))) == ["one"]
            assert f"CONNECT 0.0.0.0:{server.port}" in log.read_text()
            server.know(tmp_path, key=_new_key(tmp_path / "other")[1], host="0.0.0.0")
            with pytest.raises(HostKeyError):
                await resolve(sources, url)

    async def test_for_ssh_by_socks(self, origin: Repository, tmp_path: Path, sources: Sources) -> None:
        """OpenSSH's own SOCKS server stands in for a proxy; one of another kind is refused by name."""
        async with sshd(tmp_path, listen="0.0.0.0") as server:
            url = server.url(origin).replace("127.0.0.1", "0.0.0.0")
            server.know(tmp_path, host="0.0.0.0")
            async with socks(tmp_path, server) as port:
                write_secret(tmp_path, "one", url=url, sshPrivateKey=server.key, proxy=f"socks5://127.0.0.1:{port}")
                assert names(await render(sources, source_of(url))) == ["one"]
            with pytest.raises(HostUnreachableError, match="through the proxy"):
                await resolve(sources, url)
            write_secret(tmp_path, "one", url=url, sshPrivateKey=server.key, proxy="ftp://ada:geheim42@127.0.0.1")
            with pytest.raises(AccessError, match="none that ssh goes through") as caught:
                await resolve(sources, url)
            assert "geheim42" not in told(caught.value)


@contextlib.asynccontextmanager
async def socks(folder: Path, server: "SshDaemon") -> AsyncIterator[int]:
    """`ssh -D`: a SOCKS server that an SSH server reaches out for."""
    port = free_port()
    trusting = ("-o", "StrictHostKeyChecking=no", "-o", f"UserKnownHostsFile={os.devnull}", "-o", "LogLevel=ERROR")
    place = ("-i", str(folder / "user_key"), "-p", str(server.port), "-l", server.user, "127.0.0.1")
    process = await asyncio.create_subprocess_exec("ssh", "-F", os.devnull, "-N", "-D", f"127.0.0.1:{port}", *trusting, *place)
    try:
        await until_open(port)
        yield port
    finally:
        process.terminate()
        await process.wait()


class GithubServer:
    """The two calls of GitHub's API that a GitHub App makes to read a repository."""

    def __init__(self, key: rsa.RSAPrivateKey, server: HttpServer) -> None:
        self._key = key
        self._server = server
        self.calls: list[str] = []
        self.life = dt.timedelta(hours=1)
        self.url = ""

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["GithubServer"]:
        application = web.Application()
        application.router.add_get("/repos/{owner}/{name}/installation", self._installation)
        application.router.add_post("/app/installations/{id}/access_tokens", self._token)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()

    def _check(self, request: web.Request) -> None:
        self.calls.append(f"{request.method} {request.path}")
        head, claims, signature = request.headers["Authorization"].removeprefix("Bearer ").split(".")
        self._key.public_key().verify(_decoded(signature), f"{head}.{claims}".encode(), padding.PKCS1v15(), hashes.SHA256())
        told = json.loads(_decoded(claims))
        now = dt.datetime.now(dt.UTC).timestamp()
        if told["iss"] != "4711" or not told["iat"] <= now < told["exp"] <= now + 600:
            raise web.HTTPUnauthorized(text='{"message": "Integration not found"}')

    async def _installation(self, request: web.Request) -> web.Response:
        self._check(request)
        return web.json_response({"id": 99, "account": {"login": request.match_info["owner"]}})

    async def _token(self, request: web.Request) -> web.Response:
        self._check(request)
        token = f"ghs_{len(self.calls)}{'x' * 30}"
        self._server.logins = {"x-access-token": token}
        ends = (dt.datetime.now(dt.UTC) + self.life).strftime("%Y-%m-%dT%H:%M:%SZ")
        return web.json_response({"token": token, "expires_at": ends, "permissions": {"contents": "read"}}, status=201)


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class TestGithubApps:
    @pytest.fixture
    def key(self) -> rsa.RSAPrivateKey:
        return rsa.generate_private_key(public_exponent=65537, key_size=2048)

    @staticmethod
    def secret(folder: Path, github: GithubServer, key: rsa.RSAPrivateKey, url: str, **fields: str) -> None:
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        ).decode()
        fields = {"githubAppID": "4711", "githubAppEnterpriseBaseUrl": github.url, "githubAppPrivateKey": pem} | fields
        write_secret(folder, "one", fields, url=url)

    async def test_get_a_token_of_their_installation(
        self, tmp_path: Path, sources: Sources, key: rsa.RSAPrivateKey, capfd: pytest.CaptureFixture[str]
    ) -> None:
        """Found by the owner where the Secret names none; one token serves until shortly before it ends."""
        (tmp_path / "acme").mkdir()
        repository = Repository(tmp_path / "acme", "config")
        repository.commit({"cm.yaml": config_map("one")})
        async with HttpServer(tmp_path, {"nobody": "x"}).running() as server, GithubServer(key, server).running() as github:
            url = server.url("acme/config.git")
            self.secret(tmp_path, github, key, url)
            assert names(await render(sources, source_of(url))) == ["one"]
            await resolve(sources, url)
            assert github.calls == ["GET /repos/acme/config/installation", "POST /app/installations/99/access_tokens"]

            server.logins = {"x-access-token": "revoked"}
            assert names(await render(sources, source_of(url))) == ["one"], "a refused token is got anew"
            assert len(github.calls) == 4
        assert "ghs_" not in "".join(capfd.readouterr())

    async def test_renew_a_token_that_ends(self, origin: Repository, tmp_path: Path, sources: Sources, key: rsa.RSAPrivateKey) -> None:
        """One with less than five minutes left is not used again."""
        async with HttpServer(tmp_path, {"nobody": "x"}).running() as server, GithubServer(key, server).running() as github:
            github.life = dt.timedelta(minutes=4)
            self.secret(tmp_path, github, key, server.url("origin.git"), githubAppInstallationID="7")
            await resolve(sources, server.url("origin.git"))
            await resolve(sources, server.url("origin.git"))
            assert github.calls == ["POST /app/installations/7/access_tokens"] * 2

    async def test_that_github_doesnt_know(self, origin: Repository, tmp_path: Path, sources: Sources, key: rsa.RSAPrivateKey) -> None:
        """Its words are passed on, the key is not."""
        async with HttpServer(tmp_path, {"nobody": "x"}).running() as server, GithubServer(key, server).running() as github:
            self.secret(tmp_path, github, key, server.url("origin.git"), githubAppInstallationID="7", githubAppID="12")
            with pytest.raises(FetchAuthenticationError, match="Integration not found") as caught:
                await resolve(sources, server.url("origin.git"))
        assert "PRIVATE" not in told(caught.value)


async def test_the_tests_proxy_asks_for_a_login(tmp_path: Path) -> None:
    """Or the test of proxies would prove nothing."""
    async with (
        tinyproxy(tmp_path) as (port, _),
        aiohttp.ClientSession() as session,
        session.get("http://127.0.0.1:1/", proxy=f"http://127.0.0.1:{port}") as answer,
    ):
        assert answer.status == 407


def test_a_context_is_one_of_a_server() -> None:
    """Which shows a certificate."""
    assert server_context(trustme.CA()).verify_mode is ssl.CERT_NONE
