"""`delegate outbox` shows what is owed and finds every damage, without changing anything."""

import asyncio
import json
from pathlib import Path

import pytest

from delegate.cli.program import run_program
from delegate.daemon.connection.journal import Began, Kept
from delegate.daemon.connection.outbox import Outbox
from delegate.protocol.codec import result_digest
from delegate.protocol.work import ResultItem


def fill(state: Path) -> None:
    async def keep() -> None:
        outbox = Outbox(state / "outbox", "dead")
        outbox.open()
        outbox.began(Began("lost", "t-0", 1, "sync", "shop"))
        for attempt in ("a", "b", "c"):
            result = {"outcome": "succeeded", "attempt": attempt}
            item = ResultItem(
                attempt_id=attempt, task_id="t-1", fence=1, attempt_token="dgx_secret", digest=result_digest(result), result=result
            )
            await outbox.keep(Kept(item, "sync", "shop", "succeeded", "2026-01-01T00:00:00+00:00"))
        await outbox.close()

    asyncio.run(keep())


def run(capsys: pytest.CaptureFixture[str], state: Path, *arguments: str) -> tuple[int, str]:
    code = run_program(["outbox", *arguments, "--state-dir", str(state)])
    return code, capsys.readouterr().out


def test_lists_what_is_owed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Results with their outcome, and attempts whose process is gone; no token is shown."""
    fill(tmp_path)

    code, text = run(capsys, tmp_path, "list")

    assert code == 0
    assert [line.split()[:2] for line in text.splitlines()[1:]] == [["lost", "lost"], ["a", "result"], ["b", "result"], ["c", "result"]]
    assert "dgx_secret" not in text


def test_lists_as_one_json_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The document names attempt, task, state and age."""
    fill(tmp_path)

    code, text = run(capsys, tmp_path, "list", "-o", "json")

    entries = json.loads(text)["entries"]
    assert code == 0
    assert [(each["attempt"], each["state"], each["outcome"]) for each in entries[:2]] == [
        ("lost", "lost", ""),
        ("a", "result", "succeeded"),
    ]
    assert entries[1]["ageSeconds"] > 0


def test_an_empty_outbox_owes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where the directory is not there yet."""
    assert run(capsys, tmp_path / "new", "list") == (0, "nothing is owed to the manager\n")
    assert run(capsys, tmp_path / "new", "verify")[0] == 0


def test_verify_finds_a_sound_outbox_sound(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A torn end was never promised, so it is no damage; the file is as it was."""
    fill(tmp_path)
    journal = tmp_path / "outbox" / "dead.journal"
    journal.write_bytes(journal.read_bytes() + b"0000dead {")
    before = journal.read_bytes()

    code, text = run(capsys, tmp_path, "verify")

    assert code == 0
    assert "4 records, 3 results, 10 bytes of a torn end" in text
    assert journal.read_bytes() == before


def test_verify_finds_damage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A record that rotted makes it end with 1, and is named with its place."""
    fill(tmp_path)
    journal = tmp_path / "outbox" / "dead.journal"
    data = bytearray(journal.read_bytes())
    data[data.index(b'"b"')] ^= 1
    journal.write_bytes(data)

    code, text = run(capsys, tmp_path, "verify")
    document_code, document = run(capsys, tmp_path, "verify", "-o", "json")

    assert (code, document_code) == (1, 1)
    assert "the checksum does not fit" in text
    assert json.loads(document)["sound"] is False
