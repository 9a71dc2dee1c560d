"""The courier moves every letter to the bucket, whatever stands in the way, and lets none stand in the way of others."""

import asyncio
import contextlib
import hashlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from delegate.daemon.connection.errors import TransportError
from delegate.daemon.deadletters.bucket import Bucket, BucketAddress
from delegate.daemon.deadletters.courier import Courier, CourierHooks, CourierRules, StoredLetter
from delegate.daemon.deadletters.letterbox import DeadLetters
from delegate.daemon.deadletters.rules import BucketRules
from delegate.daemon.deadletters.sealing import read
from delegate.daemon.deadletters.spool import SpoolLimits
from delegate.foundation.lifecycle import Retrying
from tests.daemon.deadletters.conftest import moto_only
from tests.daemon.deadletters.letters import letter, sealed
from tests.daemon.waiting import eventually
from tests.fakes.s3_server import FaultyS3, answered, cut, frozen, slow

QUICK = CourierRules(
    look_seconds=0.05, apart=Retrying(base_seconds=0.02, max_seconds=0.2), together=Retrying(base_seconds=0.02, max_seconds=0.05)
)
SLOW_APART = CourierRules(
    look_seconds=0.05, apart=Retrying(base_seconds=3600, max_seconds=3600), together=Retrying(base_seconds=0.02, max_seconds=0.05)
)


@dataclass
class Desk:
    """A spool, a bucket, and what the courier told."""

    letters: DeadLetters
    bucket: Bucket
    endings: list[str] = field(default_factory=list)
    stored: list[StoredLetter] = field(default_factory=list)
    unknown_to_manager: int = 0

    def courier(self, rules: CourierRules = QUICK, *, bucket: bool = True) -> Courier:
        hooks = CourierHooks(on_stored=self.tell, on_ending=self.endings.append)
        return Courier(self.letters, self.bucket if bucket else None, rules=rules, hooks=hooks, dice=lambda: 0.99)

    async def tell(self, stored: StoredLetter) -> None:
        if self.unknown_to_manager:
            self.unknown_to_manager -= 1
            raise TransportError("the manager is away")
        self.stored.append(stored)

    async def objects(self) -> list[str]:
        found, _ = await self.bucket.list_objects()
        return [each.key for each in found]


@pytest.fixture
async def desk(s3: FaultyS3, address: BucketAddress, tmp_path: Path) -> AsyncIterator[Desk]:
    letters = DeadLetters(tmp_path / "spool")
    letters.open()
    bucket = Bucket(address, rules=BucketRules(read_seconds=2.0))
    yield Desk(letters, bucket)
    await bucket.close()
    await letters.close()


@asynccontextmanager
async def running(courier: Courier) -> AsyncIterator[Courier]:
    task = asyncio.create_task(courier.run())
    try:
        yield courier
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def sent(desk: Desk) -> None:
    await eventually(lambda: desk.letters.entries == 0)


async def test_moves_letters_oldest_first(s3: FaultyS3, desk: Desk) -> None:
    """Those that were there, then those that come; what the bucket has is gone from the disk, and told."""
    for number in (3, 1, 2):
        await desk.letters.put(letter(number))
    async with running(desk.courier(CourierRules(at_once=1))):
        await sent(desk)
        await desk.letters.put(letter(4))
        await sent(desk)

    order = [re.search(r"/t-(\d)/", each.path) for each in s3.puts()]
    assert [each[1] for each in order if each] == ["1", "2", "3", "4"]
    assert desk.endings == ["sent"] * 4
    assert [each.id for each in desk.stored] == [sealed(number)[0].letter.id for number in (1, 2, 3, 4)]
    first, whole = desk.stored[0], sealed(1)[0]
    assert first.url == f"s3://{desk.bucket.address.name}/team/edge/v1/edge-1/2026/03/04/t-1/a-1-{whole.sha256}.json"
    assert (first.sha256, first.size) == (whole.sha256, len(whole.body))
    assert first.letter.payload.content is None
    assert first.letter.task == "t-1"
    assert await desk.bucket.get(first.url.removeprefix(f"s3://{desk.bucket.address.name}/")) == whole.body
    assert s3.puts()[0].headers["x-amz-meta-letter-id"] == first.id


async def test_only_so_many_fly_at_once(s3: FaultyS3, desk: Desk) -> None:
    """Memory and connections are bounded, and used."""
    for number in range(20):
        await desk.letters.put(letter(number))

    async with running(desk.courier(CourierRules(at_once=3))):
        await sent(desk)

    assert s3.worst_at_once <= 3


async def test_a_letter_that_is_refused_stands_in_nobody_s_way(s3: FaultyS3, desk: Desk) -> None:
    """It stays, and is tried again ever more seldom; once it is taken, it is gone."""
    s3.add(answered(400, "InvalidRequest", "not this one"), contains="/t-0/", times=5)
    for number in range(5):
        await desk.letters.put(letter(number))

    async with running(desk.courier()) as courier:
        await sent(desk)
        assert courier.why_kept == ""

    assert desk.endings.count("failed") == 5
    assert desk.endings.index("sent") < 4
    assert desk.endings.count("sent") == 5
    assert desk.endings[-1] == "sent"


async def test_a_refused_letter_is_no_reason_to_stay_up(s3: FaultyS3, desk: Desk) -> None:
    """The end of the process waits for what can be sent, and for no more."""
    s3.add(answered(400, "InvalidRequest", "not this one"), contains="/t-0/", times=1000)
    for number in range(3):
        await desk.letters.put(letter(number))

    async with running(desk.courier(SLOW_APART)) as courier:
        await eventually(lambda: len(desk.endings) == 3)
        assert await courier.wait_until_sent(unusable_seconds=5.0)

    assert desk.letters.entries == 1


async def test_the_end_of_the_process_waits_for_letters_of_the_last_moment(s3: FaultyS3, desk: Desk) -> None:
    """Those that were put just before, too."""
    async with running(desk.courier()) as courier:
        await desk.letters.put(letter(1))
        assert await courier.wait_until_sent(unusable_seconds=5.0)
        assert desk.letters.entries == 0


async def test_a_letter_that_seems_to_be_the_bucket_s_fault_stands_in_nobody_s_way_either(s3: FaultyS3, desk: Desk) -> None:
    """A policy that denies one key looks as if it denied all: the next try is another letter's."""
    s3.add(answered(403, "AccessDenied", "no"), contains="/t-0/", times=1000)
    for number in range(5):
        await desk.letters.put(letter(number))

    async with running(desk.courier(replace(SLOW_APART, at_once=1))):
        await eventually(lambda: desk.letters.entries == 1)

    assert desk.endings.count("sent") == 4


async def test_a_bucket_that_is_away_is_asked_by_one_letter_at_a_time(s3: FaultyS3, desk: Desk) -> None:
    """Not by all of them at full speed. When it is back, all go, however long each had to wait by then."""
    for number in range(30):
        await desk.letters.put(letter(number))
    s3.add(slow(cut), times=10**6)

    async with running(desk.courier(SLOW_APART)) as courier:
        await eventually(lambda: desk.endings.count("failed") >= 8)
        s3.worst_at_once = 0
        await eventually(lambda: desk.endings.count("failed") >= 12)
        assert s3.worst_at_once == 1
        assert "can't be reached" in courier.why_kept
        assert not await courier.wait_until_sent(unusable_seconds=0.05)
        s3.forget()
        await sent(desk)
        assert courier.why_kept == ""
        assert await courier.wait_until_sent(unusable_seconds=5.0)

    assert desk.endings.count("sent") == 30


async def test_asked_to_slow_down_it_waits(s3: FaultyS3, desk: Desk) -> None:
    """For as long as the bucket says, with all letters, those that come meanwhile too."""
    s3.add(answered(503, "SlowDown", "please", headers={"Retry-After": "600"}), times=10)
    await desk.letters.put(letter(0))
    async with running(desk.courier()) as courier:
        await eventually(lambda: desk.endings == ["failed"])
        for number in range(1, 4):
            await desk.letters.put(letter(number))
        for _ in range(3):
            await desk.letters.look_again()
        assert "slow down" in courier.why_kept
    assert len(s3.puts()) == 1


@moto_only
async def test_a_death_after_storing_repeats_what_changes_nothing(s3: FaultyS3, desk: Desk) -> None:
    """The next courier finds the letter in the bucket, and takes it from the disk."""
    await desk.letters.put(letter(1))
    never = asyncio.Event()

    async def hang(stored: StoredLetter) -> None:
        desk.endings.append("stored")
        await never.wait()

    async with running(Courier(desk.letters, desk.bucket, hooks=CourierHooks(on_stored=hang))):
        await eventually(lambda: desk.endings == ["stored"])
    assert desk.letters.entries == 1

    async with running(desk.courier()):
        await sent(desk)

    assert desk.endings == ["stored", "already_there"]
    assert len(await desk.objects()) == 1


@moto_only
async def test_a_letter_leaves_the_disk_only_once_it_is_told(s3: FaultyS3, desk: Desk) -> None:
    """An index that could not be told is told again; the bucket is not asked twice."""
    desk.unknown_to_manager = 3
    await desk.letters.put(letter(1))

    async with running(desk.courier()) as courier:
        await eventually(lambda: desk.unknown_to_manager == 2)
        assert (desk.letters.entries, courier.why_kept) == (1, "the manager is away")
        await sent(desk)

    assert [each.id for each in desk.stored] == [sealed(1)[0].letter.id]
    assert desk.endings == ["sent"]
    assert len(s3.puts()) == 1


async def test_a_manager_that_is_away_holds_up_no_letter(s3: FaultyS3, desk: Desk) -> None:
    """All of them reach the bucket meanwhile; when the first can be told, the others come forward."""
    desk.unknown_to_manager = 10**6
    for number in range(6):
        await desk.letters.put(letter(number))

    async with running(desk.courier()) as courier:
        await eventually(lambda: len(s3.puts()) == 6)
        assert desk.letters.entries == 6
        assert await courier.wait_until_sent(unusable_seconds=10.0)

        desk.unknown_to_manager = 0
        await sent(desk)

    assert len(desk.stored) == len(await desk.objects()) == 6


async def test_a_damaged_letter_is_set_aside_and_told(s3: FaultyS3, desk: Desk) -> None:
    """It is never sent as if it were whole, and stops nobody."""
    for number in range(3):
        await desk.letters.put(letter(number))
    damaged = desk.letters.snapshot()[0]
    (desk.letters.directory / damaged.name).write_bytes(b"{}")

    async with running(desk.courier()):
        await sent(desk)

    assert sorted(desk.endings) == ["damaged", "sent", "sent"]
    assert (desk.letters.directory / "damaged" / damaged.name).read_bytes() == b"{}"
    assert len(s3.puts()) == 2


async def test_a_whole_letter_that_this_version_can_not_read_stays(s3: FaultyS3, desk: Desk) -> None:
    """A newer version wrote it, and may be back."""
    await desk.letters.put(letter(1))
    [entry] = desk.letters.snapshot()
    body = (await desk.letters.load(entry)).replace(b'"encoding":"json"', b'"encoding":"morse"')
    name = entry.name.replace(entry.sha256, hashlib.sha256(body).hexdigest())
    (desk.letters.directory / name).write_bytes(body)
    (desk.letters.directory / entry.name).unlink()
    await desk.letters.look_again()

    async with running(desk.courier(SLOW_APART)):
        await eventually(lambda: desk.endings == ["failed"])

    assert desk.letters.entries == 1
    assert s3.puts() == []


async def test_a_letter_that_was_purged_meanwhile_is_forgotten(s3: FaultyS3, desk: Desk) -> None:
    """Whoever purges letters needs not ask the daemon."""
    await desk.letters.put(letter(1))
    await desk.letters.put(letter(2))
    (desk.letters.directory / desk.letters.snapshot()[0].name).unlink()

    async with running(desk.courier()):
        await sent(desk)

    assert desk.endings == ["sent"]


async def test_letters_of_another_process_are_moved_too(s3: FaultyS3, desk: Desk) -> None:
    """One that shares the directory, or died and left them."""
    async with running(desk.courier()):
        other = DeadLetters(desk.letters.directory)
        other.open()
        await other.put(letter(1))
        await other.close()
        await eventually(lambda: desk.endings == ["sent"])

    assert not list(desk.letters.directory.iterdir())


async def test_without_a_bucket_letters_stay(s3: FaultyS3, desk: Desk) -> None:
    """The manager is told of each once; the reason is part of why there is no room; what a person purges makes room by itself."""
    letters = DeadLetters(desk.letters.directory, limits=SpoolLimits(entries=2))
    letters.open()
    told: list[str] = []

    async def tell(stored: StoredLetter) -> None:
        told.append(stored.url)
        if len(told) == 1:
            raise TransportError("the manager is away")

    async with running(Courier(letters, None, rules=QUICK, hooks=CourierHooks(on_stored=tell))) as courier:
        await letters.put(letter(1))
        await letters.put(letter(2))
        assert letters.is_full().startswith("spool_full: ")
        assert letters.is_full().endswith("(no bucket is set (DLQ_BUCKET), so they stay until they are purged)")
        assert not await courier.wait_until_sent(unusable_seconds=1.0)
        await eventually(lambda: len(told) == 3)
        for path in letters.directory.iterdir():
            path.unlink()
        await eventually(lambda: letters.is_full() == "")
    await letters.close()
    assert s3.seen == []
    assert told == ["", "", ""]


async def test_an_outage_fills_the_spool_and_its_end_empties_it(s3: FaultyS3, desk: Desk) -> None:
    """No task is taken meanwhile, and the words say why; nothing is lost; work goes on by itself."""
    letters = DeadLetters(desk.letters.directory, limits=SpoolLimits(entries=16))
    letters.open()
    desk.letters = letters
    s3.add(answered(503, "ServiceUnavailable", "maintenance"), times=10**6)
    async with running(desk.courier()):
        for number in range(15):
            await letters.put(letter(number))
        await eventually(lambda: "503 ServiceUnavailable" in letters.is_full())
        s3.forget()
        await sent(desk)
        assert letters.is_full() == ""
    await letters.close()
    bodies = [await desk.bucket.get(key) for key in await desk.objects()]
    assert {read(body).id for body in bodies} == {sealed(number)[0].letter.id for number in range(15)}


async def test_a_courier_that_is_started_again_goes_on(s3: FaultyS3, desk: Desk) -> None:
    """The supervisor restarts a part that died: nothing of its old life is in the way."""
    s3.add(frozen, times=1)
    for number in range(3):
        await desk.letters.put(letter(number))
    courier = desk.courier(CourierRules(at_once=1))
    async with running(courier):
        await eventually(s3.puts)
    assert desk.letters.entries == 3

    async with running(courier):
        await sent(desk)

    assert desk.endings == ["sent"] * 3


async def test_large_letters_go_in_pieces(s3: FaultyS3, desk: Desk) -> None:
    """Each is a letter of its own, so that nothing large is held in memory."""
    letters = DeadLetters(desk.letters.directory, piece_bytes=1000)
    letters.open()
    desk.letters = letters
    await letters.put(letter(1, size=4500))
    assert letters.entries == 5

    async with running(desk.courier()):
        await sent(desk)

    assert len(await desk.objects()) == 5
    assert max(len(each.body) for each in s3.puts()) < 2500
    await letters.close()
