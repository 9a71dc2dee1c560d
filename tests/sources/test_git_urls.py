"""Addresses of repositories: which are read, which are refused, and what is shown of them."""

from pathlib import Path

import pytest

from delegate.engine.sources.errors import LocalSourceError, RepositoryUrlError
from delegate.engine.sources.git.settings import GitCredentials, Login, given_login
from delegate.engine.sources.git.urls import Transport, parse_url
from delegate.foundation.secrets import Secret


@pytest.mark.parametrize(
    ("text", "transport", "host", "address"),
    [
        ("https://git.example/team/app.git", Transport.HTTPS, "git.example", "https://git.example/team/app.git"),
        ("https://Git.Example:8443/app", Transport.HTTPS, "git.example", "https://git.example:8443/app"),
        ("https://ada:geheim@git.example/app", Transport.HTTPS, "git.example", "https://git.example/app"),
        ("http://localhost:3000/app", Transport.HTTP, "localhost", "http://localhost:3000/app"),
        ("ssh://git@git.example/team/app.git", Transport.SSH, "git.example", "ssh://git@git.example/team/app.git"),
        ("ssh://git@git.example:2222/app", Transport.SSH, "git.example", "ssh://git@git.example:2222/app"),
        ("git@git.example:team/app.git", Transport.SSH, "git.example", "git@git.example:team/app.git"),
        ("git.example:app", Transport.SSH, "git.example", "git.example:app"),
        ("https://[fd00::1]:8443/app", Transport.HTTPS, "fd00::1", "https://[fd00::1]:8443/app"),
    ],
)
def test_addresses_are_read(text: str, transport: Transport, host: str, address: str) -> None:
    """Whatever stands in an argument list carries no password."""
    url = parse_url(text)

    assert (url.transport, url.host, url.address) == (transport, host, address)
    assert "geheim" not in f"{url}{url.shown}{url.key}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-oProxyCommand=touch /tmp/x",
        "--upload-pack=touch",
        "ssh://-oProxyCommand=touch/x",
        "ssh://git@-x/y",
        "ssh://-x@host/y",
        "-x@host:y",
        "host:-y",
        "ext::sh -c touch% /tmp/x",
        "ext::sh",
        "fd::17",
        "ftp://host/x",
        "git://host/x",
        "http://git.example/x",
        "https://git.example",
        "https://git.example/",
        "https:///x",
        "https://git.example/x?y",
        "https://git.example/x#y",
        "https://git.example:99999/x",
        "https://git.example/a b",
        "https://git.example/a\nb",
        "file://host/x",
        "https://ho\\st/x",
    ],
)
def test_what_git_could_be_led_astray_by_is_refused(text: str) -> None:
    """Options, commands, other protocols, insecure ones."""
    with pytest.raises(RepositoryUrlError):
        parse_url(text, allow_local=True)


@pytest.mark.parametrize("text", ["/srv/app.git", "file:///srv/app.git", "./app", "app"])
def test_paths_are_for_local_commands(text: str) -> None:
    """A task from afar can't read this machine's files."""
    with pytest.raises(LocalSourceError):
        parse_url(text)
    assert parse_url(text, allow_local=True).transport is Transport.FILE


def test_ways_to_write_one_address_share_a_mirror() -> None:
    """Ports and trailing slashes that say nothing, and credentials, make no difference; a path relative to a home does."""
    assert len({parse_url(text).key for text in ("https://a/b", "https://u:p@A:443/b/", "https://a:443/b")}) == 1
    assert parse_url("ssh://git@a:22/b").key == parse_url("git@a:/b").key
    assert parse_url("git@a:b").key != parse_url("git@a:/b").key


def test_a_prefix_ends_at_a_slash() -> None:
    """Credentials of one team are not sent to another, and the longest prefix wins."""
    host, team = (
        GitCredentials("https://git.example", "host", Secret("a")),
        GitCredentials("https://git.example/team/", "team", Secret("b")),
    )

    def login(url: str, *credentials: GitCredentials) -> Login:
        return given_login(parse_url(url), credentials) or Login()

    assert login("https://git.example/team/app", host, team).username == "team"
    assert login("https://git.example/teams/app", host, team).username == "host"
    assert login("https://git.example.evil/team/app", host, team).is_anonymous
    assert login("https://me:mine@git.example/team/app", host, team).username == "me"
    assert login("git@git.example:x", GitCredentials("git@git.example", ssh_key=Path("k"))).ssh_key == Path("k")
    assert "a" not in repr(host).replace("password", "").partition("Secret")[2]
