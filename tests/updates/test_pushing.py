"""Commits that are made in the mirror and pushed: once, on top of what is there, never by force, and with no secret shown."""

import asyncio
from pathlib import Path

import pytest
from aiohttp import web

from delegate.engine.sources.errors import AuthenticationError
from delegate.engine.sources.git.settings import GitCredentials, GitSettings
from delegate.engine.sources.git.writing import Prepared, RepositoryWriter, publish
from delegate.engine.sources.git.writing_errors import BranchMovedError, BranchNotFoundError, PushRejectedError
from delegate.foundation.secrets import Secret
from delegate.model.updates.errors import EditedFileError
from delegate.model.updates.messages import with_trailer
from tests.sources.repositories import HttpServer, Repository, SshServer, make_sources
from tests.updates.writing import allow_pushes, commits_on, in_bare, protect, setting, writer_for

PASSWORD = "s3cr3t-t0ken/+@:"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path)
    made.commit({"a.yaml": "v: 1\n", "run.sh": "#!/bin/sh\n"})
    (made.work / "run.sh").chmod(0o755)
    made.commit_work_tree()
    return made


async def change(writer: RepositoryWriter, value: str = "2", task: str = "t-1", branch: str = "main", start: str = "") -> str:
    build = setting(writer, {"a.yaml": f"v: {value}\n".encode()}, with_trailer(f"set {value}", task))
    return (await publish(writer, build, branch=branch, task=task, start=start)).commit


async def test_a_commit_is_pushed(repository: Repository, tmp_path: Path) -> None:
    """By our identity, on top of the branch; everything else in it, modes too, stays as it was."""
    before = in_bare(repository, "rev-parse", "main")
    commit = await change(writer_for(tmp_path, repository.url))

    assert in_bare(repository, "rev-parse", "main") == commit
    assert in_bare(repository, "log", "-1", "--format=%P %an %ce", "main") == f"{before} Delegate Bot bot@example.test"
    assert in_bare(repository, "diff", "--name-only", before, commit) == "a.yaml"
    assert in_bare(repository, "fsck", "--strict") == ""


async def test_what_is_there_is_not_pushed_again(repository: Repository, tmp_path: Path) -> None:
    """A task that runs again finds its own commit; another one finds nothing to do."""
    commit = await change(writer_for(tmp_path / "one", repository.url))
    writer = writer_for(tmp_path / "two", repository.url)
    build = setting(writer, {"a.yaml": b"v: 2\n"})
    again, other = await publish(writer, build, branch="main", task="t-1"), await publish(writer, build, branch="main", task="t-2")

    assert (again.commit, again.made) == (commit, True)
    assert (other.commit, other.made) == (commit, False)
    assert len(commits_on(repository)) == 3


async def test_a_branch_that_moves_is_followed(repository: Repository, tmp_path: Path) -> None:
    """Pushes of many at once all arrive, each in a commit of its own."""
    files = {f"f{number}.yaml": "v: 1\n" for number in range(5)}
    repository.commit(files)
    writers = [writer_for(tmp_path / name, repository.url) for name in files]
    builds = [setting(each, {name: b"v: 2\n"}, f"set {name}") for each, name in zip(writers, files, strict=True)]
    published = await asyncio.gather(*(publish(each, build, branch="main", task="t") for each, build in zip(writers, builds, strict=True)))

    assert all(each.made for each in published)
    assert sorted(commits_on(repository)[:5]) == sorted(f"set {name}" for name in files)
    assert {in_bare(repository, "show", f"main:{name}") for name in files} == {"v: 2"}


async def test_a_push_that_comes_too_late_is_made_again(repository: Repository, tmp_path: Path) -> None:
    """On top of what was pushed between our look and our push."""
    writer = writer_for(tmp_path, repository.url)
    change_it = setting(writer, {"a.yaml": b"v: 2\n"}, "ours")
    looks: list[str] = []

    async def build(tip: str) -> Prepared | None:
        prepared = await change_it(tip)
        if not looks:
            repository.commit({"b.yaml": "v: 1\n"})
        looks.append(tip)
        return prepared

    published = await publish(writer, build, branch="main", task="t-1")
    assert (published.attempts, published.made) == (2, True)
    assert commits_on(repository)[:2] == ["ours", "change"]
    assert published.parent == looks[1]


async def test_a_history_that_was_rewritten_is_not_written_over(repository: Repository, tmp_path: Path) -> None:
    """The push of a commit that is not on top of the branch is refused by git itself."""
    writer = writer_for(tmp_path, repository.url)
    tip = await writer.tip("main")
    build = setting(writer, {"a.yaml": b"v: 2\n"})
    prepared = await build(tip)
    assert prepared is not None
    commit = await writer.commit(prepared, tip)
    moved = repository.commit({"b.yaml": "v: 1\n"})
    with pytest.raises(BranchMovedError):
        await writer.push(commit, "main")
    assert in_bare(repository, "rev-parse", "main") == moved


async def test_a_protected_branch(repository: Repository, tmp_path: Path) -> None:
    """The server's own words are told; a branch of our own is taken."""
    protect(repository)
    writer = writer_for(tmp_path, repository.url)
    with pytest.raises(PushRejectedError, match="not allowed to push code to protected branches") as raised:
        await change(writer)
    assert not raised.value.retryable
    assert len(commits_on(repository)) == 2
    commit = await change(writer, branch="delegate/x", start="main")
    assert in_bare(repository, "rev-parse", "delegate/x") == commit


async def test_no_such_branch(repository: Repository, tmp_path: Path) -> None:
    """Those that there are stand in the hint."""
    with pytest.raises(BranchNotFoundError, match="has no branch 'release'") as raised:
        await change(writer_for(tmp_path, repository.url), branch="release")
    assert raised.value.hint == "there are main"


class TestLinks:
    async def resolved(self, repository: Repository, tmp_path: Path, path: str) -> str:
        writer = writer_for(tmp_path, repository.url)
        return await (await writer.files_of(await writer.tip("main"))).resolve(path)

    async def test_inside_of_the_repository(self, repository: Repository, tmp_path: Path) -> None:
        """They are followed, of files and of directories."""
        (repository.work / "apps").mkdir()
        (repository.work / "apps" / "b.yaml").symlink_to("../a.yaml")
        (repository.work / "alias").symlink_to("apps")
        repository.commit_work_tree()
        assert await self.resolved(repository, tmp_path, "alias/b.yaml") == "a.yaml"

    @pytest.mark.parametrize(
        ("target", "words"), [("/etc/passwd", "out of the repository"), ("../../x", "out of the repository"), ("l.yaml", "circles")]
    )
    async def test_that_lead_elsewhere(self, repository: Repository, tmp_path: Path, target: str, words: str) -> None:
        """Out of the repository, or back to themselves."""
        (repository.work / "l.yaml").symlink_to(target)
        repository.commit_work_tree()
        with pytest.raises(EditedFileError, match=words):
            await self.resolved(repository, tmp_path, "l.yaml")


class TestOverHttp:
    def settings_for(self, server: HttpServer, password: str = PASSWORD) -> GitSettings:
        return GitSettings((GitCredentials(f"http://{server.address}", "ada", Secret(password)),))

    async def test_with_a_token(self, repository: Repository, tmp_path: Path) -> None:
        """That sources have for the repository already."""
        allow_pushes(repository)
        async with HttpServer(tmp_path, {"ada": PASSWORD}).running() as server:
            commit = await change(writer_for(tmp_path, server.url("origin.git"), self.settings_for(server)))
            assert in_bare(repository, "rev-parse", "main") == commit

    async def test_without_the_right_to_write(self, repository: Repository, tmp_path: Path) -> None:
        """It is said what is missing, and the token is not shown."""
        in_bare(repository, "config", "http.receivepack", "false")
        async with HttpServer(tmp_path, {"ada": PASSWORD}).running() as server:
            with pytest.raises(AuthenticationError) as raised:
                await change(writer_for(tmp_path, server.url("origin.git"), self.settings_for(server)))
            assert "may write to this repository" in raised.value.hint
            assert PASSWORD not in f"{raised.value!r} {raised.value} {raised.value.hint} {raised.value.__cause__!r}"

    async def test_an_answer_that_gets_lost(self, repository: Repository, tmp_path: Path) -> None:
        """The push arrived: the commit is found, and not made a second time."""
        allow_pushes(repository)
        lost: list[str] = []
        async with HttpServer(tmp_path, {"ada": PASSWORD}).running() as server:

            async def lose(request: web.Request) -> web.Response | None:
                if request.method == "POST" and request.path.endswith("git-receive-pack") and not lost:
                    lost.append(request.path)
                    await server._run_backend(request, "ada")
                    return web.Response(status=502)
                return None

            server.interfere = lose
            commit = await change(writer_for(tmp_path, server.url("origin.git"), self.settings_for(server)))
        assert lost
        assert in_bare(repository, "rev-parse", "main") == commit
        assert commits_on(repository)[:1] == ["set 2"]
        assert len(commits_on(repository)) == 3

    async def test_what_a_stranger_sees_of_the_push(
        self, repository: Repository, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """No argument of any child and no log holds the token."""
        allow_pushes(repository)
        seen: list[object] = []
        start = asyncio.create_subprocess_exec

        async def record(*arguments: str, **options: object) -> asyncio.subprocess.Process:
            seen.extend(arguments)
            return await start(*arguments, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(asyncio, "create_subprocess_exec", record)
        async with HttpServer(tmp_path, {"ada": PASSWORD}).running() as server:
            url = server.url("origin.git", login=f"ada:{PASSWORD.replace('/', '%2F').replace('@', '%40').replace(':', '%3A')}@")
            await change(writer_for(tmp_path, url))
        assert "push" in seen
        for secret in (PASSWORD, PASSWORD.replace("/", "%2F")):
            assert not any(secret in str(argument) for argument in seen)
            assert secret not in caplog.text


async def test_over_ssh(repository: Repository, tmp_path: Path) -> None:
    """With a key, and a host that is known."""
    async with SshServer(tmp_path, tmp_path).running() as server:
        known_hosts = server.write_known_hosts(tmp_path / "known_hosts")
        settings = GitSettings((GitCredentials("ssh://git@127.0.0.1", ssh_key=server.key_file),), known_hosts)
        commit = await change(writer_for(tmp_path, server.url("origin.git"), settings))
        assert in_bare(repository, "rev-parse", "main") == commit


async def test_a_mirror_of_its_own_is_not_disturbed(repository: Repository, tmp_path: Path) -> None:
    """What is rendered from the same mirror afterwards is the new commit."""
    sources = make_sources(tmp_path)
    repositories = sources.repositories
    writer = repositories.writer(repositories.parse(repository.url), writer_for(tmp_path, repository.url).identity)
    commit = await change(writer)
    async with repositories.open_tree(repositories.parse(repository.url), commit, "refs/heads/main") as tree:
        assert "a.yaml" in await tree.list_directory(tree.root.handle, ".")
    assert not [path for path in writer.mirror.path.iterdir() if path.name.startswith("index-")]
