"""`delegate simulator`: the simulated cluster as a process of its own."""

import base64
import json
import signal
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.programs import environment, run


@contextmanager
def _simulator(*options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A running one and its address, which is the first thing that it prints."""
    command = [sys.executable, "-m", "delegate", "simulator", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()) as child:
        try:
            assert child.stdout is not None
            yield child, child.stdout.readline().strip()
        finally:
            child.kill()


def _ask(url: str, token: str, context: ssl.SSLContext | None = None) -> Any:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=20, context=context) as answer:
        return json.load(answer)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_it_is_told_to_end(number: signal.Signals, tmp_path: Path) -> None:
    """The kubeconfig is there, readable by its owner alone, before the address is printed."""
    kubeconfig = tmp_path / "kubeconfig"
    with _simulator("--kubeconfig-out", str(kubeconfig), "--admin-token", "an-admin", "--limited-token", "a-limited") as (child, url):
        document = yaml.safe_load(kubeconfig.read_text())
        assert kubeconfig.stat().st_mode & 0o777 == 0o600
        assert document["clusters"][0]["cluster"]["server"] == url
        assert document["users"][0]["user"]["token"] == "an-admin"

        names = [item["metadata"]["name"] for item in _ask(f"{url}/api/v1/namespaces", "an-admin")["items"]]
        assert "kube-system" in names
        with pytest.raises(urllib.error.HTTPError, match="403"):
            _ask(f"{url}/api/v1/namespaces", "a-limited")

        child.send_signal(number)
        child.communicate(timeout=20)

    assert child.returncode == 0


def test_with_tls_only_its_kubeconfig_trusts_it(tmp_path: Path) -> None:
    """The authority is in the kubeconfig."""
    kubeconfig = tmp_path / "kubeconfig"
    with _simulator("--tls", "--kubeconfig-out", str(kubeconfig), "--admin-token", "an-admin") as (_, url):
        assert url.startswith("https://127.0.0.1:")
        cluster = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]
        authority = ssl.create_default_context()
        authority.load_verify_locations(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())

        assert _ask(f"{url}/version", "an-admin", authority)["major"]
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            _ask(f"{url}/version", "an-admin")


def test_a_port_that_is_taken_is_named() -> None:
    """With what to do; 2."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        ended = run("simulator", "--port", str(port))

    assert ended.code == 2
    assert f"127.0.0.1:{port} can't be listened on" in ended.stderr
    assert "--port" in ended.stderr


def test_a_kubeconfig_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    """Before anybody relies on it."""
    ended = run("simulator", "--kubeconfig-out", str(tmp_path / "absent" / "kubeconfig"))

    assert ended.code == 2
    assert "absent/kubeconfig can't be written" in ended.stderr


def test_without_its_extra_it_says_how_to_install_it() -> None:
    """A delegate's own installation doesn't carry the simulator's data."""
    code = """
import importlib.util, sys
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "kubernetes_validate" else found(name, package)
from delegate.cli.program import run_program
sys.exit(run_program(["simulator"]))
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50, env=environment(), check=False)

    assert ended.returncode == 2
    assert "the extra 'simulator'" in ended.stderr
    assert "pip install 'delegate[simulator]'" in ended.stderr
