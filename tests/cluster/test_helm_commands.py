"""What helm is given for a moment: a kubeconfig that only we can read, whatever the credentials are."""

import base64
import json
import os
import stat
from pathlib import Path

import pytest

from delegate.engine.clusters.credentials import ClientCertificate, Credentials, bearer
from delegate.engine.sources.errors import CommandNotFoundError
from delegate.engine.tasks.errors import HelmFailedError
from delegate.engine.tasks.helm_commands import HelmCommands
from delegate.foundation.secrets import Secret

_SCRIPT = """#!/bin/sh
while [ "$1" != --kubeconfig ]; do shift; done
stat -c %a "$2" > {out}/mode
cp "$2" {out}/kubeconfig
env > {out}/environment
{ending}
"""


def program(directory: Path, ending: str = "") -> HelmCommands:
    """One that keeps what it was given."""
    path = directory / "helm"
    path.write_text(_SCRIPT.format(out=directory, ending=ending))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return HelmCommands(str(path), directory / "homes", {"PATH": os.environ["PATH"], "DELEGATE_TOKEN": "of-ours"})


async def given(directory: Path, credentials: Credentials) -> dict[str, object]:
    await program(directory).roll_back(credentials, name="shop", revision=3, namespace="ops", seconds=20.0)
    document = json.loads((directory / "kubeconfig").read_text())
    assert (directory / "mode").read_text() == "600\n"
    assert list((directory / "homes").iterdir()) == []
    return {**document["clusters"][0]["cluster"], **document["users"][0]["user"]}


async def test_every_way_to_log_in(tmp_path: Path) -> None:
    """A token, a password, a certificate; and whom to believe."""
    encoded = base64.b64encode(b"ada:pass:word").decode()
    certificate = ClientCertificate(b"chain", b"key")

    assert await given(tmp_path, Credentials("https://c", bearer("t-1"))) == {"server": "https://c", "token": "t-1"}
    basic = await given(tmp_path, Credentials("https://c", Secret(f"Basic {encoded}")))
    assert basic == {"server": "https://c", "username": "ada", "password": "pass:word"}
    shown = await given(tmp_path, Credentials("https://c", ca=b"ca", certificate=certificate, server_name="k"))
    pem = {"client-certificate-data": b"chain", "client-key-data": b"key", "certificate-authority-data": b"ca"}
    assert shown == {"server": "https://c", "tls-server-name": "k"} | {name: base64.b64encode(each).decode() for name, each in pem.items()}


async def test_it_sees_nothing_of_ours(tmp_path: Path) -> None:
    """No variable of the delegate's, no home of its user's."""
    await given(tmp_path, Credentials("https://c"))

    environment = (tmp_path / "environment").read_text()
    assert "of-ours" not in environment
    assert f"HOME={tmp_path / 'homes'}" in environment


async def test_what_goes_wrong_is_told(tmp_path: Path) -> None:
    """In helm's words; and where there is none, what to do. Nothing is left either way."""
    failing = program(tmp_path, "echo 'Error: release: not found' >&2; exit 1")
    with pytest.raises(HelmFailedError, match="helm rollback shop 3 ended with 1: Error: release: not found"):
        await failing.roll_back(Credentials("https://c"), name="shop", revision=3, namespace="ops", seconds=20.0)
    assert list((tmp_path / "homes").iterdir()) == []

    missing = HelmCommands("no-such-helm", tmp_path, {"PATH": os.environ["PATH"]})
    with pytest.raises(CommandNotFoundError, match="no-such-helm is not installed"):
        await missing.roll_back(Credentials("https://c"), name="shop", revision=3, namespace="ops", seconds=20.0)
