"""`delegate render --validate`: schema faults by file and line, without any cluster."""

from pathlib import Path

from tests.cli.programs import Ended, run

SET = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
data: {}
immutable: "yes"
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replica: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - image: web:1
        env:
        - name: PASSWORD
          value: 31337
---
apiVersion: policy/v1beta1
kind: PodDisruptionBudget
metadata: {name: web}
"""


def render(home: Path, *arguments: str) -> Ended:
    return run("render", *arguments, env={"HOME": str(home)})


def test_every_fault_is_told_by_file_and_line(tmp_path: Path) -> None:
    """Nothing is printed, the exit code is 2, and no value is said; without the option the same set is rendered."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "set.yaml").write_text(SET)

    ended = render(tmp_path, str(source), "--validate")

    assert ended.code == 2, ended.stderr
    assert ended.stdout == ""
    for line, words in (
        (6, "immutable: is text, and must be true or false"),
        (12, "spec.replica: there is no such field"),
        (18, "spec.template.spec.containers[0]: the field name is required and missing"),
        (21, "spec.template.spec.containers[0].env[0].value: is a number, and must be text"),
        (23, "PodDisruptionBudget of policy/v1beta1 is gone since Kubernetes 1.25: write apiVersion: policy/v1"),
    ):
        assert any(f"set.yaml:{line}:" in said and words in said for said in ended.stderr.splitlines()), (line, ended.stderr)
    assert "did you mean replicas?" in ended.stderr
    assert "31337" not in ended.stderr
    assert render(tmp_path, str(source)).code == 0


def test_what_can_not_be_checked_is_said(tmp_path: Path) -> None:
    """A custom resource whose definition is elsewhere is rendered, with a note."""
    (tmp_path / "set.yaml").write_text("apiVersion: example.org/v1\nkind: Basket\nmetadata: {name: x}\n")

    ended = render(tmp_path, str(tmp_path / "set.yaml"), "--validate", "-o", "json")

    assert (ended.code, ended.document[0]["kind"]) == (0, "Basket")
    assert "example.org/Basket is not validated" in ended.stderr
