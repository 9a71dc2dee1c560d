"""A letter says what it holds and why nobody takes it, and is the same letter however often it is written."""

import base64
import datetime as dt
import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegate import __version__
from delegate.daemon.deadletters.errors import LetterDamagedError
from delegate.daemon.deadletters.letter import Addressed, Encoding, Letter, Reason, error_chain, task_payload
from delegate.daemon.deadletters.sealing import join, object_key, plain, read, seal
from delegate.foundation.errors import DelegateError, ErrorGroup
from delegate.foundation.redaction import KnownSecrets
from delegate.foundation.telemetry.metrics import DEAD_LETTER_REASONS
from delegate.model.resources import JsonObject
from delegate.protocol.work import ResultVerdict
from tests.daemon.deadletters.letters import BEGINNING, WRITER, letter

NOBODY = KnownSecrets()
# Words that no pattern takes for a secret.
plain_text = st.text(st.sampled_from("abc äöü€😀\n\\/{}[]0123"), max_size=30)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | plain_text,
    lambda children: st.lists(children, max_size=4) | st.dictionaries(plain_text, children, max_size=4),
    max_leaves=12,
)
results = st.dictionaries(plain_text, json_values, max_size=6)


def test_the_reasons_are_those_that_metrics_begin_at_zero_with() -> None:
    """An alert on a reason sees its first letter as an increase."""
    assert tuple(Reason) == DEAD_LETTER_REASONS


@pytest.mark.parametrize(
    ("verdict", "reason"),
    [
        (ResultVerdict.LEASE_LOST, Reason.SUPERSEDED),
        (ResultVerdict.CONFLICT, Reason.CONFLICT),
        (ResultVerdict.INVALID, Reason.INVALID),
        ("word of a later manager", Reason.INVALID),
    ],
)
def test_each_final_verdict_has_a_reason(verdict: str, reason: Reason) -> None:
    """Whatever the manager says for good about a result tells why its letter is dead."""
    assert Reason.of_verdict(verdict) is reason


def test_says_who_what_and_why() -> None:
    """The document answers the questions of whoever opens it without another tool."""
    error = DelegateError("the manager said no", hint="ask it why", code="connection.invalid")
    result: JsonObject = {"task": "t", "attempt": "a", "kind": "sync", "application": "shop", "cluster": "uid-1", "outcome": "failed"}
    about = Addressed(fence=7, traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
    written = WRITER.of_result(result, Reason.INVALID, about, created=BEGINNING, message="422", errors=error_chain(error), attempts=3)

    [sealed] = seal(written, known=NOBODY)

    document = json.loads(sealed.body)
    assert document["id"] == sealed.letter.id
    del document["id"], document["versions"]["python"]
    assert document == {
        "format": 1,
        "reason": "invalid",
        "message": "422",
        "created": "2026-03-04T05:06:07.000089Z",
        "delegate": "edge-1",
        "task": "t",
        "attempt": "a",
        "fence": 7,
        "kind": "sync",
        "application": "shop",
        "cluster": "uid-1",
        "outcome": "failed",
        "attempts": 3,
        "errors": [
            {
                "code": "connection.invalid",
                "category": "internal",
                "message": "the manager said no",
                "hint": "ask it why",
                "retryable": False,
                "file": "",
                "line": None,
                "object": "",
            }
        ],
        "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "versions": {"delegate": __version__, "protocol": "1"},
        "redaction": {"masked": 0},
        "part": None,
        "payload": {
            "kind": "result",
            "encoding": "json",
            "content": result,
            "size": len(json.dumps(result, separators=(",", ":"))),
            "sha256": hashlib.sha256(json.dumps(result, separators=(",", ":"), sort_keys=True).encode()).hexdigest(),
        },
    }


@given(results)
def test_a_result_comes_back_as_it_was(result: JsonObject) -> None:
    """What holds no secret is kept to the last byte."""
    [sealed] = seal(WRITER.of_result(result, Reason.CONFLICT, Addressed(), created=BEGINNING), known=NOBODY)

    found = read(sealed.body)

    assert found == sealed.letter
    assert found.payload.content == result
    assert found.redaction.clean


@given(results, st.integers(1, 60))
def test_a_large_payload_is_cut_and_joined(result: JsonObject, piece_bytes: int) -> None:
    """Pieces are letters of their own with ids of their own, and together they are the letter that was cut."""
    written = WRITER.of_result(result, Reason.PAYLOAD_TOO_LARGE, Addressed(task="t"), created=BEGINNING)
    [whole] = seal(written, known=NOBODY)

    pieces = seal(written, known=NOBODY, piece_bytes=piece_bytes)

    assert len(pieces) == max(1, -(-whole.letter.payload.size // piece_bytes))
    assert len({piece.letter.id for piece in pieces}) == len(pieces)
    if len(pieces) > 1:
        assert join([read(piece.body) for piece in reversed(pieces)]) == whole.letter
        with pytest.raises(LetterDamagedError, match="can't be found"):
            join([read(piece.body) for piece in pieces[1:]])


@pytest.mark.parametrize(
    ("raw", "encoding"),
    [
        (b'{"taskId": "t", "kind": 7}', Encoding.JSON),
        (b'["no", "object"]', Encoding.TEXT),
        (b"<html>", Encoding.TEXT),
        (b"{" * 5000, Encoding.TEXT),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, Encoding.TEXT),
        (b"\xff\x00{", Encoding.BASE64),
        (b"", Encoding.TEXT),
    ],
)
def test_the_bytes_of_a_task_are_kept_whatever_they_are(raw: bytes, encoding: Encoding) -> None:
    """What could not be decoded is there to be looked at, in the most readable form that it has."""
    payload = task_payload(raw)

    assert payload.encoding is encoding
    [sealed] = seal(WRITER.of_task(raw, Reason.UNDECODABLE, Addressed(), created=BEGINNING), known=NOBODY)
    kept = read(sealed.body).payload.raw()
    assert kept == (b'{"kind":7,"taskId":"t"}' if encoding is Encoding.JSON else raw)


def test_the_same_letter_written_again_has_the_same_id() -> None:
    """A crash between keeping a letter and telling so has it written twice: nothing may take it for another one."""
    [first], [again] = seal(letter(1), known=NOBODY), seal(letter(1, age=60), known=NOBODY)
    [other_attempt], [other_reason] = seal(letter(2), known=NOBODY), seal(letter(1, reason=Reason.CONFLICT), known=NOBODY)

    assert first.letter.id == again.letter.id
    assert len({first.letter.id, other_attempt.letter.id, other_reason.letter.id}) == 3


def test_the_key_names_delegate_day_task_attempt_and_content() -> None:
    """Somebody who looks at the bucket finds a letter by what is known of it, and checks it with sha256sum."""
    [sealed] = seal(letter(1), known=NOBODY)

    key = object_key(sealed.letter, sealed.sha256)

    assert key == f"v1/edge-1/2026/03/04/t-1/a-1-{hashlib.sha256(sealed.body).hexdigest()}.json"


def test_the_day_in_the_key_is_that_of_utc() -> None:
    """Wherever the delegate stands, one day is one prefix."""
    east = dt.datetime(2026, 3, 5, 1, 0, tzinfo=dt.timezone(dt.timedelta(hours=5)))
    [sealed] = seal(WRITER.of_result({}, Reason.INVALID, Addressed(), created=east), known=NOBODY)

    assert object_key(sealed.letter, sealed.sha256).startswith("v1/edge-1/2026/03/04/unknown/unknown-")
    assert b'"created":"2026-03-04T20:00:00Z"' in sealed.body


@given(st.text(max_size=300))
def test_any_name_is_one_segment_of_a_key(name: str) -> None:
    """Ids that a broken manager made up lead nowhere else in the bucket."""
    segment = plain(name)

    assert 0 < len(segment) <= 100
    assert segment.isascii()
    assert "/" not in segment
    assert segment not in (".", "..")


def test_the_chain_of_errors_goes_down_to_the_cause() -> None:
    """The words of each layer are there, also of what is none of our errors, and of each error of a group."""
    try:
        try:
            raise OSError(28, "No space left on device")
        except OSError as error:
            raise DelegateError("can't write", code="outbox.unwritable") from error
    except DelegateError as error:
        group = ErrorGroup([DelegateError("first", code="a.b"), DelegateError("second", code="c.d")])
        group.__cause__ = error

    chain = error_chain(group)

    assert [each.code for each in chain] == ["a.b", "c.d", "outbox.unwritable", "cause.OSError"]
    assert chain[-1].message == "[Errno 28] No space left on device"


def test_a_letter_of_a_later_version_is_read() -> None:
    """Fields and reasons that this version doesn't know take nothing away."""
    [sealed] = seal(letter(1), known=NOBODY)
    document = json.loads(sealed.body) | {"reason": "eaten_by_a_dog", "colour": "red"}

    found = read(json.dumps(document).encode())

    assert isinstance(found, Letter)
    assert found.reason == "eaten_by_a_dog"


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"\xff", b"{" * 9999])
def test_what_is_no_letter_is_told(body: bytes) -> None:
    """Bytes that are no letter are damage, and nothing else happens."""
    with pytest.raises(LetterDamagedError):
        read(body)


def test_a_payload_that_is_not_in_its_encoding_is_told() -> None:
    """A letter that somebody edited by hand is damage."""
    [sealed] = seal(letter(1), known=NOBODY, piece_bytes=20)[:1]
    document = json.loads(sealed.body)
    document["payload"]["content"] = base64.b64encode(b"x").decode() + "!"

    with pytest.raises(LetterDamagedError):
        read(json.dumps(document).encode()).payload.raw()
