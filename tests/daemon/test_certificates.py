"""The certificate of a running delegate: from enrolment on, rotated under load, recovered after whatever happened to it."""

import asyncio
import datetime as dt
import gc
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme
import uvloop

from delegate.daemon.connection.errors import UntrustedError
from delegate.daemon.identity.generations import Generations
from delegate.engine.tasks.contexts import AttemptContext
from delegate.foundation.lifecycle import StopReason
from delegate.manager.authorities import CertificateRules
from delegate.manager.authority import AUTHORITIES_FILE
from delegate.model.results import TaskResult
from delegate.model.tasks import Task
from delegate.protocol import routes
from delegate.protocol.pki.certificates import read_certificates
from delegate.protocol.pki.issuing import make_authority
from tests.daemon.harness import Operator, TestEngine, result_of, running_daemon, running_manager, settings_for
from tests.daemon.secured import ShiftedClock, faults, metric, rotations, secured_manager, secured_settings, serial_in_use
from tests.daemon.waiting import eventually
from tests.fakes.fault_proxy import Fault, Point, fault_proxy
from tests.manager.accounts import SigningKey, registration

SKEW = "harness_delegate_clock_skew_seconds"
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


async def works(operator: Operator, name: str = "shop") -> None:
    """A task goes through."""
    shown = await operator.finished(await operator.submit(name))
    assert shown["task"]["outcome"] == "succeeded"


async def certificates_of(operator: Operator) -> list[dict[str, str]]:
    """The newest first, as the manager shows them."""
    items: list[dict[str, str]] = (await operator.ask("GET", "/certificates"))["items"]
    return items


async def test_enrolment_brings_a_certificate_that_every_call_shows(tmp_path: Path) -> None:
    """The first session is opened over it; expiry is a metric, told in heartbeats, and readiness has nothing to say."""
    async with secured_manager(tmp_path) as operator:
        settings = secured_settings(operator, await operator.token(), tmp_path)
        async with running_daemon(settings, TestEngine()) as running:
            await running.registered()
            await works(operator)
            (certificate,) = await certificates_of(operator)

            assert certificate["state"] == "current"
            assert certificate["serial"] == serial_in_use(running.daemon)
            assert rotations(running.daemon, "enrolled") == 1
            expiry = metric(running.daemon, "harness_delegate_certificate_expiry_timestamp_seconds")
            assert abs(expiry - time.time() - 2 * 86400) < 60
            await eventually(lambda: running.daemon.conditions.report().unready == ())
            assert faults(running.daemon) == 0
            kept = settings.identity.cert_dir / "current"
            assert read_certificates((kept / "tls.crt").read_bytes())[0].serial == certificate["serial"]
            assert {path.stat().st_mode & 0o777 for path in kept.iterdir()} == {0o600}


async def test_a_restart_goes_on_with_the_same_certificate(tmp_path: Path) -> None:
    """Nothing is asked for before its time, and no token is needed."""
    async with secured_manager(tmp_path) as operator:
        settings = secured_settings(operator, await operator.token(), tmp_path)
        async with running_daemon(settings, TestEngine()) as running:
            await running.registered()
            first = serial_in_use(running.daemon)
        async with running_daemon(secured_settings(operator, "", tmp_path), TestEngine()) as running:
            await running.registered()
            await works(operator)
            assert serial_in_use(running.daemon) == first
            assert faults(running.daemon) == 0
        assert len(await certificates_of(operator)) == 1


async def work_a_little(task: Task, context: AttemptContext) -> TaskResult:
    context.report("step", {"number": 1})
    await asyncio.sleep(0.2)
    return result_of(task, context)


async def rotate_under_load(directory: Path, seconds: float) -> None:
    """Certificates of two or three seconds, tasks all the time."""
    async with secured_manager(directory) as operator:
        settings = secured_settings(operator, await operator.token(), directory, DELEGATE_ROTATE_INTERVAL="1s", DELEGATE_TASK_CAPACITY="8")
        async with running_daemon(settings, TestEngine(work_a_little)) as running:
            await running.registered()
            ends_at, done = time.monotonic() + seconds, 0
            seen: set[str] = set()

            async def submit(worker: int) -> None:
                nonlocal done
                while time.monotonic() < ends_at:
                    await works(operator, f"shop-{worker}")
                    done += 1
                    seen.add(serial_in_use(running.daemon))

            async with asyncio.TaskGroup() as group:
                for worker in range(4):
                    group.create_task(submit(worker))
            await eventually(lambda: running.daemon.conditions.report().unready == ())
            assert faults(running.daemon) == 0
            assert rotations(running.daemon, "failed") == 0
            assert rotations(running.daemon, "rotated") >= seconds / 2.6 - 1
            assert len(seen) >= 3
            assert done > seconds
            assert await refused_requests(operator) == 0
            gc.collect()
            assert len(running.daemon._certificates._contexts._made) <= 4


async def refused_requests(operator: Operator) -> int:
    """Requests of delegates that the manager did not answer with a success."""
    async with operator.session.get(operator.manager.url + "/metrics") as response:
        lines = (await response.text()).splitlines()
    wrong = 0
    for line in lines:
        if line.startswith("delegate_manager_requests_total{") and "/api/delegate/" in line and 'code="2' not in line:
            wrong += int(float(line.rpartition(" ")[2]))
    return wrong


@pytest.mark.parametrize(("loop", "seconds"), [("asyncio", 6.0), ("uvloop", 14.0)])
def test_certificates_that_live_seconds_fail_no_request(tmp_path: Path, loop: str, seconds: float) -> None:
    """Case 07: polls, heartbeats, results and progress all the time, and a new certificate every second or two."""
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(rotate_under_load(tmp_path, seconds))


ROTATION_FAULTS = [
    (fault, point)
    for fault in Fault
    for point in Point
    if not (point is Point.MIDDLE and fault in (Fault.DELAY, Fault.TRICKLE, Fault.DUPLICATE, Fault.HTML, Fault.GATEWAY_TIMEOUT))
]


@pytest.mark.parametrize(("fault", "point"), ROTATION_FAULTS, ids=[f"{fault.value} {point.value}" for fault, point in ROTATION_FAULTS])
@pytest.mark.parametrize("route", [routes.RENEW_CERTIFICATE, routes.PING])
async def test_a_network_fault_in_a_rotation_leaves_a_working_identity(tmp_path: Path, fault: Fault, point: Point, route: str) -> None:
    """At the renewal, before and after the manager committed it, and at the trial: the old one works on, and the next try succeeds."""
    async with running_manager(tmp_path) as operator, fault_proxy(operator.manager.url) as proxy:
        settings = settings_for(proxy.url, await operator.token(), tmp_path / "delegate")
        async with running_daemon(settings, TestEngine()) as running:
            await running.registered()
            certificates = running.daemon._certificates
            first = certificates.holder.certificate
            assert first is not None
            proxy.inject(fault, route, point=point, seconds=0.2)
            rotating = asyncio.create_task(certificates.rotator.rotate())
            await eventually(lambda: proxy.injected(route))
            await works(operator)
            if fault in (Fault.FREEZE, Fault.HALF_CLOSE):  # would last until the limits of the call
                rotating.cancel()
            await asyncio.wait([rotating])
            on_disk = Generations(settings.identity.cert_dir).load_current()
            assert on_disk is not None
            assert certificates.holder.current is not None
            assert on_disk.number == certificates.holder.current.number

            await certificates.rotator.rotate()
            await works(operator)
            assert certificates.holder.certificate != first
            assert len(await certificates_of(operator)) <= 3


async def test_a_revoked_certificate_is_replaced_by_enrolling_again(tmp_path: Path) -> None:
    """The delegate finds out at once, and goes on with another key; its session tokens alone would be worth nothing."""
    async with secured_manager(tmp_path) as operator:
        settings = secured_settings(operator, await operator.token(), tmp_path)
        async with running_daemon(settings, TestEngine()) as running:
            await running.registered()
            await works(operator)
            first = serial_in_use(running.daemon)
            await operator.ask("POST", "/revocations", {"serial": first})

            await eventually(lambda: serial_in_use(running.daemon) not in ("", first))
            await works(operator)
            assert rotations(running.daemon, "enrolled") == 2
            await eventually(lambda: running.daemon.conditions.report().unready == ())
            assert len(await operator.delegates()) == 1


async def test_a_revoked_certificate_without_a_token_says_what_to_do(tmp_path: Path) -> None:
    """Not ready, with the command; nothing is handed out; a certificate from elsewhere mends it."""
    async with secured_manager(tmp_path) as operator:
        token = await operator.token()
        async with running_daemon(secured_settings(operator, token, tmp_path), TestEngine()) as running:
            await running.registered()
            await works(operator)
        async with running_daemon(secured_settings(operator, "", tmp_path), TestEngine()) as running:
            await running.registered()
            await operator.ask("POST", "/revocations", {"serial": serial_in_use(running.daemon)})

            await eventually(lambda: any("certificate_refused" in each for each in running.daemon.conditions.report().unready))
            (reason,) = [each for each in running.daemon.conditions.report().unready if "certificate_refused" in each]
            assert "`delegate certs rotate --delegate-token-file FILE`" in reason
            assert not running.task.done()


async def test_a_revoked_delegate_ends(tmp_path: Path) -> None:
    """Cut off for good, whatever certificate it has."""
    async with (
        secured_manager(tmp_path) as operator,
        running_daemon(secured_settings(operator, await operator.token(), tmp_path), TestEngine()) as running,
    ):
        await running.registered()
        await works(operator)
        (shown,) = await operator.delegates()
        await operator.ask("POST", f"/delegates/{shown['id']}/revoke")

        await asyncio.wait_for(running.task, 10)
        assert running.stops.decisive is not None
        assert running.stops.decisive.reason is StopReason.REVOKED


async def test_a_delegate_that_slept_through_the_end_recovers_without_a_token(tmp_path: Path) -> None:
    """Case 04: the key of the ended certificate proves who it was, within the manager's grace."""
    async with secured_manager(tmp_path) as operator:
        token = await operator.token()
        settings = secured_settings(operator, token, tmp_path, DELEGATE_ROTATE_INTERVAL="1s")
        async with running_daemon(settings, TestEngine()) as running:
            await running.registered()
            await works(operator)
        last = Generations(settings.identity.cert_dir).load_current()
        assert last is not None
        await asyncio.sleep(max(0.0, last.material.certificate.not_after.timestamp() - time.time()) + 0.2)

        again = secured_settings(operator, "", tmp_path, DELEGATE_ROTATE_INTERVAL="1h")
        async with running_daemon(again, TestEngine()) as running:
            await running.registered()
            await works(operator)
            assert rotations(running.daemon, "rotated") == 1
            await eventually(lambda: running.daemon.conditions.report().unready == ())


async def test_no_call_fails_over_a_certificate_that_ended_before_anybody_noticed(tmp_path: Path) -> None:
    """A stall of the machine through the end: calls that meet the refusal wait for the next certificate, and are made once more."""
    async with secured_manager(tmp_path, certificates=CertificateRules(overlap=0.0)) as operator:
        settings = secured_settings(operator, await operator.token(), tmp_path, DELEGATE_ROTATE_INTERVAL="1s")
        async with running_daemon(settings, TestEngine()) as running:
            await running.registered()
            rotator = running.daemon._certificates.rotator
            ended_before = 0
            for _ in range(2):
                rotator._retry_at = time.monotonic() + 60.0  # as if it did not get to look
                held = rotator._holder.certificate
                assert held is not None
                while serial_in_use(running.daemon) in ("", held.serial):
                    await works(operator)
                    ended_before += held.not_after.timestamp() <= time.time()
            await eventually(lambda: running.daemon.conditions.report().unready == ())
            assert ended_before >= 1
            assert rotations(running.daemon, "enrolled") == 1
            assert faults(running.daemon) == 0


async def test_after_the_grace_only_a_token_helps(tmp_path: Path) -> None:
    """Without one: not registered, with the cause; with one it enrols again by itself."""
    async with secured_manager(tmp_path, certificates=CertificateRules(renewal_grace=0.0)) as operator:
        token = await operator.token()
        settings = secured_settings(operator, token, tmp_path, DELEGATE_ROTATE_INTERVAL="1s")
        async with running_daemon(settings, TestEngine()) as running:
            await running.registered()
            await works(operator)
        last = Generations(settings.identity.cert_dir).load_current()
        assert last is not None
        await asyncio.sleep(max(0.0, last.material.certificate.not_after.timestamp() - time.time()) + 0.2)

        async with running_daemon(secured_settings(operator, "", tmp_path), TestEngine()) as running:
            await eventually(lambda: any("certificate_expired" in each for each in running.daemon.conditions.report().unready))
            assert not running.daemon.registered.is_set()
        async with running_daemon(secured_settings(operator, token, tmp_path), TestEngine()) as running:
            await running.registered()
            await works(operator)
            assert rotations(running.daemon, "enrolled") == 1


async def test_a_pod_rescheduled_after_its_token_expired_gets_in(tmp_path: Path) -> None:
    """The outage: a token that ended long ago, a new pod with an empty directory. Its service account's token lets it in."""
    cluster = SigningKey()
    async with secured_manager(tmp_path) as operator:
        await operator.ask("PUT", "/clusters/prod/keys", registration(cluster, labels={"env": "prod"}))
        created = await operator.ask("POST", "/tokens", {"name": "old", "scope": "GITOPS", "expiresIn": "1s"})
        account = tmp_path / "token"
        account.write_text(cluster.token(pod="pod-1"))
        variables = {"DELEGATE_SERVICE_ACCOUNT_TOKEN_FILE": str(account)}
        await asyncio.sleep(1.1)

        async with running_daemon(secured_settings(operator, created["secret"], tmp_path, "pod-1", **variables), TestEngine()) as running:
            await running.registered()
            await works(operator)
            assert abs(metric(running.daemon, "harness_delegate_token_expiry_timestamp_seconds") - time.time() - 3600) < 60
        account.write_text(cluster.token(pod="pod-2"))
        async with running_daemon(secured_settings(operator, created["secret"], tmp_path, "pod-2", **variables), TestEngine()) as running:
            await running.registered()
            await works(operator)
        shown = await operator.delegates()
        assert [each["labels"] for each in shown] == [{"env": "prod"}] * 2


async def test_a_service_account_that_nobody_registered_falls_back_to_the_token(tmp_path: Path) -> None:
    """And when neither is accepted, both reasons are told."""
    account = tmp_path / "token"
    account.write_text(SigningKey().token())
    variables = {"DELEGATE_SERVICE_ACCOUNT_TOKEN_FILE": str(account)}
    async with secured_manager(tmp_path) as operator:
        async with running_daemon(secured_settings(operator, await operator.token(), tmp_path, **variables), TestEngine()) as running:
            await running.registered()
        async with running_daemon(secured_settings(operator, "dgt_wrong", tmp_path, "other", **variables), TestEngine()) as running:
            with pytest.raises(Exception, match=r"no keys are registered for service account tokens.*the token is unknown here"):
                await asyncio.wait_for(running.task, 10)


async def test_the_manager_s_authority_is_believed_by_its_fingerprint(tmp_path: Path) -> None:
    """No file has to be carried anywhere; what answers with another authority is named, and gets no token."""
    async with secured_manager(tmp_path) as operator:
        pin = read_certificates((operator.manager._state_dir / AUTHORITIES_FILE).read_text())[0].fingerprint
        token = await operator.token()
        pinned = settings_for(operator.manager.url, token, tmp_path / "pinned", DELEGATE_MANAGER_CA_PIN=f"sha256:{pin.upper()}")
        async with running_daemon(pinned, TestEngine()) as running:
            await running.registered()
            await works(operator)
        # From then on the authorities are kept with the certificate.
        async with running_daemon(settings_for(operator.manager.url, "", tmp_path / "pinned"), TestEngine()) as running:
            await running.registered()
        wrong = settings_for(operator.manager.url, token, tmp_path / "wrong", DELEGATE_MANAGER_CA_PIN="ab" * 32)
        async with running_daemon(wrong, TestEngine()) as running:
            with pytest.raises(UntrustedError, match="is not the pinned one but"):
                await asyncio.wait_for(running.task, 10)
        none = settings_for(operator.manager.url, token, tmp_path / "none")
        async with running_daemon(none, TestEngine()) as running:
            with pytest.raises(UntrustedError, match="nobody trusted here signed"):
                await asyncio.wait_for(running.task, 10)


async def test_authorities_in_a_file_may_change_behind_the_delegate(tmp_path: Path) -> None:
    """A bundle that somebody extends is read again."""
    async with secured_manager(tmp_path) as operator:
        bundle = tmp_path / "bundle.pem"
        bundle.write_bytes((operator.manager._state_dir / AUTHORITIES_FILE).read_bytes())
        settings = secured_settings(operator, await operator.token(), tmp_path, DELEGATE_MANAGER_CA_FILE=str(bundle))
        async with running_daemon(settings, TestEngine()) as running:
            await running.registered()
            contexts = running.daemon._certificates._contexts
            before = contexts.current
            stranger = make_authority("another", begins=_now(), ends=_now().replace(year=2100))
            bundle.write_text(bundle.read_text() + stranger.certificate.to_pem())

            assert contexts.follow_files()
            assert before is not None
            assert contexts.current is not None
            assert contexts.current.cert_store_stats()["x509_ca"] == before.cert_store_stats()["x509_ca"] + 1
            await works(operator)
            assert not contexts.follow_files()


async def test_the_next_authority_arrives_with_a_rotation(tmp_path: Path) -> None:
    """A change in advance: both are believed by then, and the delegate goes over without a fault."""
    async with secured_manager(tmp_path) as operator:
        settings = secured_settings(operator, await operator.token(), tmp_path)
        async with running_daemon(settings, TestEngine()) as running:
            await running.registered()
            certificates = running.daemon._certificates
            await operator.ask("POST", "/authorities", {"signsAfter": "2s"})
            announced_at = time.monotonic()
            await certificates.rotator.rotate()
            assert certificates.holder.current is not None
            told = certificates.holder.current.material.authorities.fingerprints
            assert len(told) == 2

            await eventually(lambda: time.monotonic() - announced_at > 2.0)
            generation = await certificates.rotator.rotate()
            assert generation.material.authorities.fingerprints == (told[1], told[0])
            await works(operator)
            assert faults(running.daemon) == 0


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


async def test_a_directory_that_somebody_else_writes_is_used_and_followed(tmp_path: Path) -> None:
    """cert-manager and its kind: no certificate is asked for, a new pair is swapped in, half a pair is not."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "outside.pem"))
    mounted = tmp_path / "mounted"

    def renew(*names: str) -> str:
        leaf = authority.issue_cert("delegates.example")
        mounted.mkdir(exist_ok=True)
        contents = {
            "tls.crt": leaf.cert_chain_pems[0].bytes(),
            "tls.key": leaf.private_key_pem.bytes(),
            "ca.crt": authority.cert_pem.bytes(),
        }
        for name in names or contents:
            (mounted / name).write_bytes(contents[name])
        return read_certificates(contents["tls.crt"])[0].serial

    first = renew()
    async with secured_manager(tmp_path, client_authorities=tmp_path / "outside.pem") as operator:
        settings = secured_settings(operator, await operator.token(), tmp_path, DELEGATE_CERT_DIR=str(mounted))
        async with running_daemon(settings, TestEngine()) as running:
            await running.registered()
            await works(operator)
            assert serial_in_use(running.daemon) == first
            assert await certificates_of(operator) == []
            assert sorted(os.listdir(mounted)) == ["ca.crt", "tls.crt", "tls.key"]

            renew("tls.key")
            running.daemon._certificates.rotator.wake()
            await eventually(lambda: rotations(running.daemon, "rejected") == 1)
            await works(operator)
            assert serial_in_use(running.daemon) == first
            second = renew()
            running.daemon._certificates.rotator.wake()
            await eventually(lambda: serial_in_use(running.daemon) == second)
            await works(operator)
            assert faults(running.daemon) == 0


async def test_a_directory_that_is_filled_later_is_adopted_and_left_alone(tmp_path: Path) -> None:
    """A volume that was empty when the delegate started, and may be for reading alone: nothing of ours is added once it has an owner."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "outside.pem"))
    mounted = tmp_path / "mounted"
    async with secured_manager(tmp_path, client_authorities=tmp_path / "outside.pem") as operator:
        settings = secured_settings(operator, await operator.token(), tmp_path, DELEGATE_CERT_DIR=str(mounted))
        async with running_daemon(settings, TestEngine()) as running:
            await running.registered()
            before, serial = sorted(os.listdir(mounted / "generations")), ""
            for _ in range(2):
                leaf = authority.issue_cert("delegates.example")
                (mounted / "tls.key").write_bytes(leaf.private_key_pem.bytes())
                (mounted / "tls.crt").write_bytes(leaf.cert_chain_pems[0].bytes())
                serial = read_certificates(leaf.cert_chain_pems[0].bytes())[0].serial
                running.daemon._certificates.rotator.wake()
                await eventually(lambda serial=serial: serial_in_use(running.daemon) == serial)  # type: ignore[misc]
                await works(operator)
            assert sorted(os.listdir(mounted / "generations")) == before
            assert faults(running.daemon) == 0
        async with running_daemon(settings, TestEngine()) as running:
            await running.registered()
            assert serial_in_use(running.daemon) == serial
            await works(operator)


@pytest.mark.parametrize("ahead", [1200.0, -1200.0])
async def test_a_clock_that_is_wrong_is_named_and_harms_nothing(tmp_path: Path, ahead: float) -> None:
    """Case 03: twenty minutes ahead or behind; certificates are renewed by the manager's time."""
    async with secured_manager(tmp_path) as operator:
        settings = secured_settings(operator, await operator.token(), tmp_path, DELEGATE_ROTATE_INTERVAL="1s")
        async with running_daemon(settings, TestEngine(), clock=ShiftedClock(ahead)) as running:
            await running.registered()
            await eventually(lambda: abs(metric(running.daemon, SKEW) - ahead) < 5)
            await eventually(lambda: rotations(running.daemon, "rotated") >= 2)
            await works(operator)
            assert running.daemon.conditions.report().unready == ()
            assert rotations(running.daemon, "rotated") < 10
            assert faults(running.daemon) == 0


async def test_a_clock_that_jumps_fails_no_call(tmp_path: Path) -> None:
    """An hour ahead, past the end of a certificate of ten minutes, then two back, and right again: work goes on, nothing is refused."""
    clock = ShiftedClock(0.0)
    async with secured_manager(tmp_path) as operator:
        settings = secured_settings(operator, await operator.token(), tmp_path, DELEGATE_ROTATE_INTERVAL="5m")
        async with running_daemon(settings, TestEngine(), clock=clock) as running:
            await running.registered()
            await works(operator)
            for jump, ahead in ((3600.0, 3600.0), (-7200.0, -3600.0), (3600.0, 0.0)):
                clock.jump(jump)
                running.daemon._certificates.rotator.wake()
                await works(operator)
                await eventually(lambda ahead=ahead: abs(metric(running.daemon, SKEW) - ahead) < 5)  # type: ignore[misc]
                await eventually(lambda: running.daemon.conditions.report().unready == ())
            assert rotations(running.daemon, "enrolled") == 1
            assert rotations(running.daemon, "failed") == 0
            assert rotations(running.daemon, "rotated") <= 3
            assert faults(running.daemon) == 0
