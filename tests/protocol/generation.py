"""Values of every message type for property tests, built from the types themselves, so that a new field is covered at once."""

import types
import typing
from typing import Any

import msgspec
from hypothesis import strategies as st

from delegate.protocol.messages import Message

TEXT = st.text(max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


def values_of(of: Any) -> st.SearchStrategy[Any]:
    """Values of a type as it stands in a message."""
    if isinstance(of, type) and issubclass(of, msgspec.Struct):
        return _structs(of)
    origin, arguments = typing.get_origin(of), typing.get_args(of)
    if origin is tuple:
        return st.lists(values_of(arguments[0]), max_size=3).map(tuple)
    if origin is dict:
        return st.dictionaries(TEXT, JSON if arguments[1] is Any else values_of(arguments[1]), max_size=3)
    if origin in (typing.Union, types.UnionType):
        return st.one_of(*(st.none() if each is type(None) else values_of(each) for each in arguments))
    simple: dict[Any, st.SearchStrategy[Any]] = {
        str: TEXT,
        int: st.integers(-(2**63), 2**63 - 1),
        float: st.floats(allow_nan=False, allow_infinity=False),
        bool: st.booleans(),
        bytes: st.binary(max_size=20),
        msgspec.Raw: JSON.map(lambda value: msgspec.Raw(msgspec.json.encode(value))),
    }
    return simple[of]


def _structs(of: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(of)
    return st.builds(of, **{field.name: values_of(hints[field.name]) for field in msgspec.structs.fields(of)})


def message_types() -> list[type[Message]]:
    """Every message that travels: the leaves of the family."""

    def leaves(of: type[Message]) -> list[type[Message]]:
        derived = of.__subclasses__()
        return [leaf for each in derived for leaf in leaves(each)] if derived else [of]

    found = [each for each in leaves(Message) if not each.__name__.startswith("_")]
    return sorted(found, key=lambda each: each.__name__)
