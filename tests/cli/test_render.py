"""`delegate render`: what a source holds, exactly, and no cluster anywhere."""

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.cli.programs import Ended, run

LIST = """\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: in-list}
- apiVersion: v1
  kind: Secret
  metadata: {name: in-list}
  data: {password: aHVudGVyMjI=}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: second
  creationTimestamp: null
data: {"on": "y", octal: "0o14", script: "#!/bin/sh\\necho\\n"}
status: {}
"""
LATER = '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "later", "namespace": "x"}}'


def _render(home: Path, *arguments: str) -> Ended:
    """Where there is no kubeconfig: whatever needs a cluster would fail."""
    return run("render", *arguments, env={"HOME": str(home)})


@pytest.fixture
def source(tmp_path: Path) -> Path:
    directory = tmp_path / "source"
    (directory / "sub").mkdir(parents=True)
    (directory / "a.yaml").write_text(LIST)
    (directory / "sub" / "b.json").write_text(LATER)
    (directory / "README.md").write_text("no: manifest\n")
    return directory


def test_json_is_one_array_in_order(source: Path, tmp_path: Path) -> None:
    """By file, then by document; Lists taken apart; nothing defaulted and nothing stripped."""
    ended = _render(tmp_path, str(source), "-o", "json")

    assert ended.code == 0, ended.stderr
    assert [(each["kind"], each["metadata"]["name"]) for each in ended.document] == [
        ("ConfigMap", "in-list"),
        ("Secret", "in-list"),
        ("ConfigMap", "second"),
        ("ConfigMap", "later"),
    ]
    assert ended.document[2] == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "second", "creationTimestamp": None},
        "data": {"on": "y", "octal": "0o14", "script": "#!/bin/sh\necho\n"},
        "status": {},
    }
    assert ended.document[3]["metadata"] == {"name": "later", "namespace": "x"}


def test_yaml_holds_the_same(source: Path, tmp_path: Path) -> None:
    """Rendered again, it is what it was."""
    written = _render(tmp_path, str(source))
    assert written.code == 0
    (tmp_path / "written.yaml").write_text(written.stdout)

    again = _render(tmp_path, str(tmp_path / "written.yaml"), "-o", "json")

    assert again.document == _render(tmp_path, str(source), "-o", "json").document
    assert list(yaml.safe_load_all(written.stdout)) == again.document


def test_a_file_alone_and_a_path_inside(source: Path, tmp_path: Path) -> None:
    """The same objects, whichever way they are named."""
    alone = _render(tmp_path, str(source / "sub" / "b.json"), "-o", "json")
    inside = _render(tmp_path, str(source), "--path", "sub", "-o", "json")

    assert alone.document == inside.document
    assert len(alone.document) == 1


def test_a_revision_is_rendered(source: Path, tmp_path: Path) -> None:
    """What the work tree holds beside it doesn't matter."""
    for arguments in (
        ("init", "-q", "-b", "main"),
        ("add", "sub"),
        ("-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "-qm", "one"),
    ):
        subprocess.run(["git", *arguments], cwd=source, check=True)

    ended = _render(tmp_path, str(source), "--revision", "main", "-o", "json")

    assert [each["metadata"]["name"] for each in ended.document] == ["later"]


def test_all_faults_are_told_in_one_report(source: Path, tmp_path: Path) -> None:
    """With file and line; 2, and nothing on standard output."""
    (source / "broken.yaml").write_text("kind: [\n")
    (source / "half.yaml").write_text("kind: ConfigMap\nmetadata: {name: x}\n")

    ended = _render(tmp_path, str(source))

    errors = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
    assert ended.code == 2
    assert ended.stdout == ""
    assert len(errors) == 2
    assert errors[0].startswith("error: broken.yaml:")
    assert errors[1].startswith("error: half.yaml:1: ")

    document = _render(tmp_path, str(source), "-o", "json").document
    assert [each["file"] for each in document["errors"]] == ["broken.yaml", "half.yaml"]


def test_what_is_skipped_is_noted(source: Path, tmp_path: Path) -> None:
    """A mapping that is no object, on standard error."""
    (source / "values.yaml").write_text("replicas: 3\n")

    ended = _render(tmp_path, str(source), "-o", "json")

    assert ended.code == 0
    assert len(ended.document) == 4
    assert "note: values.yaml:1: document 1 is skipped" in ended.stderr


def test_a_place_that_is_not_there(tmp_path: Path) -> None:
    """Named, with 2."""
    ended = _render(tmp_path, str(tmp_path / "absent"))

    assert ended.code == 2
    assert "absent is neither an existing path nor a URL" in ended.stderr
