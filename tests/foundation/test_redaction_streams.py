"""Secrets in streams: every form, cut at every place, held back no longer than needed, found as fast as a pipe brings them."""

import base64
import html
import json
import random
import string
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delegate.foundation.grams import GramFilter, HeadIndex
from delegate.foundation.redaction import KnownSecrets, StreamRedactor
from delegate.foundation.secrets import HIDDEN

TOKEN = "sk/9f+Zq3&Lw=7<pR'tY2\"uX8\\vB4nM6kJ1hG5"
PEM = (
    "-----BEGIN EC PRIVATE KEY-----\n"
    + "\n".join("MHcCAQEE" + str(number) * 56 for number in range(1, 4))
    + "\n-----END EC PRIVATE KEY-----"
)


def known(*secrets: str) -> KnownSecrets:
    registry = KnownSecrets()
    for secret in secrets:
        registry.add(secret)
    return registry


def base64_beside(front: bytes, back: bytes) -> Callable[[str], str]:
    return lambda secret: base64.b64encode(front + secret.encode() + back).decode()


FORMS: dict[str, Callable[[str], str]] = {
    "plain": lambda secret: secret,
    "url": lambda secret: quote(secret, safe=""),
    "url in lower case": lambda secret: "".join(part if part.isalnum() or part in "-._~" else f"%{ord(part):02x}" for part in secret),
    "form": quote_plus,
    "json": lambda secret: json.dumps({"value": secret}),
    "json in json": lambda secret: json.dumps({"body": json.dumps({"value": secret})}),
    "json by go": lambda secret: json.dumps(secret).replace("<", "\\u003c").replace("&", "\\u0026"),
    "html": html.escape,
    "python": repr,
    "shell": lambda secret: "'" + secret.replace("'", "'\\''") + "'",
    "hex": lambda secret: secret.encode().hex(),
    "HEX": lambda secret: secret.encode().hex().upper(),
    "utf-16": lambda secret: secret.encode("utf-16-le").decode("latin-1"),
    "utf-16 hex": lambda secret: secret.encode("utf-16-le").hex(),
    "base64": base64_beside(b"", b""),
    "base64 after one byte": base64_beside(b"x", b"yz"),
    "base64 after two bytes": base64_beside(b"xy", b"z"),
    "base64 of user and token": base64_beside(b"user:", b""),
    "base64 of utf-16": lambda secret: base64.b64encode(("$t = '" + secret + "'").encode("utf-16-le")).decode(),
    "base64 for urls": lambda secret: base64.urlsafe_b64encode(b"ab" + secret.encode()).decode(),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("secret", [TOKEN, "correct-horse-battery-staple"], ids=["token", "words"])
def test_no_form_shows_wherever_it_is_cut(form: str, secret: str) -> None:
    """Case 35: in each encoding, cut in two at every place and byte by byte, no run of six of its characters comes out."""
    registry = known(secret)
    encoded = FORMS[form](secret)
    text = f"before {encoded} after"
    expected = registry.mask(text)
    assert HIDDEN in expected
    shown_part = expected.replace(HIDDEN, "\0")
    middle = encoded[len(encoded) // 2 - 3 : len(encoded) // 2 + 3]
    assert middle not in shown_part

    for cut in range(len(text) + 1):
        stream = StreamRedactor(registry)
        assert stream.feed(text[:cut]) + stream.feed(text[cut:]) + stream.flush() == expected
    stream = StreamRedactor(registry)
    assert "".join(map(stream.feed, text)) + stream.flush() == expected


@pytest.mark.parametrize("width", [64, 76])
def test_a_key_in_wrapped_base64_does_not_show(width: int) -> None:
    """As `base64` and PEM files wrap it: no line comes out, but for an end too short to mean anything."""
    encoded = base64.b64encode(PEM.encode()).decode()
    lines = [encoded[start : start + width] for start in range(0, len(encoded), width)]

    masked = known(PEM).mask("\n".join(lines))

    assert not any(line in masked for line in lines if len(line) >= 16)


def test_two_streams_do_not_share_what_they_hold_back() -> None:
    """Standard output and standard error, interleaved byte by byte, are each masked as if they were alone."""
    registry = known(TOKEN, TOKEN[:12])
    out, err = StreamRedactor(registry), StreamRedactor(registry)
    shown_out = shown_err = ""
    for one, other in zip(f"out {TOKEN} end", f"err {TOKEN} end", strict=True):
        shown_out += out.feed(one)
        shown_err += err.feed(other)

    assert (shown_out + out.flush(), shown_err + err.flush()) == (f"out {HIDDEN} end", f"err {HIDDEN} end")


def test_what_is_held_back_is_bounded() -> None:
    """Also for a secret of 128 KiB, which is looked for in pieces; and a stream of its beginnings passes all the same."""
    dice = random.Random(7)
    huge = "".join(dice.choices(string.ascii_letters, k=2**17))
    registry = known(huge, "a" * 3000 + "b")
    stream = StreamRedactor(registry)
    longest = max(map(len, registry.forms()))
    fed = shown = 0
    for _ in range(20):
        fed += 1000
        shown += len(stream.feed("a" * 1000))
        assert fed - shown <= longest
    assert longest <= 16 * 2**10
    masked = known(huge).mask(huge)
    assert masked.replace(HIDDEN, "") == ""


@given(
    st.lists(st.text(st.sampled_from("ab/ \n'"), min_size=4, max_size=12), min_size=1, max_size=4),
    st.lists(st.one_of(st.text(st.sampled_from("ab/ \n'"), max_size=8), st.integers(0, 3)), max_size=8),
    st.data(),
)
@settings(max_examples=150)
def test_pieces_of_texts_like_the_secret_are_masked_like_the_whole(secrets: list[str], parts: list[str | int], data: st.DataObject) -> None:
    """Over a small alphabet, where beginnings, overlaps and near misses are everywhere."""
    registry = known(*secrets)
    whole = "".join(secrets[part % len(secrets)] if isinstance(part, int) else part for part in parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    stream = StreamRedactor(registry)

    pieces = [stream.feed(whole[start:end]) for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]

    assert "".join(pieces) + stream.flush() == registry.mask(whole)


WORDS = st.lists(st.text(min_size=4, max_size=40).filter(lambda word: word.isascii() or len(word) > 4), min_size=1, max_size=60)


@given(WORDS, st.text(max_size=50), st.text(max_size=50), st.integers(0, 59))
def test_the_filter_never_misses(words: list[str], before: str, after: str, which: int) -> None:
    """Whatever stands around a word, the text that holds it is looked at."""
    assert GramFilter(words).may_match(before + words[which % len(words)] + after)


@given(WORDS, st.text(max_size=30), st.integers(0, 59), st.integers(1, 39))
def test_a_beginning_is_always_found(words: list[str], before: str, which: int, length: int) -> None:
    """At the end of a text, the first place from which more could make a word."""
    word = words[which % len(words)]
    beginning = word[: min(length, len(word) - 1)]
    text = before + beginning

    found = HeadIndex(words).find_beginning(text, 0)

    slow = [start for start in range(len(text)) if any(len(each) > len(text) - start and each.startswith(text[start:]) for each in words)]
    assert found == slow[0] <= len(before)


def test_many_secrets_cost_no_more_than_few() -> None:
    """Looked for: a thousand secrets in two megabytes that hold none, before the test's deadline; one is found among them."""
    dice = random.Random(7)
    registry = known(*("".join(dice.choices(string.ascii_letters, k=32)) for _ in range(1000)))
    last = "".join(dice.choices(string.ascii_letters, k=32))
    registry.add(last)
    line = "2026-11-30T22:00:00Z info the quick brown fox jumps over the lazy dog and nothing else happens here\n"
    stream = StreamRedactor(registry)

    shown = "".join(stream.feed(line * 200) for _ in range(100)) + stream.feed(f"then {last}\n") + stream.flush()

    assert shown == line * 20_000 + f"then {HIDDEN}\n"
