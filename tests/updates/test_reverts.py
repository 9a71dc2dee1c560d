"""Reverts of commits: the commit's own changes go, later ones stay, and what can't be decided stops with everything named."""

from pathlib import Path

import pytest

from delegate.engine.sources.git.writing import RepositoryWriter, publish
from delegate.engine.sources.git.writing_errors import ForeignCommitsError, RevertConflictError, UnrevertableError
from delegate.engine.sources.git.writing_reverts import Revert, Reverted, revert_on_branch
from tests.sources.repositories import Repository
from tests.updates.writing import commits_on, in_bare, setting, writer_for


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path)
    made.commit({"a.yaml": "one: 1\ntwo: 2\nthree: 3\nfour: 4\nfive: 5\n", "b.yaml": "v: 1\n"})
    return made


@pytest.fixture
def writer(repository: Repository, tmp_path: Path) -> RepositoryWriter:
    return writer_for(tmp_path, repository.url)


async def reverted(writer: RepositoryWriter, commit: str, branch: str = "main", task: str = "t-1", start: str = "") -> Reverted:
    return await revert_on_branch(writer, Revert(commit, branch, task, start, evidence="errors at 12 %"))


async def test_a_commit_is_taken_back(repository: Repository, writer: RepositoryWriter) -> None:
    """With later commits on other files left as they are; the message says which commit, and why."""
    bad = repository.commit({"b.yaml": "v: 2\n"})
    repository.commit({"c.yaml": "v: 1\n"})
    done = await reverted(writer, bad)

    assert done.published.made
    assert done.files == ("b.yaml",)
    assert in_bare(repository, "show", "main:b.yaml") == "v: 1"
    assert in_bare(repository, "show", "main:c.yaml") == "v: 1"
    message = in_bare(repository, "log", "-1", "--format=%B", "main")
    assert message == f'Revert "change"\n\nThis reverts commit {bad}.\n\nerrors at 12 %\n\nDelegate-Task: t-1'


async def test_it_is_taken_back_once(repository: Repository, writer: RepositoryWriter) -> None:
    """Another attempt, and another task, find it done."""
    bad = repository.commit({"b.yaml": "v: 2\n"})
    first = await reverted(writer, bad)
    again, other = await reverted(writer, bad[:10]), await reverted(writer, bad, task="t-2")
    assert (again.published.commit, again.published.made) == (first.published.commit, True)
    assert not other.published.made
    assert len(commits_on(repository)) == 3


async def test_a_merge_is_taken_back_to_its_first_parent(repository: Repository, writer: RepositoryWriter) -> None:
    """Everything that the merged branch brought goes."""
    repository.git("checkout", "-q", "-b", "feature")
    repository.commit({"b.yaml": "v: 7\n", "d.yaml": "v: 1\n"}, push="feature")
    repository.git("checkout", "-q", "main")
    repository.commit({"c.yaml": "v: 1\n"})
    repository.git("merge", "-q", "--no-ff", "-m", "Merge feature", "feature")
    merge = repository.commit_work_tree()
    merge = in_bare(repository, "rev-list", "-1", "--merges", merge)
    done = await reverted(writer, merge)
    assert sorted(done.files) == ["b.yaml", "d.yaml"]
    assert in_bare(repository, "ls-tree", "--name-only", "main").split() == ["a.yaml", "b.yaml", "c.yaml"]
    assert in_bare(repository, "show", "main:b.yaml") == "v: 1"


async def test_a_conflict_names_both(repository: Repository, writer: RepositoryWriter) -> None:
    """And nothing is pushed."""
    bad = repository.commit({"b.yaml": "v: 2\n"})
    later = repository.commit({"b.yaml": "v: 3\n"})
    with pytest.raises(RevertConflictError) as raised:
        await reverted(writer, bad)
    assert bad[:12] in raised.value.message
    assert later[:12] in raised.value.message
    assert raised.value.file == "b.yaml"
    assert in_bare(repository, "rev-parse", "main") == later


async def test_commits_of_others_in_between_stop_it(repository: Repository, writer: RepositoryWriter) -> None:
    """Where they changed the same file, also without a conflict; our own don't."""
    bad = repository.commit({"a.yaml": "one: 9\ntwo: 2\nthree: 3\nfour: 4\nfive: 5\n"})
    await publish(writer, setting(writer, {"a.yaml": b"one: 9\ntwo: 2\nthree: 3\nfour: 4\nfive: 9\n"}, "ours"), branch="main", task="t-0")
    repository.git("fetch", "-q", "origin")
    repository.git("reset", "-q", "--hard", "origin/main")
    done = await reverted(writer, bad)
    assert in_bare(repository, "show", f"{done.published.commit}:a.yaml").split("\n")[::4] == ["one: 1", "five: 9"]

    repository.git("fetch", "-q", "origin")
    repository.git("reset", "-q", "--hard", "origin/main")
    worse = repository.commit({"a.yaml": "one: 8\ntwo: 2\nthree: 3\nfour: 4\nfive: 9\n"})
    foreign = repository.commit({"a.yaml": "one: 8\ntwo: 2\nthree: 3\nfour: 4\nfive: 7\n"})
    with pytest.raises(ForeignCommitsError) as raised:
        await reverted(writer, worse)
    assert worse[:12] in raised.value.message
    assert f"{foreign[:12]} (change, by Test)" in raised.value.message


async def test_what_no_revert_is_made_of(repository: Repository, writer: RepositoryWriter) -> None:
    """The first commit, a commit of another branch, and what is no commit."""
    first = in_bare(repository, "rev-parse", "main")
    repository.git("checkout", "-q", "-b", "other")
    elsewhere = repository.commit({"b.yaml": "v: 5\n"}, push="other")
    for commit, words in (
        (first, "the first commit"),
        (elsewhere, "is not on main"),
        ("f" * 40, "there is no commit"),
        ("main", "no id of a commit"),
    ):
        with pytest.raises(UnrevertableError, match=words):
            await reverted(writer, commit)


async def test_on_a_branch_of_its_own(repository: Repository, writer: RepositoryWriter) -> None:
    """For a merge request; after shallow fetches too."""
    bad = ""
    for number in range(3):
        bad = repository.commit({"b.yaml": f"v: 1{number}\n", f"n{number}.yaml": "v: 1\n"})
        await writer.tip("main")
    done = await reverted(writer, bad, branch="delegate/x", start="main")
    assert in_bare(repository, "rev-parse", "main") == bad
    assert in_bare(repository, "rev-parse", "delegate/x") == done.published.commit
    assert in_bare(repository, "show", "delegate/x:b.yaml") == "v: 11"
