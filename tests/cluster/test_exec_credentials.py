"""Credential plugins run bounded: with a deadline, in a group of their own, and without anything of ours."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from delegate.engine.clusters.errors import CredentialError
from delegate.engine.clusters.exec_credentials import run_plugin
from delegate.engine.clusters.kubeconfig import KubeconfigSource
from tests.cluster.servers import eventually

V1 = "client.authentication.k8s.io/v1"
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/home/me", "AWS_PROFILE": "shop", "DELEGATE_TOKEN": "token-of-ours", "OTHER": "x"}


def plugin(directory: Path, script: str) -> dict[str, Any]:
    """The settings of a plugin that is this shell script."""
    path = directory / "plugin.sh"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return {"apiVersion": V1, "command": "./plugin.sh", "interactiveMode": "Never"}


def credential(**status: object) -> str:
    return json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": status})


async def run(settings: dict[str, Any], directory: Path, timeout: float = 20.0, **cluster: object) -> Any:
    return await run_plugin(settings, cluster, directory=directory, timeout=timeout, environment=ENVIRONMENT)


@pytest.mark.parametrize("version", [V1, "client.authentication.k8s.io/v1beta1"])
async def test_a_token_with_its_expiry(version: str, tmp_path: Path) -> None:
    """Both versions in use are spoken."""
    body = json.loads(credential(token="token-of-plugin", expirationTimestamp="2030-01-01T00:00:00Z")) | {"apiVersion": version}
    settings = plugin(tmp_path, f"echo '{json.dumps(body)}'") | {"apiVersion": version}

    given = await run(settings, tmp_path)

    assert given.token == "token-of-plugin"
    assert given.expires_at == 1893456000.0
    assert "token-of-plugin" not in repr(given)


async def test_it_sees_arguments_and_cluster_and_nothing_of_ours(tmp_path: Path) -> None:
    """Its environment: what finds and configures it, its own variables, and the cluster if it wants that."""
    settings = plugin(tmp_path, f'env > "{tmp_path}/env"; echo "$@" > "{tmp_path}/args"; echo \'{credential(token="t-o-k-e-n")}\'')
    settings |= {"args": ["get", "--cluster", "prod"], "env": [{"name": "MODE", "value": "test"}], "provideClusterInfo": True}

    await run(settings, tmp_path, server="https://api.example")

    variables = dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines() if "=" in line)
    assert (tmp_path / "args").read_text() == "get --cluster prod\n"
    assert variables["MODE"] == "test"
    assert variables["AWS_PROFILE"] == "shop"
    assert "DELEGATE_TOKEN" not in variables
    assert "OTHER" not in variables
    information = json.loads(variables["KUBERNETES_EXEC_INFO"])
    assert information["spec"] == {"interactive": False, "cluster": {"server": "https://api.example"}}


async def test_a_plugin_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    """The deadline ends the whole group, also a child that ignores the polite signals."""
    settings = plugin(tmp_path, f'trap "" TERM INT HUP; sleep 1000 & echo $! > "{tmp_path}/child"; wait')

    with pytest.raises(CredentialError, match=r"gave no answer within 0\.5 s"):
        await run(settings, tmp_path, timeout=0.5)

    child = int((tmp_path / "child").read_text())
    await eventually(lambda: not _is_running(child))


async def test_cancelling_kills_the_plugin(tmp_path: Path) -> None:
    """A task that is cancelled leaves no process behind."""
    settings = plugin(tmp_path, f'echo $$ > "{tmp_path}/pid"; sleep 1000')
    running = asyncio.create_task(run(settings, tmp_path))
    pid_file = tmp_path / "pid"
    await eventually(lambda: pid_file.exists() and pid_file.read_text().strip())
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    pid = int(pid_file.read_text())
    await eventually(lambda: not _is_running(pid))


async def test_endless_output_is_bounded(tmp_path: Path) -> None:
    """A plugin that prints without end neither fills our memory nor blocks on its pipe."""
    settings = plugin(tmp_path, "head -c 5000000 /dev/zero; head -c 5000000 /dev/zero >&2")

    with pytest.raises(CredentialError, match="printed no JSON"):
        await run(settings, tmp_path)


FAULTS: dict[str, tuple[str, dict[str, Any], str]] = {
    "fails": ("echo 'not logged in' >&2; exit 3", {}, "ended with code 3: not logged in"),
    "prints no JSON": ("echo hello", {}, "printed no JSON"),
    "prints another kind": ("echo '{}'", {}, "something else than an ExecCredential"),
    "prints nothing of use": (f"echo '{credential()}'", {}, "neither a token nor a certificate"),
    "gives a key without a certificate": (f"echo '{credential(clientKeyData='k')}'", {}, "neither a token nor a certificate"),
    "gives a time that is none": (f"echo '{credential(token='t-o-k-e-n', expirationTimestamp='soon')}'", {}, "no time"),
    "isn't installed": ("", {"command": "no-such-plugin", "installHint": "pip install it"}, "isn't installed"),
    "isn't where it says": ("", {"command": "./elsewhere.sh"}, "isn't installed"),
    "wants a terminal": ("", {"interactiveMode": "Always"}, "wants a terminal"),
    "speaks an old version": ("", {"apiVersion": "client.authentication.k8s.io/v1alpha1"}, "v1alpha1"),
}


@pytest.mark.parametrize(("script", "changes", "message"), FAULTS.values(), ids=FAULTS.keys())
async def test_what_a_plugin_does_wrong_is_named(script: str, changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    """The plugin, its fault, and what to do."""
    with pytest.raises(CredentialError) as caught:
        await run(plugin(tmp_path, script) | changes, tmp_path)

    assert message in caught.value.message
    assert caught.value.category.value == "permission"


async def test_a_secret_in_a_complaint_is_hidden(tmp_path: Path) -> None:
    """What the plugin prints as it fails may repeat a token."""
    settings = plugin(tmp_path, "echo 'refused: Bearer abcdefgh12345678' >&2; exit 1")

    with pytest.raises(CredentialError) as caught:
        await run(settings, tmp_path)

    assert "abcdefgh12345678" not in str(caught.value)


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def _kubeconfig(directory: Path, settings: dict[str, Any]) -> Path:
    path = directory / "config"
    document = {
        "kind": "Config",
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://api.example"}}],
        "users": [{"name": "u", "user": {"exec": settings}}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


async def test_a_kubeconfig_with_a_plugin_runs_it_when_needed_only(tmp_path: Path) -> None:
    """Once while its token holds, again when the server refuses it."""
    script = (
        f'echo run >> "{tmp_path}/runs"; n=$(wc -l < "{tmp_path}/runs"); echo \'{credential(token="token-N")}\' | sed "s/token-N/token-$n/"'
    )
    source = KubeconfigSource(str(_kubeconfig(tmp_path, plugin(tmp_path, script))), "", ENVIRONMENT)

    first, second, third = await source.load(), await source.load(), await source.load(rejected=True)

    tokens = [each.authorization.reveal() if each.authorization else "" for each in (first, second, third)]
    assert tokens == ["Bearer token-1", "Bearer token-1", "Bearer token-2"]


async def test_a_plugin_runs_again_before_its_token_expires(tmp_path: Path) -> None:
    """A token that has a minute left is renewed before it is refused."""
    script = f"echo run >> \"{tmp_path}/runs\"; echo '{credential(token='t-o-k-e-n', expirationTimestamp='2020-01-01T00:00:00+00:00')}'"
    source = KubeconfigSource(str(_kubeconfig(tmp_path, plugin(tmp_path, script))), "", ENVIRONMENT)

    await source.load()
    await source.load()

    assert (tmp_path / "runs").read_text().count("run") == 2
