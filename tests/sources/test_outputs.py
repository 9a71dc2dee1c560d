"""Output of any length is kept in bounded memory, with both of its ends."""

from hypothesis import given
from hypothesis import strategies as st

from delegate.engine.sources.outputs import LONGEST_LINE_BYTES, BoundedOutput


def fed(*chunks: bytes, budget: int = 1 << 20) -> BoundedOutput:
    output = BoundedOutput(budget)
    for chunk in chunks:
        output.feed(chunk)
    output.close()
    return output


def test_what_fits_is_kept_whole() -> None:
    """Whatever way it was cut on its way."""
    assert fed(b"one\ntw", b"o\n", b"\xc3", b"\xa9 three").text() == "one\ntwo\né three"


def test_the_middle_is_dropped_and_counted() -> None:
    """The marker says how many bytes, and the last 64 KiB are there."""
    lines = [b"line %d\n" % number for number in range(200_000)]
    output = fed(*lines, budget=200_000)
    text = output.text()

    assert text.startswith("line 0\nline 1\n")
    assert text.endswith(b"".join(lines)[-LONGEST_LINE_BYTES:].decode())
    assert f"[... {output.dropped_bytes} bytes dropped ...]\n" in text
    assert output.received_bytes == sum(map(len, lines))
    assert len(text) < 400_000


def test_a_long_line_is_cut_between_characters() -> None:
    """No piece of a line is longer than 64 KiB, and no character is lost."""
    output = fed(b"x" + "é".encode() * 100_000)
    pieces = output.text().split("\n")

    assert all(len(piece.encode()) <= LONGEST_LINE_BYTES for piece in pieces)
    assert "".join(pieces) == "x" + "é" * 100_000


@given(st.lists(st.binary(max_size=50), max_size=20))
def test_bytes_that_are_no_text_are_kept(chunks: list[bytes]) -> None:
    """Nothing is lost below the budget."""
    assert fed(*chunks).text() == b"".join(chunks).decode(errors="replace")
