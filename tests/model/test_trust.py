"""What this machine's own policy lets through, whatever the manager says."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegate.model.tasks import Task, read_task
from delegate.model.trust import NotAllowedError, TrustPolicy, shown_url


def policy(**parts: object) -> TrustPolicy:
    return msgspec.convert(parts, TrustPolicy)


def task(**more: object) -> Task:
    document = {
        "kind": "sync",
        "application": "shop",
        "destination": {"name": "prod-1", "namespace": "team-a"},
        "spec": {"source": {"repoURL": "https://git.example/team/config.git"}},
    }
    return read_task(document | more)


@pytest.mark.parametrize(
    "allow",
    [
        {},
        {"kinds": ["sync"], "clusters": ["prod-*"], "namespaces": ["team-?"], "repositories": ["https://git.example/team/*"]},
        {"repositories": ["https://git.example/team/config"]},
    ],
)
def test_what_is_allowed_goes_through(allow: dict[str, object]) -> None:
    """By patterns with * and ?, a repository with or without .git."""
    policy(allow=allow).check_document(task())


@pytest.mark.parametrize(
    ("allow", "more", "words"),
    [
        ({"kinds": ["diff"]}, {}, "does not allow tasks of kind sync (allowed: diff)"),
        ({"kinds": []}, {}, "does not allow tasks of kind sync (allowed: nothing)"),
        ({"clusters": ["dev-*"]}, {}, "does not allow tasks for cluster prod-1"),
        ({"clusters": ["dev-*"]}, {"destination": {"server": "https://10.0.0.1"}}, "tasks for cluster https://10.0.0.1"),
        ({"clusters": ["dev-*"]}, {"destination": {}}, "tasks for cluster in-cluster"),
        ({"namespaces": ["shop"]}, {}, "does not allow the destination in namespace team-a (allowed: shop)"),
        ({"repositories": ["https://git.example/other/*"]}, {}, "the repository https://git.example/team/config.git"),
    ],
)
def test_what_is_not_allowed_is_refused_in_words(allow: dict[str, object], more: dict[str, object], words: str) -> None:
    """With what was wanted, and what would be allowed."""
    with pytest.raises(NotAllowedError) as refused:
        policy(allow=allow).check_document(task(**more))

    assert words in str(refused.value)
    assert "DELEGATE_TRUST_POLICY" in refused.value.hint


@pytest.mark.parametrize(
    "url",
    [
        "https://git.example/team/../other/config.git",
        "https://git.example/team/%2e%2e/other/config.git",
        "https://git.example/team/%252e%252e/other/config.git",
        "https://git.example/team/..\\other",
        "https://git.example.evil/team/config.git",
        "https://git.example@evil/team/config.git",
        "https://evil/https://git.example/team/x",
        "http://git.example/team/config.git",
        "file:///team/config.git",
        "git@git.example:team/config.git",
    ],
)
def test_a_repository_that_only_looks_allowed_is_refused(url: str) -> None:
    """Paths that climb, hosts that begin alike, credentials that look like hosts."""
    allowed = policy(allow={"repositories": ["https://git.example/team/*"]})
    spec = {"repoURL": url, "branch": "main", "images": {"shop/web": "1.4.0"}}

    with pytest.raises(NotAllowedError):
        allowed.check_document(read_task({"kind": "git-update", "application": "a", "destination": {"name": "c"}, "spec": spec}))


def test_credentials_and_case_of_hosts_do_not_matter() -> None:
    """What is compared is where the repository is, and credentials are in no words."""
    allowed = policy(allow={"repositories": ["https://git.example/team/*", "ssh://git.example/*"]})
    for url in ("https://user:secret@GIT.example/team/config.git", "ssh://git@git.example/x"):
        allowed.check_document(task(spec={"source": {"repoURL": url}}))
    assert shown_url("https://user:secret@GIT.example/a?token=x") == "https://git.example/a"
    assert shown_url("git@git.example:team/x") == "git.example:team/x"


def test_every_repository_of_a_task_counts() -> None:
    """Also of several sources, and wherever a spec names one."""
    allowed = policy(allow={"repositories": ["https://git.example/*"]})
    sources = [{"repoURL": "https://git.example/a"}, {"repoURL": "https://evil.example/b"}]

    with pytest.raises(NotAllowedError, match=r"evil\.example"):
        allowed.check_document(task(spec={"sources": sources}))


def test_objects_are_held_to_namespaces_too() -> None:
    """And what is in no namespace is refused, unless that is said to be allowed."""
    strict = policy(allow={"namespaces": ["team-*"]})
    strict.check_namespace("team-b", "ConfigMap team-b/x")
    with pytest.raises(NotAllowedError, match="ConfigMap kube-system/x in namespace kube-system"):
        strict.check_namespace("kube-system", "ConfigMap kube-system/x")
    with pytest.raises(NotAllowedError, match="which is in no namespace"):
        strict.check_namespace("", "ClusterRole admin")
    policy(allow={"namespaces": ["team-*"], "clusterScoped": True}).check_namespace("", "ClusterRole admin")
    policy().check_namespace("kube-system", "anything")


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        ({}, True),
        ({"kinds": ["sync", "canary"]}, True),
        ({"kinds": ["rollback"]}, False),
        ({"kinds": ["sync"], "clusters": ["prod-*"]}, True),
        ({"kinds": ["sync"], "clusters": ["dev"]}, False),
        ({"environments": ["prod"]}, False),
    ],
)
def test_which_tasks_need_a_signature(rule: dict[str, object], wanted: bool) -> None:
    """Every list that a rule gives has to fit."""
    assert policy(signatures=[rule]).wants_signature(task()) is wanted


@given(st.text(max_size=30), st.text(max_size=30))
def test_a_name_without_wildcards_fits_itself_alone(pattern: str, name: str) -> None:
    """Brackets mean nothing: they are no wildcards here."""
    if not set(pattern) & {"*", "?"}:
        rule = policy(signatures=[{"environments": [pattern]}]).signatures[0]
        assert rule.fits(task(environment=name)) is (pattern == name)
