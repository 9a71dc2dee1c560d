"""Secrets are masked in every form they travel in, wherever a text is cut."""

import base64
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegate.foundation.redaction import KnownSecrets, StreamRedactor, names_a_secret, redact
from delegate.foundation.secrets import HIDDEN, Secret

PEM = """-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgEXAMPLEEXAMPLEEX
AMPLEEXAMPLEEXAMPLEEXAMPLEEXAMPLEEXAMPLEEXAMPLEEXAMPLEEXAMPLEEXA
-----END PRIVATE KEY-----"""
SECRETS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc", "Z")), min_size=4, max_size=40).filter(
    lambda text: text not in HIDDEN and HIDDEN not in text
)
TEXTS = st.text(max_size=60)


def known(*secrets: str) -> KnownSecrets:
    registry = KnownSecrets()
    for secret in secrets:
        registry.add(secret)
    return registry


@given(SECRETS, TEXTS, TEXTS)
def test_a_known_secret_never_shows(secret: str, before: str, after: str) -> None:
    """As it is, URL-encoded and JSON-escaped, whatever stands around it."""
    registry = known(secret)
    for form in (secret, quote(secret, safe=""), quote_plus(secret), json.dumps(secret)[1:-1]):
        masked = registry.mask(f"{before}\n{form}\n{after}")

        assert form not in masked.replace(HIDDEN, "\0")


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8, max_size=60), st.binary(max_size=9), st.binary(max_size=9))
def test_a_known_secret_never_shows_in_base64(secret: str, before: bytes, after: bytes) -> None:
    """Also where it is encoded together with its neighbours, at any alignment, as in basic authorization."""
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        encoded = encode(before + secret.encode() + after).decode()

        masked = known(secret).mask(encoded)

        assert HIDDEN in masked
        assert len(masked.replace(HIDDEN, "")) <= len(encode(before)) + len(encode(after)) + 4


@given(st.lists(SECRETS, min_size=1, max_size=4), st.lists(st.one_of(TEXTS, st.integers(0, 3)), max_size=8), st.data())
def test_pieces_are_masked_like_the_whole(secrets: list[str], parts: list[str | int], data: st.DataObject) -> None:
    """However a stream is cut, its pieces together are what masking the whole gives."""
    registry = known(*secrets)
    whole = "".join(secrets[part % len(secrets)] if isinstance(part, int) else part for part in parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    stream = StreamRedactor(registry)

    shown = "".join([stream.feed(piece) for piece in pieces] + [stream.flush()])

    assert shown == registry.mask(whole)


def test_a_stream_holds_back_only_what_may_become_a_secret() -> None:
    """Everything else is shown at once."""
    stream = StreamRedactor(known("abcdefgh"))

    assert stream.feed("hello abc") == "hello "
    assert stream.feed("x") == "abcx"
    assert stream.feed("abcd") == ""
    assert stream.feed("efgh!") == f"{HIDDEN}!"
    assert stream.feed("abcdefgh") == HIDDEN
    assert stream.flush() == ""


def test_a_stream_byte_by_byte_shows_no_part() -> None:
    """A secret that is a prefix of another, and one that ends the stream half way."""
    stream = StreamRedactor(known("secret-one", "secret-one-and-more"))

    shown = "".join(stream.feed(character) for character in "x secret-one y secret-one-and-more z secret-on") + stream.flush()

    assert shown == f"x {HIDDEN} y {HIDDEN} z secret-on"


def test_the_longest_secret_wins() -> None:
    """No tail of the longer one is left over."""
    assert known("secret", "secret-and-more").mask("a secret-and-more b secret c") == f"a {HIDDEN} b {HIDDEN} c"


def test_each_line_of_a_key_is_masked() -> None:
    """A key that is printed line by line, or indented in YAML, shows none of its lines."""
    registry = known(PEM)

    masked = registry.mask("\n".join("    " + line for line in PEM.splitlines()))

    assert "EXAMPLE" not in masked


def test_secrets_too_short_to_look_for_are_not_taken() -> None:
    """The caller learns it; nothing else is masked for it."""
    registry = KnownSecrets()

    assert not registry.add("")
    assert not registry.add(None)
    assert not registry.add("a")
    assert not registry.add(Secret("abc"))
    assert registry.add(Secret("abcd"))
    assert registry.mask("abc abcd") == f"abc {HIDDEN}"


def test_a_discarded_secret_is_looked_for_no_more() -> None:
    """Session tokens come and go; the registry does not grow with them."""
    registry = known("first-token", "second-token")
    registry.discard("first-token")
    registry.discard("unknown")

    assert registry.mask("first-token second-token") == f"first-token {HIDDEN}"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("Authorization: Bearer abcDEF123456.-_~+/=", f"Authorization: Bearer {HIDDEN}"),
        ("proxy said: Basic dXNlcjpwYXNzd29yZA==", f"proxy said: Basic {HIDDEN}"),
        ("cloning https://user:p4ss@git.example/x.git failed", f"cloning https://{HIDDEN}@git.example/x.git failed"),
        ("cloning https://t0kent0ken@git.example/x.git", f"cloning https://{HIDDEN}@git.example/x.git"),
        ("postgresql://me:p4ss@db/x", f"postgresql://{HIDDEN}@db/x"),
        ("ssh://git@git.example/x", "ssh://git@git.example/x"),
        (f"key: {PEM} end", f"key: {HIDDEN} end"),
        (json.dumps({"key": PEM}), json.dumps({"key": HIDDEN})),
        (PEM[:80], HIDDEN),
        ("id eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl ok", f"id {HIDDEN} ok"),
        ("ghp_0123456789abcdefghij", HIDDEN),
        ("glpat-0123456789abcdefghij", HIDDEN),
        ("password=hunter22 user=me", f"password={HIDDEN} user=me"),
        ('{"token": "hunter22"}', f'{{"token": "{HIDDEN}"}}'),
        ("?access_key=hunter22&x=1", f"?access_key={HIDDEN}&x=1"),
        ("invalid token: expired", "invalid token: expired"),
        ("the secret default/db-password is missing", "the secret default/db-password is missing"),
        ("https://host:8443/a@b", "https://host:8443/a@b"),
    ],
)
def test_what_looks_like_a_secret_is_masked(text: str, masked: str) -> None:
    """Without being known: tokens in headers, credentials in URLs, keys, well-known token forms; ordinary words stay."""
    assert redact(text, KnownSecrets()) == masked


@pytest.mark.parametrize(
    ("key", "is_secret"),
    [
        ("token", True),
        ("api_token", True),
        ("accessToken", True),
        ("DB_PASSWORD", True),
        ("client-secret", True),
        ("Authorization", True),
        ("private_key", True),
        ("apiKey", True),
        ("token_expires_at", False),
        ("secret_name", False),
        ("tokens", False),
        ("key", False),
        ("tokenizer", False),
    ],
)
def test_fields_are_told_by_their_names(key: str, is_secret: bool) -> None:
    """What holds a secret, not what speaks of one."""
    assert names_a_secret(key) is is_secret


def test_masking_a_large_text_is_linear() -> None:
    """A megabyte that almost matches everywhere is masked before the test's deadline."""
    registry = known("a" * 40 + "b")

    assert redact("a" * 2**20, registry) == "a" * 2**20
    assert redact("-----BEGIN PRIVATE KEY-----" * 2000, registry) == HIDDEN
    assert redact("https://" + "x" * 2**20, registry).startswith("https://x")
    assert redact("token" * 2**17, registry).startswith("token")
    assert redact("eyJaaaaaa-" * 2**17, registry).startswith("eyJ")
