"""Which forge an address is at, and where its interface is."""

import pytest

from delegate.engine.forges.calls import ForgeAccess
from delegate.engine.forges.errors import UnknownForgeError
from delegate.engine.forges.places import ForgeKind, KnownForge, place_of, read_forges
from delegate.foundation.secrets import Secret


@pytest.mark.parametrize(
    ("address", "kind", "api", "path"),
    [
        ("https://github.com/shop/config.git", "github", "https://api.github.com", "shop/config"),
        ("git@github.com:shop/config.git", "github", "https://api.github.com", "shop/config"),
        ("ssh://git@gitlab.com:22/a/b/config", "gitlab", "https://gitlab.com/api/v4", "a/b/config"),
        ("https://gitlab.corp.example:8443/a/b.git", "gitlab", "https://gitlab.corp.example:8443/api/v4", "a/b"),
        ("https://gitee.com/a/b", "gitee", "https://gitee.com/api/v5", "a/b"),
        ("https://codeberg.org/a/b", "gitea", "https://codeberg.org/api/v1", "a/b"),
        ("https://bitbucket.org/a/b", "bitbucket", "https://api.bitbucket.org/2.0", "a/b"),
        ("ssh://git@stash.example:7999/KEY/b.git", "bitbucket-server", "https://stash.example/rest", "KEY/b"),
        ("https://stash.example/context/scm/~ada/b.git", "bitbucket-server", "https://stash.example/context/rest", "~ada/b"),
        ("https://own.example/a/b.git", "gitea", "https://api.own.example/v1", "a/b"),
    ],
)
def test_addresses(address: str, kind: str, api: str, path: str) -> None:
    """Well-known hosts, hosts that say it in their name, and those that settings name."""
    known = read_forges(["stash.example=bitbucket-server", "own.example=gitea@https://api.own.example/v1/"])
    place = place_of(address, known)
    assert (place.kind, place.api, place.path) == (kind, api, path)


def test_an_unknown_host() -> None:
    """The setting that says it is named."""
    with pytest.raises(UnknownForgeError) as raised:
        place_of("https://ada:secret-word@code.example/a/b.git")
    assert "DELEGATE_FORGES to code.example=KIND" in raised.value.hint
    assert "secret-word" not in raised.value.message
    with pytest.raises(UnknownForgeError, match="no owner and name"):
        place_of("https://github.com/config")


@pytest.mark.parametrize("entry", ["code.example", "code.example=svn", "=gitlab", "code.example=gitlab@ftp://x"])
def test_settings_that_cannot_be_meant(entry: str) -> None:
    """The kinds that there are stand in the hint."""
    with pytest.raises(UnknownForgeError) as raised:
        read_forges([entry])
    assert "bitbucket-server" in raised.value.hint


def test_a_name_with_a_port() -> None:
    """An entry may be for one port of a host."""
    known = (KnownForge("127.0.0.1:1", ForgeKind.GITEA), KnownForge("127.0.0.1:2", ForgeKind.GITLAB))
    assert place_of("http://127.0.0.1:2/a/b", known).kind is ForgeKind.GITLAB


def test_user_and_password() -> None:
    """Where a user's name is given beside an app password, both are sent; names that stand for tokens are none."""
    assert ForgeAccess("ada", Secret("pw")).basic_or_bearer() == "Basic YWRhOnB3"
    assert ForgeAccess("x-token-auth", Secret("pw")).basic_or_bearer() == "Bearer pw"
