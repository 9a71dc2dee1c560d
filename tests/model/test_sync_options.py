"""Sync options of Applications and of single objects."""

import pytest

from delegate.model.resources import GroupKind
from delegate.model.sync_options import Consent, SyncOptionSet, may_recreate, options_of, read_sync_options


def test_options_are_read() -> None:
    """Spaces are of no meaning, as in annotations."""
    options, notices = read_sync_options(["CreateNamespace=true", " Prune=false", "Replace=true", "PrunePropagationPolicy=foreground"])
    assert options == SyncOptionSet(create_namespace=True, prune=Consent.NO, recreate=True, propagation="Foreground")
    assert notices == ()


@pytest.mark.parametrize("word", ["ServerSideApply=true", "PruneLast=true", "ApplyOutOfSyncOnly=true", "Validate=true", ""])
def test_what_is_always_so_is_taken_in_silence(word: str) -> None:
    """There is nothing to say about it."""
    assert read_sync_options([word]) == (SyncOptionSet(), ())


@pytest.mark.parametrize("word", ["ServerSideApply=false", "Validate=false", "PruneLast=false"])
def test_what_has_no_meaning_here_is_named(word: str) -> None:
    """With what happens instead."""
    _, (notice,) = read_sync_options([word])
    assert word in notice
    assert "has no effect" in notice


def test_a_slip_is_named_with_what_was_meant() -> None:
    """Most likely a letter is missing."""
    _, (notice,) = read_sync_options(["Prunne=false"])
    assert "did you mean Prune=false?" in notice


def test_an_objects_own_words_win_over_its_applications() -> None:
    """And ours over Argo CD's."""
    defaults = SyncOptionSet(recreate=True)
    metadata = {
        "annotations": {"argocd.argoproj.io/sync-options": "Prune=confirm,Delete=false", "delegate.gitops/sync-options": "Prune=false"}
    }
    options, _ = options_of(metadata, defaults)
    assert options == SyncOptionSet(recreate=True, prune=Consent.NO, delete=Consent.NO)
    assert options_of({}, defaults) == (defaults, ())
    assert options_of({"annotations": {"argocd.argoproj.io/sync-options": "Replace=false"}}, defaults)[0].recreate is False


def test_a_chart_that_says_keep_is_kept() -> None:
    """Helm's own word for it."""
    options, _ = options_of({"annotations": {"helm.sh/resource-policy": "keep"}})
    assert (options.prune, options.delete) == (Consent.NO, Consent.NO)


def test_compare_options_are_read_too() -> None:
    """IgnoreExtraneous stands without a value there."""
    assert options_of({"annotations": {"argocd.argoproj.io/compare-options": "IgnoreExtraneous"}})[0].extraneous


@pytest.mark.parametrize(
    "group_kind",
    [
        GroupKind("", "Namespace"),
        GroupKind("", "PersistentVolumeClaim"),
        GroupKind("", "PersistentVolume"),
        GroupKind("apiextensions.k8s.io", "CustomResourceDefinition"),
    ],
)
def test_what_takes_others_along_is_never_made_anew(group_kind: GroupKind) -> None:
    """Whatever an option says."""
    assert not may_recreate(group_kind, SyncOptionSet(recreate=True))
    assert may_recreate(GroupKind("batch", "Job"), SyncOptionSet(recreate=True))
