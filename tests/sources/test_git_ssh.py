"""Repositories over SSH, with host keys that have to be known."""

from pathlib import Path

import asyncssh
import pytest

from delegate.engine.sources.errors import AuthenticationError, HostKeyError, HostUnreachableError, RepositoryNotFoundError
from delegate.engine.sources.git.settings import GitCredentials, GitSettings
from tests.sources.repositories import Repository, SshServer, config_map, make_sources, names, render, resolve, source_of


def settings_for(server: SshServer, known_hosts: Path, key: Path | None = None) -> GitSettings:
    credentials = GitCredentials("ssh://git@127.0.0.1", ssh_key=key or server.key_file)
    return GitSettings((credentials,), known_hosts)


async def test_a_repository_is_read(repository: Repository, tmp_path: Path) -> None:
    """With its own key and the server's key known."""
    repository.commit({"cm.yaml": config_map("one")})
    async with SshServer(tmp_path, tmp_path).running() as server:
        known_hosts = server.write_known_hosts(tmp_path / "known hosts")
        sources = make_sources(tmp_path, settings_for(server, known_hosts))

        assert names(await render(sources, source_of(server.url("origin.git"), "main"))) == ["one"]
        assert server.commands
        assert all(command == "git-upload-pack '/origin.git'" for command in server.commands)


async def test_another_host_key_is_refused(repository: Repository, tmp_path: Path) -> None:
    """Before anything is asked of the server."""
    async with SshServer(tmp_path, tmp_path).running() as server:
        known_hosts = server.write_known_hosts(tmp_path / "known_hosts", asyncssh.generate_private_key("ssh-ed25519"))
        with pytest.raises(HostKeyError, match=r"127\.0\.0\.1: its SSH host key is not the one that is known") as raised:
            await resolve(make_sources(tmp_path, settings_for(server, known_hosts)), server.url("origin.git"))
        assert "known_hosts" in raised.value.hint
        assert not raised.value.retryable
        assert server.commands == []


async def test_an_unknown_host_key_is_refused(repository: Repository, tmp_path: Path) -> None:
    """There is no trust on first use."""
    async with SshServer(tmp_path, tmp_path).running() as server:
        (tmp_path / "known_hosts").touch()
        with pytest.raises(HostKeyError):
            await resolve(make_sources(tmp_path, settings_for(server, tmp_path / "known_hosts")), server.url("origin.git"))


async def test_a_key_that_is_not_accepted_is_told(repository: Repository, tmp_path: Path) -> None:
    """As a matter of permission."""
    async with SshServer(tmp_path, tmp_path).running() as server:
        stranger = tmp_path / "stranger"
        stranger.write_bytes(asyncssh.generate_private_key("ssh-ed25519").export_private_key())
        stranger.chmod(0o600)
        known_hosts = server.write_known_hosts(tmp_path / "known_hosts")
        with pytest.raises(AuthenticationError) as raised:
            await resolve(make_sources(tmp_path, settings_for(server, known_hosts, stranger)), server.url("origin.git"))
        assert raised.value.category == "permission"


async def test_no_such_repository(tmp_path: Path) -> None:
    """The address is named."""
    async with SshServer(tmp_path, tmp_path).running() as server:
        known_hosts = server.write_known_hosts(tmp_path / "known_hosts")
        with pytest.raises(RepositoryNotFoundError, match=r"none\.git: there is no such repository"):
            await resolve(make_sources(tmp_path, settings_for(server, known_hosts)), server.url("none.git"))


async def test_nobody_there(tmp_path: Path) -> None:
    """The host is named, and it can be tried again."""
    async with SshServer(tmp_path, tmp_path).running() as server:
        pass
    known_hosts = server.write_known_hosts(tmp_path / "known_hosts")
    with pytest.raises(HostUnreachableError, match=r"127\.0\.0\.1 can't be reached") as raised:
        await resolve(make_sources(tmp_path, settings_for(server, known_hosts)), server.url("x.git"))
    assert raised.value.retryable
