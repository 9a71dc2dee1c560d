"""Task documents as people write them."""

import pytest

from delegate.foundation.errors import ErrorGroup
from delegate.model.resources import JsonObject
from delegate.model.tasks import TaskDocumentError, TaskKind, read_task

_SYNC: JsonObject = {
    "kind": "sync",
    "application": "checkout-dev",
    "destination": {"name": "in-cluster", "namespace": "checkout"},
    "selector": {"env": "dev"},
    "timeout": "15m",
    "retry": {"maxAttempts": 8, "baseMs": 250, "maxRetryDuration": "30m"},
    "supersedes": True,
    "spec": {
        "source": {"repoURL": "https://git.example/config.git", "targetRevision": "main", "path": "apps/checkout/dev"},
        "syncPolicy": {"syncOptions": ["CreateNamespace=true"]},
    },
    "options": {"prune": True, "failFastAfter": "60s"},
}


def test_a_document_is_read_whole_and_back() -> None:
    """What is written again is the same task."""
    task = read_task(_SYNC)

    assert task.kind is TaskKind.SYNC
    assert task.timeout_seconds == 900
    assert task.sync_spec().source.repo_url == "https://git.example/config.git"
    assert read_task(task.document()) == task


def test_an_argo_cd_application_is_a_sync_task() -> None:
    """With its own source, destination and sync policy; its directory is not recursive unless it says so."""
    task = read_task(
        {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Application",
            "metadata": {"name": "guestbook"},
            "spec": {
                "project": "default",
                "source": {"repoURL": "https://git.example/a.git", "path": "guestbook"},
                "destination": {"server": "https://kubernetes.default.svc", "namespace": "guestbook"},
                "syncPolicy": {"automated": {"prune": True}, "syncOptions": ["CreateNamespace=true"]},
            },
        }
    )

    assert (task.kind, task.application, task.destination.namespace, task.options.prune) == (TaskKind.SYNC, "guestbook", "guestbook", True)
    assert task.sync_spec().source.directory.recurse is False
    assert task.sync_spec().sync_policy.sync_options == ("CreateNamespace=true",)


@pytest.mark.parametrize(
    ("changes", "words", "hint"),
    [
        ({"priorty": 3}, "unknown field `priorty`", "did you mean `priority`?"),
        ({"options": {"prun": True}}, "unknown field `prun` in options", "did you mean `prune`?"),
        ({"kind": "sink"}, "kind: Invalid enum value 'sink'", ""),
        ({"application": "No Name"}, "application: 'No Name' is no name", ""),
        ({"timeout": "soon"}, "timeout: 'soon' is no duration", ""),
        ({"spec": {"source": {"repoUrl": "x"}}}, "unknown field `repoUrl`", "did you mean `repoURL`?"),
        ({"priority": 5000}, "priority: ", ""),
    ],
)
def test_a_document_that_cant_be_meant(changes: JsonObject, words: str, hint: str) -> None:
    """The field is named, with the nearest known one."""
    with pytest.raises(TaskDocumentError) as caught:
        read_task({**_SYNC, **changes}, "task.yaml")

    assert words in caught.value.message
    assert caught.value.hint == hint
    assert caught.value.file == "task.yaml"


def test_several_faults_are_reported_at_once() -> None:
    """One report for one document."""
    with pytest.raises(ErrorGroup) as caught:
        read_task({**_SYNC, "application": "-", "timeout": "1"})

    assert len(caught.value.errors) == 2


@pytest.mark.parametrize("document", [None, [], "x", {"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject"}])
def test_what_is_no_task(document: object) -> None:
    """Another shape or another kind."""
    with pytest.raises(TaskDocumentError):
        read_task(document)


def test_a_slip_inside_a_list_is_named_with_what_was_meant() -> None:
    """Its fields are known as well as those of the document itself."""
    spec = {"source": {"path": "."}, "ignoreDifferences": [{"kind": "Deployment", "jsonPointer": ["/spec/replicas"]}]}
    with pytest.raises(TaskDocumentError) as caught:
        read_task({"kind": "sync", "application": "shop", "spec": spec})
    assert caught.value.field == "spec.ignoreDifferences[0].jsonPointer"
    assert caught.value.hint == "did you mean `jsonPointers`?"
