"""The file of providers: what may stand in it, what is refused with its line, and what happens when it changes."""

import asyncio
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog
import trustme
from aiohttp import web

from delegate.engine.verification.answers import Query
from delegate.engine.verification.errors import (
    ProviderConfigurationError,
    ProviderRefusedError,
    ProviderUnavailableError,
)
from delegate.engine.verification.providers.registry import ClusterProviders, Providers, load_providers
from delegate.foundation.errors import DelegateError
from delegate.foundation.rule_files import RuleFileError
from delegate.model.resources import JsonObject
from tests.verification.providers.dialects import DIALECTS, vector
from tests.verification.providers.sources import WHOLE, knowing, read, serving, status, values_of

_PROMETHEUS = {"GET /api/v1/query": vector("1")}


def write(path: Path, *entries: Mapping[str, object]) -> Path:
    path.write_bytes(msgspec.yaml.encode({"providers": list(entries)}))
    path.chmod(0o600)
    return path


def refused(tmp_path: Path, text: str) -> DelegateError:
    """The fault of a file."""
    path = tmp_path / "providers.yaml"
    path.write_text(text)
    with pytest.raises(DelegateError) as raised:
        load_providers(path, {})
    assert raised.value.file == str(path)
    return raised.value


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("providers:\n  - name: a\n    type: prometheus\n", 2, "has no url"),
        ("providers:\n  - name: a\n    url: http://a\n", 2, "has no type"),
        ("providers:\n  - name: a\n    type: promethues\n    url: http://a\n", 3, "no type 'promethues'"),
        ("providers:\n  - name: a\n    type: cloudwatch\n    url: http://a\n", 3, "CloudWatch can't be asked yet"),
        ("providers:\n  - name: a\n    type: graphite\n    url: http://a\n", 3, "Graphite can't be asked yet"),
        ("providers:\n  - name: a\n    type: influxdb\n    url: http://a\n", 3, "InfluxDB can't be asked yet"),
        ("providers:\n  - name: a\n    type: dynatrace\n    url: http://a\n", 3, "Dynatrace can't be asked yet"),
        ("providers:\n  - name: a\n    type: loki\n    url: http://a\n    tennant: x\n", 5, "tennant means nothing"),
        ("providers:\n  - name: a\n    type: loki\n    url: ftp://a\n", 4, "no http or https URL"),
        ("providers:\n  - {name: a, type: loki, url: http://a}\n  - {name: a, type: loki, url: http://b}\n", 3, "given twice"),
        ("providers:\n  - name: a\n    type: loki\n    url: https://a\n    username: b\n", 2, "belong together"),
        ("providers:\n  - name: a\n    type: datadog\n    api_key_env: A\n", 2, "belong together"),
        ("providers:\n  - name: a\n    type: loki\n    url: https://a\n    token_file: b\n", 5, "no absolute path"),
        ("providers:\n  - name: a\n    type: loki\n    url: https://a\n    token_file: /b\n    token_env: B\n", 6, "the same secret"),
        ("providers:\n  - name: a\n    type: loki\n    url: https://a\n    token_secret: {name: b}\n", 5, "{namespace, name, key}"),
        ("providers:\n  - name: a\n    type: loki\n    url: http://loki.example.com\n    token_env: A\n", 4, "in the clear"),
        ("providers:\n  - name: a\n    type: loki\n    url: https://a\n    headers: {Authorization: b}\n", 5, "is a secret"),
        ("providers:\n  - name: a\n    type: loki\n    url: https://a\n    insecure: maybe\n", 5, "neither true nor false"),
        ("providers: {a: {type: loki}}\n", 1, "no list"),
        ("- a\n", 1, "is no entry"),
    ],
)
def test_refuses_what_can_not_be_meant(text: str, line: int, words: str, tmp_path: Path) -> None:
    """Each fault has its line, and most say what to write."""
    error = refused(tmp_path, text)
    assert isinstance(error, ProviderConfigurationError)
    assert words in error.message
    assert error.line == line


def test_refuses_what_is_no_yaml(tmp_path: Path) -> None:
    """With the line at which it ends to be any."""
    assert isinstance(refused(tmp_path, "providers: [\n"), RuleFileError)


def test_reads_every_type(tmp_path: Path) -> None:
    """Each type has an entry that can be meant."""
    entries = [dialect.entry("https://a.example") | {"name": dialect.name} for dialect in DIALECTS]
    providers = load_providers(write(tmp_path / "providers.yaml", *entries), {})
    assert len(providers.names) == len(DIALECTS)


def test_reads_the_example(tmp_path: Path) -> None:
    """The example that is shipped can be meant as it stands."""
    example = Path(__file__).parents[3] / "config" / "providers.example.yaml"
    assert len(load_providers(example, {}).names) >= 10


def test_names_the_nearest_provider(tmp_path: Path) -> None:
    """A name that isn't there, and a type that its entry hasn't; kin are one type."""
    path = write(tmp_path / "providers.yaml", {"name": "metrics", "type": "mimir", "url": "https://a.example"})
    providers = load_providers(path, {})
    assert providers.open(type="prometheus", provider="metrics", url="").name == "metrics"
    with pytest.raises(ProviderConfigurationError) as unknown:
        providers.open(type="prometheus", provider="metrisc", url="")
    assert "'metrics'" in unknown.value.hint
    with pytest.raises(ProviderConfigurationError) as other:
        providers.open(type="datadog", provider="metrics", url="")
    assert "is of type mimir" in other.value.message
    with pytest.raises(ProviderConfigurationError) as nothing:
        load_providers(None, {}).get("metrics")
    assert "DELEGATE_PROVIDERS" in nothing.value.hint
    with pytest.raises(ProviderConfigurationError):
        providers.open(type="job", provider="", url="")


async def test_takes_a_changed_file(tmp_path: Path) -> None:
    """A reading asks the source as it is described now; a file that breaks is named in the log, and what was known stays."""
    async with serving(_PROMETHEUS) as first, serving({"GET /api/v1/query": vector("2")}) as second:
        path = write(tmp_path / "providers.yaml", {"name": "source", "type": "prometheus", "url": first.url})
        providers = load_providers(path, {})
        assert values_of(await read(providers, "x")) == [1.0]
        provider = providers.get("source")
        write(tmp_path / "next.yaml", {"name": "source", "type": "prometheus", "url": second.url}).replace(path)
        assert values_of(await provider.read(Query("x", WHOLE), timeout=20)) == [2.0]
        with structlog.testing.capture_logs() as log:
            (tmp_path / "next.yaml").write_text("providers: [{name: source}]\n")
            (tmp_path / "next.yaml").replace(path)
            assert values_of(await provider.read(Query("x", WHOLE), timeout=20)) == [2.0]
            assert values_of(await provider.read(Query("x", WHOLE), timeout=20)) == [2.0]
        assert [(each["event"], each["line"]) for each in log] == [("providers.kept", 1)]
        write(tmp_path / "next.yaml", {"name": "other", "type": "prometheus", "url": second.url}).replace(path)
        with pytest.raises(ProviderConfigurationError):
            await provider.read(Query("x", WHOLE), timeout=20)
        await providers.close()


async def test_ends_a_reading_on_what_it_began_with(tmp_path: Path) -> None:
    """An entry that changes under a reading breaks nothing; its connections are closed afterwards."""
    async with serving(_PROMETHEUS) as source:
        entry: dict[str, object] = {"name": "source", "type": "prometheus", "url": source.url}
        path = write(tmp_path / "providers.yaml", entry)
        providers = load_providers(path, {})
        arrived, go_on = asyncio.Event(), asyncio.Event()

        async def hold(request: web.Request) -> web.StreamResponse | None:
            arrived.set()
            await go_on.wait()
            return None

        source.fault = hold
        reading = asyncio.create_task(read(providers, "x"))
        await arrived.wait()
        source.fault = None
        write(tmp_path / "next.yaml", entry | {"tenant": "b"}).replace(path)
        assert values_of(await read(providers, "x")) == [1.0]
        go_on.set()
        assert values_of(await reading) == [1.0]
        await read(providers, "x")
        assert providers._retired == []
        await providers.close()


async def test_reads_a_credential_again_when_its_file_is_replaced(tmp_path: Path) -> None:
    """The next reading bears the new one; who else may read the file is told once."""
    token = tmp_path / "token"
    token.write_text("first-token\n")
    token.chmod(0o644)
    async with serving(_PROMETHEUS) as source:
        entry = {"name": "source", "type": "prometheus", "url": source.url, "token_file": str(token)}
        async with knowing(tmp_path, entry) as providers:
            with structlog.testing.capture_logs() as log:
                await read(providers, "x")
                await read(providers, "x")
            (tmp_path / "next").write_text("second-token\n")
            (tmp_path / "next").chmod(0o600)
            (tmp_path / "next").replace(token)
            await read(providers, "x")
    assert [each.headers["Authorization"] for each in source.asked] == ["Bearer first-token"] * 2 + ["Bearer second-token"]
    assert [(each["event"], each["mode"]) for each in log] == [("providers.readable_by_others", "0644")]
    assert "first-token" not in str(log)


async def test_reads_a_secret_again_when_it_is_refused(tmp_path: Path) -> None:
    """A Secret that was rotated costs one request more, and no reading; the same credentials are not tried twice."""
    secrets = ["b2xkLXRva2Vu", "bmV3LXRva2Vu"]
    asked: list[tuple[str, str]] = []

    async def read_secret(namespace: str, name: str) -> JsonObject:
        asked.append((namespace, name))
        return {"data": {"token": secrets[0]}}

    async with serving(_PROMETHEUS) as source:
        path = write(
            tmp_path / "providers.yaml",
            {
                "name": "source",
                "type": "prometheus",
                "url": source.url,
                "token_secret": {"namespace": "delegate", "name": "prom", "key": "token"},
            },
        )
        providers = load_providers(path, {}, read_secret=read_secret)
        await read(providers, "x")
        await read(providers, "x")
        assert asked == [("delegate", "prom")]

        async def only_new(request: web.Request) -> web.StreamResponse | None:
            return None if request.headers["Authorization"] == "Bearer new-token" else web.Response(status=401)

        source.fault = only_new
        secrets.pop(0)
        assert values_of(await read(providers, "x")) == [1.0]
        source.fault = status(401)
        before = len(source.asked)
        with pytest.raises(ProviderRefusedError):
            await read(providers, "x")
        assert len(source.asked) == before + 1
        await providers.close()


@pytest.mark.parametrize(
    ("credential", "words"),
    [
        ({"token_env": "NOT_THERE"}, "NOT_THERE is not set"),
        ({"token_file": "/not/there"}, "No such file"),
        ({"token_secret": {"namespace": "a", "name": "b", "key": "c"}}, "without a cluster"),
    ],
)
async def test_names_a_credential_that_is_missing(credential: dict[str, object], words: str, tmp_path: Path) -> None:
    """A reading says which, and asks nobody without it."""
    async with (
        serving(_PROMETHEUS) as source,
        knowing(tmp_path, {"name": "source", "type": "prometheus", "url": source.url, **credential}) as providers,
    ):
        with pytest.raises(ProviderConfigurationError) as raised:
            await read(providers, "x")
    assert words in raised.value.message
    assert "token" in raised.value.message
    assert source.asked == []


async def test_sends_headers_of_the_entry(tmp_path: Path) -> None:
    """Plain ones, and secret ones by reference."""
    async with serving(_PROMETHEUS) as source:
        entry = {
            "name": "source",
            "type": "thanos",
            "url": source.url,
            "headers": {"THANOS-TENANT": "team-a"},
            "secret_headers": {"X-Api-Key": {"env": "KEY"}},
        }
        async with knowing(tmp_path, entry, environment={"KEY": "secret-of-the-header"}) as providers:
            await read(providers, "x")
    assert source.asked[0].headers["THANOS-TENANT"] == "team-a"
    assert source.asked[0].headers["X-Api-Key"] == "secret-of-the-header"


async def test_warns_of_a_file_with_secrets_that_others_may_read(tmp_path: Path) -> None:
    """Credentials in the file itself want it private."""
    path = write(tmp_path / "providers.yaml", {"name": "a", "type": "loki", "url": "https://a", "token": "inline-token"})
    with structlog.testing.capture_logs() as quiet:
        load_providers(path, {})
    path.chmod(0o644)
    with structlog.testing.capture_logs() as log:
        load_providers(path, {})
    assert quiet == []
    assert [each["event"] for each in log] == ["providers.readable_by_others"]


async def test_trusts_the_authority_of_an_entry(tmp_path: Path) -> None:
    """A private authority is believed where the entry or SSL_CERT_FILE names it, and named where none does."""
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    bundle = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(bundle)
    application = web.Application()
    application.router.add_get("/api/v1/query", _answer_one)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    url = f"https://127.0.0.1:{runner.addresses[0][1]}"
    entry = {"name": "source", "type": "prometheus", "url": url}
    try:
        async with knowing(tmp_path, entry) as providers:
            with pytest.raises(ProviderConfigurationError) as raised:
                await read(providers, "x")
        assert "not trusted" in raised.value.message
        async with knowing(tmp_path, entry | {"ca_file": str(bundle)}) as providers:
            assert values_of(await read(providers, "x")) == [1.0]
        providers = load_providers(None, {"SSL_CERT_FILE": str(bundle)})
        assert values_of(await _read_url(providers, url)) == [1.0]
        await providers.close()
    finally:
        await runner.cleanup()


async def test_goes_through_the_proxy(tmp_path: Path) -> None:
    """The proxy of this program holds for sources too; its credentials are in no message."""
    async with serving() as proxy:
        proxy.fault = status(502)
        environment = {"http_proxy": proxy.url.replace("http://", "http://user:proxy-password@")}
        providers = load_providers(None, environment)
        with pytest.raises(ProviderUnavailableError) as raised:
            await _read_url(providers, "http://prometheus.example")
        await providers.close()
    assert "proxy-password" not in str(raised.value)
    assert proxy.asked[0].headers["Proxy-Authorization"].startswith("Basic ")


async def test_has_jobs_beside_the_others() -> None:
    """A cluster adds Jobs, and takes nothing away."""

    async def no_client() -> Any:
        raise AssertionError

    providers = ClusterProviders(load_providers(None, {}), no_client, "shop")
    assert providers.open(type="job", provider="", url="").name == "job"
    provider = providers.open(type="prometheus", provider="", url="https://a.example")
    assert provider.name == "a.example"
    await provider.close()


async def _answer_one(request: web.Request) -> web.Response:
    return web.json_response(vector("1"))


async def _read_url(providers: Providers, url: str) -> Any:
    provider = providers.open_url("prometheus", url)
    try:
        return await provider.read(Query("x", WHOLE), timeout=20)
    finally:
        await provider.close()
