"""No secret is in a letter, wherever it stood and however it was written."""

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegate.daemon.deadletters.letter import Addressed, Reason, error_chain
from delegate.daemon.deadletters.sealing import read, seal
from delegate.foundation.errors import DelegateError
from delegate.foundation.redaction import KnownSecrets
from delegate.model.resources import JsonObject
from tests.daemon.deadletters.letters import BEGINNING, WRITER

SECRET = 'S3cr3t/"p+ss" wörd'
KNOWN = KnownSecrets()
KNOWN.add(SECRET)


def forms_of(secret: str) -> list[bytes]:
    """The secret as it may be recognised in the bytes of a document."""
    raw = secret.encode()
    escaped = [json.dumps(secret)[1:-1].encode(), json.dumps(secret, ensure_ascii=False)[1:-1].encode()]
    return [raw, *escaped, quote(secret, safe="").encode(), base64.b64encode(raw)]


def places_of(value: str) -> st.SearchStrategy[JsonObject]:
    """Documents that hold a text somewhere: as a value, a key, inside lists, deeper than anybody writes."""
    inside = st.recursive(
        st.just(value) | st.just({value: 1}) | st.just({"a": f"before {value} after"}),
        lambda children: (
            st.lists(children, min_size=1, max_size=2) | st.dictionaries(st.sampled_from("abc"), children, min_size=1, max_size=2)
        ),
        max_leaves=6,
    )
    return st.fixed_dictionaries({"somewhere": inside})


@given(places_of(SECRET))
def test_a_known_secret_is_masked_wherever_a_result_holds_it(result: JsonObject) -> None:
    """Values, keys and lists at every depth."""
    [sealed] = seal(WRITER.of_result(result, Reason.INVALID, Addressed(), created=BEGINNING), known=KNOWN)

    assert not any(form in sealed.body for form in forms_of(SECRET))
    assert read(sealed.body).redaction.masked > 0


def test_a_known_secret_is_masked_below_the_deepest_level() -> None:
    """A document that is nested beyond reason hides nothing."""
    result: JsonObject = {"value": SECRET}
    for _ in range(200):
        result = {"deeper": [result]}

    [sealed] = seal(WRITER.of_result(result, Reason.INVALID, Addressed(), created=BEGINNING), known=KNOWN)

    assert not any(form in sealed.body for form in forms_of(SECRET))


@pytest.mark.parametrize(
    "raw",
    [
        json.dumps({"spec": {"source": {"repoURL": f"https://user:{quote(SECRET, safe='')}@git.example/x.git"}}}).encode(),
        f"no JSON at all: {SECRET}".encode(),
        b"\xff\xfe no UTF-8 either: " + SECRET.encode() + b"\x00",
        b'{"basic": "' + base64.b64encode(b"user:" + SECRET.encode()) + b'"',
    ],
)
def test_a_known_secret_is_masked_in_the_bytes_of_a_task(raw: bytes) -> None:
    """Also where the bytes are kept in base64, which no pattern sees through."""
    [sealed] = seal(WRITER.of_task(raw, Reason.UNDECODABLE, Addressed(), created=BEGINNING), known=KNOWN)

    letter = read(sealed.body)
    kept = letter.payload.raw()
    assert not any(form in kept or form in sealed.body for form in forms_of(SECRET))
    assert b"(hidden)" in kept
    assert not letter.redaction.clean


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"attemptToken": "abcdefgh"}, {"attemptToken": "(hidden)"}),
        ({"db_password": 12345678}, {"db_password": "(hidden)"}),
        ({"credentials": {"user": "x", "key": "y"}}, {"credentials": "(hidden)"}),
        ({"url": "https://u:hunter22@git.example/x"}, {"url": "https://(hidden)@git.example/x"}),
        ({"header": "Authorization: Bearer abcdefghijkl"}, {"header": "Authorization: Bearer (hidden)"}),
        (
            {"kind": "Secret", "metadata": {"name": "db"}, "data": {"user": "YQ==", "empty": ""}, "stringData": {"a": "b"}},
            {"kind": "Secret", "metadata": {"name": "db"}, "data": {"user": "(hidden)", "empty": ""}, "stringData": {"a": "(hidden)"}},
        ),
    ],
)
def test_what_looks_like_a_secret_is_masked(document: JsonObject, expected: JsonObject) -> None:
    """Also where nobody has told us that it is one."""
    raw = json.dumps(document).encode()

    [sealed] = seal(WRITER.of_task(raw, Reason.UNDECODABLE, Addressed(), created=BEGINNING), known=KnownSecrets())

    assert read(sealed.body).payload.content == expected


@pytest.mark.parametrize("document", [{"token": None}, {"password": ""}, {"secrets": []}, {"usesToken": True, "secret": False}])
def test_what_holds_nothing_is_left_as_it_is(document: JsonObject) -> None:
    """A letter is marked as masked only where something was."""
    [sealed] = seal(WRITER.of_result(document, Reason.INVALID, Addressed(), created=BEGINNING), known=KNOWN)

    assert read(sealed.body).payload.content == document
    assert read(sealed.body).redaction.clean


def test_errors_and_words_are_masked_and_bounded() -> None:
    """What a library put into its message comes from anywhere."""
    error = DelegateError(f"login with {SECRET} failed", hint=f"not {SECRET}", file=f"/tmp/{SECRET}", object=SECRET)
    error.__cause__ = ValueError(f"{SECRET} " + "x" * 100_000)
    written = WRITER.of_result(
        {}, Reason.INVALID, Addressed(application=SECRET), created=BEGINNING, message=SECRET, errors=error_chain(error)
    )

    [sealed] = seal(written, known=KNOWN)

    assert not any(form in sealed.body for form in forms_of(SECRET))
    assert len(sealed.body) < 16_000


def test_a_secret_that_is_cut_between_two_pieces_is_masked() -> None:
    """Masking comes before cutting."""
    written = WRITER.of_result({"text": "x" * 30 + SECRET * 20}, Reason.INVALID, Addressed(), created=BEGINNING)

    pieces = seal(written, known=KNOWN, piece_bytes=16)

    joined = b"".join(read(piece.body).payload.raw() for piece in pieces)
    assert not any(form in joined for form in forms_of(SECRET))


def test_ids_stay_what_they_are() -> None:
    """A short secret that occurs inside a generated id by chance must not make the letter unfindable."""
    known = KnownSecrets()
    known.add("beef")

    [sealed] = seal(WRITER.of_result({"task": "dead-beef-1"}, Reason.INVALID, Addressed(), created=BEGINNING), known=known)

    assert read(sealed.body).task == "dead-beef-1"
