"""The rotator: when it renews, and that nothing that goes wrong leaves the delegate without what worked."""

import asyncio
import datetime as dt
import errno
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from delegate.daemon.directories import StateDirectoryError
from delegate.daemon.identity.errors import RenewalFailedError, RenewalRefusedError, TrialError, UnsupportedError
from delegate.daemon.identity.generations import Generations
from delegate.daemon.identity.holder import Issued
from delegate.foundation.errors import DelegateError
from delegate.protocol.pki.certificates import read_certificates
from tests.daemon.identity.disks import FailingDisk, calls_of
from tests.daemon.identity.issuers import Bench, bench
from tests.daemon.waiting import eventually
from tests.protocol.pki.authorities import authority, material


async def started(directory: Path, **options: object) -> Bench:
    """One that has its first certificate."""
    made = bench(directory, **options)  # type: ignore[arg-type]
    made.rotator.load()
    await made.look()
    assert made.outcomes == ["rotated"]
    return made


async def test_the_first_certificate_is_asked_for_once_the_manager_knows_the_delegate(tmp_path: Path) -> None:
    """Not before: nobody could be asked."""
    known = [False]
    made = bench(tmp_path, enrolled=lambda: known[0])
    made.rotator.load()

    await made.look()
    assert made.issuer.requests == []
    known[0] = True
    await made.look()

    assert made.shown == ["", made.serial]
    assert made.serial_on_disk() == made.serial


async def test_it_renews_at_half_life_and_asks_for_twice_the_interval(tmp_path: Path) -> None:
    """Not before; and with a new key and the proof of the old one."""
    made = await started(tmp_path, interval=50.0)
    first = made.holder.certificate
    assert first is not None
    assert first.life == dt.timedelta(seconds=100)

    made.clock.seconds += 49.0
    await made.look()
    assert made.serial == first.serial
    made.clock.seconds += 1.5
    await made.look()

    assert made.serial != first.serial
    assert made.holder.certificate is not None
    assert made.holder.certificate.key_fingerprint != first.key_fingerprint
    assert (made.outcomes, made.issuer.proved) == (["rotated", "rotated"], 1)
    assert made.serial_on_disk() == made.serial == made.shown[-1]


@pytest.mark.parametrize(("dice", "renewed_at"), [(0.0, 41.0), (0.999, 61.0)])
async def test_jitter_spreads_renewals_over_a_fifth_of_the_life(tmp_path: Path, dice: float, renewed_at: float) -> None:
    """A tenth earlier or later."""
    made = await started(tmp_path, dice=lambda: dice)
    first = made.serial

    made.clock.seconds += renewed_at - 2
    await made.look()
    assert made.serial == first
    made.clock.seconds += 2
    await made.look()
    assert made.serial != first


async def test_a_suspended_machine_notices_when_it_wakes(tmp_path: Path) -> None:
    """Case 04: the time of day went on while no sleep did; it is read every few seconds, and what ended is renewed by its proof."""
    made = await started(tmp_path, interval=300.0)
    first = made.serial
    made.clock.allowed = asyncio.Semaphore(0)
    running = asyncio.create_task(made.rotator.run())
    slept = len(made.clock.slept)
    made.clock.jump(3600)
    while made.serial == first and sum(made.clock.slept[slept:]) < 30:
        made.clock.allowed.release()
        await eventually(lambda: made.clock.allowed is not None and made.clock.allowed.locked(), every=0.001)
    await eventually(lambda: made.serial != first)
    running.cancel()

    assert made.shown[-2:] == ["", made.serial]
    assert made.issuer.enrolments == []


async def test_after_the_end_it_enrols_again_where_a_renewal_is_refused(tmp_path: Path) -> None:
    """The bootstrap token is the last resort; meanwhile nothing that ended is shown, and readiness says what to do."""
    made = await started(tmp_path)
    made.clock.jump(1000)
    made.issuer.faults = [RenewalFailedError("no way"), RenewalRefusedError("too long ago")]

    await made.look()
    assert made.rotator.reason().startswith(
        "certificate_expired: the certificate ended at 1970-01-01T00:18:20Z: no way; run `delegate certs"
    )
    assert made.shown[-1] == ""
    made.clock.seconds += 60
    await made.look()

    assert made.outcomes == ["rotated", "failed", "enrolled"]
    assert len(made.issuer.enrolments) == 1
    assert made.rotator.reason() == ""
    assert made.shown[-1] == made.serial


async def test_a_lost_answer_is_asked_for_again(tmp_path: Path) -> None:
    """Case 05: with the same request, so that it is the same certificate."""
    made = await started(tmp_path)
    made.issuer.lose_answers = 2
    made.clock.seconds += 55

    for _ in range(3):
        await made.look()
        made.clock.seconds += 5

    assert made.outcomes == ["rotated", "failed", "failed", "rotated"]
    assert len(set(made.issuer.requests[1:])) == 1
    assert len(made.issuer.issued) == 2


async def test_waits_between_tries_fit_into_what_is_left_of_the_life(tmp_path: Path) -> None:
    """Full jitter up to a twentieth of the life: a certificate of 100 s is tried for dozens of times before it ends."""
    made = await started(tmp_path, dice=lambda: 0.9)
    made.issuer.faults = [RenewalFailedError("away")] * 1000
    made.clock.seconds += 60
    tried = len(made.issuer.requests)
    for _ in range(60):
        await made.look()
        made.clock.seconds += 0.5

    assert 5 < len(made.issuer.requests) - tried < 20


async def test_age_is_told_at_two_thirds_and_nine_tenths(tmp_path: Path) -> None:
    """Once each, with why; readiness goes at nine tenths."""
    made = await started(tmp_path)
    made.issuer.faults = [RenewalFailedError("the manager is away")] * 1000
    with capture_logs() as logs:
        for _ in range(110):
            made.clock.seconds += 1
            await made.look()
            if made.clock.seconds in (1085.0, 1095.0):
                assert bool(made.rotator.reason()) == (made.clock.seconds == 1095.0)

    told = [(each["event"], each["log_level"]) for each in logs if each["event"].startswith("identity.certificate_")]
    assert told == [
        ("identity.certificate_ageing", "warning"),
        ("identity.certificate_degraded", "error"),
        ("identity.certificate_expired", "error"),
    ]
    assert all(each["error"] == "the manager is away" for each in logs if each["event"].startswith("identity.certificate_"))
    assert len([each for each in logs if each["event"] == "identity.rotation_failed"]) == 1


async def test_a_certificate_that_can_t_be_tried_out_never_becomes_current(tmp_path: Path) -> None:
    """The old one stays, on disk and in use, and nothing of the other lies around."""
    made = await started(tmp_path)
    first = made.serial
    made.issuer.trial_faults = [TrialError("no handshake")]
    made.clock.seconds += 55

    await made.look()
    assert made.serial == made.serial_on_disk() == made.shown[-1] == first
    assert len(list((tmp_path / "own" / "generations").iterdir())) == 1
    made.clock.seconds += 5
    await made.look()

    assert made.serial != first
    assert len(made.issuer.issued) == 2


@pytest.mark.parametrize("wrong", ["another key", "no certificate", "another authority", "out of date"])
async def test_an_answer_that_does_not_fit_changes_nothing(tmp_path: Path, wrong: str) -> None:
    """Whoever answered so, the old certificate stays."""
    made = await started(tmp_path)
    first = made.serial
    csr = made.holder.request()
    good = made.issuer.issue(csr, 100.0)
    stranger = material(authority(), at=made.clock.now())
    answers = {
        "another key": Issued(stranger.pair.chain_pem(), stranger.authorities.to_pem()),
        "no certificate": Issued("-----BEGIN NOTHING-----", good.authorities),
        "another authority": Issued(good.certificate, stranger.authorities.to_pem()),
        "out of date": good,
    }
    if wrong == "out of date":
        made.clock.seconds += 101

    with pytest.raises(DelegateError):
        await made.holder.accept(answers[wrong], "rotated")

    assert made.serial == made.serial_on_disk() == first


async def test_a_disk_fault_at_any_call_keeps_a_working_identity(tmp_path: Path) -> None:
    """In memory and on disk alike; and the next rotation works."""
    material_of = material(authority())
    calls = calls_of(lambda disk: Generations(tmp_path / "dry", disk).activate(Generations(tmp_path / "dry", disk).write(material_of)))
    for fails_at in range(1, calls + 1):
        made = await started(tmp_path / str(fails_at))
        first = made.serial
        made.holder.generations = Generations(tmp_path / str(fails_at) / "own", FailingDisk(fails_at, errno.ENOSPC))
        try:
            await made.rotator.rotate()
        except StateDirectoryError:
            assert made.serial == first
        assert made.serial_on_disk() in {made.serial, _serial_of_last(made)}
        made.holder.generations = Generations(tmp_path / str(fails_at) / "own")
        await made.look()
        await made.rotator.rotate()
        assert made.serial_on_disk() == made.serial == made.shown[-1] != first


def _serial_of_last(made: Bench) -> str:
    return read_certificates(list(made.issuer.issued.values())[-1].certificate)[0].serial


async def test_a_refused_certificate_is_replaced_at_once(tmp_path: Path) -> None:
    """By enrolling, when the proof of a refused one is refused too; and it is not shown meanwhile."""
    made = await started(tmp_path)
    made.issuer.faults = [RenewalRefusedError("revoked")]

    made.rotator.refuse("the certificate was revoked")
    assert made.rotator.reason().startswith("certificate_refused: the certificate was revoked")
    await made.look()

    assert made.outcomes == ["rotated", "enrolled"]
    assert made.shown[-2:] == ["", made.serial]
    assert made.rotator.reason() == ""


async def test_a_manager_that_gives_no_certificates_is_no_fault(tmp_path: Path) -> None:
    """An older one: nothing is counted as failed, and it is asked again much later."""
    made = bench(tmp_path)
    made.rotator.load()
    made.issuer.faults = [UnsupportedError("not there")] * 3
    for _ in range(100):
        try:
            await made.rotator._look()
        except UnsupportedError as error:
            made.rotator._fail(error)
        made.clock.seconds += 1

    assert (made.outcomes, made.rotator.reason(), len(made.issuer.requests)) == ([], "", 1)


async def test_a_wrong_clock_neither_misses_nor_hurries_a_renewal(tmp_path: Path) -> None:
    """Case 03: two hours ahead or behind, it goes by the manager's time, as far as that is known."""
    for ahead in (7200.0, -7200.0):
        known = [0.0]
        made = await started(tmp_path / str(ahead), clock_error=lambda known=known: known[0])
        made.clock.ahead = known[0] = ahead
        first = made.serial

        assert made.rotator.reason() == ""
        await made.look()
        assert made.serial == first
        made.clock.seconds += 51
        await made.look()
        assert made.serial != first


async def test_what_another_process_switched_to_is_taken_over(tmp_path: Path) -> None:
    """`delegate certs rotate` beside a running daemon."""
    made = await started(tmp_path)
    other = Generations(tmp_path / "own")
    theirs = material(made.issuer.signer, at=made.clock.now())
    other.activate(other.write(theirs))

    await made.look()

    assert made.serial == theirs.certificate.serial == made.shown[-1]
    assert made.outcomes == ["rotated", "adopted"]


@pytest.mark.parametrize("restarted", [False, True], ids=["running", "restarted"])
async def test_a_damaged_generation_stands_in_the_way_of_no_renewal(tmp_path: Path, restarted: bool) -> None:
    """Somebody, or a disk, spoiled what is the current one: it is told once, and the certificate in use is renewed in time."""
    made = await started(tmp_path)
    before = made.serial
    other = Generations(tmp_path / "own")
    broken = other.write(material(made.issuer.signer, at=made.clock.now()))
    other.activate(broken)
    (broken.directory / "tls.key").write_bytes(b"")
    if restarted:
        made = bench(tmp_path)
        made.rotator.load()

    with capture_logs() as logs:
        for _ in range(3):
            await made.look()
        assert made.serial == before
        made.clock.seconds += 60.0
        await made.look()

    assert made.serial == made.serial_on_disk() != before
    assert made.outcomes[-2:] == ["rejected", "rotated"]
    assert [line["event"] for line in logs].count("identity.generation_damaged") == 1


async def test_a_restart_goes_on_with_what_is_on_disk(tmp_path: Path) -> None:
    """And asks for nothing before its time."""
    made = await started(tmp_path)
    again = bench(tmp_path)
    again.rotator.load()
    await again.look()

    assert again.serial == made.serial
    assert (again.issuer.requests, again.outcomes) == ([], [])


async def test_a_restart_after_the_end_shows_nothing_and_recovers(tmp_path: Path) -> None:
    """An ended certificate would break every handshake."""
    await started(tmp_path)
    again = bench(tmp_path)
    again.clock.jump(1000)
    again.rotator.load()
    assert again.shown == [""]

    await again.look()

    assert again.shown[-1] == again.serial
