"""`delegate doctor` names what fails, where, and what to do; and what is well."""

import asyncio
import contextlib
import json
import os
import socket
import ssl
import stat
import tarfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import trustme
from aiohttp import web

from delegate.model.rollouts.journals import Journal, journal_config_map
from delegate.operations.doctor.findings import Status
from delegate.operations.doctor.sources import address_of
from delegate.operations.doctor.ways import examine_way
from tests.cli.clusters import LIMITED, Bench
from tests.cli.programs import Ended, run
from tests.daemon.harness import TestEngine, running_daemon, running_manager, settings_for
from tests.daemon.networks.servers import PASSWORD, USER, haproxy, squid, tls_manager
from tests.fakes.s3_server import s3_server

Finding = dict[str, Any]


async def examine(directory: Path, *arguments: str, **variables: str) -> Ended:
    """The doctor's document, for a delegate whose state is in the directory."""
    environment = {
        "DELEGATE_STATE_DIR": str(directory / "state"),
        "DELEGATE_DLQ_DIR": str(directory / "letters"),
        "DELEGATE_HTTP_PORT": "1",
        **variables,
    }
    return await asyncio.to_thread(run, "doctor", "-o", "json", *arguments, env=environment)


def find(ended: Ended, check: str, status: str = "") -> list[Finding]:
    """The findings whose check begins so."""
    found: list[Finding] = ended.document["findings"]
    return [each for each in found if each["check"].startswith(check) and status in ("", each["status"])]


@asynccontextmanager
async def answering(respond: Any) -> AsyncIterator[str]:
    """Somebody who answers each request in the manager's place."""
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", respond)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield "http://{}:{}".format(*runner.addresses[0][:2])
    finally:
        await runner.cleanup()


async def test_a_delegate_that_lacks_nothing_ends_with_0(tmp_path: Path, bench: Bench) -> None:
    """Manager, token, registration and cluster are well; what the manager sees of us is told; nothing of the token is used up."""
    async with running_manager(tmp_path) as operator:
        token = await operator.token()
        settings = settings_for(operator.manager.url, token, tmp_path / "state")
        async with running_daemon(settings, TestEngine()) as running:
            await running.registered()
            ended = await examine(
                tmp_path,
                "--idle=1s",
                DELEGATE_MANAGER_URL=operator.manager.url,
                DELEGATE_TOKEN=token,
                DELEGATE_KUBECONFIG=str(bench.kubeconfig),
            )
            uses = (await operator.ask("GET", "/tokens"))["items"]

    assert (ended.code, find(ended, "", "failed")) == (0, [])
    (manager,) = find(ended, "manager", "ok")
    assert manager["facts"]["client_address"] == "127.0.0.1"
    assert "registered as" in find(ended, "registration")[0]["what"]
    assert "a session of it is open" in find(ended, "registration")[0]["what"]
    assert "GITOPS" in find(ended, "token")[0]["what"]
    assert find(ended, "idle")[0]["status"] == "ok"
    assert "Kubernetes v1" in find(ended, "cluster")[0]["what"]
    assert [each["uses"] for each in uses if each["name"] == "shop"] == [1]


async def test_a_broken_configuration_stops_no_check(tmp_path: Path, bench: Bench) -> None:
    """Each fault is told with file and line, and the rest is looked at all the same; the code is 2."""
    (tmp_path / "broken.yaml").write_text("manager_url: ftp://nowhere\nlog_level: loud\ntask_capacitty: 3\n")

    ended = await examine(tmp_path, "--config", str(tmp_path / "broken.yaml"), DELEGATE_KUBECONFIG=str(bench.kubeconfig))

    assert ended.code == 2
    said = " ".join(each["what"] for each in find(ended, "settings", "failed"))
    assert all(words in said for words in ("broken.yaml:1", "broken.yaml:2", "task_capacitty"))
    assert find(ended, "cluster", "ok")
    assert find(ended, "git", "ok")
    assert find(ended, "directory DELEGATE_STATE_DIR", "ok")


async def test_a_token_that_can_not_be_read_does_not_hide_the_way(tmp_path: Path) -> None:
    """The address that is set stands, and is tried; where the way itself is set wrongly, nothing is said to be missing."""
    (tmp_path / "token").touch()
    async with running_manager(tmp_path) as operator:
        ended = await examine(tmp_path, "--idle=0s", DELEGATE_MANAGER_URL=operator.manager.url, DELEGATE_TOKEN_FILE=str(tmp_path / "token"))
    clear = await examine(tmp_path, DELEGATE_MANAGER_URL="http://manager.example", DELEGATE_TOKEN_FILE=str(tmp_path / "token"))
    lost = await examine(tmp_path, DELEGATE_MANAGER_URL="https://manager.example", HTTPS_PROXY="ftp://nowhere")

    assert ended.code == 2
    assert "is empty" in find(ended, "settings", "failed")[0]["what"]
    assert find(ended, "manager", "ok")
    for refused in (clear, lost):
        assert "was not looked at" in find(refused, "manager", "failed")[0]["what"]
        assert not find(refused, "way")


async def test_somebody_who_answers_in_the_managers_place_is_told(tmp_path: Path) -> None:
    """Case 36: a captive portal's page is something between; status, content type and hops are there."""

    async def portal(request: web.Request) -> web.Response:
        return web.Response(text="<title>Sign in</title>", content_type="text/html", headers={"Via": "1.1 portal"})

    async with answering(portal) as url:
        ended = await examine(tmp_path, "--idle=0s", DELEGATE_MANAGER_URL=url, DELEGATE_TOKEN="dgt_0123456789abcdef")

    (manager,) = find(ended, "manager", "failed")
    assert ended.code == 10
    assert "something between here and the manager answered: status 200, content type text/html" in manager["what"]
    assert manager["facts"]["via"] == "1.1 portal"
    assert "Sign in" in manager["facts"]["preview"]
    assert find(ended, "token", "skipped")


async def test_who_signed_a_certificate_that_nobody_believes_is_named(tmp_path: Path) -> None:
    """Case 29: an intercepting proxy's or a private authority is shown by its name, with the setting that believes it."""
    authority = trustme.CA(organization_name="Example Interception")
    async with tls_manager(authority) as manager:
        ended = await examine(tmp_path, DELEGATE_MANAGER_URL=manager.url)
        authority.cert_pem.write_to_path(tmp_path / "ca.pem")
        believed = await examine(tmp_path, DELEGATE_MANAGER_URL=manager.url, SSL_CERT_FILE=str(tmp_path / "ca.pem"))

    (chain,) = find(ended, "way", "failed")
    assert "Example Interception" in chain["what"]
    assert "SSL_CERT_FILE" in chain["hint"]
    assert "nobody trusted here signed" in find(ended, "manager", "failed")[0]["what"]
    assert find(believed, "way", "failed") == []


@pytest.mark.parametrize("encrypted", [False, True])
async def test_who_signed_what_is_seen_through_a_proxy_is_named(encrypted: bool) -> None:
    """Case 29 where it matters most: behind a proxy, whose own certificate is shown too where its way is TLS."""
    authority, proxys = trustme.CA(organization_name="Example Interception"), trustme.CA(organization_name="Example Proxies")
    async with tls_manager(authority) as manager:
        with squid(proxys) as proxy:
            scheme, port = ("https", proxy.tls_port) if encrypted else ("http", proxy.port)
            address = f"{scheme}://{USER}:{quote(PASSWORD, safe='')}@localhost:{port}"
            doubted, trusted, strange = [
                await examine_way("way", manager.url, address, believing(*believed), "DELEGATE_MANAGER_URL")
                for believed in ((proxys,), (proxys, authority), ())
            ]

    (chain,) = (each for each in doubted if each.status is Status.FAILED)
    assert "signed by Example Interception" in chain.what
    assert (chain.facts["hop"], chain.where) == ("tls", manager.url.removeprefix("https://"))
    assert {each.status for each in trusted} == {Status.OK}
    shown = ("Example Proxies", "Example Interception") if encrypted else ("Example Interception",)
    assert [each.facts["issuer"] for each in trusted if "issuer" in each.facts] == list(shown)
    (first,) = (each for each in strange if each.status is Status.FAILED)
    assert first.facts["hop"] == ("proxy tls" if encrypted else "tls")
    assert PASSWORD not in f"{doubted} {trusted} {strange}"


def believing(*authorities: trustme.CA) -> Callable[[], ssl.SSLContext]:
    def context() -> ssl.SSLContext:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        for each in authorities:
            each.configure_trust(made)
        return made

    return context


async def test_the_hop_that_fails_is_named(tmp_path: Path) -> None:
    """A name of nothing, a port where nobody listens, a proxy that wants a password: each is told as itself."""
    nameless = await examine(tmp_path, DELEGATE_MANAGER_URL="https://manager.invalid")
    nobody = await examine(tmp_path, DELEGATE_MANAGER_URL="http://127.0.0.1:9")
    with squid() as proxy:
        address = f"http://127.0.0.1:{proxy.port}"
        refused = await examine(tmp_path, DELEGATE_MANAGER_URL="https://manager.example", HTTPS_PROXY=address)

    assert find(nameless, "way", "failed")[0]["facts"]["hop"] == "name"
    assert find(nobody, "way", "failed")[0]["facts"]["hop"] == "tcp"
    assert "through the proxy" in find(refused, "way", "ok")[0]["what"]
    assert find(refused, "way", "failed")[0]["facts"]["hop"] == "proxy connect"
    assert "407" in find(refused, "way", "failed")[0]["what"]
    assert find(refused, "manager", "failed")[0]["facts"]["hop"] == "proxy connect"
    assert "407" in find(refused, "manager", "failed")[0]["what"]
    assert {nameless.code, nobody.code, refused.code} == {10}


async def test_a_way_that_cuts_quiet_calls_is_told_with_its_time(tmp_path: Path) -> None:
    """Case 01: behind a haproxy that bears a second and a half of silence."""
    async with running_manager(tmp_path) as operator:
        token = await operator.token()
        with haproxy(int(operator.manager.url.rpartition(":")[2]), idle_milliseconds=1500) as port:
            ended = await examine(tmp_path, "--idle=8s", DELEGATE_MANAGER_URL=f"http://127.0.0.1:{port}", DELEGATE_TOKEN=token)

    (idle,) = find(ended, "idle")
    assert idle["status"] == "warning"
    assert 1.0 < idle["facts"]["cut_after_seconds"] < 6.0


async def test_a_token_that_is_not_good_is_told_with_the_scope_that_is_missing(tmp_path: Path) -> None:
    """An operator's token enrols nobody, a made-up one is unknown, and none at all is told too."""
    async with running_manager(tmp_path) as operator:
        url = operator.manager.url
        admin = await examine(tmp_path, "--idle=0s", DELEGATE_MANAGER_URL=url, DELEGATE_TOKEN=operator.manager.admin_token)
        unknown = await examine(tmp_path, "--idle=0s", DELEGATE_MANAGER_URL=url, DELEGATE_TOKEN="dgt_0123456789abcdef")
        none = await examine(tmp_path, "--idle=0s", DELEGATE_MANAGER_URL=url)

    assert "missing: scope GITOPS" in find(admin, "token", "failed")[0]["what"]
    assert "unknown" in find(unknown, "token", "failed")[0]["what"]
    assert "no delegate token" in find(none, "token", "failed")[0]["what"]
    assert "delegate token create" in find(none, "token", "failed")[0]["hint"]


async def test_each_missing_permission_is_named_with_the_rule_to_add(tmp_path: Path, bench: Bench) -> None:
    """For manifests that are to be synced, and for an Application that was; applying is told to be patch."""
    manifests = tmp_path / "app.yaml"
    manifests.write_text(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec: {replicas: 0,"
        " selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}\n"
    )
    limited = bench.write_kubeconfig("limited", token=LIMITED)

    ended = await examine(tmp_path, "--manifests", str(manifests), "-n", "shop", DELEGATE_KUBECONFIG=str(limited))
    allowed = await examine(tmp_path, "--manifests", str(manifests), "-n", "shop", DELEGATE_KUBECONFIG=str(bench.kubeconfig))

    (deployments,) = [each for each in find(ended, "permissions", "failed") if each["facts"]["resource"] == "deployments"]
    assert "patch" in deployments["facts"]["verbs"]
    assert "apply" not in deployments["facts"]["verbs"]
    assert 'apiGroups: ["apps"], resources: ["deployments"]' in deployments["hint"]
    assert "Role in namespace shop" in deployments["hint"]
    assert "no verb `apply`" in deployments["hint"]
    assert find(allowed, "permissions", "ok")


async def test_what_a_canary_needs_is_asked_for_where_one_has_left_its_journal(tmp_path: Path, bench: Bench) -> None:
    """By the kind of its workload, and no more than that; a journal is no broken record of an Application."""
    await bench.create("/api/v1/namespaces", {"metadata": {"name": "shop"}})
    copies = (("Secret", "login-1a2b"),)
    journal = Journal("shop", "task-1", "attempt-1", 1, "web", "uid", "release", smoke_job="web-canary-smoke-1", copies=copies)
    await bench.create("/api/v1/namespaces/shop/configmaps", journal_config_map("shop", "StatefulSet", "web", journal))
    roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/shop"
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]
    await bench.create(f"{roles}/roles", {"metadata": {"name": "reader"}, "rules": rules})
    binding = {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "limited"}
    await bench.create(f"{roles}/rolebindings", {"metadata": {"name": "reader"}, "subjects": [subject], **binding})
    limited = bench.write_kubeconfig("limited", token=LIMITED)

    ended = await examine(tmp_path, "-n", "shop", DELEGATE_KUBECONFIG=str(limited))

    missing = {each["facts"]["resource"]: each["facts"]["verbs"] for each in find(ended, "permissions", "failed")}
    assert missing["statefulsets"] == ["get", "update"]
    assert missing["pods"] == ["list", "delete"]
    assert missing["jobs"] == ["get", "create", "delete"]
    assert missing["secrets"] == ["get", "create", "delete", "update"]
    assert "deployments" not in missing
    assert not find(ended, "applications")
    (jobs,) = [each for each in find(ended, "permissions", "failed") if each["facts"]["resource"] == "jobs"]
    assert '{apiGroups: ["batch"], resources: ["jobs"], verbs: [get, create, delete]}' in jobs["hint"]


async def test_a_directory_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    """Cases 32 and 33: which directory, by which setting, and what to mount."""
    ended = await examine(tmp_path, DELEGATE_STATE_DIR="/proc/delegate")

    (state,) = find(ended, "directory DELEGATE_STATE_DIR", "failed")
    assert state["where"] == "/proc/delegate"
    assert "mount a volume" in state["hint"] or "mount a writable volume" in state["hint"]
    assert find(ended, "directory DELEGATE_DLQ_DIR", "ok")


async def test_the_bucket_is_tried_and_left_as_it_was(tmp_path: Path) -> None:
    """Put, get and delete work; without credentials it is said where they are looked for."""
    import boto3

    with s3_server() as address:
        client = boto3.client("s3", endpoint_url=address, aws_access_key_id="key", aws_secret_access_key="secret", region_name="us-east-1")
        client.create_bucket(Bucket="letters")
        variables = {"DLQ_BUCKET": "s3://letters/edge", "AWS_ENDPOINT_URL": address, "AWS_EC2_METADATA_DISABLED": "true"}
        login = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret-access-key"}
        good = await examine(tmp_path, **variables, **login)
        left = client.list_objects_v2(Bucket="letters").get("KeyCount")
        bare = await examine(tmp_path, **variables, HOME=str(tmp_path), KUBERNETES_SERVICE_HOST="10.0.0.1")
        client.close()

    assert [each["what"] for each in find(good, "bucket", "ok")] == ["put works", "get works", "delete works"]
    assert left == 0
    (fault,) = find(bare, "bucket", "failed")
    assert "no credentials" in fault["what"]
    assert "169.254.169.254" in fault["hint"]


SECRETS = ("dgt_sEcReT0123456789", "pr0xy-w0rd", "api-t0ken-api-t0ken", "aws-s3cret-key-0123456789", "refresh-sEcReT-0123456789")


def plant_secrets(directory: Path) -> Mapping[str, str]:
    state = directory / "state"
    state.mkdir()
    (state / "identity.json").write_text(
        '{"instance": "i", "delegateId": "d-1", "refreshToken": "refresh-sEcReT-0123456789", "bootCount": 1}'
    )
    (state / "identity.json").chmod(0o600)
    (directory / "token").write_text("dgt_sEcReT0123456789\n")
    return {
        "DELEGATE_MANAGER_URL": "https://manager.invalid",
        "DELEGATE_TOKEN_FILE": str(directory / "token"),
        "HTTPS_PROXY": "http://user:pr0xy-w0rd@127.0.0.1:9",
        "DELEGATE_API_TOKEN": "api-t0ken-api-t0ken",
        "AWS_SECRET_ACCESS_KEY": "aws-s3cret-key-0123456789",
        "DELEGATE_SOMETHING": "aws-s3cret-key-0123456789",
    }


async def test_no_secret_is_in_the_bundle_or_in_what_is_printed(tmp_path: Path) -> None:
    """Tokens, passwords and keys of every place that it looks at; the file is its owner's alone."""
    variables = plant_secrets(tmp_path)
    bundle = tmp_path / "bundle.tar"
    bundle.touch(0o644)

    ended = await examine(tmp_path, "--bundle", str(bundle), **variables)

    with tarfile.open(bundle) as archive:
        names = archive.getnames()
        bodies = [opened.read().decode() for each in archive if (opened := archive.extractfile(each)) is not None]
    everything = "\n".join([*bodies, ended.stdout, ended.stderr])
    assert {"delegate-bundle/doctor.json", "delegate-bundle/settings.json", "delegate-bundle/state.txt"} <= set(names)
    assert "identity.json" in everything
    assert [secret for secret in SECRETS if secret in everything] == []
    assert stat.S_IMODE(bundle.stat().st_mode) == 0o600


async def test_people_read_marks_and_hints(tmp_path: Path) -> None:
    """Without -o json: one line a finding, the hint below what is not well, and how many there are."""
    ended = await asyncio.to_thread(
        run,
        "doctor",
        env={"DELEGATE_STATE_DIR": str(tmp_path), "DELEGATE_DLQ_DIR": str(tmp_path), "DELEGATE_MANAGER_URL": "http://127.0.0.1:9"},
    )

    lines = ended.stdout.splitlines()
    (at,) = [number for number, line in enumerate(lines) if line.startswith("FAIL  way to the manager")]
    assert "127.0.0.1:9" in lines[at]
    assert "firewall" in lines[at + 1]
    assert "failed" in lines[-1]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
async def test_files_of_another_user_are_named_with_owner_and_group(tmp_path: Path) -> None:
    """Case 33: path, owner and mode, and who this runs as."""
    (tmp_path / "state").mkdir(mode=0o500)

    ended = await examine(tmp_path)

    (state,) = find(ended, "directory DELEGATE_STATE_DIR", "failed")
    assert f"belongs to {os.geteuid()}:" in state["what"]
    with contextlib.suppress(OSError):
        (tmp_path / "state").chmod(0o700)


async def test_hosts_of_repositories_are_looked_at(tmp_path: Path) -> None:
    """Those that Applications name: one that nobody resolves fails with its name; neither user, password nor path of a URL is told."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        sources = [{"repoURL": f"ssh://git:hidden@127.0.0.1:{port}/secret-path.git"}, {"repoURL": "https://git.nowhere.invalid/a.git"}]
        application = {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Application",
            "metadata": {"name": "shop"},
            "spec": {"project": "default", "destination": {"name": "in-cluster"}, "sources": sources},
        }
        (tmp_path / "app.yaml").write_text(json.dumps(application))

        ended = await examine(tmp_path, "--idle=0s", "--manifests", str(tmp_path / "app.yaml"))

    assert any("connects to 127.0.0.1" in each["what"] for each in find(ended, "source 127.0.0.1", "ok"))
    (unknown,) = find(ended, "source git.nowhere.invalid", "failed")
    assert "can't be resolved" in unknown["what"]
    assert "hidden" not in ended.stdout
    assert "secret-path" not in ended.stdout


@pytest.mark.parametrize(
    ("repository", "address"),
    [
        ("git@git.example:team/config.git", "ssh://git.example:22"),
        ("https://user:word@git.example/a/b", "https://git.example:443"),
        ("oci://registry.example/charts/shop", "https://registry.example:443"),
        ("http://[2001:db8::1]:8080/a", "http://[2001:db8::1]:8080"),
        ("/srv/git/config", None),
        ("file:///srv/git/config", None),
        ("https://git.example:port/a", None),
    ],
)
def test_of_a_repository_the_address_alone_is_taken(repository: str, address: str | None) -> None:
    """Without user, password and path."""
    assert address_of(repository) == address
