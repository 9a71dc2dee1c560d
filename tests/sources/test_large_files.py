"""What Git LFS keeps: refused by name where it is not asked for; else fetched, checked, kept, and never more than may be."""

import asyncio
import contextlib
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import asyncssh
import msgspec
import pytest
import trustme

from delegate.engine.sources.errors import (
    FetchAuthenticationError,
    ForeignDocumentError,
    LargeFileError,
    SourceTooLargeError,
    UnexpectedAnswerError,
)
from delegate.engine.sources.limits import SourceLimits
from delegate.engine.sources.manifests import Sources
from delegate.foundation.errors import ErrorGroup
from delegate.model.sources import HelmOptions, Source
from tests.sources.chart_servers import server_context, tinyproxy
from tests.sources.charts import chart
from tests.sources.large_files import LargeFileServer, pointer_to
from tests.sources.repositories import HttpServer, Repository, SshServer, config_map, fault_of, make_sources, names, render
from tests.sources.repositories import source_of as plain_source
from tests.sources.test_chart_repositories import sources_in, trust, write_secret
from tests.sources.test_git_ssh import settings_for
from tests.sources.test_submodules import add_submodule

BIG = config_map("big", key="a" * 5000).encode()
PASSWORD = "geheim-und-lang"


def wanting(url: str, path: str = ".", *, lfs: bool | None = True, **fields: object) -> Source:
    return msgspec.structs.replace(plain_source(url, "main", path), lfs=lfs, **fields)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """One with a small file and a pointer."""
    made = Repository(tmp_path)
    made.commit({"small.yaml": config_map("small"), "big/big.yaml": pointer_to(BIG)})
    return made


@pytest.fixture
def sources(tmp_path: Path) -> Iterator[Sources]:
    made = sources_in(tmp_path)
    yield made
    made.close()


class TestFetched:
    async def test_in_the_place_of_its_pointer(self, repository: Repository, sources: Sources, tmp_path: Path) -> None:
        """Once, whatever asks for it afterwards; and another process finds it there."""
        async with HttpServer(tmp_path).running() as server:
            large = LargeFileServer(server, BIG)
            url = server.url("origin.git")
            rendered = await render(sources, wanting(url))
            assert names(rendered) == ["big", "small"]
            assert rendered.manifests[0].body["data"] == {"key": "a" * 5000}
            again = make_sources(tmp_path)
            await asyncio.gather(*(render(each, wanting(url, "big")) for each in (sources, again)))
            again.close()

        ((path, asked),) = large.batches
        digest = hashlib.sha256(BIG).hexdigest()
        assert path == "/origin.git/info/lfs/objects/batch"
        assert asked == {"operation": "download", "transfers": ["basic"], "objects": [{"oid": digest, "size": len(BIG)}]}
        assert large.downloads == [digest]

    async def test_once_by_many_at_a_time(self, repository: Repository, sources: Sources, tmp_path: Path) -> None:
        """One of them fetches, the others wait for it."""
        async with HttpServer(tmp_path).running() as server:
            large = LargeFileServer(server, BIG)
            await asyncio.gather(*(render(sources, wanting(server.url("origin.git"))) for _ in range(5)))
        assert len(large.downloads) == 1

    async def test_where_the_secret_of_the_repository_says_so(self, repository: Repository, sources: Sources, tmp_path: Path) -> None:
        """As Argo CD's does, with its login and behind its own authority; a source that says no has none fetched."""
        authority = trustme.CA()
        trust(tmp_path, authority)
        async with HttpServer(tmp_path, {"ada": PASSWORD}, tls=server_context(authority)).running() as server:
            large = LargeFileServer(server, BIG)
            url = server.url("origin.git")
            write_secret(tmp_path, "one", type="git", url=url, username="ada", password=PASSWORD, enableLfs="true")
            assert names(await render(sources, wanting(url, lfs=None))) == ["big", "small"]
            assert isinstance(await fault_of(sources, wanting(url, lfs=False)), ForeignDocumentError)
        assert len(set(large.authorizations)) == 1
        assert large.authorizations[0].startswith("Basic ")

    async def test_through_the_proxy_of_the_repository(self, repository: Repository, sources: Sources, tmp_path: Path) -> None:
        """Batches and downloads alike."""
        authority = trustme.CA()
        trust(tmp_path, authority, "0.0.0.0")
        context = server_context(authority, host="0.0.0.0")
        async with HttpServer(tmp_path, tls=context).running() as server, tinyproxy(tmp_path) as (port, log):
            LargeFileServer(server, BIG)
            url = server.url("origin.git").replace("127.0.0.1", "0.0.0.0")
            write_secret(tmp_path, "one", url=url, proxy=f"http://ada:proxy-passwort@127.0.0.1:{port}")
            assert names(await render(sources, wanting(url, "small.yaml"))) == ["small"]
            before = log.read_text().count("CONNECT")
            assert names(await render(sources, wanting(url, "big"))) == ["big"]
            assert log.read_text().count("CONNECT") > before

    async def test_by_kustomizations_charts_and_values(self, repository: Repository, sources: Sources, tmp_path: Path) -> None:
        """Wherever they read a file."""
        values = b"level: from-lfs\n"
        repository.commit(
            {
                "app/kustomization.yaml": "resources: [big.yaml]\n",
                "app/big.yaml": pointer_to(BIG),
                **chart(directory="shop"),
                "shop/prod.yaml": pointer_to(values),
            }
        )
        async with HttpServer(tmp_path).running() as server:
            LargeFileServer(server, BIG, values)
            url = server.url("origin.git")
            assert names(await render(sources, wanting(url, "app"))) == ["big"]
            rendered = await render(sources, wanting(url, "shop", helm=HelmOptions(value_files=("prod.yaml",))))
            assert json.loads(rendered.manifests[0].body["data"]["values"]) == {"level": "from-lfs"}

    async def test_from_the_repository_of_a_submodule(self, repository: Repository, sources: Sources, tmp_path: Path) -> None:
        """Each repository's files are asked of that repository."""
        library = Repository(tmp_path, "library")
        add_submodule(repository, "../library.git", library.commit({"big.yaml": pointer_to(BIG)}))
        async with HttpServer(tmp_path).running() as server:
            large = LargeFileServer(server, BIG)
            rendered = await render(sources, wanting(server.url("origin.git"), "vendor", submodules=True))
            assert names(rendered) == ["big"]
        assert [path for path, _ in large.batches] == ["/library.git/info/lfs/objects/batch"]

    async def test_from_where_lfsconfig_says(self, repository: Repository, sources: Sources, tmp_path: Path) -> None:
        """Another host gets no credentials of the repository's."""
        async with HttpServer(tmp_path).running() as other, HttpServer(tmp_path, {"ada": PASSWORD}).running() as server:
            large = LargeFileServer(other, BIG)
            repository.commit({".lfsconfig": f"[lfs]\n\turl = {other.url('files')}/info/lfs\n"})
            write_secret(tmp_path, "one", type="git", url=server.url("origin.git"), username="ada", password=PASSWORD)
            assert names(await render(sources, wanting(server.url("origin.git")))) == ["big", "small"]
        assert [path for path, _ in large.batches] == ["/files/info/lfs/objects/batch"]
        assert set(large.authorizations) == {""}

    async def test_from_elsewhere_with_what_goes_there(self, repository: Repository, sources: Sources, tmp_path: Path) -> None:
        """A store of objects at another host gets the header that was meant for it, and not our login."""
        async with HttpServer(tmp_path).running() as store, HttpServer(tmp_path, {"ada": PASSWORD}).running() as server:
            large, kept = LargeFileServer(server, BIG), LargeFileServer(store, BIG)
            large.elsewhere = store.url("").rstrip("/")
            write_secret(tmp_path, "one", type="git", url=server.url("origin.git"), username="ada", password=PASSWORD)
            assert names(await render(sources, wanting(server.url("origin.git")))) == ["big", "small"]
            (tmp_path / "cache").rename(tmp_path / "old")
            large.header = {"Authorization": "RemoteAuth store-token"}
            fresh = sources_in(tmp_path)
            assert names(await render(fresh, wanting(server.url("origin.git")))) == ["big", "small"]
            fresh.close()
        assert kept.authorizations == ["", "RemoteAuth store-token"]

    async def test_by_what_ssh_says(self, repository: Repository, tmp_path: Path) -> None:
        """The host is asked by git-lfs-authenticate where the files are, and as whom."""
        async with HttpServer(tmp_path, {"nobody": "x"}).running() as server, _ForgeServer(tmp_path, tmp_path).running() as forge:
            large = LargeFileServer(server, BIG)
            large.header = {"Authorization": "RemoteAuth of-the-hour"}
            forge.lfs = {"href": f"{server.url('origin.git')}/info/lfs", "header": dict(large.header), "expires_in": 600}
            sources = make_sources(tmp_path, settings_for(forge, forge.write_known_hosts(tmp_path / "known_hosts")))
            assert names(await render(sources, wanting(forge.url("origin.git")))) == ["big", "small"]
            sources.close()
            assert "git-lfs-authenticate /origin.git download" in forge.commands
        assert set(large.authorizations) == {"RemoteAuth of-the-hour"}


class _ForgeServer(SshServer):
    """An SSH server that knows git-lfs-authenticate as well."""

    lfs: dict[str, object]

    async def _serve(self, process: "asyncssh.SSHServerProcess[bytes]") -> None:
        if (process.command or "").startswith("git-lfs-authenticate"):
            self.commands.append(process.command or "")
            process.stdout.write(json.dumps(self.lfs).encode())
            process.exit(0)
            return
        await super()._serve(process)


class TestNotAskedFor:
    """The file is named, and what to do."""

    async def test_a_manifest(self, repository: Repository, sources: Sources) -> None:
        """It is none."""
        fault = await fault_of(sources, plain_source(repository.url, "main"))
        assert isinstance(fault, ForeignDocumentError)
        assert fault.file == "big/big.yaml"
        assert "lfs: true" in fault.hint

    @pytest.mark.parametrize("file", ["kustomization.yaml", "cm.yaml", "settings.txt"])
    async def test_what_a_kustomization_reads(self, file: str, repository: Repository, sources: Sources) -> None:
        """Itself, a resource, and what a generator would put into a ConfigMap as it is."""
        files = {
            "kustomization.yaml": "resources: [cm.yaml]\nconfigMapGenerator: [{name: gen, files: [settings.txt]}]\n",
            "cm.yaml": config_map("x"),
            "settings.txt": "a",
        }
        repository.commit({f"app/{name}": text for name, text in (files | {file: pointer_to(BIG)}).items()})
        fault = await fault_of(sources, plain_source(repository.url, "main", "app"))
        assert isinstance(fault, ForeignDocumentError)
        assert fault.file == f"app/{file}"

    @pytest.mark.parametrize(
        "file", ["Chart.yaml", "values.yaml", "templates/config.yaml", "files/settings.txt", "charts/a-1.0.0.tgz", "prod.yaml"]
    )
    async def test_what_a_chart_reads(self, file: str, repository: Repository, sources: Sources) -> None:
        """Of its own, and beside it."""
        repository.commit(chart(directory="shop") | {"shop/prod.yaml": "a: 1\n"} | {f"shop/{file}": pointer_to(BIG)})
        fault = await fault_of(sources, wanting(repository.url, "shop", lfs=None, helm=HelmOptions(value_files=("prod.yaml",))))
        assert isinstance(fault, ForeignDocumentError)
        assert fault.file == f"shop/{file}"

    async def test_all_of_a_directory_at_once(self, repository: Repository, sources: Sources) -> None:
        """With whatever else is wrong."""
        repository.commit({"big/other.yaml": pointer_to(b"x"), "big/bad.yaml": "a: [\n"})
        fault = await fault_of(sources, plain_source(repository.url, "main", "big"))
        assert isinstance(fault, ErrorGroup)
        assert [error.file for error in fault.errors] == ["big/bad.yaml", "big/big.yaml", "big/other.yaml"]

    async def test_after_it_was_fetched_for_another_source(self, repository: Repository, sources: Sources, tmp_path: Path) -> None:
        """What is kept for one that asks is no answer for one that doesn't."""
        async with HttpServer(tmp_path).running() as server:
            LargeFileServer(server, BIG)
            await render(sources, wanting(server.url("origin.git"), "big"))
            assert isinstance(await fault_of(sources, wanting(server.url("origin.git"), "big", lfs=None)), ForeignDocumentError)


class TestRefused:
    async def test_an_object_that_is_not_there(self, repository: Repository, sources: Sources, tmp_path: Path) -> None:
        """By the file that points to it."""
        async with HttpServer(tmp_path).running() as server:
            LargeFileServer(server)
            fault = await fault_of(sources, wanting(server.url("origin.git")))
        assert isinstance(fault, LargeFileError)
        assert fault.file == "big/big.yaml"
        assert "(404 Object does not exist)" in fault.message

    async def test_other_bytes_than_were_promised(self, repository: Repository, sources: Sources, tmp_path: Path) -> None:
        """They are not kept either."""
        async with HttpServer(tmp_path).running() as server:
            large = LargeFileServer(server, BIG)
            large.objects = dict.fromkeys(large.objects, b"evil")
            for _ in range(2):
                fault = await fault_of(sources, wanting(server.url("origin.git")))
                assert isinstance(fault, LargeFileError)
                assert "but 4 other bytes" in fault.message
        assert len(large.downloads) == 2

    async def test_more_bytes_than_there_is_room_for(self, repository: Repository, tmp_path: Path) -> None:
        """What a pointer says is believed before anything is fetched; an endless answer is cut off."""
        async with HttpServer(tmp_path).running() as server:
            large = LargeFileServer(server, BIG)
            sources = make_sources(tmp_path, limits=SourceLimits(file_bytes=4096))
            assert isinstance(await fault_of(sources, wanting(server.url("origin.git"))), SourceTooLargeError)
            assert not large.batches
            sources.close()
            large.objects = dict.fromkeys(large.objects, b"x" * 6000000)
            with contextlib.closing(make_sources(tmp_path)) as sources:
                assert isinstance(await fault_of(sources, wanting(server.url("origin.git"))), UnexpectedAnswerError)

    async def test_credentials_that_may_not_read(self, repository: Repository, sources: Sources, tmp_path: Path) -> None:
        """A matter of permission, and the password is shown nowhere."""
        async with HttpServer(tmp_path).running() as server:
            LargeFileServer(server, BIG)
            server.interfere, answer = None, server.interfere
            write_secret(tmp_path, "one", type="git", url=server.url("origin.git"), username="ada", password=PASSWORD)
            await render(sources, wanting(server.url("origin.git"), "small.yaml"))
            server.interfere, server.logins = answer, {"ada": "another"}
            revision = repository.git("rev-parse", "HEAD")
            fault = await fault_of(sources, msgspec.structs.replace(wanting(server.url("origin.git"), "big"), target_revision=revision))
        assert isinstance(fault, FetchAuthenticationError)
        assert PASSWORD not in f"{fault!r} {fault} {fault.hint}"

    @pytest.mark.parametrize(
        ("address", "words"),
        [
            ("file:///etc/passwd", "is a path of this machine"),
            ("http://files.example.test/lfs", "http is neither secret nor sure"),
            ("ssh://git@127.0.0.1/files", "is reached by https"),
        ],
    )
    async def test_places_that_lfsconfig_must_not_name(
        self, address: str, words: str, repository: Repository, sources: Sources, tmp_path: Path
    ) -> None:
        """Nothing of this machine, and nothing that anybody could read along."""
        repository.commit({".lfsconfig": f"[lfs]\n\turl = {address}\n"})
        async with HttpServer(tmp_path).running() as server:
            fault = await fault_of(sources, wanting(server.url("origin.git")))
        assert isinstance(fault, LargeFileError)
        assert (words in fault.message, fault.file) == (True, ".lfsconfig")

    async def test_a_pointer_that_is_none(self, repository: Repository, sources: Sources) -> None:
        """One that begins like it."""
        repository.commit({"big/big.yaml": "version https://git-lfs.github.com/spec/v1\next-0-x sha256:1\noid sha256:00\nsize 5\n"})
        fault = await fault_of(sources, wanting(repository.url))
        assert isinstance(fault, LargeFileError)
        assert (fault.message, fault.file) == ("this LFS pointer can't be read", "big/big.yaml")

    async def test_a_host_without_git_lfs(self, repository: Repository, sources: Sources, tmp_path: Path) -> None:
        """git-http-backend knows no such thing; nor does a way of transfer that we don't."""
        async with HttpServer(tmp_path).running() as server:
            fault = await fault_of(sources, wanting(server.url("origin.git")))
            assert isinstance(fault, LargeFileError)
            assert "check that the host has Git LFS" in fault.hint
            LargeFileServer(server, BIG).transfer = "tus"
            assert "offers 'tus'" in (await fault_of(sources, wanting(server.url("origin.git")))).message
