"""Whatever is JSON reads the same from JSON and from YAML; whatever is not is refused in our own words."""

import contextlib
import json
import math

import yaml
from hypothesis import given
from hypothesis import strategies as st

from delegate.engine.sources.loader.documents import Path, children
from delegate.engine.sources.loader.files import SourceFile, load
from delegate.engine.sources.loader.positions import parse_pointer
from delegate.foundation.errors import DelegateError
from delegate.model.resources import JsonObject

TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
WORDS = st.sampled_from(
    ["yes", "on", "~", "", "0777", "08", "1e3", "1_0", "=", "<<", "---", "a: b", "# x", "2001-01-01", "\ttab", "x\r\ny", " "]
)
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS | WORDS
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS | WORDS, inner, max_size=4), max_leaves=20)


def objects_with(value: object) -> JsonObject:
    return {"apiVersion": "example.com/v1", "kind": "Sample", "metadata": {"name": "sample"}, "spec": value}


def whole(value: object) -> object:
    """The value as Go programs hand it on: whole floats of 64 bits are integers."""
    if isinstance(value, float) and value.is_integer() and math.fabs(value) < 2**63:
        return int(value)
    if isinstance(value, dict):
        return {key: whole(member) for key, member in value.items()}
    return [whole(member) for member in value] if isinstance(value, list) else value


@given(VALUES, st.sampled_from([None, 1]))
def test_json_reads_back(value: object, indent: int | None) -> None:
    """A document dumped as JSON loads equal, escaped or not."""
    for ascii_only in (True, False):
        text = json.dumps(objects_with(value), indent=indent, ensure_ascii=ascii_only)
        (manifest,) = load([SourceFile("a.json", text.encode())]).manifests
        assert json.dumps(manifest.body) == json.dumps(objects_with(whole(value)))


@given(VALUES, st.booleans())
def test_yaml_reads_back(value: object, flow: bool) -> None:
    """A document dumped as YAML with every text quoted loads equal."""
    text = yaml.dump(objects_with(value), Dumper=Quoting, default_flow_style=flow, allow_unicode=True, sort_keys=False)
    (manifest,) = load([SourceFile("a.yaml", text.encode())]).manifests
    assert json.dumps(manifest.body) == json.dumps(objects_with(whole(value)))


class Quoting(yaml.SafeDumper):
    """Quotes every text, because PyYAML's idea of what needs quotes is not kubectl's, and repeats instead of anchoring."""

    def ignore_aliases(self, data: object) -> bool:
        return True


Quoting.add_representer(str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"'))
Quoting.add_representer(float, lambda dumper, number: dumper.represent_scalar("tag:yaml.org,2002:float", repr(number)))


@given(
    st.binary(max_size=300) | st.text(max_size=300).map(lambda text: text.encode(errors="surrogatepass")),
    st.sampled_from(["a.yaml", "a.json"]),
)
def test_any_bytes_load_or_are_refused(data: bytes, path: str) -> None:
    """Nothing but a DelegateError ever comes out."""
    for prefix in (b"", b"apiVersion: v1\nkind: A\nmetadata: {name: a}\n", b"{"):
        with contextlib.suppress(DelegateError):
            load([SourceFile(path, prefix + data)])


YAML_SIGNS = [*"[]{},:-?&*!|>'\"%@`#\n \t", ": ", "- ", "---\n", "...\n", "\n  ", "\n- "]
YAML_PIECES = st.sampled_from([*YAML_SIGNS, "a", "on", "1", "~", "<<", "&a ", "*a", "*a ", "!!str ", "!x ", "kind: A\n"])


@given(st.lists(YAML_PIECES, max_size=60).map("".join))
def test_any_yaml_loads_or_is_refused(text: str) -> None:
    """The same for texts that are nearly YAML, and every object that loads is JSON and has a place."""
    data = ("apiVersion: v1\nkind: A\nmetadata: {name: a}\n" + text).encode()
    try:
        loaded = load([SourceFile("a.yaml", data)])
    except DelegateError:
        return
    for manifest in loaded.manifests:
        json.dumps(manifest.body).encode()
        assert 1 <= manifest.origin.line <= data.count(b"\n") + 1


def paths(value: object, path: Path = ()) -> list[Path]:
    return [path] + [deep for key, child in children(value) for deep in paths(child, (*path, key))]


@given(VALUES)
def test_the_line_of_every_node_is_known(value: object) -> None:
    """In indented JSON, read as JSON and as YAML, each member is found on the line that holds its key."""
    text = json.dumps(objects_with(value), indent=1)
    written = text.split("\n")
    for document in (text, "# a comment keeps it from being read as JSON\n" + text):
        try:
            loaded = load([SourceFile("a.yaml", document.encode())])
        except DelegateError:
            assert document is not text, "surrogate pairs are no YAML"
            return
        shift = 0 if document is text else 1
        body = loaded.manifests[0].body
        for path in paths(body)[1:]:
            line = loaded.lines[0].find(body, path)
            if isinstance(path[-1], str):
                assert written[line - 1 - shift].lstrip().startswith(json.dumps(path[-1]) + ":")
            pointer = "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path)
            assert parse_pointer(pointer, body) == path
