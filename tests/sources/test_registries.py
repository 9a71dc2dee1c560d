"""Charts and manifests in an OCI registry: Debian's docker-registry, with no login, a password, and tokens."""

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from delegate.engine.sources.errors import ChartDigestError, ChartNotFoundError, FetchAuthenticationError, UnexpectedAnswerError
from delegate.foundation.errors import DelegateError
from delegate.model.sources import Source
from tests.sources.chart_servers import LOGIN, RegistryServer
from tests.sources.charts import chart, packed
from tests.sources.repositories import config_map, names
from tests.sources.test_chart_repositories import render, sources_in, write_secret
from tests.tools import require_tool

USER, _, PASSWORD = LOGIN.partition(":")


@pytest.fixture(autouse=True)
def _tools() -> None:
    require_tool("helm")


@pytest.fixture
async def registry(tmp_path: Path) -> AsyncIterator[RegistryServer]:
    async with RegistryServer(tmp_path / "registry").running() as running:
        yield running


def shop(version: str) -> bytes:
    return packed(chart(version=version))


@pytest.mark.parametrize("form", ["oci://{}/charts", "{}/charts"])
async def test_versions_are_tags(form: str, registry: RegistryServer, tmp_path: Path) -> None:
    """Exact ones and ranges; a build's `+` is `_` there; with `oci://` and without."""
    for version in ("1.0.0", "1.1.0", "2.0.0-rc.1", "1.1.1+build.7"):
        await registry.push("charts/shop", version.replace("+", "_"), shop(version))
    sources = sources_in(tmp_path)
    url = form.format(registry.address)

    for wanted, version in (("1.0.0", "1.0.0"), ("1.x", "1.1.1+build.7"), ("~1.0", "1.0.0"), (">=2.0.0-0", "2.0.0-rc.1")):
        rendered = await render(sources, url, wanted)
        assert (rendered.revision, names(rendered)) == (version, ["shop-config"])


async def test_an_address_may_be_the_charts_own(registry: RegistryServer, tmp_path: Path) -> None:
    """As Argo CD writes sources of registries since 3.1: `oci://host/path/chart` without `chart`."""
    digest = await registry.push("charts/shop", "1.0.0", shop("1.0.0"))
    sources = sources_in(tmp_path)

    assert names(await render(sources, f"oci://{registry.address}/charts/shop", "1.0.0", chart="")) == ["shop-config"]
    pinned = await render(sources, f"oci://{registry.address}/charts/shop", digest, chart="")
    assert names(pinned) == ["shop-config"]


async def test_manifests_are_artifacts_too(registry: RegistryServer, tmp_path: Path) -> None:
    """One gzipped tar that is no chart is a directory of files."""
    files = {"apps/cm.yaml": config_map("one"), "other/cm.yaml": config_map("two")}
    layer = "application/vnd.oci.image.layer.v1.tar+gzip"
    await registry.push("config", "v1", packed(files, "."), layer=layer)
    sources = sources_in(tmp_path)
    source = Source(repo_url=f"oci://{registry.address}/config", target_revision="v1", path="apps")

    rendered = await sources.render(source, await sources.resolve(source, timeout=40), timeout=40)

    assert names(rendered) == ["one"]


async def test_a_tag_that_moves_is_seen(registry: RegistryServer, tmp_path: Path) -> None:
    """Kept is what a digest stands for, never a tag."""
    sources = sources_in(tmp_path)
    await registry.push("charts/shop", "1.0.0", shop("1.0.0"))
    first = await render(sources, f"oci://{registry.address}/charts", "1.0.0")
    await registry.push("charts/shop", "1.0.0", packed(chart(files={"values.yaml": "level: moved\n"}, version="1.0.0")))
    second = await render(sources, f"oci://{registry.address}/charts", "1.0.0")

    assert first.content != second.content
    assert "moved" in second.manifests[0].body["data"]["values"]


async def test_what_is_not_there_is_named(registry: RegistryServer, tmp_path: Path) -> None:
    """The repository, the tag, the range."""
    await registry.push("charts/shop", "1.0.0", shop("1.0.0"))
    sources, url = sources_in(tmp_path), f"oci://{registry.address}/charts"
    for chart_name, version, words in (
        ("nothing", "1.x", "there is no such repository"),
        ("shop", "2.0.0", "has no tag '2.0.0'"),
        ("shop", "3.x", "has no version '3.x'"),
    ):
        with pytest.raises(ChartNotFoundError, match=words):
            await render(sources, url, version, chart=chart_name)


async def test_a_blob_that_was_changed_is_refused(registry: RegistryServer, tmp_path: Path) -> None:
    """Whoever changes what the registry keeps changes nothing in a cluster."""
    data = shop("1.0.0")
    await registry.push("charts/shop", "1.0.0", data)
    registry.blob_file(data).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))

    with pytest.raises(ChartDigestError, match="was promised"):
        await render(sources_in(tmp_path), f"oci://{registry.address}/charts", "1.0.0")


async def test_an_image_is_no_chart(registry: RegistryServer, tmp_path: Path) -> None:
    """What it holds is said."""
    await registry.push("charts/shop", "1.0.0", b"{}", layer="application/vnd.example.model")
    with pytest.raises(UnexpectedAnswerError, match=r"it holds application/vnd\.example\.model"):
        await render(sources_in(tmp_path), f"oci://{registry.address}/charts", "1.0.0")


async def test_a_password(tmp_path: Path) -> None:
    """From a Secret, read again when it changes; shown nowhere."""
    async with RegistryServer(tmp_path / "registry", login=LOGIN).running() as registry:
        await registry.push("charts/shop", "1.0.0", shop("1.0.0"))
        sources, url = sources_in(tmp_path), f"{registry.address}/charts"
        with pytest.raises(FetchAuthenticationError, match="none are set"):
            await render(sources, url, "1.x")
        write_secret(tmp_path, "one", type="helm", enableOCI="true", url=url, username=USER, password="falsch-falsch")
        with pytest.raises(FetchAuthenticationError, match="refuses the credentials") as refused:
            await render(sources, url, "1.x")
        assert "falsch-falsch" not in told(refused.value)
        write_secret(tmp_path, "one", type="helm", enableOCI="true", url=url, username=USER, password=PASSWORD)
        assert (await render(sources, url, "1.x")).revision == "1.0.0"


async def test_tokens(tmp_path: Path) -> None:
    """The registry says where they are to be had, for what; each repository gets one of its own, used until it is refused."""
    async with RegistryServer(tmp_path / "registry", login=LOGIN, tokens=True).running() as registry:
        await registry.push("charts/shop", "1.0.0", shop("1.0.0"))
        write_secret(tmp_path, "one", type="oci", url=f"oci://{registry.address}/charts", username=USER, password=PASSWORD)
        sources, url = sources_in(tmp_path), f"oci://{registry.address}/charts"

        assert (await render(sources, url, "1.x")).revision == "1.0.0"
        assert registry.tokens is not None
        assert registry.tokens.asked == ["repository:charts/shop:pull"]
        await render(sources, url, "1.x")
        assert len(registry.tokens.asked) == 1


async def test_a_token_that_ends_is_got_anew(tmp_path: Path) -> None:
    """Without anybody noticing."""
    async with RegistryServer(tmp_path / "registry", login=LOGIN, tokens=True).running() as registry:
        await registry.push("charts/shop", "1.0.0", shop("1.0.0"))
        write_secret(tmp_path, "one", type="oci", url=f"oci://{registry.address}/charts", username=USER, password=PASSWORD)
        sources, url = sources_in(tmp_path), f"oci://{registry.address}/charts"
        assert registry.tokens is not None
        good, registry.tokens.issue = registry.tokens.issue, lambda access: stale()  # type: ignore[method-assign]
        with pytest.raises(FetchAuthenticationError):
            await render(sources, url, "1.x")
        registry.tokens.issue = good  # type: ignore[method-assign]
        assert (await render(sources, url, "1.x")).revision == "1.0.0"


def stale() -> str:
    parts = [base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=").decode() for each in ({"alg": "RS256"}, {"exp": 1})]
    return ".".join((*parts, "AAAA"))


async def test_a_token_server_that_refuses(tmp_path: Path) -> None:
    """The credentials are at fault, and not shown."""
    async with RegistryServer(tmp_path / "registry", login=LOGIN, tokens=True).running() as registry:
        await registry.push("charts/shop", "1.0.0", shop("1.0.0"))
        write_secret(tmp_path, "one", type="oci", url=f"oci://{registry.address}/charts", username=USER, password="falsch-falsch")
        with pytest.raises(FetchAuthenticationError, match="refuses the credentials") as refused:
            await render(sources_in(tmp_path), f"oci://{registry.address}/charts", "1.x")
    assert "falsch-falsch" not in told(refused.value)


def told(error: DelegateError) -> str:
    return f"{error!r} {error} {error.hint} {error.__cause__!r}"
