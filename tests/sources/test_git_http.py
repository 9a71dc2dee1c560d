"""Repositories over smart HTTP: credentials, refusals, and what is asked of the server."""

import asyncio
import socket
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import web

from delegate.engine.sources.errors import (
    AuthenticationError,
    CertificateError,
    CorruptRepositoryError,
    GitTimeoutError,
    HostUnreachableError,
    RepositoryNotFoundError,
    TransferError,
)
from delegate.engine.sources.git.settings import GitCredentials, GitSettings
from delegate.foundation.errors import DelegateError
from delegate.foundation.secrets import Secret
from tests.sources.repositories import HttpServer, Repository, config_map, make_sources, names, render, resolve, source_of

PASSWORD = "s3cr3t-t0ken/+@:"


def settings_for(server: HttpServer, user: str = "ada", password: str = PASSWORD) -> GitSettings:
    return GitSettings((GitCredentials(f"http://{server.address}", user, Secret(password)),))


def assert_hidden(error: DelegateError) -> None:
    assert PASSWORD not in f"{error!r} {error} {error.hint} {error.__cause__!r}"


async def test_one_listing_and_one_fetch_a_commit(repository: Repository, tmp_path: Path) -> None:
    """Resolving lists once; rendering fetches what the mirror doesn't have, and then nothing."""
    repository.commit({"apps/cm.yaml": config_map("one")})
    async with HttpServer(tmp_path).running() as server:
        sources = make_sources(tmp_path)
        source = source_of(server.url("origin.git"), "main", "apps")

        resolved = await sources.resolve(source, timeout=40)
        listing = len(server.requests)
        assert listing == 2, "the advertisement of capabilities, and the listing"
        assert names(await sources.render(source, resolved, timeout=40)) == ["one"]
        fetched = len(server.requests)
        assert fetched > listing
        await sources.render(source, resolved, timeout=40)
        assert len(server.requests) == fetched
        await sources.resolve(source_of(source.repo_url, resolved.revision), timeout=40)
        assert len(server.requests) == fetched, "a full id that is in the mirror needs nobody"


async def test_callers_at_the_same_time_share_listings(repository: Repository, tmp_path: Path) -> None:
    """A hundred resolves cost two listings: the one under way, and the next."""
    repository.commit({"cm.yaml": config_map("one")})
    async with HttpServer(tmp_path).running() as server:
        sources = make_sources(tmp_path)
        found = await asyncio.gather(*(resolve(sources, server.url("origin.git"), "main") for _ in range(100)))

        assert len({each.revision for each in found}) == 1
        assert len(server.requests) <= 4


class TestCredentials:
    async def test_they_come_from_the_settings(self, repository: Repository, tmp_path: Path) -> None:
        """The longest prefix that covers the address wins."""
        repository.commit({"cm.yaml": config_map("one")})
        async with HttpServer(tmp_path, {"ada": PASSWORD}).running() as server:
            wrong = GitCredentials("http://", "eve", Secret("wrong"))
            sources = make_sources(tmp_path, GitSettings((wrong, *settings_for(server).credentials)))
            assert names(await render(sources, source_of(server.url("origin.git")))) == ["one"]

    async def test_or_from_the_address_itself(self, repository: Repository, tmp_path: Path) -> None:
        """They are shown nowhere."""
        repository.commit({"cm.yaml": config_map("one")})
        async with HttpServer(tmp_path, {"ada": "geheim42", "x-access-token": "tokentoken"}).running() as server:
            sources = make_sources(tmp_path)
            for login in ("ada:geheim42@", "tokentoken@"):
                resolved = await resolve(sources, server.url("origin.git", login))
                assert resolved.repo_url == server.url("origin.git", "(hidden)@")

    async def test_missing_ones_are_named(self, repository: Repository, tmp_path: Path) -> None:
        """Nobody is prompted."""
        async with HttpServer(tmp_path, {"ada": PASSWORD}).running() as server:
            with pytest.raises(AuthenticationError, match="wants credentials, and none are set for it") as raised:
                await resolve(make_sources(tmp_path), server.url("origin.git"))
            assert raised.value.hint == "set a username and a token for 127.0.0.1"
            assert raised.value.category == "permission"

    async def test_refused_ones_are_not_shown(self, repository: Repository, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        """Neither in the error nor in the log."""
        async with HttpServer(tmp_path, {"ada": "other"}).running() as server:
            with pytest.raises(AuthenticationError, match="refuses the credentials of ada") as raised:
                await resolve(make_sources(tmp_path, settings_for(server)), server.url("origin.git"))
        assert_hidden(raised.value)
        assert PASSWORD not in "".join(capfd.readouterr())

    async def test_they_go_to_no_other_host(self, repository: Repository, tmp_path: Path) -> None:
        """A redirect to somebody else carries no credentials along."""
        repository.commit({"cm.yaml": config_map("one")})
        async with HttpServer(tmp_path, {"ada": PASSWORD}).running() as stranger, HttpServer(tmp_path).running() as server:
            elsewhere = f"http://localhost:{stranger.address.split(':')[1]}"
            server.interfere = lambda request: web.Response(status=302, headers={"Location": elsewhere + request.path_qs})
            with pytest.raises(AuthenticationError):
                await resolve(make_sources(tmp_path, settings_for(server)), server.url("origin.git"))
            assert stranger.requests

    async def test_they_are_in_no_argument_list(self, repository: Repository, tmp_path: Path) -> None:
        """While git runs, its command line is for everybody to see."""
        repository.commit({"cm.yaml": config_map("one")})
        async with HttpServer(tmp_path, {"ada": PASSWORD}).running() as server:
            seen: list[bytes] = []

            def look(request: web.Request) -> None:
                for process in Path("/proc").glob("[0-9]*/cmdline"):
                    try:
                        seen.append(process.read_bytes())
                    except OSError:
                        continue

            server.interfere = look
            login = "ada:" + "".join(f"%{byte:02X}" for byte in PASSWORD.encode()) + "@"
            await render(make_sources(tmp_path), source_of(server.url("origin.git", login)))

        told = b"\n".join(seen)
        assert b"ls-remote" in told
        assert PASSWORD.encode() not in told
        assert login.encode() not in told


class TestAnswers:
    """What a server may do instead of serving."""

    async def test_no_such_repository(self, tmp_path: Path) -> None:
        """The address is named."""
        async with HttpServer(tmp_path).running() as server:
            with pytest.raises(RepositoryNotFoundError, match=r"/none\.git: there is no such repository"):
                await resolve(make_sources(tmp_path), server.url("none.git"))

    async def test_a_page(self, tmp_path: Path) -> None:
        """A port that answers HTML is no repository."""
        async with HttpServer(tmp_path).running() as server:
            server.interfere = lambda request: web.Response(text="<html>\n<p>hello\n</html>\n", content_type="text/html")
            with pytest.raises(RepositoryNotFoundError, match="answers, but not as a Git repository"):
                await resolve(make_sources(tmp_path), server.url("origin.git"))

    @pytest.mark.parametrize("status", [500, 503, 429])
    async def test_not_now(self, tmp_path: Path, status: int) -> None:
        """It can be tried again."""
        async with HttpServer(tmp_path).running() as server:
            server.interfere = lambda request: web.Response(status=status)
            with pytest.raises(TransferError, match=f"127.0.0.1 answered {status}") as raised:
                await resolve(make_sources(tmp_path), server.url("origin.git"))
            assert raised.value.retryable

    async def test_nobody_there(self, tmp_path: Path) -> None:
        """The host is named, and it can be tried again."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            with pytest.raises(HostUnreachableError, match=r"127\.0\.0\.1 can't be reached") as raised:
                await resolve(make_sources(tmp_path), f"http://127.0.0.1:{taken.getsockname()[1]}/x.git")
        assert raised.value.retryable

    async def test_no_such_host(self, tmp_path: Path) -> None:
        """Names that don't resolve are named."""
        with pytest.raises(HostUnreachableError, match=r"nowhere\.invalid can't be reached"):
            await resolve(make_sources(tmp_path), "https://nowhere.invalid/x.git")

    async def test_no_tls(self, tmp_path: Path) -> None:
        """https to a port that speaks http."""
        async with HttpServer(tmp_path).running() as server:
            with pytest.raises((CertificateError, HostUnreachableError, TransferError)):
                await resolve(make_sources(tmp_path), f"https://{server.address}/x.git")

    async def test_silence(self, repository: Repository, tmp_path: Path) -> None:
        """The deadline holds, nothing is left behind, and the next call finds no lock."""
        repository.commit({"cm.yaml": config_map("one")})
        async with HttpServer(tmp_path).running() as server:
            sources = make_sources(tmp_path)
            source = source_of(server.url("origin.git"), "main")
            resolved = await sources.resolve(source, timeout=40)
            asked = asyncio.Event()

            async def stall(request: web.Request) -> None:
                asked.set()
                await asyncio.Event().wait()

            server.interfere = stall
            with pytest.raises(GitTimeoutError, match=r"reading \w+ took longer than 1\.5 s") as raised:
                await sources.render(source, resolved, timeout=1.5)
            assert (asked.is_set(), raised.value.retryable, raised.value.category) == (True, True, "timeout")

            server.interfere = None
            assert names(await sources.render(source, resolved, timeout=40)) == ["one"]
        assert not list((tmp_path / "cache").rglob("*.git/**/*.lock"))

    async def test_a_transfer_that_breaks_off(self, repository: Repository, tmp_path: Path) -> None:
        """Half a pack is no commit; the next fetch brings it whole."""
        repository.commit({"cm.yaml": config_map("one"), "big.bin": bytes(range(256)) * 4000})
        async with HttpServer(tmp_path).running() as server:
            sources = make_sources(tmp_path)
            source = source_of(server.url("origin.git"), "main")
            resolved = await sources.resolve(source, timeout=40)
            whole = server._run_backend

            async def halve(request: web.Request) -> web.StreamResponse | None:
                body = await request.read()
                if b"command=fetch" not in body:
                    return None
                answer = await whole(request, "")
                assert isinstance(answer.body, bytes)
                return web.Response(body=answer.body[: len(answer.body) // 2], content_type=answer.content_type)

            server.interfere = halve
            with pytest.raises(DelegateError) as raised:
                await sources.render(source, resolved, timeout=40)
            assert raised.value.category in ("transient", "dependency")
            server.interfere = None
            assert names(await sources.render(source, resolved, timeout=40)) == ["one"]


class TestCertificates:
    """https, with an authority of one's own."""

    async def test_an_authority_is_trusted_when_it_is_given(self, repository: Repository, tmp_path: Path) -> None:
        """By SSL_CERT_FILE, as for everything else; without it the host is named."""
        repository.commit({"cm.yaml": config_map("one")})
        authority = trustme.CA()
        authority.cert_pem.write_to_path(tmp_path / "ca.pem")
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        async with HttpServer(tmp_path, tls=context).running() as server:
            trusting = make_sources(tmp_path, SSL_CERT_FILE=str(tmp_path / "ca.pem"))
            assert names(await render(trusting, source_of(server.url("origin.git")))) == ["one"]
            with pytest.raises(CertificateError, match=r"127\.0\.0\.1: its TLS certificate is not trusted"):
                await resolve(make_sources(tmp_path), server.url("origin.git"))
            with pytest.raises(CertificateError):
                await resolve(trusting, server.url("origin.git").replace("127.0.0.1", "localhost"))


class TestHardening:
    """Nobody else's configuration has a say, and what is received is checked."""

    async def test_no_configuration_but_ours_is_read(self, repository: Repository, tmp_path: Path) -> None:
        """A home full of helpers, hooks, aliases and addresses to take instead."""
        repository.commit({"cm.yaml": config_map("one")})
        touched = tmp_path / "touched"
        home = tmp_path / "home"
        hooks = home / "hooks"
        hooks.mkdir(parents=True)
        for hook in ("reference-transaction", "post-checkout", "pre-auto-gc"):
            (hooks / hook).write_text(f"#!/bin/sh\ntouch {touched}\n")
            (hooks / hook).chmod(0o755)
        (home / ".gitconfig").write_text(
            f"[core]\nhooksPath = {hooks}\nfsmonitor = touch {touched}\nsshCommand = touch {touched}\n"
            f"[credential]\nhelper = !touch {touched}\n[alias]\nls-remote = !touch {touched}\n"
            '[url "http://127.0.0.1:1/"]\ninsteadOf = http://127.0.0.1\n'
        )
        outside: dict[str, Any] = {
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home),
            "GIT_CONFIG_GLOBAL": str(home / ".gitconfig"),
            "GIT_DIR": "/nowhere",
        }
        async with HttpServer(tmp_path, {"ada": PASSWORD}).running() as server:
            sources = make_sources(tmp_path, settings_for(server), **outside, GIT_ASKPASS=f"touch {touched}")
            assert names(await render(sources, source_of(server.url("origin.git"), "main"))) == ["one"]
        assert not touched.exists()

    async def test_objects_are_checked_on_their_way_in(self, repository: Repository, tmp_path: Path) -> None:
        """A tree with an entry called `.git` is refused by fsck, and never read."""
        blob = repository.git("hash-object", "-w", "--stdin")
        tree = hash_tree(repository, b"100644 .git\0" + bytes.fromhex(blob))
        commit = repository.git("commit-tree", tree, "-m", "bad")
        repository.git("push", "-q", "origin", f"{commit}:refs/heads/bad")
        async with HttpServer(tmp_path).running() as server:
            with pytest.raises(CorruptRepositoryError, match="fails git's checks"):
                await render(make_sources(tmp_path), source_of(server.url("origin.git"), "bad"))


def hash_tree(repository: Repository, content: bytes) -> str:
    command = ["git", "-C", str(repository.work), "hash-object", "-t", "tree", "-w", "--literally", "--stdin"]
    return subprocess.run(command, input=content, check=True, capture_output=True, timeout=30).stdout.decode().strip()


async def test_the_proxy_rule_is_ours(repository: Repository, tmp_path: Path) -> None:
    """Loopback goes directly whatever NO_PROXY says; another host goes to the proxy, which is named when it isn't there."""
    repository.commit({"cm.yaml": config_map("one")})
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        proxy = f"http://127.0.0.1:{taken.getsockname()[1]}"
        sources = make_sources(tmp_path, GitSettings(allow_http=True), HTTP_PROXY=proxy, HTTPS_PROXY=proxy)
        async with HttpServer(tmp_path).running() as server:
            assert (await resolve(sources, server.url("origin.git"))).revision
        with pytest.raises(HostUnreachableError, match=r"git\.example can't be reached"):
            await resolve(sources, "http://git.example/x.git")
