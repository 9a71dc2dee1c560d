"""`delegate dlq` shows, checks and purges dead letters, in the spool and in the bucket."""

import asyncio
import datetime as dt
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from delegate.daemon.deadletters.bucket import Bucket, BucketAddress
from delegate.daemon.deadletters.letter import Addressed, Reason, Writer
from delegate.daemon.deadletters.sealing import Sealed, object_key, seal
from delegate.daemon.deadletters.spool import Spool
from delegate.foundation.redaction import KnownSecrets
from tests.cli.programs import Ended, run
from tests.fakes.s3_server import s3_server

WRITER = Writer(delegate="edge-1")
NOW = dt.datetime.now(dt.UTC)


def sealed(
    task: str, application: str = "shop", *, reason: Reason = Reason.INVALID, hours: float = 0.0, size: int = 0
) -> tuple[Sealed, ...]:
    result = {"task": task, "attempt": f"{task}-1", "application": application, "kind": "sync", "outcome": "failed", "message": "x" * size}
    written = WRITER.of_result(result, reason, Addressed(), created=NOW - dt.timedelta(hours=hours), message="the manager said no")
    return seal(written, known=KnownSecrets(), piece_bytes=1000)


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    """Four letters: two old ones, one in pieces."""
    spool = Spool(tmp_path / "dlq")
    spool.open()
    spool.put(sealed("old", hours=30))
    spool.put(sealed("older", "blog", reason=Reason.CONFLICT, hours=50))
    spool.put(sealed("new", reason=Reason.SUPERSEDED))
    spool.put(sealed("large", size=2500))
    return spool


def dlq(spool: Spool, *arguments: str) -> Ended:
    return run("dlq", *arguments, env={"DELEGATE_DLQ_DIR": str(spool.directory)})


def tasks(ended: Ended) -> list[str]:
    return [each["task"] for each in ended.document["letters"]]


def test_lists_letters_oldest_first(spool: Spool) -> None:
    """For people as a table, for programs with everything but the payload."""
    table, document = dlq(spool, "list"), dlq(spool, "list", "-o", "json")

    assert table.code == 0
    lines = [line.split() for line in table.stdout.splitlines()]
    assert lines[0] == ["LETTER", "REASON", "APPLICATION", "TASK", "OUTCOME", "AGE", "BYTES", "PART"]
    assert [line[1:4] for line in lines[1:3]] == [["conflict", "blog", "older"], ["invalid", "shop", "old"]]
    assert tasks(document)[:2] == ["older", "old"]
    assert sorted(tasks(document)[2:]) == ["large", "large", "large", "new"]
    first = document.document["letters"][0]
    assert (first["reason"], first["application"], first["message"]) == ("conflict", "blog", "the manager said no")
    assert 50 * 3600 <= first["ageSeconds"] < 51 * 3600


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--reason", "conflict"], {"older"}),
        (["--reason", "conflict", "--reason", "superseded"], {"older", "new"}),
        (["--app", "shop"], {"old", "new", "large"}),
        (["--older-than", "24h"], {"older", "old"}),
        (["--older-than", "24h", "--app", "shop"], {"old"}),
        (["--task", "nobody"], set()),
    ],
)
def test_chooses_letters(spool: Spool, options: list[str], expected: set[str]) -> None:
    """All that is given has to fit."""
    assert set(tasks(dlq(spool, "list", "-o", "json", *options))) == expected


def test_shows_a_letter_by_the_beginning_of_its_id(spool: Spool) -> None:
    """With what it holds and why nobody took it."""
    [letter] = sealed("older", "blog", reason=Reason.CONFLICT, hours=50)

    words, document = dlq(spool, "show", letter.letter.id[:10]), dlq(spool, "show", letter.letter.id, "-o", "json")

    assert document.document == json.loads(letter.body)
    assert words.code == 0
    assert "reason: conflict" in words.stdout.splitlines()
    assert '  "application": "blog",' in words.stdout.splitlines()


def test_shows_a_letter_in_pieces_as_one(spool: Spool) -> None:
    """By the id of the whole or of any piece; a missing piece is told."""
    pieces = sealed("large", size=2500)
    part = pieces[0].letter.part
    assert part is not None

    for name in (part.letter, pieces[1].letter.id):
        shown = dlq(spool, "show", name, "-o", "json").document
        assert shown["payload"]["content"]["message"] == "x" * 2500
        assert (shown["id"], shown["part"]) == (part.letter, None)

    spool.remove(next(entry for entry in spool.snapshot() if entry.id == pieces[2].letter.id))
    missing = dlq(spool, "show", part.letter)
    assert missing.code == 1
    assert "of the 3 pieces" in missing.stderr


def test_a_letter_that_is_not_there_is_wrong_input(spool: Spool) -> None:
    """Exit code 2 and a hint to where it may be."""
    ended = dlq(spool, "show", "ffffffffffff")

    assert (ended.code, ended.stdout) == (2, "")
    assert "--bucket" in ended.stderr


def test_verify_finds_every_damaged_byte(spool: Spool) -> None:
    """Exit code 1, the file named, nothing changed; files that were set aside count too, others don't."""
    sound = dlq(spool, "verify")
    assert (sound.code, "6 letters" in sound.stdout) == (0, True)
    path = spool.directory / spool.snapshot()[0].name
    path.write_bytes(path.read_bytes().replace(b"blog", b"bleg"))
    (spool.directory / "damaged").mkdir()
    (spool.directory / "damaged" / "gone.json").write_text("")
    (spool.directory / "notes.txt").write_text("mine")

    words, document = dlq(spool, "verify"), dlq(spool, "verify", "-o", "json")

    assert (words.code, document.code) == (1, 1)
    assert document.document["sound"] is False
    assert [each.split(":")[0] for each in document.document["damaged"]] == [path.name, "damaged/gone.json"]
    assert document.document["foreign"] == ["notes.txt"]
    assert path.exists()
    assert f"  damaged: {path.name}: its bytes are not those that its name tells" in words.stdout.splitlines()
    assert "damaged" in dlq(spool, "list").stdout


def test_purges_what_is_chosen(spool: Spool) -> None:
    """A dry run says what would go; then it goes, and nothing else."""
    dry = dlq(spool, "purge", "--app", "shop", "--older-than", "1h", "--dry-run", "-o", "json")
    assert (tasks(dry), dry.document["dryRun"]) == (["old"], True)
    assert len(list(spool.directory.iterdir())) == 6

    purged = dlq(spool, "purge", "--app", "shop", "--older-than", "1h")

    assert (purged.code, purged.stdout) == (0, f"purged 1 letters, {dry.document['size']} bytes\n")
    assert "old" not in tasks(dlq(spool, "list", "-o", "json"))
    [letter] = sealed("older", "blog", reason=Reason.CONFLICT, hours=50)
    assert dlq(spool, "purge", letter.letter.id[:8]).code == 0
    assert len(list(spool.directory.iterdir())) == 4
    assert dlq(spool, "purge", "--all").code == 0
    assert dlq(spool, "list").stdout == "no dead letters\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "nothing says which letters to purge"),
        (["--all", "--app", "shop"], "exclude each other"),
        (["abc"], "at least 6 characters"),
        (["--older-than", "soon"], "--older-than"),
        (["--reason", "bored"], "bored"),
    ],
)
def test_purging_takes_no_vague_orders(spool: Spool, arguments: list[str], words: str) -> None:
    """Exit code 2, and everything is still there."""
    ended = dlq(spool, "purge", *arguments)

    assert ended.code == 2
    assert words in ended.stderr
    assert len(list(spool.directory.iterdir())) == 6


def test_purges_what_was_set_aside_only_when_told(spool: Spool) -> None:
    """Damaged files are evidence: `--all` leaves them."""
    aside = spool.directory / "damaged" / "torn.json"
    aside.parent.mkdir()
    aside.write_text("torn")

    dlq(spool, "purge", "--all")
    assert aside.exists()

    ended = dlq(spool, "purge", "--damaged", "-o", "json")
    assert (ended.document["damagedFiles"], aside.exists()) == (["torn.json"], False)


def test_a_spool_that_was_never_used_is_empty(tmp_path: Path) -> None:
    """And nothing is made by looking."""
    for command in (["list"], ["verify"], ["purge", "--all"]):
        assert run("dlq", *command, env={"DELEGATE_DLQ_DIR": str(tmp_path / "none")}).code == 0
    assert not (tmp_path / "none").exists()


@pytest.fixture(scope="module")
def bucket() -> Iterator[dict[str, str]]:
    """The environment that leads to a bucket with two letters, one of them in pieces."""
    with s3_server() as address, pytest.MonkeyPatch.context() as patch:
        settings = {
            "AWS_ENDPOINT_URL": address,
            "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
            "AWS_SECRET_ACCESS_KEY": "a-secret-key",
            "AWS_EC2_METADATA_DISABLED": "true",
            "DLQ_BUCKET": "s3://dlq/team",
        }
        for name, value in settings.items():
            patch.setenv(name, value)
        request = urllib.request.Request(f"{address}/dlq", method="PUT")
        with urllib.request.urlopen(request, timeout=10):
            pass

        async def fill() -> None:
            bucket = Bucket(BucketAddress("dlq", "team"))
            for letter in (*sealed("old", hours=30), *sealed("large", size=2500)):
                key = bucket.address.key(object_key(letter.letter, letter.sha256))
                await bucket.put(key, letter.body, sha256=letter.sha256)
            await bucket.close()

        asyncio.run(fill())
        yield settings


def test_lists_and_verifies_the_bucket(bucket: dict[str, str]) -> None:
    """By key; each object is compared with the digest in its key."""
    listed = run("dlq", "list", "--bucket", "-o", "json", env=bucket)
    assert (listed.code, sorted(tasks(listed)), listed.document["more"]) == (0, ["large", "large", "large", "old"], False)
    few = run("dlq", "list", "--bucket", "--most", "1", "--prefix", "edge-1/", env=bucket)
    assert few.stdout.splitlines()[1].split()[:1] == ["edge-1"]
    assert "more than 1" in few.stderr

    verified = run("dlq", "verify", "--bucket", "-o", "json", env=bucket)
    assert (verified.code, verified.document) == (0, {"letters": 4, "wrong": [], "more": False, "sound": True})


def test_shows_a_letter_of_the_bucket(bucket: dict[str, str]) -> None:
    """By its URL; one in pieces whole, by the URL of any piece."""
    rows = run("dlq", "list", "--bucket", "-o", "json", env=bucket).document["letters"]
    large = [row["url"] for row in rows if row["task"] == "large"]

    shown = run("dlq", "show", large[1], "-o", "json", env=bucket)

    assert shown.document["payload"]["content"]["message"] == "x" * 2500


def test_verify_finds_a_changed_object(bucket: dict[str, str]) -> None:
    """Exit code 1 and the URL."""
    key = f"team/v1/edge-1/2026/01/01/t/a-{'0' * 64}.json"
    request = urllib.request.Request(f"{bucket['AWS_ENDPOINT_URL']}/dlq/{key}", method="PUT", data=b"{}")
    with urllib.request.urlopen(request, timeout=10):
        pass

    verified = run("dlq", "verify", "--bucket", "--prefix", "edge-1/2026/01/01", env=bucket)

    assert verified.code == 1
    assert f"  damaged: s3://dlq/{key}: its bytes are not those that its key names" in verified.stdout.splitlines()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["list", "--bucket", "--app", "shop"], 2, "--prefix"),
        (["show", "s3://dlq/team/nothing"], 2, "no dead letter"),
        (["show", f"s3://dlq/team/v1/edge-1/2026/01/02/t/a-{'0' * 64}.json"], 2, "nothing is stored"),
    ],
)
def test_faults_about_the_bucket_have_words(bucket: dict[str, str], arguments: list[str], code: int, words: str) -> None:
    """And the exit code of wrong input."""
    ended = run("dlq", *arguments, env=bucket)

    assert ended.code == code
    assert words in ended.stderr


def test_a_bucket_that_is_not_set_is_told() -> None:
    """With the variable."""
    ended = run("dlq", "list", "--bucket")

    assert ended.code == 2
    assert "DLQ_BUCKET" in ended.stderr
