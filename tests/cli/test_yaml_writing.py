"""YAML that is written is read back for the same by the decoder that decodes as kubectl does."""

import threading

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from delegate.cli.yaml_writing import write_yaml
from delegate.engine.sources.limits import SourceLimits
from delegate.engine.sources.loader.composition import Composer
from delegate.engine.sources.loader.documents import Faults
from delegate.model.resources import JsonObject

AMBIGUOUS = [
    *("y", "n", "Y", "on", "Off", "yes", "null", "~", "", "NULL", "1e3", "0o14", "010", "1_000", "0x1F", "0b1", ".5", "1.", "+1", "1:30"),
    *("=", "<<", ".inf", ".nan", "2001-01-01", "12345678901234567890", "-", "?", "!a", "&a", "*a", "#x", "a: b", "a #b", "- a", "%a", "@a"),
    *("---", "...", "a\n", "\na", "a\n\n", " a\nb", "a \nb", "\ta", "a\r\nb", "\x85", "\u2028", "\ufeff", "\x07", "\x7f"),
    *("{", "[", "|", ">", "'", '"'),
]  # fmt: skip
TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(AMBIGUOUS)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
)


def _read(text: str) -> list[object]:
    faults = Faults(10)
    documents = list(Composer(text.encode(), "written.yaml", SourceLimits(), faults, []).compose(threading.Event()))
    assert faults.all() == []
    return [document.body for document in documents]


def _as_json(value: object) -> object:
    """Whole numbers are integers in JSON, as Go programs have it."""
    match value:
        case float() if value.is_integer() and -(2**63) <= value <= 2**63 - 1:
            return int(value)
        case dict():
            return {name: _as_json(each) for name, each in value.items()}
        case list():
            return [_as_json(each) for each in value]
        case _:
            return value


@given(VALUES)
def test_every_value_comes_back(value: object) -> None:
    """As a value, and as a key where it is a text."""
    assert _read(write_yaml([{"value": value}])) == [{"value": _as_json(value)}]


@pytest.mark.parametrize("text", AMBIGUOUS)
def test_a_text_stays_a_text_for_other_readers_too(text: str) -> None:
    """PyYAML reads YAML 1.1 a little differently from kubectl; neither takes a text for something else."""
    written = write_yaml([{text: text}])

    assert yaml.safe_load(written) == {text: text}
    assert _read(written) == [{text: text}]


def test_objects_are_documents_in_their_order_and_fields_in_theirs() -> None:
    """And a script is seen as one."""
    body: JsonObject = {"kind": "ConfigMap", "apiVersion": "v1", "data": {"run.sh": "#!/bin/sh\nset -e\necho\n", "long": "word " * 60}}

    written = write_yaml([body, {"b": 1, "a": 2}])

    assert "  run.sh: |\n    #!/bin/sh\n    set -e\n    echo\n" in written
    assert written.index("kind") < written.index("apiVersion")
    assert _read(written) == [body, {"b": 1, "a": 2}]
    assert max(written.splitlines(), key=len).startswith("  long: ")


def test_nothing_is_written_for_no_objects() -> None:
    """Not even an empty document."""
    assert write_yaml([]) == ""
