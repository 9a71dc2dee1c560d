"""The journal's records survive whatever a crash makes of the file."""

from hypothesis import given
from hypothesis import strategies as st

from delegate.daemon.connection.journal import Began, Ended, Kept, Record, decode_line, encode_record, owed, read_records
from delegate.protocol.work import ResultItem

names = st.text(min_size=1, max_size=20)
began = st.builds(Began, attempt_id=names, task_id=names, fence=st.integers(0, 2**40), kind=names, application=names)
items = st.builds(
    ResultItem,
    attempt_id=names,
    task_id=names,
    fence=st.integers(0, 2**40),
    attempt_token=names,
    digest=names,
    result=st.dictionaries(names, st.text(max_size=40), max_size=3),
)
records: st.SearchStrategy[Record] = began | st.builds(Kept, item=items, kind=names) | st.builds(Ended, attempt_id=names)


@given(records)
def test_reads_back_what_it_wrote(record: Record) -> None:
    """A record comes back from its line as it was."""
    assert decode_line(encode_record(record)) == record


@given(st.lists(records, max_size=6), st.integers(0, 400))
def test_cuts_a_torn_end_and_keeps_the_rest(written: list[Record], cut: int) -> None:
    """Whatever prefix of the bytes reached the disk, every record that is whole in it is read and the torn one is named."""
    lines = [encode_record(record) for record in written]
    data = b"".join(lines)
    prefix = data[: min(cut, len(data))]

    reading = read_records(prefix)

    whole = 0
    size = 0
    for line in lines:
        size += len(line)
        whole += size <= len(prefix)
    assert [line.record for line in reading.lines] == written[:whole]
    assert all(damage.torn for damage in reading.damages)
    assert sum(len(line.raw) for line in reading.lines) + sum(damage.length for damage in reading.damages) == len(prefix)


@given(st.lists(records, min_size=1, max_size=5), st.data())
def test_damage_spoils_one_line_alone(written: list[Record], data: st.DataObject) -> None:
    """A flipped byte costs at most its own record and its neighbour; all others are still read."""
    lines = [encode_record(record) for record in written]
    whole = bytearray(b"".join(lines))
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] ^= data.draw(st.integers(1, 255))

    reading = read_records(bytes(whole))

    assert reading.damages
    assert len(reading.lines) >= len(written) - 2
    assert all(line.record in written for line in reading.lines)


def test_knows_what_is_still_owed() -> None:
    """Starts without an end and results without a settlement are owed, each attempt once, in order."""
    item = ResultItem(attempt_id="b", task_id="t", fence=1, attempt_token="", digest="", result={})
    written: list[Record] = [Began("a", "t", 1), Began("b", "t", 1), Began("c", "t", 1), Kept(item), Ended("c"), Kept(item)]

    still = owed(read_records(b"".join(encode_record(record) for record in written)).lines)

    assert [(attempt, type(line.record)) for attempt, line in still.items()] == [("a", Began), ("b", Kept)]
