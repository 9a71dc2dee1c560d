"""Scenarios that need a network of their own; see `namespaces`. Each is a coroutine function that fails by an exception."""

import asyncio
import contextlib
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import aiohttp
import trustme
from aiohttp import web

from delegate.cli.environments import child_environment
from delegate.daemon.connection.errors import TransportError
from delegate.daemon.connection.transport import Endpoint, Limits, Transport
from delegate.engine.sources.manifests import Sources
from delegate.foundation.secrets import Secret
from delegate.foundation.settings.loading import load
from delegate.foundation.settings.programs import LocalSettings
from delegate.model.sources import Source
from delegate.protocol import routes
from delegate.protocol.enrolment import ByeAnswer, ByeRequest
from tests.daemon.harness import QUICK_RULES, TestEngine, running_daemon, running_manager, settings_for
from tests.daemon.networks.servers import QUOTED, USER, program, running, squid
from tests.daemon.secured import faults, secured_manager, secured_settings
from tests.daemon.waiting import eventually
from tests.fakes.scripted_manager import ScriptedManager, raw
from tests.sources.repositories import GIT_ENVIRONMENT, HttpServer


def ip(*arguments: str) -> None:
    subprocess.run([program("ip", "iproute2"), *arguments], check=True)


class Names:
    """A dnsmasq whose records change at once."""

    def __init__(self, hosts: Path, process: "subprocess.Popen[bytes]") -> None:
        self._hosts = hosts
        self._process = process

    def say(self, **addresses: str) -> None:
        """Each name with its addresses, several with commas."""
        lines = [f"{address} {name}.test" for name, several in addresses.items() for address in several.split(",")]
        self._hosts.write_text("\n".join(lines) + "\n")
        self._process.send_signal(signal.SIGHUP)


@contextmanager
def names(directory: Path, listen: str) -> Iterator[Names]:
    """The resolver of this process from now on."""
    hosts, resolver = directory / "hosts", directory / "resolv.conf"
    hosts.write_text("")
    hosts.chmod(0o644)
    directory.chmod(0o755)
    resolver.write_text(f"nameserver {listen}\noptions timeout:1 attempts:2\n")
    subprocess.run(["mount", "--bind", str(resolver), "/etc/resolv.conf"], check=True)
    arguments = ["--keep-in-foreground", "--no-resolv", "--no-hosts", "--conf-file=/dev/null", f"--addn-hosts={hosts}", "--local=/test/"]
    arguments += ["--bind-interfaces", f"--listen-address={listen}", "--local-ttl=0", "--user=root", "--pid-file="]
    with running([program("dnsmasq", "dnsmasq-base"), *arguments], [53], listen) as process:
        yield Names(hosts, process)


async def ipv6_only(directory: Path) -> None:
    """No IPv4 address anywhere: literal and name, with and without a proxy, probes on `::`."""
    ip("link", "set", "lo", "up")
    ip("addr", "del", "127.0.0.1/8", "dev", "lo")
    for address in ("fd00::10", "fd00::20"):
        ip("-6", "addr", "add", f"{address}/128", "dev", "lo", "nodad")
    with names(directory, "::1") as resolver:
        resolver.say(manager="fd00::10")
        async with secured_manager(directory, listen="[fd00::10]:0", tls_names=("fd00::10", "manager.test")) as operator:
            port = operator.manager.url.rpartition(":")[2]
            token = await operator.token()
            ways = {"literal": f"https://[fd00::10]:{port}", "name": f"https://manager.test:{port}"}
            for number, (way, url) in enumerate(ways.items()):
                settings = secured_settings(operator, token, directory, way, DELEGATE_MANAGER_URL=url, DELEGATE_HTTP_HOST="::")
                assert settings.link.url == url
                async with running_daemon(settings, TestEngine(), rules=QUICK_RULES) as daemon:
                    await daemon.registered()
                    shown = await operator.finished(await operator.submit(f"shop-{number}"))
                    assert shown["task"]["outcome"] == "succeeded"
                    async with aiohttp.ClientSession() as session, session.get(f"http://[::1]:{daemon.daemon.port}/readyz") as answer:
                        assert answer.status == 200
            with squid(host="fd00::20") as proxy:
                proxied = {"HTTPS_PROXY": f"http://{USER}:{QUOTED}@[fd00::20]:{proxy.port}"}
                for way, exceptions in (("proxied", ""), ("direct", "[fd00::10]"), ("network", "fd00::/8")):
                    url, before = ways["literal"], len(proxy.requests())
                    extra = {**proxied, "NO_PROXY": exceptions, "DELEGATE_MANAGER_URL": url, "DELEGATE_HTTP_HOST": "::1"}
                    async with running_daemon(secured_settings(operator, token, directory, way, **extra), TestEngine()) as daemon:
                        await daemon.registered()
                    assert (len(proxy.requests()) > before) is (way == "proxied"), (way, proxy.requests())


async def moving(directory: Path) -> None:
    """The manager's name stands for another machine: where the old one answers for others, is silent, or still works."""
    ip("link", "set", "lo", "up")
    with names(directory, "127.0.0.1") as resolver:
        async with two_managers() as (old, new, port):
            never = asyncio.Event()

            async def silent(request: web.Request, body: object) -> web.StreamResponse:
                await never.wait()
                return web.Response()

            endings = {
                "503": raw(503, b"<h1>Gone</h1>", Content_Type="text/html"),
                "silence": silent,
                "age": None,
            }
            for name, ending in endings.items():
                resolver.say(manager="127.0.0.2")
                limits = Limits(connect=5.0, stall=0.5, age=0.3 if name == "age" else 600.0)
                transport = Transport(Endpoint(join=lambda path: f"http://manager.test:{port}{path}"), limits=limits)
                old.always.clear()
                await until_resolved("127.0.0.2")
                await call(transport)
                seen = len(new.seen)
                resolver.say(manager="127.0.0.3")
                await until_resolved("127.0.0.3")
                if ending is not None:
                    old.always[routes.BYE] = ending
                began_at = time.monotonic()
                while len(new.seen) == seen:
                    with contextlib.suppress(TransportError):
                        await call(transport)
                    await asyncio.sleep(0.05)
                    assert time.monotonic() - began_at < 10.0, name
                await transport.close()
            # One of several addresses is dead: the other is asked at once.
            resolver.say(manager="127.0.0.9,127.0.0.3")
            transport = Transport(Endpoint(join=lambda path: f"http://manager.test:{port}{path}"), limits=Limits(connect=5.0, stall=5.0))
            for _ in range(3):
                await call(transport)
            await transport.close()
            resolver.say()
            never.set()


@asynccontextmanager
async def two_managers() -> AsyncIterator[tuple[ScriptedManager, ScriptedManager, int]]:
    """At 127.0.0.2 and 127.0.0.3, on one port."""
    managers = ScriptedManager(), ScriptedManager()
    runners = []
    port = 8443
    for manager, host in zip(managers, ("127.0.0.2", "127.0.0.3"), strict=True):
        application = web.Application()
        application.router.add_post("/{path:.*}", manager.serve)
        runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, host, port).start()
        runners.append(runner)
    try:
        yield *managers, port
    finally:
        for runner in runners:
            await runner.cleanup()


async def until_resolved(address: str) -> None:
    async def resolves() -> bool:
        with contextlib.suppress(OSError):
            answers = await asyncio.get_running_loop().getaddrinfo("manager.test", 80)
            return {each[4][0] for each in answers} == {address}
        return False

    async with asyncio.timeout(15):
        while not await resolves():  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.02)


async def call(transport: Transport) -> None:
    await transport.call(routes.BYE, ByeRequest(request_id="r", epoch=1), ByeAnswer, token=Secret("t"))


async def gone_without_a_word(directory: Path) -> None:
    """The only way goes down under open polls and heartbeats: nobody gets a FIN or a RST. It comes back, and so does the work."""
    ip("link", "set", "lo", "up")
    async with running_manager(directory) as operator:
        settings = settings_for(operator.manager.url, await operator.token(), directory / "delegate")
        async with running_daemon(settings, TestEngine()) as daemon:
            await daemon.registered()
            conditions = daemon.daemon.conditions
            await eventually(lambda: conditions.link_fresh)
            ip("link", "set", "lo", "down")
            await eventually(lambda: not conditions.link_fresh)
            await eventually(lambda: faults(daemon.daemon) > 0)
            ip("link", "set", "lo", "up")
            await eventually(lambda: conditions.link_fresh)
            shown = await operator.finished(await operator.submit("shop"))
            assert shown["task"]["outcome"] == "succeeded"
            assert len([each for each in shown["attempts"] if each["state"] == "finished"]) == 1


async def git_by_the_same_rule(directory: Path) -> None:
    """Git goes through the proxy with its password, and past it to a network in NO_PROXY; it believes the private authority."""
    ip("link", "set", "lo", "up")
    ip("addr", "add", "10.7.0.1/32", "dev", "lo")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(directory / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("10.7.0.1").configure_cert(context)
    make_repository(directory / "repositories" / "config.git", directory / "work")
    with squid(host="127.0.0.1") as proxy:
        async with git_server(directory / "repositories", context) as url:
            for way, exceptions in (("proxied", ""), ("network", "10.0.0.0/8"), ("address", "10.7.0.1")):
                variables = {
                    **{"HOME": str(directory), "XDG_CACHE_HOME": str(directory / "xdg"), "PATH": os.environ["PATH"]},
                    "HTTPS_PROXY": f"http://{USER}:{QUOTED}@localhost:{proxy.port}",
                    **{"NO_PROXY": exceptions, "SSL_CERT_FILE": str(directory / "ca.pem")},
                }
                network = load(LocalSettings, environment=variables).settings.network
                sources = Sources(cache_dir=directory / way, environment=child_environment(network, variables))
                before = len(proxy.requests())
                source = Source(repo_url=url, target_revision="main")
                revision = await sources.resolve(source, timeout=20)
                rendered = await sources.render(source, revision, timeout=20)
                sources.close()
                assert [manifest.name for manifest in rendered.manifests] == ["one"]
                await eventually(lambda before=before, way=way: (len(proxy.requests()) > before) is (way == "proxied"))  # type: ignore[misc]


def make_repository(bare: Path, work: Path) -> None:
    work.mkdir()
    (work / "one.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n")
    for arguments in (
        ["git", "init", "-q", "-b", "main", str(work)],
        ["git", "-C", str(work), "add", "."],
        ["git", "-C", str(work), "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "-m", "one"],
        ["git", "clone", "-q", "--bare", str(work), str(bare)],
    ):
        subprocess.run(arguments, check=True, env=GIT_ENVIRONMENT)


@asynccontextmanager
async def git_server(root: Path, context: ssl.SSLContext) -> AsyncIterator[str]:
    server = HttpServer(root, tls=context)
    application = web.Application(client_max_size=2**26)
    application.router.add_route("*", "/{path:.*}", server._answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "10.7.0.1", 0, ssl_context=context).start()
    try:
        yield f"https://10.7.0.1:{runner.addresses[0][1]}/config.git"
    finally:
        await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]](Path(sys.argv[2])))
