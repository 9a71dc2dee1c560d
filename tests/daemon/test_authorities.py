"""Whom a delegate believes to be its manager: bundles as they are found, and as they change while it runs (case 29)."""

import datetime as dt
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
import trustme

from delegate.daemon import certificates
from delegate.daemon.connection.trust import AuthoritiesError
from delegate.manager.service import Manager
from delegate.protocol.pki.issuing import make_authority
from tests.daemon.harness import QUICK_RHYTHM, Operator, TestEngine, running_daemon, settings_for
from tests.daemon.secured import faults, rotations
from tests.daemon.waiting import eventually
from tests.manager.accounts import SigningKey, registration

EXPIRED = make_authority("long gone", begins=dt.datetime(2001, 1, 1, tzinfo=dt.UTC), ends=dt.datetime(2011, 1, 1, tzinfo=dt.UTC))


class PrivateManager:
    """A manager whose own certificate somebody else signs, and renews behind it."""

    def __init__(self, directory: Path, port: int = 0) -> None:
        self.directory = directory
        self.listen = f"127.0.0.1:{port}"
        self.files = directory / "server.pem", directory / "server.key"

    def sign(self, authority: trustme.CA) -> None:
        leaf = authority.issue_cert("127.0.0.1")
        self.files[1].write_bytes(leaf.private_key_pem.bytes())
        self.files[0].write_bytes(leaf.cert_chain_pems[0].bytes())

    @asynccontextmanager
    async def running(self, *authorities: trustme.CA) -> AsyncIterator[Operator]:
        self.sign(authorities[0])
        context = ssl.create_default_context()
        for each in authorities:
            each.configure_trust(context)
        async with Manager(state_dir=self.directory / "manager", rhythm=QUICK_RHYTHM, tls_files=self.files, listen=self.listen) as manager:
            headers = {"Authorization": f"Bearer {manager.admin_token}"}
            async with aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(ssl=context)) as session:
                yield Operator(manager, session)


def as_people_write_it(authority: trustme.CA) -> bytes:
    """With comments, a byte order of lines of another system, and an authority that has ended before the one that counts."""
    good = authority.cert_pem.bytes().decode()
    text = f"# Gebäude 7, gültig bis auf Weiteres\n\n{EXPIRED.certificate.to_pem()}\nCompany Root CA\n===============\n{good}"
    return text.replace("\n", "\r\n").encode()


def one_file(path: Path, authority: trustme.CA) -> None:
    path.write_bytes(as_people_write_it(authority))


def directory_of_files(path: Path, authority: trustme.CA) -> None:
    path.mkdir()
    (path / "README").write_text("put authorities here\n")
    (path / "old.pem").write_text(EXPIRED.certificate.to_pem())
    (path / "company.crt").write_bytes(as_people_write_it(authority))
    (path / "archive").mkdir()


def mounted_volume(path: Path, authority: trustme.CA) -> None:
    """As the kubelet mounts a ConfigMap."""
    revision = path / "..2030_01_01"
    revision.mkdir(parents=True)
    (revision / "ca.crt").write_bytes(authority.cert_pem.bytes())
    (path / "..data").symlink_to(revision.name)
    (path / "ca.crt").symlink_to("..data/ca.crt")


@pytest.mark.parametrize("write", [one_file, directory_of_files, mounted_volume])
@pytest.mark.parametrize("variable", ["DELEGATE_MANAGER_CA_FILE", "SSL_CERT_FILE"])
async def test_a_bundle_is_believed_as_it_is_found(tmp_path: Path, write: Callable[[Path, trustme.CA], None], variable: str) -> None:
    """A file with comments and CRLF, a directory, a mounted volume; beside the system's authorities, not instead of them."""
    authority, bundle = trustme.CA(), tmp_path / "bundle"
    write(bundle, authority)
    async with PrivateManager(tmp_path).running(authority) as operator:
        settings = settings_for(operator.manager.url, await operator.token(), tmp_path / "state", **{variable: str(bundle)})
        async with running_daemon(settings, TestEngine()) as running:
            await running.registered()
            assert (await operator.finished(await operator.submit("shop")))["task"]["outcome"] == "succeeded"
            context = running.daemon._certificates._contexts.current
            assert context is not None
            assert context.cert_store_stats()["x509_ca"] > ssl.create_default_context().cert_store_stats()["x509_ca"]


@pytest.mark.parametrize("content", ["", "no certificate", None], ids=["empty", "garbage", "empty directory"])
async def test_a_bundle_without_authorities_stops_the_start_with_its_path(tmp_path: Path, content: str | None) -> None:
    """Nothing is connected with half of what somebody meant to believe."""
    bundle = tmp_path / "bundle"
    bundle.mkdir() if content is None else bundle.write_text(content)
    settings = settings_for("https://127.0.0.1:9", "dgt_x", tmp_path / "state", DELEGATE_MANAGER_CA_FILE=str(bundle))
    async with running_daemon(settings, TestEngine()) as running:
        with pytest.raises(AuthoritiesError, match=f"DELEGATE_MANAGER_CA_FILE names {bundle}"):
            await running.task


async def test_an_authority_is_replaced_by_the_next_one_behind_the_delegate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """First both are in the directory, then the manager's certificate is the next one's, then the first one goes; no call fails."""
    monkeypatch.setattr(certificates, "_FILES_SECONDS", 0.05)
    first, second, bundle = trustme.CA(), trustme.CA(), tmp_path / "bundle"
    bundle.mkdir()
    (bundle / "a.pem").write_bytes(first.cert_pem.bytes())
    private = PrivateManager(tmp_path)
    async with private.running(first, second) as operator:
        settings = settings_for(operator.manager.url, await operator.token(), tmp_path / "state", DELEGATE_MANAGER_CA_FILE=str(bundle))
        async with running_daemon(settings, TestEngine()) as running:
            await running.registered()
            contexts, rotator = running.daemon._certificates._contexts, running.daemon._certificates.rotator

            async def changed(change: Callable[[], object]) -> None:
                before = contexts.current
                change()
                await eventually(lambda: contexts.current is not before)

            await changed(lambda: (bundle / "a2.pem").write_bytes(second.cert_pem.bytes()))
            private.sign(second)
            assert operator.manager._tls is not None
            operator.manager._tls.refresh()
            await rotator.rotate()  # a handshake of its own, with the manager's next certificate
            await changed((bundle / "a.pem").unlink)
            await rotator.rotate()
            assert (await operator.finished(await operator.submit("shop")))["task"]["outcome"] == "succeeded"
            assert faults(running.daemon) == 0


async def test_a_manager_that_lost_its_database_gets_its_delegates_back(tmp_path: Path) -> None:
    """It knows neither the delegate nor the authority that signed its certificate; by its service account the delegate enrols again."""
    cluster, authority = SigningKey(), trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    account = tmp_path / "account-token"
    account.write_text(cluster.token())
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    variables = {"DELEGATE_SERVICE_ACCOUNT_TOKEN_FILE": str(account), "DELEGATE_MANAGER_CA_FILE": str(tmp_path / "ca.pem")}
    settings = settings_for(f"https://127.0.0.1:{port}", "", tmp_path / "state", **variables)
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    async with AsyncExitStack() as exits:
        async with PrivateManager(tmp_path / "first", port).running(authority) as operator:
            await operator.ask("PUT", "/clusters/prod/keys", registration(cluster))
            running = await exits.enter_async_context(running_daemon(settings, TestEngine()))
            await running.registered()
            assert (await operator.finished(await operator.submit("shop")))["task"]["outcome"] == "succeeded"
        async with PrivateManager(tmp_path / "second", port).running(authority) as operator:
            await operator.ask("PUT", "/clusters/prod/keys", registration(cluster))
            await eventually(lambda: rotations(running.daemon, "enrolled") == 2, within=40.0)
            assert (await operator.finished(await operator.submit("shop"), within=40.0))["task"]["outcome"] == "succeeded"
            await eventually(lambda: running.daemon.conditions.report().unready == (), within=40.0)
            await running.stop()
