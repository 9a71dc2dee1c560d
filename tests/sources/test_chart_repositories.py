"""Charts from HTTP repositories: versions, credentials, certificates, digests, and what a server may do to us."""

import base64
import gzip
import io
import json
import ssl
import tarfile
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import trustme

from delegate.engine.sources.charts import indexes
from delegate.engine.sources.charts.indexes import ChartVersion
from delegate.engine.sources.errors import (
    ChartDependencyError,
    ChartDigestError,
    ChartNotFoundError,
    FetchAuthenticationError,
    FetchCertificateError,
    FetchTransferError,
    FetchUnreachableError,
    FetchUrlError,
    SourceTooLargeError,
    UnexpectedAnswerError,
)
from delegate.engine.sources.manifests import Sources
from delegate.engine.sources.renders import Rendered
from delegate.engine.sources.settings import RenderSettings
from delegate.engine.sources.targets import Target
from delegate.foundation.errors import DelegateError
from delegate.model.sources import HelmOptions, Source
from tests.sources.chart_servers import ChartServer, RegistryServer, server_context, tinyproxy
from tests.sources.charts import chart, packed
from tests.sources.repositories import ENVIRONMENT, Repository
from tests.tools import require_tool

PASSWORD = "geheim-und-lang"
LOGIN = f"ada:{PASSWORD}"


@pytest.fixture(autouse=True)
def _helm() -> None:
    require_tool("helm")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ChartServer]:
    async with ChartServer(tmp_path / "charts").running() as running:
        yield running


@pytest.fixture
def made(tmp_path: Path) -> "Callable[..., Sources]":
    return lambda **environment: sources_in(tmp_path, **environment)


def sources_in(folder: Path, **environment: str) -> Sources:
    (folder / "repositories").mkdir(exist_ok=True)
    settings = RenderSettings(repositories_dir=folder / "repositories")
    return Sources(cache_dir=folder / "cache", allow_local=True, rendering=settings, environment={**ENVIRONMENT, **environment})


def write_secret(folder: Path, file: str, fields: Mapping[str, str] | None = None, *, template: bool = False, **more: str) -> Path:
    """A Secret as Argo CD users have it."""
    kind = "repo-creds" if template else "repository"
    data = {field: base64.b64encode(value.encode()).decode() for field, value in {**(fields or {}), **more}.items()}
    metadata = {"name": file, "labels": {"argocd.argoproj.io/secret-type": kind}}
    return write_document(folder, file, {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})


def write_document(folder: Path, name: str, document: dict[str, object]) -> Path:
    directory = folder / "repositories"
    directory.mkdir(exist_ok=True)
    path = directory / f"{name}.yaml"
    unfinished = directory / f".{name}"
    unfinished.write_text(json.dumps(document))
    unfinished.replace(path)
    return path


def trust(folder: Path, authority: trustme.CA, host: str = "127.0.0.1", *, file: str = "certificates") -> None:
    data = {host: authority.cert_pem.bytes().decode()}
    write_document(folder, file, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "argocd-tls-certs-cm"}, "data": data})


async def render(sources: Sources, url: str, version: str = "*", chart: str = "shop", **fields: Any) -> Rendered:
    source = Source(repo_url=url, chart=chart, target_revision=version, **fields)
    revision = await sources.resolve(source, timeout=40)
    return await sources.render(source, revision, timeout=40, target=Target("shop", "shop"))


def values_of(rendered: Rendered) -> dict[str, Any]:
    (manifest,) = rendered.manifests
    return dict(json.loads(manifest.body["data"]["values"]))


def assert_hidden(error: DelegateError, *secrets: str) -> None:
    told = f"{error!r} {error} {error.hint} {error.__cause__!r}"
    assert not [secret for secret in (*secrets, PASSWORD) if secret in told]


class TestVersions:
    @pytest.mark.parametrize(
        ("wanted", "version"),
        [
            ("1.2.0", "1.2.0"),
            ("v1.2.0", "1.2.0"),
            ("1.x", "1.10.0"),
            ("~1.2.0", "1.2.3"),
            ("^1.2", "1.10.0"),
            (">=1.0.0, <1.10.0", "1.2.3"),
            ("*", "2.0.0"),
            ("HEAD", "2.0.0"),
            (">=2.0.0-0", "2.1.0-rc.1"),
            ("2.1.0-rc.1", "2.1.0-rc.1"),
        ],
    )
    async def test_of_an_index(self, wanted: str, version: str, server: ChartServer, made: Callable[..., Sources]) -> None:
        """An exact version, or the newest one of a range; pre-releases only where they are asked for."""
        for each in ("1.2.0", "1.10.0", "1.2.3", "2.0.0", "2.1.0-rc.1"):
            server.add(version=each)
        source = Source(repo_url=server.url, chart="shop", target_revision=wanted)

        assert (await made().resolve(source, timeout=40)).revision == version

    async def test_that_are_not_there(self, server: ChartServer, made: Callable[..., Sources]) -> None:
        """Chart and version are told apart, with what there is."""
        server.add(version="1.2.0")
        with pytest.raises(ChartNotFoundError, match=r"chart shop has no version '9.9.9'") as version:
            await render(made(), server.url, "9.9.9")
        with pytest.raises(ChartNotFoundError, match="has no chart 'shopp'") as name:
            await render(made(), server.url, chart="shopp")

        assert "1.2.0" in version.value.hint
        assert name.value.hint == "did you mean shop?"


async def test_a_chart_is_rendered_like_one_from_git(server: ChartServer, made: Callable[..., Sources]) -> None:
    """Origins are files of the chart, the revision its version."""
    server.add(version="1.2.3", values__yaml="level: chart\n", **{"values.yaml": "level: chart\n"})

    rendered = await render(made(), server.url, helm=HelmOptions(values="more: yes"))

    assert rendered.revision == "1.2.3"
    assert rendered.manifests[0].name == "shop-config"
    assert str(rendered.manifests[0].origin) == "shop/templates/config.yaml"
    assert values_of(rendered) == {"level": "chart", "more": True}


async def test_one_listing_and_one_download_a_version(server: ChartServer, made: Callable[..., Sources], tmp_path: Path) -> None:
    """The archive is kept by its digest, also for the next process; the index is sent again only when it has changed."""
    server.add(version="1.0.0")
    sources = made()
    first = await render(sources, server.url)
    again = await render(sources, server.url)
    assert (again.content, server.count(".tgz"), server.count("index.yaml")) == (first.content, 1, 2)

    assert (await render(made(), server.url)).content == first.content
    assert server.count(".tgz") == 1
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "cache/charts").iterdir())

    server.add(version="1.1.0")
    assert (await render(sources, server.url)).revision == "1.1.0"
    assert server.count(".tgz") == 2


async def test_what_was_not_promised_is_refused(server: ChartServer, made: Callable[..., Sources]) -> None:
    """A file that is another one than the index says; and it is not kept."""
    server.add(version="1.0.0")
    (server.folder / "shop-1.0.0.tgz").write_bytes(packed(chart("shop", {"values.yaml": "evil: true\n"})))
    sources = made()

    for _ in range(2):
        with pytest.raises(ChartDigestError, match="was promised"):
            await render(sources, server.url)
    assert server.count(".tgz") == 2


async def test_a_kept_archive_that_was_changed_is_fetched_again(server: ChartServer, made: Callable[..., Sources], tmp_path: Path) -> None:
    """Half a file on a full disk is none."""
    server.add(version="1.0.0")
    await render(made(), server.url)
    (kept,) = (tmp_path / "cache/charts").iterdir()
    kept.write_bytes(kept.read_bytes()[:50])

    assert (await render(made(), server.url)).revision == "1.0.0"
    assert server.count(".tgz") == 2


class TestCredentials:
    async def test_come_from_a_secret(self, tmp_path: Path, made: Callable[..., Sources]) -> None:
        """For the index and the archive; a wrong password and none are told apart, and it is never shown."""
        async with ChartServer(tmp_path / "charts", login=LOGIN).running() as server:
            server.add()
            sources = made()
            with pytest.raises(FetchAuthenticationError, match="wants credentials, and none are set"):
                await render(sources, server.url)
            write_secret(tmp_path, "one", type="helm", url=server.url, username="ada", password="not-the-password")
            with pytest.raises(FetchAuthenticationError, match="refuses the credentials") as refused:
                await render(sources, server.url)
            assert_hidden(refused.value, "not-the-password")

            write_secret(tmp_path, "one", type="helm", url=server.url, username="ada", password=PASSWORD)
            assert (await render(sources, server.url)).revision == "1.0.0"

    async def test_come_from_a_template(self, tmp_path: Path, made: Callable[..., Sources]) -> None:
        """By the beginning of the address."""
        async with ChartServer(tmp_path / "charts", login=LOGIN).running() as server:
            server.folder = tmp_path / "charts/team"
            server.folder.mkdir()
            server.add()
            server.folder = tmp_path / "charts"
            write_secret(tmp_path, "all", template=True, type="helm", url=server.url, username="ada", password=PASSWORD)

            assert (await render(made(), f"{server.url}/team")).revision == "1.0.0"

    async def test_come_from_a_mounted_secret(self, tmp_path: Path, made: Callable[..., Sources]) -> None:
        """A directory with a file for each field, as the kubelet makes it."""
        async with ChartServer(tmp_path / "charts", login=LOGIN).running() as server:
            server.add()
            mounted = tmp_path / "repositories/charts"
            mounted.mkdir(parents=True)
            for name, text in {"type": "helm", "url": server.url, "username": "ada\n", "password": f"{PASSWORD}\n"}.items():
                (mounted / name).write_text(text)

            assert (await render(made(), server.url)).revision == "1.0.0"

    async def test_go_to_no_other_host(self, tmp_path: Path, made: Callable[..., Sources]) -> None:
        """Neither where the index points elsewhere nor after a redirect."""
        async with ChartServer(tmp_path / "other").running() as stranger:
            stranger.add(version="1.0.0")
            stranger.add(version="2.0.0")
            async with ChartServer(tmp_path / "charts", login=LOGIN).running() as server:
                server.add(version="1.0.0", url=f"{stranger.url}/shop-1.0.0.tgz")
                server.add(version="2.0.0")
                server.moved["/shop-2.0.0.tgz"] = f"{stranger.url}/shop-2.0.0.tgz"
                write_secret(tmp_path, "one", type="helm", url=server.url, username="ada", password=PASSWORD)
                sources = made()

                for version in ("1.0.0", "2.0.0"):
                    assert (await render(sources, server.url, version)).revision == version

        assert stranger.requests == ["/shop-1.0.0.tgz", "/shop-2.0.0.tgz"]
        assert stranger.authorizations == ["", ""]

    async def test_go_to_another_host_on_demand(self, tmp_path: Path, made: Callable[..., Sources]) -> None:
        """passCredentials: where a repository keeps its charts elsewhere. That host is believed by its own authority."""
        near, far = trustme.CA(), trustme.CA()
        trust(tmp_path, near)
        trust(tmp_path, far, "localhost", file="far")
        async with ChartServer(tmp_path / "far", login=LOGIN, tls=server_context(far, host="localhost")).running() as other:
            other.add()
            place = f"https://localhost:{other.port}/shop-1.0.0.tgz"
            async with ChartServer(tmp_path / "charts", login=LOGIN, tls=server_context(near)).running() as server:
                server.add(url=place)
                write_secret(tmp_path, "one", type="helm", url=server.url, username="ada", password=PASSWORD)

                with pytest.raises(FetchAuthenticationError):
                    await render(made(), server.url)
                assert (await render(made(), server.url, helm=HelmOptions(pass_credentials=True))).revision == "1.0.0"

    async def test_of_a_kind_that_is_not_supported_are_named(
        self, tmp_path: Path, server: ChartServer, made: Callable[..., Sources]
    ) -> None:
        """Better no answer than another one."""
        write_secret(tmp_path, "one", type="helm", url=server.url, gcpServiceAccountKey="{}")
        with pytest.raises(DelegateError, match="gcpServiceAccountKey is not supported"):
            await render(made(), server.url)


class TestCertificates:
    async def test_an_authority_of_the_hosts_own(self, tmp_path: Path, made: Callable[..., Sources]) -> None:
        """From argocd-tls-certs-cm; without it the host is named; `insecure` trusts anybody."""
        authority = trustme.CA()
        async with ChartServer(tmp_path / "charts", tls=server_context(authority)).running() as server:
            server.add()
            with pytest.raises(FetchCertificateError, match=r"127\.0\.0\.1: its TLS certificate is not trusted"):
                await render(made(), server.url)
            write_secret(tmp_path, "one", type="helm", url=server.url, insecure="true")
            assert (await render(made(), server.url)).revision == "1.0.0"

            (tmp_path / "repositories/one.yaml").unlink()
            trust(tmp_path, authority)
            assert (await render(made(), server.url)).revision == "1.0.0"

    async def test_by_the_environment(self, tmp_path: Path, made: Callable[..., Sources]) -> None:
        """SSL_CERT_FILE, as for everything else."""
        authority = trustme.CA()
        authority.cert_pem.write_to_path(tmp_path / "ca.pem")
        async with ChartServer(tmp_path / "charts", tls=server_context(authority)).running() as server:
            server.add()
            assert (await render(made(SSL_CERT_FILE=str(tmp_path / "ca.pem")), server.url)).revision == "1.0.0"

    async def test_of_our_own(self, tmp_path: Path, made: Callable[..., Sources]) -> None:
        """A server that wants a client certificate gets it, and its key is in no file afterwards."""
        authority, ours = trustme.CA(), trustme.CA()
        shown = ours.issue_cert("delegate@example.test")
        key = shown.private_key_pem.bytes().decode()
        certificate = shown.cert_chain_pems[0].bytes().decode()
        async with ChartServer(tmp_path / "charts", tls=server_context(authority, ours)).running() as server:
            server.add()
            trust(tmp_path, authority)
            with pytest.raises((FetchTransferError, FetchCertificateError, FetchUnreachableError)):
                await render(made(), server.url)
            write_secret(tmp_path, "one", type="helm", url=server.url, tlsClientCertData=certificate, tlsClientCertKey=key)
            assert (await render(made(), server.url)).revision == "1.0.0"


class TestAnswers:
    """What a server may do instead of serving."""

    async def test_no_index(self, server: ChartServer, made: Callable[..., Sources]) -> None:
        """A page, or nothing at all."""
        with pytest.raises(UnexpectedAnswerError, match="answered 404"):
            await render(made(), server.url)
        (server.folder / "index.yaml").write_text("<html>\n<p>hello: you\n</html>\n")
        with pytest.raises(UnexpectedAnswerError, match="is no index of charts"):
            await render(made(), server.url)

    async def test_an_index_without_end(self, server: ChartServer, made: Callable[..., Sources], monkeypatch: pytest.MonkeyPatch) -> None:
        """Its size has a bound, and so have its aliases."""
        monkeypatch.setattr(indexes, "INDEX_BYTES", 1000)
        (server.folder / "index.yaml").write_text("a" * 1001)
        with pytest.raises(UnexpectedAnswerError, match="gives more than 1000 bytes"):
            await render(made(), server.url)
        levels = "\n".join(f"l{level}: &l{level} [{', '.join([f'*l{level - 1}'] * 9)}]" for level in range(1, 9))
        monkeypatch.undo()
        (server.folder / "index.yaml").write_text(f"l0: &l0 [x]\n{levels}\n")
        with pytest.raises(UnexpectedAnswerError, match="is no index of charts"):
            await render(made(), server.url)

    async def test_redirects_in_circles(self, server: ChartServer, made: Callable[..., Sources]) -> None:
        """They end."""
        server.moved["/index.yaml"] = "/index.yaml"
        with pytest.raises(UnexpectedAnswerError, match="redirects more than"):
            await render(made(), server.url)

    async def test_redirects_to_less(self, tmp_path: Path, server: ChartServer, made: Callable[..., Sources]) -> None:
        """https never becomes http."""
        authority = trustme.CA()
        trust(tmp_path, authority)
        async with ChartServer(tmp_path / "secure", tls=server_context(authority)).running() as secure:
            secure.moved["/index.yaml"] = f"{server.url}/index.yaml"
            with pytest.raises(FetchUrlError, match="which is not https"):
                await render(made(), secure.url)
        assert not server.requests

    async def test_plain_http_elsewhere(self, made: Callable[..., Sources]) -> None:
        """Only this machine is trusted without TLS."""
        with pytest.raises(FetchUrlError, match="http is neither secret nor sure"):
            await render(made(), "http://charts.example.test")


def test_an_index_of_many_charts_takes_little_memory() -> None:
    """Some thousand versions: what is kept of them is a fraction."""
    import tracemalloc

    words = "description: " + "x" * 500
    lines = ["apiVersion: v1", "entries:"]
    for name in range(60):
        lines.append(f"  chart-{name}:")
        for version in range(60):
            lines += [
                f"  - version: 1.{version}.0",
                f"    {words}",
                "    maintainers: [{name: a, email: b}]",
                "    urls:",
                f"    - c-{version}.tgz",
            ]
    data = "\n".join(lines).encode()
    tracemalloc.start()
    try:
        index = indexes.read_index(data, "here")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert (len(index), len(index["chart-7"]), index["chart-7"][3]) == (60, 60, ChartVersion("1.3.0", "c-3.tgz"))
    assert peak < len(data) * 2


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("entries: {}\n", {}),
        ("entries:\n  a: null\n  b: [null, x, [1], {version: 1.0}]\n  ? [x]\n  : []\n", {"a": (), "b": (), "": ()}),
        (
            "x: {y: [{entries: 1}]}\nentries:\n  a:\n  - {version: 1.10, urls: [[x], u, v], digest: sha256:ab}\n",
            {"a": (("1.10", "u", "ab"),)},
        ),
        ("entries:\n  a: &a\n  - {version: '1', urls: [u]}\n  b: *a\n", {"a": (("1", "u", ""),), "b": ()}),
    ],
)
def test_shapes_of_an_index(text: str, found: dict[str, Any]) -> None:
    """Versions are texts, whatever they look like; what has another shape than it should is passed over."""
    read = indexes.read_index(text.encode(), "here")
    assert {name: tuple((each.version, each.url, each.digest) for each in versions) for name, versions in read.items()} == found


@pytest.mark.parametrize("text", ["", "a", "- a", "entrie: {}", "entries: {a: [", "\x00", "entries: &a [*a"])
def test_what_is_no_index(text: str) -> None:
    """Refused, and nothing else."""
    with pytest.raises(UnexpectedAnswerError, match="is no index of charts"):
        indexes.read_index(text.encode(), "here")


class TestArchives:
    """What can be in a packed chart."""

    @pytest.mark.parametrize(
        ("member", "words"),
        [
            (tarfile.TarInfo("../outside.yaml"), "leads out of the archive"),
            (tarfile.TarInfo("/etc/passwd"), "leads out of the archive"),
            (tarfile.TarInfo("shop/../../x"), "leads out of the archive"),
        ],
    )
    async def test_that_leads_out(self, member: tarfile.TarInfo, words: str, server: ChartServer, made: Callable[..., Sources]) -> None:
        """Refused, with its name."""
        put_archive(server, member)
        with pytest.raises(UnexpectedAnswerError, match=words):
            await render(made(), server.url)

    async def test_that_links(self, server: ChartServer, made: Callable[..., Sources]) -> None:
        """Hard links and devices have no place in one; a symbolic link that leads out is refused when it is followed."""
        hard = tarfile.TarInfo("shop/hard")
        hard.type, hard.linkname = tarfile.LNKTYPE, "/etc/passwd"
        put_archive(server, hard)
        with pytest.raises(UnexpectedAnswerError, match="neither a file nor a directory nor a symbolic link"):
            await render(made(), server.url)

        soft = tarfile.TarInfo("shop/files/soft")
        soft.type, soft.linkname = tarfile.SYMTYPE, "../../../etc/passwd"
        put_archive(server, soft)
        with pytest.raises(DelegateError, match="leads out"):
            await render(made(), server.url)

    async def test_that_becomes_much(self, server: ChartServer, made: Callable[..., Sources]) -> None:
        """A bomb is cut off while it is unpacked."""
        big = tarfile.TarInfo("shop/big")
        big.size = 64 * 2**20
        put_archive(server, big, bytes(big.size))
        with pytest.raises(SourceTooLargeError, match="when unpacked"):
            await render(made(), server.url)

    async def test_that_is_none(self, server: ChartServer, made: Callable[..., Sources]) -> None:
        """A page that came with a status of 200."""
        server.add()
        data = b"<html>"
        server.charts["shop"][0].pop("digest")
        server.write_index()
        (server.folder / "shop-1.0.0.tgz").write_bytes(data)
        with pytest.raises(UnexpectedAnswerError, match="is no packed chart"):
            await render(made(), server.url)


def put_archive(server: ChartServer, member: tarfile.TarInfo, data: bytes = b"") -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        head = tarfile.TarInfo("shop/Chart.yaml")
        text = b"apiVersion: v2\nname: shop\nversion: 1.0.0\n"
        head.size = len(text)
        archive.addfile(head, io.BytesIO(text))
        archive.addfile(member, io.BytesIO(data))
    server.charts.clear()
    server.add()
    server.charts["shop"][0].pop("digest")
    server.write_index()
    (server.folder / "shop-1.0.0.tgz").write_bytes(gzip.compress(buffer.getvalue(), mtime=0))


class TestDependencies:
    """Of a chart in Git, from repositories that are configured."""

    @staticmethod
    def chart(url: str, *, version: str = "1.x", lock: str = "", name: str = "base") -> dict[str, str]:
        head = f"apiVersion: v2\nname: top\nversion: 1.0.0\ndependencies:\n- {{name: {name}, version: {version!r}, repository: {url!r}}}\n"
        locked = f"dependencies:\n- {{name: {name}, version: {lock}, repository: {url!r}}}\n" if lock else ""
        return chart("top", {"Chart.yaml": head, "Chart.lock": locked}, directory="top")

    async def test_of_a_range(self, repository: Repository, server: ChartServer, made: Callable[..., Sources], tmp_path: Path) -> None:
        """The newest; with a lock file the one that was chosen, fetched once."""
        server.add("base", "1.0.0")
        server.add("base", "1.5.0")
        write_secret(tmp_path, "one", type="helm", url=server.url)
        sources = made()

        for files, version in ((self.chart(server.url), "1.5.0"), (self.chart(server.url, lock="1.0.0"), "1.0.0")):
            repository.commit(files)
            source = Source(repo_url=repository.url, target_revision="main", path="top", helm=HelmOptions())
            await sources.render(source, await sources.resolve(source, timeout=40), timeout=40)
            rendered = await sources.render(source, await sources.resolve(source, timeout=40), timeout=40)
            assert sorted(str(each.origin) for each in rendered.manifests) == [
                "top/charts/base/templates/config.yaml",
                "top/templates/config.yaml",
            ]
            assert server.count(f"base-{version}.tgz") == 1

    async def test_by_the_name_of_a_repository(
        self, repository: Repository, server: ChartServer, made: Callable[..., Sources], tmp_path: Path
    ) -> None:
        """`@name` and `alias:name`."""
        server.add("base", "1.0.0")
        write_secret(tmp_path, "one", type="helm", url=server.url, name="stable")
        for url in ("@stable", "alias:stable"):
            repository.commit(self.chart(url))
            source = Source(repo_url=repository.url, target_revision="main", path="top", helm=HelmOptions())
            sources = made()
            assert len((await sources.render(source, await sources.resolve(source, timeout=40), timeout=40)).manifests) == 2

    async def test_of_a_registry(self, repository: Repository, made: Callable[..., Sources], tmp_path: Path) -> None:
        """The chart's name is the last part of its address."""
        async with RegistryServer(tmp_path / "registry").running() as registry:
            await registry.push("charts/base", "1.0.0", packed(chart("base", version="1.0.0"), "base"))
            write_secret(tmp_path, "one", type="helm", enableOCI="true", url=f"{registry.address}/charts")
            repository.commit(self.chart(f"oci://{registry.address}/charts"))
            source = Source(repo_url=repository.url, target_revision="main", path="top", helm=HelmOptions())
            sources = made()
            assert len((await sources.render(source, await sources.resolve(source, timeout=40), timeout=40)).manifests) == 2

    async def test_of_anybody_else(self, repository: Repository, server: ChartServer, made: Callable[..., Sources]) -> None:
        """A chart can't make us fetch from where nobody said so."""
        server.add("base", "1.0.0")
        repository.commit(self.chart(server.url))
        source = Source(repo_url=repository.url, target_revision="main", path="top", helm=HelmOptions())
        sources = made()
        with pytest.raises(ChartDependencyError, match="is not configured"):
            await sources.render(source, await sources.resolve(source, timeout=40), timeout=40)
        assert not server.requests


async def test_values_from_git_beside_a_chart(
    repository: Repository, server: ChartServer, made: Callable[..., Sources], tmp_path: Path
) -> None:
    """The most common pair of sources: somebody's chart, our values."""
    server.add(version="1.2.3")
    commit = repository.commit({"shop/prod.yaml": "level: prod\n"})
    wanted = (
        Source(repo_url=server.url, chart="shop", target_revision="1.x", helm=HelmOptions(value_files=("$values/shop/prod.yaml",))),
        Source(repo_url=repository.url, target_revision="main", ref="values"),
    )
    sources = made()
    revisions = await sources.resolve_all(wanted, timeout=40)
    rendered = await sources.render_all(wanted, revisions, timeout=40, target=Target("shop", "shop"))

    assert [each.revision for each in revisions] == ["1.2.3", commit]
    assert values_of(rendered) == {"level": "prod"}


async def test_a_proxy(tmp_path: Path, made: Callable[..., Sources]) -> None:
    """tinyproxy, with its login in the Secret: index and archive come through it."""
    authority = trustme.CA()
    trust(tmp_path, authority, "0.0.0.0")
    async with (
        ChartServer(tmp_path / "charts", tls=server_context(authority, host="0.0.0.0")).running() as server,
        tinyproxy(tmp_path) as proxy,
    ):
        server.add()
        port, log = proxy
        # An address of this machine that is none of those which are always reached directly.
        url = server.url.replace("127.0.0.1", "0.0.0.0")
        write_secret(tmp_path, "one", type="helm", url=url, proxy=f"http://ada:falsches-wort@127.0.0.1:{port}")
        with pytest.raises(FetchUnreachableError, match="through the proxy") as caught:
            await render(made(), url)
        assert_hidden(caught.value, "falsches-wort")

        write_secret(tmp_path, "one", type="helm", url=url, proxy=f"http://ada:proxy-passwort@127.0.0.1:{port}")
        assert (await render(made(), url)).revision == "1.0.0"
        assert log.read_text().count(f"CONNECT 0.0.0.0:{server.port}") >= 2


async def test_a_project_that_wants_signatures_is_told(server: ChartServer, tmp_path: Path, made: Callable[..., Sources]) -> None:
    """As in Argo CD, those are checked in Git alone; here it is said."""
    server.add()
    project: dict[str, object] = {
        "kind": "AppProject",
        "metadata": {"name": "prod"},
        "spec": {"signatureKeys": [{"keyID": "4AEE18F83AFDEB23"}]},
    }
    write_document(tmp_path, "project", project)
    source, sources = Source(repo_url=server.url, chart="shop", target_revision="*"), made()
    revision = await sources.resolve(source, timeout=40)
    rendered = await sources.render(source, revision, timeout=40, target=Target("shop", project="prod"))
    assert any("the project prod wants signatures" in notice for notice in rendered.notices)


async def test_a_proxy_that_is_not_there(server: ChartServer, tmp_path: Path, made: Callable[..., Sources]) -> None:
    """The repository's own proxy is used, also for this machine; it is named in the fault, its password is not."""
    write_secret(tmp_path, "one", type="helm", url="https://charts.example.test", proxy="http://ada:proxy-passwort@127.0.0.1:1")
    with pytest.raises(FetchUnreachableError, match="through the proxy") as caught:
        await render(made(), "https://charts.example.test")
    assert_hidden(caught.value, "proxy-passwort")


def test_contexts_are_strict() -> None:
    """The tests' own server asks for certificates where it should."""
    assert server_context(trustme.CA(), trustme.CA()).verify_mode is ssl.CERT_REQUIRED
