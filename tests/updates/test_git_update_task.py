"""The git-update task by an engine as it is built: repositories, forges and policies are real ones, and attempts die on their way."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from delegate.engine.clusters.registry import ClusterRegistry, ClusterSettings
from delegate.engine.forges.places import ForgeKind, read_forges
from delegate.engine.policies.gates import Gate
from delegate.engine.sources import commands
from delegate.engine.sources.git.settings import GitCredentials, GitSettings
from delegate.engine.sources.git.writing import Identity
from delegate.engine.sources.git.writing_errors import ForeignCommitsError, IdentityError
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.execution import Executor
from delegate.engine.tasks.preparing import Parts
from delegate.engine.tasks.querying import PathQueries
from delegate.engine.tasks.updating import GitUpdateRun
from delegate.engine.tasks.writing_repositories import Written, revert_commit
from delegate.foundation.lifecycle.retrying import Retrying
from delegate.foundation.secrets import Secret
from delegate.model.results import Outcome, TaskResult
from delegate.model.tasks import Task, TaskKind, read_task
from delegate.model.updates.messages import branch_for
from delegate.model.updates.requests import UpdateMode
from tests.forges.servers import TOKEN, ForgeServer
from tests.sources.repositories import ENVIRONMENT, HttpServer, Repository, make_sources
from tests.updates.writing import allow_pushes, commits_on, in_bare, protect

POLICY = Retrying(max_attempts=3, base_seconds=0.01, max_seconds=0.05)
DEPLOYMENT = """\
# the shop
kind: Deployment
spec:
  template: {spec: {containers: [{name: main, image: "shop/checkout:1.3.0"}]}}  # by the pipeline
"""
FILES: dict[str, str | bytes | None] = {"dev/deployment.yaml": DEPLOYMENT, "dev/settings.yaml": "data:\n    version: '1.3.0'  # shown\n"}


class Bench:
    """A repository, and parts of an engine that may write to it."""

    def __init__(self, folder: Path, *, policies: Path | None = None) -> None:
        self.folder = folder
        self.repository = Repository(folder)
        self.repository.commit(FILES)
        self.policies = policies
        self.url = self.repository.url
        self.settings: GitSettings | None = None
        self.forges: tuple[str, ...] = ()

    def parts(self) -> Parts:
        """As a new process would have them, with the same cache."""
        return Parts(
            sources=make_sources(self.folder, self.settings),
            clusters=ClusterRegistry(ClusterSettings(kubeconfig="", policy=POLICY), environment=ENVIRONMENT),
            retrying=POLICY,
            queries=PathQueries(self.folder / "queries"),
            policies=Gate(self.policies),
            author=Identity("Delegate Bot", "bot@example.test"),
            forges=read_forges(self.forges),
        )

    def task(self, environment: str = "dev", options: dict[str, Any] | None = None, **spec: Any) -> Task:
        edits = [{"file": "dev/settings.yaml", "path": "data.version", "value": "1.4.0"}]
        wanted = {"repoURL": self.url, "branch": "main", "images": {"shop/checkout": "1.4.0"}, "edits": edits, **spec}
        document = {"kind": "git-update", "application": "checkout", "environment": environment, "spec": wanted}
        return read_task({**document, **({"options": options} if options else {})})

    def begin(self, task: Task, task_id: str) -> GitUpdateRun:
        context = AttemptContext(task_id=task_id, attempt_id="a-1", deadline=asyncio.get_running_loop().time() + 50)
        return GitUpdateRun(task, context, self.parts())

    async def run(self, task: Task, task_id: str = "t-1") -> TaskResult:
        parts = self.parts()
        context = AttemptContext(task_id=task_id, attempt_id="a-1", deadline=asyncio.get_running_loop().time() + 50)
        return await Executor({TaskKind.GIT_UPDATE: lambda each, given: GitUpdateRun(each, given, parts)}).run(task, context)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def test_several_files_in_one_commit(bench: Bench) -> None:
    """With the default message; only the touched lines differ."""
    result = await bench.run(bench.task())

    assert (result.outcome, result.error) == (Outcome.SUCCEEDED, None)
    assert commits_on(bench.repository) == ["deploy(dev): checkout 1.4.0", "change"]
    assert result.revision == in_bare(bench.repository, "rev-parse", "main")
    diff = in_bare(bench.repository, "diff", "--unified=0", "main~1", "main").splitlines()
    assert [line for line in diff if line.startswith("+") and not line.startswith("+++")] == [
        '+  template: {spec: {containers: [{name: main, image: "shop/checkout:1.4.0"}]}}  # by the pipeline',
        "+    version: '1.4.0'  # shown",
    ]
    assert "dev/settings.yaml:2 data.version: 1.3.0 -> 1.4.0" in result.notices


async def test_nothing_to_change_is_no_commit(bench: Bench) -> None:
    """And a success that says so."""
    await bench.run(bench.task())
    result = await bench.run(bench.task(), "t-2")
    assert result.outcome is Outcome.SUCCEEDED
    assert result.message.startswith("nothing to change: main has it already")
    assert len(commits_on(bench.repository)) == 2


async def test_a_dry_run_only_shows(bench: Bench) -> None:
    """What would change."""
    result = await bench.run(bench.task(options={"dryRun": True}))
    assert result.message == "would change 2 values in 2 files on main"
    assert len(commits_on(bench.repository)) == 1


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({"edits": [{"file": "dev/none.yaml", "path": "a", "value": 1}]}, "input.edit_file"),
        ({"edits": [{"file": "dev/settings.yaml", "path": "data.wrong", "value": 1}]}, "input.edit_not_found"),
        ({"edits": [{"file": "dev/settings.yaml", "path": "data", "value": 1}]}, "input.edit_not_scalar"),
        ({"images": {"shop/other": "1"}}, "input.edit_not_found"),
        ({"branch": "release"}, "input.branch_not_found"),
        ({"mode": "merge-request"}, "input.unknown_forge"),
    ],
)
async def test_refusals_touch_nothing(bench: Bench, spec: dict[str, Any], code: str) -> None:
    """The whole request is refused where one of its edits can't be made."""
    result = await bench.run(bench.task(**spec))
    assert result.error is not None
    assert (result.outcome, result.error.code) == (Outcome.REFUSED, code)
    assert in_bare(bench.repository, "for-each-ref", "--format=%(refname)") == "refs/heads/main"
    assert len(commits_on(bench.repository)) == 1


class TestPolicy:
    async def test_mutable_tags_are_refused_where_it_says_so(self, bench: Bench) -> None:
        """As shipped: in production."""
        result = await bench.run(bench.task(environment="prod", images={"shop/checkout": "latest"}))
        assert result.error is not None
        assert (result.outcome, result.error.code) == (Outcome.REFUSED, "policy.mutable_tag")
        assert (await bench.run(bench.task(images={"shop/checkout": "latest"}))).outcome is Outcome.SUCCEEDED

    async def test_a_policy_may_only_warn(self, tmp_path: Path) -> None:
        """Then it is done, and said."""
        policies = tmp_path / "policies.yaml"
        policies.write_text("shipped:\n  mutable-tags: {action: warn}\n")
        bench = Bench(tmp_path, policies=policies)
        result = await bench.run(bench.task(environment="prod", images={"shop/checkout": "latest"}))
        assert result.outcome is Outcome.SUCCEEDED
        assert any("mutable-tags" in notice for notice in result.notices)


async def test_a_protected_branch_is_told(bench: Bench) -> None:
    """In the server's words, with the way around it."""
    protect(bench.repository)
    result = await bench.run(bench.task())
    assert result.error is not None
    assert (result.outcome, result.error.code) == (Outcome.REFUSED, "permission.push_rejected")
    assert "not allowed to push code to protected branches" in result.error.message
    assert "mode: merge-request" in result.error.hint


class Killed(BaseException):
    """The end of a process, as far as what it calls can tell."""


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_an_attempt_that_dies_is_finished_by_the_next(bench: Bench, monkeypatch: pytest.MonkeyPatch, after: bool) -> None:
    """Whichever git command it dies at, before it or after it: the commit is pushed once."""

    run = commands.run_command
    left = {"steps": 0, "died": 0, "step": 0}

    async def dying(command: Any, **options: Any) -> Any:
        left["steps"] -= 1
        if left["steps"] == 0 and not after:
            raise Killed
        done = await run(command, **options)
        if left["steps"] == 0:
            raise Killed
        return done

    while True:
        bench.repository.git("reset", "-q", "--hard", bench.repository.git("rev-list", "--max-parents=0", "HEAD"))
        bench.repository.commit_work_tree()
        before = len(commits_on(bench.repository))
        left["step"] += 1
        left["steps"] = left["step"]
        monkeypatch.setattr("delegate.engine.sources.git.mirrors.run_command", dying)
        try:
            await bench.begin(bench.task(), f"t-{after}-{left['step']}").execute()
        except Killed:
            left["died"] += 1
        else:
            break
        finally:
            monkeypatch.setattr("delegate.engine.sources.git.mirrors.run_command", run)
        result = await bench.run(bench.task(), f"t-{after}-{left['step']}")
        assert result.outcome is Outcome.SUCCEEDED
        assert commits_on(bench.repository)[0] == "deploy(dev): checkout 1.4.0"
        assert len(commits_on(bench.repository)) == before + 1, f"step {left['step']}"
    assert left["died"] >= 8


class TestMergeRequests:
    @pytest.fixture
    async def served(self, bench: Bench) -> AsyncIterator[tuple[Bench, ForgeServer]]:
        """A protected branch behind HTTP, and a forge at the same address."""
        bench.repository.bare.rename(bench.folder / "shop.bare")
        bench.repository.bare = bench.folder / "shop" / "config.git"
        bench.repository.bare.parent.mkdir()
        (bench.folder / "shop.bare").rename(bench.repository.bare)
        bench.repository.git("remote", "set-url", "origin", str(bench.repository.bare))
        allow_pushes(bench.repository)
        protect(bench.repository)
        async with ForgeServer(ForgeKind.GITHUB).running() as forge, HttpServer(bench.folder, {"ada": TOKEN}).running() as server:
            bench.url = server.url("shop/config.git")
            bench.settings = GitSettings((GitCredentials(f"http://{server.address}", "ada", Secret(TOKEN)),))
            bench.forges = (f"{server.address}=github@http://{forge.address}/api/v3",)
            yield bench, forge

    async def test_one_for_a_task(self, served: tuple[Bench, ForgeServer]) -> None:
        """With the evidence; the same one when the task runs again."""
        bench, forge = served
        task = bench.task(mode="merge-request", evidence="p95 180 ms over 10 min")
        results = [await bench.run(task), await bench.run(task)]
        assert [each.outcome for each in results] == [Outcome.SUCCEEDED] * 2
        (pull,) = forge.pulls
        assert (pull["source"], pull["target"]) == (branch_for("checkout", "t-1"), "main")
        assert pull["title"] == "deploy(dev): checkout 1.4.0"
        assert pull["text"].startswith("p95 180 ms over 10 min\n\n- `dev/deployment.yaml:4`")
        assert all(f"http://{forge.address}/pull/1" in each.message for each in results)
        assert len(commits_on(bench.repository)) == 1
        assert commits_on(bench.repository, pull["source"]) == ["deploy(dev): checkout 1.4.0", "change"]

    async def test_one_that_died_before_it_asked(self, served: tuple[Bench, ForgeServer]) -> None:
        """The branch is there; the request is still to be made. What passes by itself is waited for."""
        from tests.forges.servers import failing

        bench, forge = served
        forge.answers = [failing(401) for _ in range(8)]
        task = bench.task(mode="merge-request")
        assert (await bench.run(task)).outcome is Outcome.FAILED, "its branch is pushed"
        forge.answers = [failing(503), failing(429, None, Retry_After="0")]
        assert (await bench.run(task)).outcome is Outcome.SUCCEEDED
        assert len(forge.pulls) == 1
        assert len(commits_on(bench.repository, forge.pulls[0]["source"])) == 2

    async def test_a_revert_by_request(self, served: tuple[Bench, ForgeServer]) -> None:
        """The protected branch stays; the request says why."""
        bench, forge = served
        (bench.repository.bare / "hooks" / "pre-receive").unlink()
        bad = bench.repository.commit({"dev/settings.yaml": "data:\n    version: '1.4.0'\n"})
        protect(bench.repository)
        written = await reverting(bench, bad, UpdateMode.MERGE_REQUEST)
        assert written.url == f"http://{forge.address}/pull/1"
        assert forge.pulls[0]["text"].startswith(f"errors at 12 %\n\nThis reverts commit {bad}.")
        assert in_bare(bench.repository, "rev-parse", "main") == bad
        assert "1.3.0" in in_bare(bench.repository, "show", f"{written.branch}:dev/settings.yaml")


async def reverting(bench: Bench, commit: str, mode: UpdateMode) -> Written:
    return await revert_commit(
        bench.parts(),
        repo_url=bench.url,
        branch="",
        commit=commit,
        mode=mode,
        application="checkout",
        task_id="r-1",
        policy=POLICY,
        deadline=asyncio.get_running_loop().time() + 50,
        evidence="errors at 12 %",
        paths=("dev",),
    )


async def test_a_revert_by_commit(bench: Bench) -> None:
    """Once; and not where others changed the Application's directory since."""
    bad = (await bench.run(bench.task())).revision
    written, again = await reverting(bench, bad, UpdateMode.COMMIT), await reverting(bench, bad, UpdateMode.COMMIT)
    assert written == again
    assert commits_on(bench.repository)[0] == 'Revert "deploy(dev): checkout 1.4.0"'
    worse = (await bench.run(bench.task(), "t-3")).revision
    bench.repository.git("fetch", "-q", "origin")
    bench.repository.git("reset", "-q", "--hard", "origin/main")
    bench.repository.commit({"dev/more.yaml": "a: 1\n"})
    with pytest.raises(ForeignCommitsError, match=worse[:12]):
        await reverting(bench, worse, UpdateMode.COMMIT)


def test_an_author_that_is_nobody() -> None:
    """Is refused where the engine is built."""
    assert Identity.read("Ship Bot <ship@example.test>") == Identity("Ship Bot", "ship@example.test")
    assert Identity.read("") == Identity()
    with pytest.raises(IdentityError):
        Identity.read("nobody")
