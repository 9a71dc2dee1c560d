"""Submodules: fetched where they are asked for, at the commit that the tree names, from nowhere that a commit must not lead to."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from delegate.engine.sources.errors import AuthenticationError, LinkError, RepositoryUrlError, RevisionNotFoundError, SubmoduleError
from delegate.engine.sources.git.submodules import related_to, submodule_of
from delegate.engine.sources.git.urls import parse_url
from delegate.engine.sources.limits import SourceLimits
from delegate.engine.sources.manifests import Sources
from delegate.engine.sources.settings import RenderSettings
from delegate.foundation.errors import DelegateError
from delegate.model.sources import Source
from tests.sources.charts import chart
from tests.sources.repositories import (
    ENVIRONMENT,
    HttpServer,
    Repository,
    SshServer,
    config_map,
    fault_of,
    make_sources,
    names,
    render,
    run_case,
    source_of,
)
from tests.sources.test_chart_repositories import sources_in, write_secret
from tests.sources.test_git_ssh import settings_for

PASSWORD = "geheim-und-lang"


def add_submodule(repository: Repository, address: str, commit: str, path: str = "vendor/sub") -> str:
    """What `git submodule add` writes, whatever the address. Returns the commit's id."""
    modules = repository.work / ".gitmodules"
    before = modules.read_text() if modules.exists() else ""
    modules.write_text(f'{before}[submodule "{path}"]\n\tpath = {path}\n\turl = {address}\n')
    (repository.work / path).mkdir(parents=True, exist_ok=True)  # an empty one is a submodule that is not checked out
    repository.git("add", "-A")
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{commit},{path}")
    repository.git("commit", "-q", "-m", "add a submodule")
    repository.git("push", "-q", "-f", "origin", "HEAD:refs/heads/main")
    return repository.git("rev-parse", "HEAD")


def wanting(url: str, path: str = ".", **fields: object) -> Source:
    return msgspec.structs.replace(source_of(url, "main", path), **({"submodules": True} | fields))


@pytest.fixture
def library(tmp_path: Path) -> Repository:
    return Repository(tmp_path, "library")


class TestFetched:
    async def test_the_commit_of_the_tree_and_no_later_one(
        self, repository: Repository, library: Repository, sources: Sources, tmp_path: Path
    ) -> None:
        """By a relative address, with plain files, a link into it and one out of it to the repository around it."""
        commit = library.commit({"cm.yaml": config_map("old")})
        (library.work / "up.yaml").symlink_to("../../top.yaml")
        commit = library.commit_work_tree()
        library.commit({"cm.yaml": config_map("new")})
        repository.commit({"top.yaml": config_map("top")})
        (repository.work / "in.yaml").symlink_to("vendor/sub/cm.yaml")
        add_submodule(repository, "../library.git", commit)
        async with HttpServer(tmp_path).running() as server:
            url = server.url("origin.git")

            assert names(await render(sources, wanting(url))) == ["old", "top", "old", "top"]
            assert names(await render(sources, wanting(url, "vendor/sub/cm.yaml"))) == ["old"]

    async def test_only_where_they_are_read(self, repository: Repository, library: Repository, sources: Sources, tmp_path: Path) -> None:
        """One that is left out, or beside the path, is never asked for."""
        repository.commit({"apps/a/cm.yaml": config_map("a")})
        add_submodule(repository, "../library.git", library.commit({"cm.yaml": config_map("x")}))
        async with HttpServer(tmp_path).running() as server:
            url = server.url("origin.git")
            assert names(await render(sources, wanting(url, "apps"))) == ["a"]
            left_out = msgspec.structs.replace(source_of(url, "main", exclude="vendor/*"), submodules=True)
            assert names(await render(sources, left_out)) == ["a"]
            assert not any("library" in request for request in server.requests)

    async def test_once_for_all_that_share_one(self, repository: Repository, library: Repository, tmp_path: Path) -> None:
        """Many renders at a time, and a commit beside it later."""
        repository.commit({"cm.yaml": config_map("a")})
        add_submodule(repository, "../library.git", library.commit({"cm.yaml": config_map("x")}))
        async with HttpServer(tmp_path).running() as server:
            sources = make_sources(tmp_path)
            source = wanting(server.url("origin.git"))
            await asyncio.gather(*(render(sources, source) for _ in range(8)))
            asked = [request for request in server.requests if "library.git/git-upload-pack" in request]
            repository.commit({"cm.yaml": config_map("b")})
            before = await render(sources, wanting(source.repo_url, "vendor"))
            repository.commit({"cm.yaml": config_map("c")})
            after = await render(sources, wanting(source.repo_url, "vendor"))
            assert [request for request in server.requests if "library.git/git-upload-pack" in request] == asked
            assert (before.content, names(after)) == (after.content, ["x"])
            sources.close()

    async def test_by_kustomizations_and_charts(
        self, repository: Repository, library: Repository, sources: Sources, tmp_path: Path
    ) -> None:
        """A base in a submodule, a chart in one, a dependency of a chart beside it."""
        kept = {f"shop/{name}": data for name, data in chart("shop", {"templates/config.yaml": config_map("from-chart")}).items()}
        commit = library.commit({"base/kustomization.yaml": "resources: [cm.yaml]\n", "base/cm.yaml": config_map("base"), **kept})
        repository.commit(
            {
                "app/kustomization.yaml": "namePrefix: our-\nresources: [../vendor/sub/base]\n",
                "web/Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\ndependencies:\n"
                '- {name: shop, version: "*", repository: "file://../vendor/sub/shop"}\n',
            }
        )
        add_submodule(repository, "../library.git", commit)
        async with HttpServer(tmp_path).running() as server:
            url = server.url("origin.git")
            assert names(await render(sources, wanting(url, "app"))) == ["our-base"]
            assert names(await render(sources, wanting(url, "vendor/sub/shop"))) == ["from-chart"]
            assert names(await render(sources, wanting(url, "web"))) == ["from-chart"]

    async def test_within_each_other(self, repository: Repository, library: Repository, sources: Sources, tmp_path: Path) -> None:
        """Each address is relative to the repository that it stands in."""
        deep = Repository(tmp_path, "deep")
        inner = add_submodule(library, "../deep.git", deep.commit({"cm.yaml": config_map("deep")}), "inner")
        add_submodule(repository, "../library.git", inner)
        async with HttpServer(tmp_path).running() as server:
            assert names(await render(sources, wanting(server.url("origin.git")))) == ["deep"]

    async def test_over_ssh_with_the_key_of_the_repository_around_it(
        self, repository: Repository, library: Repository, tmp_path: Path
    ) -> None:
        """The host is the same, so its login is good for both."""
        add_submodule(repository, "../library.git", library.commit({"cm.yaml": config_map("x")}))
        async with SshServer(tmp_path, tmp_path).running() as server:
            sources = make_sources(tmp_path, settings_for(server, server.write_known_hosts(tmp_path / "known_hosts")))
            assert names(await render(sources, wanting(server.url("origin.git")))) == ["x"]
            sources.close()


class TestAskedFor:
    @pytest.fixture
    def shared(self, repository: Repository, library: Repository) -> Repository:
        add_submodule(repository, "../library.git", library.commit({"cm.yaml": config_map("x")}))
        return repository

    async def test_by_the_source_or_for_all(self, shared: Repository, tmp_path: Path) -> None:
        """What the source says itself counts."""
        async with HttpServer(tmp_path).running() as server:
            url = server.url("origin.git")
            for everywhere, said, expected in ((True, None, ["x"]), (True, False, []), (False, None, []), (False, True, ["x"])):
                rendering = RenderSettings(git_submodules=everywhere)
                sources = Sources(cache_dir=tmp_path / "cache", rendering=rendering, environment=ENVIRONMENT)
                source = wanting(url, submodules=said)
                if expected:
                    assert names(await render(sources, source)) == expected
                else:
                    fault = await fault_of(sources, source)
                    assert isinstance(fault, SubmoduleError)
                    assert "submodules: true" in fault.hint
                sources.close()


class TestCredentials:
    @pytest.fixture
    def sources(self, tmp_path: Path) -> Iterator[Sources]:
        made = sources_in(tmp_path)
        yield made
        made.close()

    async def test_those_of_the_repository_around_it_on_the_same_host(
        self, repository: Repository, library: Repository, sources: Sources, tmp_path: Path
    ) -> None:
        """Whether they are written down for it or stand in its address."""
        add_submodule(repository, "../library.git", library.commit({"cm.yaml": config_map("x")}))
        async with HttpServer(tmp_path, {"ada": PASSWORD}).running() as server:
            assert names(await render(sources, wanting(server.url("origin.git", f"ada:{PASSWORD}@")))) == ["x"]
            write_secret(tmp_path, "one", type="git", url=server.url("origin.git"), username="ada", password=PASSWORD)
            assert names(await render(sources, wanting(server.url("origin.git")))) == ["x"]

    async def test_and_on_no_other_host(self, repository: Repository, library: Repository, sources: Sources, tmp_path: Path) -> None:
        """There it takes credentials of its own, by its own address."""
        commit = library.commit({"cm.yaml": config_map("x")})
        async with HttpServer(tmp_path, {"ada": PASSWORD}).running() as other, HttpServer(tmp_path, {"ada": PASSWORD}).running() as server:
            seen: list[str] = []
            other.interfere = lambda request: seen.append(request.headers.get("Authorization", ""))
            add_submodule(repository, other.url("library.git"), commit)
            write_secret(tmp_path, "one", type="git", url=server.url("origin.git"), username="ada", password=PASSWORD)

            fault = await fault_of(sources, wanting(server.url("origin.git")))
            assert isinstance(fault, AuthenticationError)
            assert fault.message.startswith("submodule vendor/sub: ")
            assert seen
            assert not any(seen)
            write_secret(tmp_path, "two", template=True, type="git", url=f"http://{other.address}", username="ada", password=PASSWORD)
            assert names(await render(sources, wanting(server.url("origin.git")))) == ["x"]


class TestRefused:
    @pytest.mark.parametrize(
        ("address", "words"),
        [
            ("/srv/git/library.git", "is a path of this machine"),
            ("file:///srv/git/library.git", "is a path of this machine"),
            ("ext::sh -c touch% /tmp/x", "is no address"),
            ("git://example.test/library.git", "are not fetched by git"),
            ("http://example.test/library.git", "http is neither secret nor sure"),
            ("http://127.0.0.1:8080/library.git", "is plain http, and"),
            ("https://127.0.0.1:8443/library.git", "is on this machine, and"),
            ("ssh://git@localhost/library.git", "is on this machine, and"),
            ("../../../library.git", "leads above the host"),
            ("-oProxyCommand=x", "is no address"),
            ("https://u:geheim42@host name/x.git", "is no address"),
        ],
    )
    def test_addresses_that_lead_where_none_may(self, address: str, words: str) -> None:
        """Nothing of this machine, no weaker way than to the repository around it; a password is never shown."""
        with pytest.raises(SubmoduleError, match=words) as caught:
            submodule_of(parse_url("https://git.example/team/config.git"), "vendor/sub", address)
        assert "vendor/sub" in caught.value.message
        assert "geheim42" not in f"{caught.value!r} {caught.value.__cause__!r}"

    @pytest.mark.parametrize(
        ("superproject", "address", "expected"),
        [
            ("https://git.example/team/config.git", "../library.git", "https://git.example/team/library.git"),
            ("https://git.example/team/config.git/", "../../other/library", "https://git.example/other/library"),
            ("https://git.example/team/config.git", "./inner", "https://git.example/team/config.git/inner"),
            ("git@git.example:team/config.git", "../library.git", "git@git.example:team/library.git"),
            ("git@git.example:config.git", "../library.git", "git@git.example:library.git"),
            ("ssh://git@git.example:2222/srv/config.git", "../library.git", "ssh://git@git.example:2222/srv/library.git"),
            ("git@git.example:/srv/config.git", "../library.git", "git@git.example:/srv/library.git"),
        ],
    )
    def test_relative_addresses_are_read_as_git_reads_them(self, superproject: str, address: str, expected: str) -> None:
        """From the repository that they stand in."""
        assert related_to(parse_url(superproject), address).address == expected

    def test_a_path_of_this_machine_has_no_relatives(self) -> None:
        """Whoever may read a local repository need not be let into its neighbours by what a commit says."""
        with pytest.raises(RepositoryUrlError, match="is relative to a path of this machine"):
            related_to(parse_url("/srv/config.git", allow_local=True), "../library.git")

    async def test_the_case(self, tmp_path: Path, sources: Sources) -> None:
        """Its submodule is a path of the machine that it was made on: not fetched, also where submodules are asked for."""
        run_case("29-submodule-lfs-shallow", tmp_path)
        fault = await fault_of(sources, wanting(f"file://{tmp_path}/main.git", "vendor/sub"))
        assert isinstance(fault, SubmoduleError)
        assert fault.message.startswith("submodule vendor/sub is not fetched: ")
        assert fault.file == ".gitmodules"

    async def test_too_deep_and_too_many(self, repository: Repository, tmp_path: Path) -> None:
        """A repository that is its own submodule ends somewhere, and so does one with a great many."""
        commit = repository.commit({"cm.yaml": config_map("x")})
        for _ in range(3):
            commit = add_submodule(repository, "../origin.git", commit, "again")
            repository.work.joinpath(".gitmodules").write_text("")
        commit = add_submodule(repository, "../origin.git", commit, "again")
        for number in range(3):
            add_submodule(repository, "../origin.git", commit, f"n{number}")
        async with HttpServer(tmp_path).running() as server:
            url = server.url("origin.git")
            for limits, words in ((SourceLimits(submodule_depth=2), "nest deeper than 2"), (SourceLimits(submodules=3), "more than 3")):
                sources = make_sources(tmp_path, limits=limits)
                fault = await fault_of(sources, wanting(url))
                assert isinstance(fault, SubmoduleError)
                assert words in fault.message
                sources.close()

    async def test_a_commit_that_is_not_there(self, repository: Repository, library: Repository, sources: Sources, tmp_path: Path) -> None:
        """It is named with its submodule; no other commit is taken instead."""
        library.commit({"cm.yaml": config_map("x")})
        add_submodule(repository, "../library.git", "1" * 40)
        async with HttpServer(tmp_path).running() as server:
            fault: DelegateError = await fault_of(sources, wanting(server.url("origin.git")))
            assert isinstance(fault, RevisionNotFoundError)
            assert f"submodule vendor/sub: http://{server.address}/library.git: commit {'1' * 40} is not in" in fault.message

    async def test_one_that_nothing_is_said_of(self, repository: Repository, sources: Sources) -> None:
        """A gitlink without an entry in .gitmodules."""
        head = repository.commit({"cm.yaml": config_map("x")})
        repository.git("update-index", "--add", "--cacheinfo", f"160000,{head},vendor/sub")
        repository.git("commit", "-q", "-m", "add")
        repository.git("push", "-q", "origin", "HEAD:refs/heads/main")
        fault = await fault_of(sources, wanting(repository.url))
        assert isinstance(fault, SubmoduleError)
        assert "doesn't say where it is" in fault.message

    async def test_a_link_out_of_everything(self, repository: Repository, library: Repository, sources: Sources, tmp_path: Path) -> None:
        """From within a submodule, the top of the repository around it is the end."""
        library.commit({"cm.yaml": config_map("x")})
        (library.work / "out.yaml").symlink_to("../../../secret.yaml")
        add_submodule(repository, "../library.git", library.commit_work_tree())
        async with HttpServer(tmp_path).running() as server:
            fault = await fault_of(sources, wanting(server.url("origin.git")))
            assert isinstance(fault, LinkError)
            assert "vendor/sub/out.yaml is a link that leads out" in fault.message
