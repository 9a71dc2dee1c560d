"""Task documents in files: read whole and strictly, each fault with its line."""

from pathlib import Path

import pytest

from delegate.cli.documents import read_task_file
from delegate.foundation.errors import DelegateError, flatten
from delegate.model.tasks import TaskKind

SYNC = """\
# what the shop's cluster gets
kind: sync
application: shop
destination: {namespace: shop}
spec:
  source:
    repoURL: https://git.example/config.git
    path: apps/shop
options:
  prune: true
"""


def _write(tmp_path: Path, text: str, name: str = "task.yaml") -> str:
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def _faults(path: str) -> list[tuple[str, int | None, str, str]]:
    with pytest.raises(DelegateError) as caught:
        read_task_file(path)
    return [(each.file, each.line, each.message, each.hint) for each in flatten(caught.value)]


def test_a_task_document_is_read(tmp_path: Path) -> None:
    """YAML, or JSON."""
    task = read_task_file(_write(tmp_path, SYNC))

    assert task.kind is TaskKind.SYNC
    assert task.sync_spec().source.path == "apps/shop"
    assert task.options.prune
    assert read_task_file(_write(tmp_path, '{"kind": "diff", "application": "shop"}', "task.json")).kind is TaskKind.DIFF


def test_an_argo_cd_application_is_a_sync(tmp_path: Path) -> None:
    """With its own destination."""
    text = """\
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: guestbook}
spec:
  destination: {server: https://kubernetes.default.svc, namespace: guestbook}
  source: {repoURL: https://git.example/apps.git, targetRevision: v2, path: guestbook}
  syncPolicy: {automated: {prune: true}, syncOptions: [CreateNamespace=true]}
"""
    task = read_task_file(_write(tmp_path, text))

    assert (task.kind, task.application, task.destination.namespace) == (TaskKind.SYNC, "guestbook", "guestbook")
    assert task.options.prune


@pytest.mark.parametrize(
    ("before", "after", "line", "message", "hint"),
    [
        ("    path: apps", "    pth: apps", 8, "unknown field `pth` in spec.source", "did you mean `path`?"),
        ("  prune: true", "  prnue: true", 10, "unknown field `prnue` in options", "did you mean `prune`?"),
        ("  prune: true", "  prune: perhaps", 10, "options.prune: Expected `bool | null`, got `str`", ""),
        ("application: shop", "application: Shop", 3, "application: 'Shop' is no name", ""),
        ("kind: sync", "kind: synch", 2, "kind: Invalid enum value 'synch'", ""),
    ],
)
def test_a_fault_names_its_line(*, before: str, after: str, line: int, message: str, hint: str, tmp_path: Path) -> None:
    """That of the field, or of the nearest one there is."""
    path = _write(tmp_path, SYNC.replace(before, after))

    ((file, told, words, remedy),) = _faults(path)

    assert (file, told) == (path, line)
    assert words.startswith(message)
    assert remedy == hint


CANARY = """\
kind: canary
application: shop
spec:
  workload: {kind: Deployment, name: shop}
  images: {main: registry.example/shop:2}
  steps:
    - setWeight: 20
  smokeTest: {command: [/bin/check]}
  background: [errors]
  verification:
    - {name: errors, type: prometheus, provider: prom, query: up, unit: ratio, threshold: "<= 1%"}
"""


def test_a_canary_that_cant_be_meant_is_refused_when_it_is_read(tmp_path: Path) -> None:
    """Before it waits in a queue for a delegate that would refuse it: a misspelt field, and every check that does not exist."""
    assert read_task_file(_write(tmp_path, CANARY)).kind is TaskKind.CANARY

    misspelt = _write(tmp_path, CANARY.replace("background:", "backgruond:"))
    assert _faults(misspelt) == [(misspelt, 9, "unknown field `backgruond` in spec", "did you mean `background`?")]

    several = _write(tmp_path, CANARY.replace("[errors]", "[erors]").replace("{command: [/bin/check]}", "{}"))
    told = {(line, message.split(":")[0]) for _, line, message, _ in _faults(several)}
    assert told == {(8, "spec.smokeTest.command"), (9, "spec.background")}


GIT_UPDATE = """\
kind: git-update
application: shop
spec:
  repoURL: https://git.example/config.git
  branch: main
  images: {shop/checkout: 1.4.0}
  edits:
    - {file: values.yaml, path: image.tag, value: 1.4.0}
"""


def test_a_git_update_that_cant_be_meant_is_refused_when_it_is_read(tmp_path: Path) -> None:
    """As a canary."""
    assert read_task_file(_write(tmp_path, GIT_UPDATE)).kind is TaskKind.GIT_UPDATE

    misspelt = _write(tmp_path, GIT_UPDATE.replace("branch:", "brnach:"))
    assert _faults(misspelt) == [(misspelt, 5, "unknown field `brnach` in spec", "did you mean `branch`?")]

    changes = {
        "branch: main": "branch: refs/heads/main",
        "values.yaml": "../values.yaml",
        "image.tag": "image..tag",
        "{shop/checkout: 1.4.0}": "{a: b c}",
    }
    wrong = GIT_UPDATE
    for before, after in changes.items():
        wrong = wrong.replace(before, after)
    several = {(line, message.split(":")[0]) for _, line, message, _ in _faults(_write(tmp_path, wrong))}
    assert several == {(5, "spec.branch"), (6, "spec.images"), (8, "spec.edits[0].file"), (8, "spec.edits[0].path")}


def test_every_fault_is_told(tmp_path: Path) -> None:
    """In one report, each with its own line."""
    path = _write(tmp_path, SYNC.replace("application: shop", "application: Shop\ntimeout: soon"))

    assert [(line, message.split(":")[0]) for _, line, message, _ in _faults(path)] == [(3, "application"), (4, "timeout")]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", None, "there is no document in it"),
        ("# nothing\n", None, "there is no document in it"),
        (SYNC + "---\n" + SYNC, None, "it holds 2 documents, and one task is run at a time"),
        (SYNC + "application: other\n", 11, "application"),
        ("kind: sync\napplication: [\n", 3, ""),
        ("- kind: sync\n", 1, "a task document is a mapping"),
    ],
)
def test_what_is_no_document_is_refused(text: str, line: int | None, message: str, tmp_path: Path) -> None:
    """As strictly as manifests: a key twice, broken syntax, more than one."""
    path = _write(tmp_path, text)

    ((file, told, words, _),) = _faults(path)

    assert file == path
    assert message in words
    assert told == line


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """With the system's word for it."""
    ((file, _, message, hint),) = _faults(str(tmp_path / "absent.yaml"))

    assert file.endswith("absent.yaml")
    assert message == "it can't be read: No such file or directory"
    assert hint == "check the path"
