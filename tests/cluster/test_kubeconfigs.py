"""Kubeconfigs are read as kubectl reads them, and what is wrong with one is named with its file and remedy."""

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from delegate.engine.clusters.errors import ClusterError, CredentialError, KubeconfigError
from delegate.engine.clusters.kubeconfig import KubeconfigSource, locate, read_kubeconfig


def document(**changes: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "prod",
        "contexts": [{"name": "prod", "context": {"cluster": "c", "user": "u", "namespace": "shop"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://api.example:6443"}}],
        "users": [{"name": "u", "user": {"token": "token-of-u"}}],
    }
    return whole | changes


def write(path: Path, content: object) -> Path:
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def source(path: Path | str, context: str = "") -> KubeconfigSource:
    return KubeconfigSource(str(path), context, {})


async def test_a_token_becomes_an_authorization(tmp_path: Path) -> None:
    """The plain case: address, bearer token, context's namespace."""
    path = write(tmp_path / "config", document())

    credentials = await source(path).load()

    assert credentials.server == "https://api.example:6443"
    assert credentials.authorization is not None
    assert credentials.authorization.reveal() == "Bearer token-of-u"
    assert credentials.verify
    assert read_kubeconfig(str(path)).namespace_of("prod") == "shop"
    assert "token-of-u" not in repr(credentials)


async def test_every_part_of_the_cluster_is_taken(tmp_path: Path) -> None:
    """CA, certificate and key as data or files relative to the kubeconfig, server name, proxy, insecure."""
    (tmp_path / "client.crt").write_text("CHAIN")
    (tmp_path / "client.key").write_text("the-private-key")
    cluster = {
        "server": "https://10.0.0.1",
        "certificate-authority-data": base64.b64encode(b"THE CA").decode(),
        "tls-server-name": "kubernetes.default",
        "proxy-url": "http://user:proxy-password@proxy.example:3128",
        "insecure-skip-tls-verify": True,
    }
    user = {"client-certificate": "client.crt", "client-key": "client.key"}
    path = write(tmp_path / "config", document(clusters=[{"name": "c", "cluster": cluster}], users=[{"name": "u", "user": user}]))

    credentials = await source(path).load()

    assert credentials.ca == b"THE CA"
    assert credentials.server_name == "kubernetes.default"
    assert not credentials.verify
    assert credentials.proxy is not None
    assert credentials.proxy.reveal() == "http://user:proxy-password@proxy.example:3128"
    assert credentials.certificate is not None
    assert (credentials.certificate.chain, credentials.certificate.key) == (b"CHAIN", b"the-private-key")
    assert credentials.authorization is None
    assert "the-private-key" not in repr(credentials)
    assert "proxy-password" not in repr(credentials)
    assert sorted(os.listdir(tmp_path)) == ["client.crt", "client.key", "config"]


async def test_a_token_file_is_read_again_each_time(tmp_path: Path) -> None:
    """A token that is replaced in its file is used from the next reading on."""
    token = write(tmp_path / "token", "first-token\n")
    path = write(tmp_path / "config", document(users=[{"name": "u", "user": {"tokenFile": "token"}}]))
    reading = source(path)

    first = await reading.load()
    token.write_text("second-token\n")
    second = await reading.load()

    assert first.authorization is not None
    assert first.authorization.reveal() == "Bearer first-token"
    assert second.authorization is not None
    assert second.authorization.reveal() == "Bearer second-token"


async def test_a_changed_kubeconfig_is_noticed(tmp_path: Path) -> None:
    """The file itself is read again too."""
    path = write(tmp_path / "config", document())
    reading = source(path)
    await reading.load()
    write(path, document(users=[{"name": "u", "user": {"token": "another-token"}}]))

    credentials = await reading.load()

    assert credentials.authorization is not None
    assert credentials.authorization.reveal() == "Bearer another-token"


async def test_basic_authentication(tmp_path: Path) -> None:
    """User and password still work where a server takes them."""
    path = write(tmp_path / "config", document(users=[{"name": "u", "user": {"username": "me", "password": "password-of-mine"}}]))

    credentials = await source(path).load()

    assert credentials.authorization is not None
    assert credentials.authorization.reveal() == "Basic " + base64.b64encode(b"me:password-of-mine").decode()


async def test_an_oidc_token_that_holds_is_used(tmp_path: Path) -> None:
    """An OIDC id-token is sent as it is while it has not expired."""
    payload = base64.urlsafe_b64encode(json.dumps({"exp": 4102444800}).encode()).decode().rstrip("=")
    token = f"e30.{payload}.signature"
    provider = {"name": "oidc", "config": {"id-token": token, "client-id": "x", "idp-issuer-url": "https://issuer.example"}}
    path = write(tmp_path / "config", document(users=[{"name": "u", "user": {"auth-provider": provider}}]))

    credentials = await source(path).load()

    assert credentials.authorization is not None
    assert credentials.authorization.reveal() == f"Bearer {token}"


async def test_files_are_merged_and_the_first_wins(tmp_path: Path) -> None:
    """Several files are one, a missing one among them is passed over, relative paths belong to their own file."""
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "ca.crt").write_text("CA OF TWO")
    one = write(tmp_path / "one.yaml", document())
    contexts = [{"name": name, "context": {"cluster": "d", "user": "v"}} for name in ("prod", "edge")]
    clusters = [{"name": "d", "cluster": {"server": "https://d.example", "certificate-authority": "ca.crt"}}]
    two = write(
        tmp_path / "two" / "config",
        document(contexts=contexts, clusters=clusters, users=[{"name": "v", "user": {}}]) | {"current-context": "edge"},
    )
    locations = f"{one}:{tmp_path / 'missing'}:{two}"

    merged = read_kubeconfig(locations)
    edge = await source(locations, "edge").load()

    assert merged.current_context == "prod"
    assert merged.server_of("prod") == "https://api.example:6443"
    assert edge.server == "https://d.example"
    assert edge.ca == b"CA OF TWO"


def test_the_usual_places_are_known() -> None:
    """What is given, else KUBECONFIG, else the file in the home directory."""
    assert locate("/x", {"KUBECONFIG": "/y"}) == "/x"
    assert locate("", {"KUBECONFIG": "/y:/z"}) == "/y:/z"
    assert locate("", {"HOME": "/home/me"}) == "/home/me/.kube/config"


async def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A kubeconfig that doesn't exist is named with the ways to give one."""
    with pytest.raises(KubeconfigError, match=r"the kubeconfig .*/nowhere doesn't exist") as caught:
        await source(tmp_path / "nowhere").load()

    assert "--kubeconfig" in caught.value.hint
    assert caught.value.file == str(tmp_path / "nowhere")


def test_none_of_several_files_exists(tmp_path: Path) -> None:
    """With a list of files, at least one has to exist."""
    with pytest.raises(KubeconfigError, match="none of"):
        read_kubeconfig(f"{tmp_path / 'a'}:{tmp_path / 'b'}")


def test_a_directory_is_no_kubeconfig(tmp_path: Path) -> None:
    """What can't be read says why."""
    with pytest.raises(KubeconfigError, match="Is a directory"):
        read_kubeconfig(str(tmp_path))


def test_malformed_yaml_names_the_line(tmp_path: Path) -> None:
    """A syntax error is found by file and line."""
    path = write(tmp_path / "config", "apiVersion: v1\nkind: Config\ncontexts: [\n  a: {\n")

    with pytest.raises(KubeconfigError) as caught:
        read_kubeconfig(str(path))

    assert caught.value.file == str(path)
    assert caught.value.line is not None
    assert caught.value.line >= 4


FAULTS: dict[str, tuple[Any, str, str]] = {
    "a list": ([], "no kubeconfig", ""),
    "another kind": ({"apiVersion": "v1", "kind": "Pod"}, "no kubeconfig", ""),
    "contexts no list": (document(contexts={}) | {"contexts": {"a": 1}}, "contexts has to be a list", ""),
    "a nameless user": (document(users=[{"user": {}}]), "entry 1 of users needs a name", ""),
    "no current context": (document() | {"current-context": ""}, "names no current-context", "--context (prod)"),
    "a wrong current context": (document() | {"current-context": "prodd"}, "has no context 'prodd'", "did you mean 'prod'"),
    "no such cluster": (document(clusters=[]), "names the cluster 'c', which isn't defined", "clusters"),
    "no such user": (document(users=[]), "names the user 'u', who isn't defined", "users"),
    "no server": (document(clusters=[{"name": "c", "cluster": {}}]), "needs a server", "clusters[].cluster.server"),
    "a server without scheme": (document(clusters=[{"name": "c", "cluster": {"server": "10.0.0.1:6443"}}]), "needs a server", "server"),
    "a missing CA file": (
        document(clusters=[{"name": "c", "cluster": {"server": "https://c", "certificate-authority": "no.crt"}}]),
        "certificate-authority of 'c' can't be read",
        "correct certificate-authority",
    ),
    "CA data that is no base64": (
        document(clusters=[{"name": "c", "cluster": {"server": "https://c", "certificate-authority-data": "x"}}]),
        "is no base64",
        "correct certificate-authority-data",
    ),
    "a certificate without a key": (
        document(users=[{"name": "u", "user": {"client-certificate-data": "QUJD"}}]),
        "has a client-certificate and no client-key",
        "",
    ),
    "a missing token file": (document(users=[{"name": "u", "user": {"tokenFile": "gone"}}]), "token of user 'u' can't be read", ""),
    "an old provider": (
        document(users=[{"name": "u", "user": {"auth-provider": {"name": "gcp"}}}]),
        "auth-provider 'gcp'",
        "users[].user.exec",
    ),
    "an oidc provider without its parts": (
        document(users=[{"name": "u", "user": {"auth-provider": {"name": "oidc", "config": {"client-id": "x"}}}}]),
        "can't be used",
        "kubectl",
    ),
    "a SOCKS proxy": (
        document(clusters=[{"name": "c", "cluster": {"server": "https://c", "proxy-url": "socks5://p:1080"}}]),
        "proxy-url of cluster 'c'",
        "SOCKS",
    ),
}


@pytest.mark.parametrize(("content", "message", "hint"), FAULTS.values(), ids=FAULTS.keys())
async def test_each_fault_is_named_with_its_remedy(content: Any, message: str, hint: str, tmp_path: Path) -> None:
    """What is wrong, in which file or entry, and what to do."""
    path = write(tmp_path / "config", content)

    with pytest.raises(ClusterError) as caught:
        await source(path).load()

    assert isinstance(caught.value, KubeconfigError | CredentialError)
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert str(path) in f"{caught.value.file} {caught.value.message}"
    assert not caught.value.retryable


def test_a_huge_file_is_refused(tmp_path: Path) -> None:
    """A credential file is never gigabytes long; this one isn't read into memory."""
    path = tmp_path / "config"
    with path.open("wb") as file:
        file.truncate(64 * 2**20)

    with pytest.raises(CredentialError, match="larger than"):
        read_kubeconfig(str(path))
