"""`delegate certs`: what is shown, from disk alone, and rotations beside a daemon that runs."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from delegate.cli.program import run_program
from delegate.daemon.identity.generations import Generations
from delegate.protocol.pki.issuing import DELEGATE_NAME
from tests.protocol.pki.authorities import authority, material

NOW = dt.datetime.now(dt.UTC).replace(microsecond=0)
SIGNER = authority(at=NOW)


def run(capsys: pytest.CaptureFixture[str], state: Path, *arguments: str) -> tuple[int, str, str]:
    code = run_program(["certs", *arguments, "--state-dir", str(state)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def kept(state: Path, count: int = 1) -> str:
    """The serial of the last of so many certificates."""
    generations, serial = Generations(state / "certs"), ""
    for number in range(count):
        new = generations.write(material(SIGNER, f"d-{number}", at=NOW))
        generations.activate(new)
        serial = new.material.certificate.serial
    return serial


def shown(text: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(text)
    return document


def test_shows_the_certificate_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What it is, whose, until when, and when it is renewed; never the key."""
    serial = kept(tmp_path)

    code, text, _ = run(capsys, tmp_path, "show")

    assert code == 0
    rows = dict(line.split(None, 1) for line in text.splitlines())
    assert rows["serial"] == serial
    assert rows["directory"] == f"{tmp_path / 'certs'}, generation 1"
    assert rows["health"] == "good"
    assert "left)" in rows["ends"]
    assert "PRIVATE" not in text


def test_shows_it_as_one_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the authorities that came along; fingerprints whole."""
    serial = kept(tmp_path, 2)

    code, text, _ = run(capsys, tmp_path, "show", "-o", "json")

    document = shown(text)
    assert code == 0
    assert (document["usable"], document["outside"], document["generation"]) == (True, False, 2)
    certificate = document["certificate"]
    assert certificate["serial"] == serial
    assert certificate["names"] == [f"{DELEGATE_NAME}d-1"]
    assert certificate["secondsLeft"] > 0
    assert dt.datetime.fromisoformat(certificate["endsAt"]) > dt.datetime.fromisoformat(certificate["renewedFrom"])
    assert [each["fingerprint"] for each in document["authorities"]] == [SIGNER.certificate.fingerprint]
    assert document["damages"] == []


def test_no_certificate_is_told_and_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """1, so that a script notices."""
    code, text, _ = run(capsys, tmp_path, "show")
    assert (code, "there is no certificate yet" in text) == (1, True)
    code, text, _ = run(capsys, tmp_path, "show", "-o", "json")
    assert (code, shown(text)["certificate"], shown(text)["usable"]) == (1, None, False)
    assert not (tmp_path / "certs").exists()


def test_damage_is_named_with_what_is_used_instead(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The newest whole one is what the delegate starts with."""
    kept(tmp_path, 2)
    (tmp_path / "certs" / "generations" / "2" / "tls.key").write_bytes(b"")

    code, text, _ = run(capsys, tmp_path, "show", "-o", "json")

    document = shown(text)
    assert (code, document["generation"]) == (0, 1)
    assert "generation 2 can't be used" in document["reason"]
    assert len(document["damages"]) == 1
    (tmp_path / "certs" / "generations" / "1" / "tls.crt").unlink()
    code, text, _ = run(capsys, tmp_path, "show")
    assert code == 1
    assert text.count("damaged: ") == 2


def test_an_ended_certificate_is_shown_and_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the time of its end."""
    past = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    generations = Generations(tmp_path / "certs")
    generations.activate(generations.write(material(SIGNER, "d-1", at=past, life=dt.timedelta(days=2))))

    code, text, _ = run(capsys, tmp_path, "show")

    assert code == 1
    assert "it ended at 2020-01-03T00:00:00Z" in text
    assert "expired" in text


def test_a_directory_of_somebody_else_s_is_shown_as_such(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever writes it renews it; half a pair is named, and what is used meanwhile."""
    directory, pair = tmp_path / "mounted", material(SIGNER, "d-1", at=NOW).pair
    directory.mkdir()
    (directory / "tls.key").write_bytes(pair.key.to_pem())
    (directory / "tls.crt").write_text(pair.chain_pem())
    arguments = ("--cert-dir", str(directory))

    code, text, _ = run(capsys, tmp_path, "show", *arguments)
    assert (code, "which somebody else writes" in text) == (0, True)

    (directory / "tls.key").write_bytes(material(SIGNER, "d-2", at=NOW).pair.key.to_pem())
    code, text, _ = run(capsys, tmp_path, "show", *arguments)
    assert (code, "older than the other" in text or "is not the one of the certificate" in text) == (1, True)


@pytest.mark.parametrize("prepared", [False, True], ids=["no state", "never enrolled"])
def test_a_rotation_without_a_delegate_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str], prepared: bool) -> None:
    """It names the directory, and what brings a first certificate."""
    if prepared:
        (tmp_path / "identity.json").write_text('{"instance": "i-1"}')

    code, _, errors = run(capsys, tmp_path, "rotate", "--manager-url", "http://127.0.0.1:1")

    assert code == 2
    assert f"no delegate has enrolled with the state directory {tmp_path}" in errors
    assert "`delegate run`" in errors


def test_a_rotation_that_fails_keeps_what_there_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """1, with the hop that failed; the certificate and its generation are as before."""
    serial = kept(tmp_path)
    (tmp_path / "identity.json").write_text('{"instance": "i-1", "delegateId": "d-1", "refreshToken": "dgr_x"}')

    code, text, _ = run(capsys, tmp_path, "rotate", "--manager-url", "http://127.0.0.1:1", "-o", "json")

    assert code == 1
    assert "127.0.0.1:1" in shown(text)["error"]["message"]
    code, text, _ = run(capsys, tmp_path, "show", "-o", "json")
    assert shown(text)["certificate"]["serial"] == serial
