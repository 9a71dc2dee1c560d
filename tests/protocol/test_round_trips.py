"""Every message comes back from the wire as it went, and tolerates what a newer version adds."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegate.protocol import codec, control, enrolment, problems, work
from delegate.protocol.messages import Message, known
from tests.protocol.generation import JSON, TEXT, message_types, values_of

MESSAGES = message_types()
assert len(MESSAGES) > 25, (codec, control, enrolment, problems, work)


@pytest.mark.parametrize("of", MESSAGES, ids=lambda of: of.__name__)
@given(data=st.data())
def test_a_message_comes_back_as_it_went(of: type[Message], data: st.DataObject) -> None:
    """Encoded and decoded it is equal, and so is its second encoding."""
    message = data.draw(values_of(of))

    encoded = codec.encode(message)
    decoded = codec.decode(encoded, of)

    assert _plain(decoded) == _plain(message)
    assert codec.encode(decoded) == encoded


def _plain(message: msgspec.Struct) -> Any:
    """Comparable also where raw JSON is inside."""
    return msgspec.json.decode(msgspec.json.encode(message))


@pytest.mark.parametrize("of", MESSAGES, ids=lambda of: of.__name__)
@given(data=st.data())
def test_unknown_fields_are_ignored_at_every_level(of: type[Message], data: st.DataObject) -> None:
    """A newer version may add fields anywhere."""
    message = data.draw(values_of(of))
    document = msgspec.json.decode(codec.encode(message))
    extra = data.draw(JSON)

    decoded = codec.decode(msgspec.json.encode(_extend(document, of, extra)), of)

    assert _plain(decoded) == _plain(message)


@pytest.mark.parametrize("of", MESSAGES, ids=lambda of: of.__name__)
@given(data=st.data())
def test_null_is_nothing_where_a_member_may_be_missing(of: type[Message], data: st.DataObject) -> None:
    """Some languages write what is empty as null; it means the default."""
    message = data.draw(values_of(of))
    document = msgspec.json.decode(codec.encode(message))
    optional = {field.encode_name: field for field in msgspec.structs.fields(of) if not field.required}
    nulled = data.draw(st.sets(st.sampled_from(sorted(optional)))) if optional else set()

    decoded = codec.decode(msgspec.json.encode(document | dict.fromkeys(nulled)), of)

    for field in msgspec.structs.fields(of):
        expected = getattr(message, field.name)
        if field.encode_name in nulled:
            expected = None if type(None) in getattr(field.type, "__args__", ()) else _default(field)
        assert msgspec.json.encode(getattr(decoded, field.name)) == msgspec.json.encode(expected)


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return field.default if field.default is not msgspec.NODEFAULT else field.default_factory()


def _extend(document: Any, of: Any, extra: Any) -> Any:
    """Adds a field to every object that is a message; opaque documents are left alone."""
    if not (isinstance(of, type) and issubclass(of, msgspec.Struct)):
        return document
    extended = {"zzAddedLater": extra}
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(of)}
    for name, value in document.items():
        inner = _item_type(fields[name])
        if isinstance(value, list) and inner is not None:
            extended[name] = [_extend(each, inner, extra) for each in value]
        elif isinstance(value, dict) and inner is not None:
            extended[name] = _extend(value, inner, extra)
        else:
            extended[name] = value
    return extended


def _item_type(of: Any) -> Any:
    candidates = [of, *getattr(of, "__args__", ())]
    return next((each for each in candidates if isinstance(each, type) and issubclass(each, msgspec.Struct)), None)


@pytest.mark.parametrize("of", MESSAGES, ids=lambda of: of.__name__)
def test_names_on_the_wire_are_camel_case(of: type[Message]) -> None:
    """And no two fields share one."""
    names = [field.encode_name for field in msgspec.structs.fields(of)]

    assert len(set(names)) == len(names)
    assert all("_" not in name and name[0].islower() for name in names)


@given(word=TEXT)
def test_an_unknown_word_is_the_documented_default(word: str) -> None:
    """An enumeration travels as a string; a word of a newer version spoils nothing."""
    for enumeration, default in (
        (control.LeaseVerdict, control.LeaseVerdict.OK),
        (control.CommandKind, control.CommandKind.UNSUPPORTED),
        (enrolment.AttemptVerdict, enrolment.AttemptVerdict.KEEP),
        (work.ResultVerdict, work.ResultVerdict.RETRY),
    ):
        found = known(enumeration, word, default)
        assert found is default or found.value == word


@given(
    good=st.lists(values_of(work.LeasedTask), min_size=1, max_size=4),
    bad=JSON.filter(lambda value: not isinstance(value, dict) or "document" not in value),
    place=st.integers(0, 4),
)
def test_one_bad_task_never_spoils_a_batch(good: list[work.LeasedTask], bad: Any, place: int) -> None:
    """The others are read, in order; of the bad one is kept what says whose it is."""
    raws = [msgspec.Raw(codec.encode(task)) for task in good]
    raws.insert(min(place, len(raws)), msgspec.Raw(msgspec.json.encode(bad)))
    answer = codec.decode(codec.encode(work.AcquireAnswer(request_id="r", tasks=tuple(raws))), work.AcquireAnswer)

    tasks, refused = codec.decode_tasks(answer.tasks)

    assert tasks == good
    assert len(refused) == 1
    assert refused[0].reason


@given(attempt=TEXT, task=TEXT, fence=st.integers(0, 2**31))
def test_a_bad_task_can_still_be_given_back(attempt: str, task: str, fence: int) -> None:
    """Its identity is read even where its document is not."""
    raw = msgspec.Raw(msgspec.json.encode({"attemptId": attempt, "taskId": task, "fence": fence, "kind": 7, "document": []}))

    _, (refused,) = codec.decode_tasks([raw])

    assert (refused.attempt_id, refused.task_id, refused.fence) == (attempt, task, fence)


@given(body=st.binary(max_size=200), of=st.sampled_from(MESSAGES))
def test_bytes_that_are_no_message_are_refused_in_words(body: bytes, of: type[Message]) -> None:
    """Nothing but UndecodableError comes out, and the body is not repeated."""
    refusal: codec.UndecodableError | None = None
    try:
        codec.decode(body, of)
    except codec.UndecodableError as error:
        refusal = error

    assert refusal is None or (of.__name__ in str(refusal) and refusal.retryable)


def test_a_body_over_the_limit_is_not_read() -> None:
    """Also if it would be a good one."""
    with pytest.raises(codec.UndecodableError, match="over the limit") as refused:
        codec.decode(b" " * (codec.MAX_BODY_BYTES + 1), work.AcquireRequest)

    assert not refused.value.retryable


@given(result=st.dictionaries(TEXT, JSON, max_size=4))
def test_a_digest_depends_on_the_content_alone(result: dict[str, Any]) -> None:
    """Neither the order of keys nor a trip over the wire changes it; a change of content does."""
    digest = codec.result_digest(result)
    reordered = dict(reversed(result.items()))

    assert codec.result_digest(reordered) == digest
    assert codec.result_digest(msgspec.json.decode(msgspec.json.encode(result))) == digest
    assert codec.result_digest(result | {"added": 1}) != digest or result.get("added") == 1
