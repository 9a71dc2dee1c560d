"""What can be wrong with a sync from a person's machine: each fault names the thing and the remedy, and leaves nothing half done."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from tests.cli.clusters import LIMITED, Bench, set_up_bench
from tests.cli.manifests import WEB, write_shop


@pytest.mark.parametrize(
    ("location", "options", "code", "told"),
    [
        ("nowhere", (), 2, ("nowhere is neither an existing path nor a URL", "hint: check the path")),
        ("file:///nowhere/config.git", (), 2, ("file:///nowhere/config.git: there is no such repository", "hint: check the address")),
        ("http://127.0.0.1:9/config.git", (), 1, ("127.0.0.1 can't be reached", "hint: check name, port, network and proxy")),
        ("shop", ("--path", "absent"), 2, ("there is no absent in shop", "hint: check --path")),
        ("shop", ("--revision", "main"), 2, ("shop is in no Git work tree", "hint: leave --revision out")),
        ("shop", ("--context", "simulater"), 2, ("has no context 'simulater'", "hint: did you mean 'simulator'?")),
        ("shop", ("--kubeconfig", "absent"), 2, ("/absent doesn't exist", "hint: give a kubeconfig with --kubeconfig")),
        ("shop", ("--timeout", "soon"), 2, ("timeout: ", "")),
        ("shop", ("--app", "Shop!"), 2, ("application: 'Shop!' is no name", "")),
        ("empty", (), 2, ("empty", "")),
    ],
)
async def test_a_fault_of_what_was_given(
    *,
    location: str,
    options: tuple[str, ...],
    code: int,
    told: tuple[str, str],
    bench: Bench,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """2, where what was given is at fault; the cluster isn't touched."""
    write_shop(tmp_path)
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)

    ended = await bench.run("sync", location, *options, env={"DELEGATE_RETRY_MAX_ATTEMPTS": "1"})

    assert ended.code == code, ended.stderr
    for words in told:
        assert words in ended.stderr
    assert bench.simulator.requests.writes() == 0


async def test_every_fault_of_the_files_is_told_at_once(bench: Bench, tmp_path: Path) -> None:
    """The first syntax error of each file, all others of the set; with file and line, and nothing applied."""
    shop = write_shop(tmp_path)
    (shop / "broken.yaml").write_text("kind: ConfigMap\n  name: x\n")
    (shop / "twice.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a: b\n  a: c\n")

    ended = await bench.run("sync", str(shop))

    errors = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
    assert ended.code == 2
    assert len(errors) == 2
    assert "broken.yaml:2: " in errors[0]
    assert "twice.yaml:6: duplicate mapping key `a`" in errors[1]
    assert ended.stdout.startswith("refused: nothing was touched")
    assert bench.simulator.requests.writes() == 0


async def test_an_invalid_object_is_found_before_the_first_write(bench: Bench, tmp_path: Path) -> None:
    """The whole set is dry-run: the good objects of it are not applied either."""
    shop = write_shop(tmp_path)
    (shop / "web.yaml").write_text(WEB.replace("replicas: 2", "replicas: two"))

    ended = await bench.run("sync", str(shop))

    assert ended.code == 2
    assert "web.yaml:" in ended.stderr
    assert "replicas" in ended.stderr
    assert bench.simulator.requests.writes() == 0
    assert await bench.read("/api/v1/namespaces/default/configmaps/extra") is None


async def test_a_namespace_without_permission_names_the_rule_to_add(bench: Bench, tmp_path: Path) -> None:
    """1: what was given is right, the permission is missing."""
    kubeconfig = bench.write_kubeconfig("limited", token=LIMITED)

    ended = await bench.run("sync", str(write_shop(tmp_path)), "--kubeconfig", str(kubeconfig))

    assert ended.code == 1
    assert 'cannot get resource "configmaps"' in ended.stderr
    assert "hint: add to a Role in namespace default" in ended.stderr
    assert 'resources: ["configmaps"]' in ended.stderr
    assert bench.simulator.requests.writes() == 0


async def test_a_wrong_token_says_whose_it_is(bench: Bench, tmp_path: Path) -> None:
    """And never shows it."""
    kubeconfig = bench.write_kubeconfig("wrong", token="hunter22-is-wrong")

    ended = await bench.run("sync", str(write_shop(tmp_path)), "--kubeconfig", str(kubeconfig))

    assert ended.code == 1
    assert f"{bench.simulator.url} doesn't accept our credentials" in ended.stderr
    assert "hint: renew the token" in ended.stderr
    assert "hunter22-is-wrong" not in ended.stderr + ended.stdout


async def test_a_cluster_that_is_away_is_named(bench: Bench, tmp_path: Path) -> None:
    """By the address that it was looked for at; a diff can't tell then."""
    kubeconfig = bench.write_kubeconfig("away", server="http://127.0.0.1:9")
    shop = str(write_shop(tmp_path))
    once = {"DELEGATE_RETRY_MAX_ATTEMPTS": "1"}

    synced = await bench.run("sync", shop, "--kubeconfig", str(kubeconfig), env=once)
    assert synced.code == 1
    assert "http://127.0.0.1:9 can't be reached" in synced.stderr
    assert "hint: check that the API server runs" in synced.stderr

    differed = await bench.run("diff", shop, "--kubeconfig", str(kubeconfig), "-o", "json", env=once)
    assert differed.code == 2
    assert differed.document["outcome"] == "failed"
    assert differed.document["error"]["category"] == "transient"


async def test_a_tls_name_that_does_not_match_is_named(tmp_path: Path) -> None:
    """The certificate is for the address; the kubeconfig says a name."""
    home = tmp_path / "home"
    home.mkdir()
    async with set_up_bench(home, tls=True) as bench:
        shop = str(write_shop(tmp_path))
        right = await bench.run("diff", shop)
        assert right.code == 1, right.stderr

        server = bench.simulator.url.replace("127.0.0.1", "localhost")
        ended = await bench.run("sync", shop, "--kubeconfig", str(bench.write_kubeconfig("name", server=server)))

    assert ended.code == 1
    assert server in ended.stderr
    assert "certificate" in ended.stderr
    assert "hint: " in ended.stderr


async def test_a_port_that_answers_html_is_no_cluster(bench: Bench, tmp_path: Path) -> None:
    """A login page on the way is told by its looks."""
    async with _html_server() as server:
        kubeconfig = bench.write_kubeconfig("html", server=server)

        ended = await bench.run("sync", str(write_shop(tmp_path)), "--kubeconfig", str(kubeconfig))

    assert ended.code == 1
    assert server in ended.stderr
    assert "hint: " in ended.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
async def test_a_cache_that_can_not_be_written_is_named(bench: Bench, tmp_path: Path) -> None:
    """A repository needs one; the remedy is the setting."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)

    ended = await bench.run("sync", "file:///nowhere/config.git", env={"DELEGATE_CACHE_DIR": str(closed / "cache")})

    assert ended.code == 1
    assert str(closed) in ended.stderr


async def test_a_cache_where_a_file_stands_is_named(bench: Bench, tmp_path: Path) -> None:
    """The same for whoever may write everywhere."""
    (tmp_path / "file").write_text("")
    (tmp_path / "config").mkdir()
    write_shop(tmp_path / "config")

    ended = await bench.run("sync", "file:///nowhere/config.git", env={"DELEGATE_CACHE_DIR": str(tmp_path / "file" / "cache")})

    assert ended.code in (1, 2)
    assert str(tmp_path / "file") in ended.stderr


async def test_a_fault_is_a_result_where_json_was_asked_for(bench: Bench, tmp_path: Path) -> None:
    """Whatever is at fault once the task is known: one document, of the result's schema."""
    shop = str(write_shop(tmp_path))
    for options in (("--kubeconfig", "absent"), ("-n", "absent"), ("--context", "absent")):
        ended = await bench.run("sync", shop, *options, "-o", "json")
        document = json.loads(ended.stdout)

        assert ended.code != 0
        assert document["outcome"] == "refused"
        assert document["error"] == document["errors"][0]
        assert document["error"]["hint"]


@asynccontextmanager
async def _html_server() -> AsyncIterator[str]:
    async def answer(_: web.BaseRequest) -> web.Response:
        await asyncio.sleep(0)
        return web.Response(text="<html><body>Please log in</body></html>", content_type="text/html")

    runner = web.ServerRunner(web.Server(answer), shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
