"""The check of what rules select, on texts that nobody would write."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from delegate.simulator.validation.selections import faults

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "a": {"type": "object", "properties": {"b": {"type": "string"}}},
        "l": {"type": "array", "items": {"type": "object", "properties": {"d": {"type": "integer"}}}},
    },
}
WORDS = ["self", "oldSelf", "a", "b", "l", "d", "typo", "x", "all", "filter", "has", "'q'", "0"]
PARTS = [*WORDS, *".()[]{},?`"]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(PARTS), max_size=25).map("".join) | st.text(max_size=40))
def test_every_text_has_an_answer(text: str) -> None:
    """Faults stand in the text, whatever it is."""
    for fault in faults(text, SCHEMA, root=False):
        assert 0 <= fault.at < len(text)
