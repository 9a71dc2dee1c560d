"""One rule says which proxy a URL goes through, for us and for every child process."""

import pytest

from delegate.foundation.secrets import SecretUrl
from delegate.foundation.settings.proxies import ProxyRules
from tests.foundation.settings_cases import load_delegate

PROXY = "http://proxy.example:3128"


def direct(url: str, *no_proxy: str) -> bool:
    rules = ProxyRules(SecretUrl(PROXY), SecretUrl(PROXY), no_proxy)
    return rules.address_for(url) is None


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:8080",
        "https://127.0.0.1",
        "https://127.9.9.9:1",
        "https://[::1]:6443",
        "https://kubernetes.default.svc",
        "https://db.team.svc",
        "https://db.team.svc.cluster.local:5432",
        "https://KUBERNETES.DEFAULT.SVC./",
    ],
)
def test_loopback_and_names_inside_the_cluster_are_always_direct(url: str) -> None:
    """With no exception configured at all."""
    assert direct(url)


@pytest.mark.parametrize(
    ("entry", "url", "is_direct"),
    [
        ("example.com", "https://example.com", True),
        ("example.com", "https://api.example.com", True),
        ("example.com", "https://badexample.com", False),
        (".example.com", "https://api.example.com", True),
        ("*.example.com", "https://api.example.com", True),
        ("EXAMPLE.com", "https://api.Example.COM", True),
        ("example.com:8443", "https://example.com:8443", True),
        ("example.com:443", "https://example.com", True),
        ("example.com:8443", "https://example.com", False),
        ("10.0.0.1", "http://10.0.0.1", True),
        ("10.0.0.1", "http://10.0.0.10", False),
        ("10.0.0.0/8", "http://10.200.3.4:80", True),
        ("10.0.0.0/8", "http://11.0.0.1", False),
        ("10.0.0.0/8", "http://10.example.com", False),
        ("10.0.0.1:8080", "http://10.0.0.1:8080", True),
        ("10.0.0.1:8080", "http://10.0.0.1", False),
        ("[fd00::10]", "https://[fd00::10]:8443", True),
        ("[fd00::10]:8443", "https://[fd00::10]:8443", True),
        ("[fd00::10]:8443", "https://[fd00::10]", False),
        ("fd00::10", "https://[fd00::10]", True),
        ("fd00::/8", "https://[fd12::1]", True),
        ("[fd00::]/8", "https://[fd12::1]", True),
        ("fd00::/8", "https://[fe80::1]", False),
        ("*", "https://anything.example", True),
        (".", "https://anything.example", False),
        ("", "https://anything.example", False),
    ],
)
def test_exceptions_are_names_suffixes_addresses_networks_and_ports(entry: str, url: str, is_direct: bool) -> None:
    """In every form that NO_PROXY is written in."""
    assert direct(url, entry) is is_direct


def test_each_scheme_has_its_own_proxy() -> None:
    """http and https go where their variables say; other schemes go directly."""
    rules = ProxyRules(SecretUrl("http://plain:1"), SecretUrl("http://tls:2"))

    assert rules.address_for("http://a.example") == "http://plain:1"
    assert rules.address_for("https://a.example") == "http://tls:2"
    assert rules.address_for("ssh://a.example") is None
    assert ProxyRules().address_for("https://a.example") is None


def test_child_processes_get_the_same_rules() -> None:
    """In both spellings, with the addresses that are always direct."""
    network = load_delegate({"HTTPS_PROXY": "proxy.example:3128", "NO_PROXY": "example.com, 10.0.0.0/8"}).settings.network

    given = ProxyRules.from_settings(network).environment()

    assert given["HTTPS_PROXY"] == given["https_proxy"] == PROXY
    assert "HTTP_PROXY" not in given
    assert (
        given["NO_PROXY"]
        == given["no_proxy"]
        == "example.com,10.0.0.0/8,localhost,127.0.0.1,::1,.svc,.cluster.local,kubernetes.default.svc"
    )
    assert ProxyRules().environment() == {}
