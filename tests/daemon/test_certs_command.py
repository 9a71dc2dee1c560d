"""`delegate certs rotate` beside a daemon that runs, and in its place when it can't help itself."""

import asyncio
import time
from pathlib import Path

from delegate.daemon.identity.generations import Generations
from delegate.daemon.identity.store import IdentityStore
from delegate.manager.authorities import CertificateRules
from delegate.manager.authority import AUTHORITIES_FILE
from tests.cli import programs
from tests.daemon.harness import Operator, TestEngine, running_daemon
from tests.daemon.secured import faults, rotations, secured_manager, secured_settings, serial_in_use
from tests.daemon.waiting import eventually


async def certs(operator: Operator, directory: Path, *arguments: str) -> programs.Ended:
    variables = {
        "DELEGATE_MANAGER_URL": operator.manager.url,
        "DELEGATE_STATE_DIR": str(directory / "delegate"),
        "DELEGATE_MANAGER_CA_FILE": str(operator.manager._state_dir / AUTHORITIES_FILE),
    }
    return await asyncio.to_thread(programs.run, "certs", *arguments, "-o", "json", env=variables)


async def works(operator: Operator) -> None:
    shown = await operator.finished(await operator.submit("shop"))
    assert shown["task"]["outcome"] == "succeeded"


async def test_a_running_daemon_takes_the_new_certificate_over(tmp_path: Path) -> None:
    """The command asks, tries and switches; the daemon's session and calls go on, and it shows the new one within its next look."""
    async with secured_manager(tmp_path) as operator:
        settings = secured_settings(operator, await operator.token(), tmp_path)
        async with running_daemon(settings, TestEngine()) as running:
            await running.registered()
            await works(operator)
            first = serial_in_use(running.daemon)
            ended = await certs(operator, tmp_path, "rotate")

            assert ended.code == 0, ended.stderr
            serial = ended.document["certificate"]["serial"]
            assert serial != first
            running.daemon._certificates.rotator.wake()
            await eventually(lambda: serial_in_use(running.daemon) == serial)
            await works(operator)
            assert (rotations(running.daemon, "adopted"), faults(running.daemon)) == (1, 0)
            shown = await certs(operator, tmp_path, "show")
            assert (shown.code, shown.document["certificate"]["serial"]) == (0, serial)
            assert len(await operator.delegates()) == 1


async def test_a_certificate_that_the_manager_revoked_is_mended_with_a_token(tmp_path: Path) -> None:
    """The words of readiness are the command: the daemon that runs without a token gets on with what it brings."""
    async with secured_manager(tmp_path) as operator:
        async with running_daemon(secured_settings(operator, await operator.token(), tmp_path), TestEngine()) as running:
            await running.registered()
            await works(operator)
        async with running_daemon(secured_settings(operator, "", tmp_path), TestEngine()) as running:
            await running.registered()
            revoked = serial_in_use(running.daemon)
            await operator.ask("POST", "/revocations", {"serial": revoked})
            await eventually(lambda: any("certificate_refused" in each for each in running.daemon.conditions.report().unready))
            without = await certs(operator, tmp_path, "rotate")
            assert without.code in (1, 2)
            assert "DELEGATE_TOKEN" in without.document["error"]["message"] + without.document["error"]["hint"]
            file = tmp_path / "token"
            created = await operator.ask("POST", "/tokens", {"name": "repair", "scope": "GITOPS"})
            file.write_text(created["secret"])

            ended = await certs(operator, tmp_path, "rotate", "--delegate-token-file", str(file))

            assert ended.code == 0, ended.stderr
            running.daemon._certificates.rotator.wake()
            await eventually(lambda: serial_in_use(running.daemon) == ended.document["certificate"]["serial"])
            await eventually(lambda: running.daemon.conditions.report().unready == (), within=40.0)
            await works(operator)


async def test_without_a_daemon_an_ended_certificate_is_replaced(tmp_path: Path) -> None:
    """By its key, within the manager's grace; the identity is the same one, and starts were not counted."""
    async with secured_manager(tmp_path, certificates=CertificateRules()) as operator:
        settings = secured_settings(operator, await operator.token(), tmp_path, DELEGATE_ROTATE_INTERVAL="1s")
        async with running_daemon(settings, TestEngine()) as running:
            await running.registered()
            await works(operator)
        last = Generations(settings.identity.cert_dir).load_current()
        assert last is not None
        identity = IdentityStore(settings.identity.state_dir).look()
        await asyncio.sleep(max(0.0, last.material.certificate.not_after.timestamp() - time.time()) + 0.2)
        assert (await certs(operator, tmp_path, "show")).code == 1

        ended = await certs(operator, tmp_path, "rotate")

        assert ended.code == 0, ended.stderr
        assert ended.document["usable"]
        assert IdentityStore(settings.identity.state_dir).look() == identity
        async with running_daemon(secured_settings(operator, "", tmp_path), TestEngine()) as running:
            await running.registered()
            await works(operator)
            assert serial_in_use(running.daemon) == ended.document["certificate"]["serial"]
