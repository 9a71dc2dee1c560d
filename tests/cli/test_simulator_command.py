"""`delegate simulator`: the simulated cluster as a process of its own."""

import base64
import json
import signal
import socket
import ssl
import subprocess
import sys
import time
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


def _manifest(directory: Path, name: str, text: str) -> None:
    directory.mkdir(exist_ok=True)
    (directory / name).write_text(text, encoding="utf-8")


WIDGETS = """apiVersion: example.org/v1
kind: Widget
metadata: {name: first, namespace: team}
spec: {size: 3}
"""
DEFINITION = """apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}
"""


def test_it_starts_with_what_a_directory_holds(tmp_path: Path) -> None:
    """In the order that works, whatever the files are called; namespaces that nothing defines are made."""
    _manifest(tmp_path / "seed", "a.yaml", WIDGETS)
    _manifest(tmp_path / "seed", "b.yaml", DEFINITION)
    with _simulator("--seed", str(tmp_path / "seed"), "--admin-token", "an-admin") as (_, url):
        assert _ask(f"{url}/apis/example.org/v1/namespaces/team/widgets/first", "an-admin")["spec"] == {"size": 3}


@pytest.mark.parametrize(
    ("text", "line", "complaint"),
    [
        ("kind: ConfigMap\n  data: {}\n", 2, "mapping values are not allowed"),
        ("# nothing\n---\njust words\n", 3, "a document that is no object"),
        ("apiVersion: v1\nkind: Nothing\nmetadata: {name: a}\n", 2, "no kind 'Nothing' in 'v1'"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  generateName: a-\n", 4, "metadata.name is missing"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndate: {a: b}\n", 5, "field not declared in schema"),
        (
            "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Service\n  metadata: {name: a}\n"
            "  spec:\n    ports:\n    - {name: a, port: 80}\n    - name: b\n      port: 0\n",
            11,
            "must be between 1 and 65535",
        ),
    ],
)
def test_a_seed_that_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, line: int, complaint: str) -> None:
    """Nothing is served then; 2."""
    _manifest(tmp_path / "seed", "objects.yaml", text)

    ended = run("simulator", "--seed", str(tmp_path / "seed"))

    assert ended.code == 2
    assert f"objects.yaml:{line}: " in ended.stderr
    assert complaint in ended.stderr
    assert ended.stdout == ""


def _put(url: str, name: str) -> None:
    body = json.dumps({"metadata": {"name": name}}).encode()
    headers = {"Authorization": "Bearer an-admin", "Content-Type": "application/json"}
    urllib.request.urlopen(urllib.request.Request(f"{url}/api/v1/namespaces", body, headers), timeout=20).close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_it_goes_on_from_its_snapshot(number: signal.Signals, tmp_path: Path) -> None:
    """Saved at its end, and in between for an end that leaves no time; for the owner's eyes only."""
    snapshot = tmp_path / "cluster.json"
    options = ("--snapshot", str(snapshot), "--admin-token", "an-admin")
    with _simulator(*options) as (child, url):
        _put(url, "kept")
        uid = _ask(f"{url}/api/v1/namespaces/kept", "an-admin")["metadata"]["uid"]
        if number == signal.SIGKILL:
            deadline = time.monotonic() + 30
            while b'"kept"' not in snapshot.read_bytes():
                assert time.monotonic() < deadline
                time.sleep(0.05)
        child.send_signal(number)
        child.communicate(timeout=20)
    assert snapshot.stat().st_mode & 0o777 == 0o600

    with _simulator(*options) as (_, url):
        assert _ask(f"{url}/api/v1/namespaces/kept", "an-admin")["metadata"]["uid"] == uid


@pytest.mark.parametrize("content", ["no snapshot", '{"version": 1, "time": "2026-01-01T00:00:00Z", "format": 99, "objects": []}'])
def test_a_snapshot_that_is_none_is_named(content: str, tmp_path: Path) -> None:
    """And left as it is."""
    snapshot = tmp_path / "cluster.json"
    snapshot.write_text(content)

    ended = run("simulator", "--snapshot", str(snapshot))

    assert ended.code == 2
    assert f"{snapshot}: " in ended.stderr
    assert snapshot.read_text() == content


def test_its_time_runs_as_fast_as_wanted(tmp_path: Path) -> None:
    """A Job that takes a minute of the cluster's time is over in a second of ours."""
    job = """apiVersion: batch/v1
kind: Job
metadata: {name: slow}
spec:
  template:
    metadata: {annotations: {simulator.delegate.dev/ready-after: "60"}}
    spec: {restartPolicy: Never, containers: [{name: main, image: "job:1"}]}
"""
    _manifest(tmp_path / "seed", "job.yaml", job)
    with _simulator("--seed", str(tmp_path / "seed"), "--speed", "100", "--admin-token", "an-admin") as (_, url):
        deadline = time.monotonic() + 30
        while not _ask(f"{url}/apis/batch/v1/namespaces/default/jobs/slow", "an-admin")["status"].get("succeeded"):
            assert time.monotonic() < deadline
            time.sleep(0.05)


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
