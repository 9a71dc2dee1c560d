"""The loader decodes what kubectl decodes, and refuses exactly what the table below says."""

import json
from typing import Any

import pytest

from delegate.engine.sources.loader.scalars import UnrepresentableError, resolve_plain
from tests.sources.loading import DATA, load_text, refusals_of

RECORDED: list[dict[str, Any]] = json.loads((DATA / "recordings" / "yaml-decoding.json").read_text())["cases"]

DELIBERATE_REFUSALS = {
    "big-int": "input.scalar",
    "dup-key": "input.duplicate_key",
    "dup-key-top": "input.duplicate_key",
    "merge-key": "input.duplicate_key",  # the recorded text states `metadata` twice
    "int-key": "input.key_type",
    "binary-tag": "input.tag",
    "unknown-tag": "input.tag",
    "leading-bang": "input.tag",
    "no-name": "input.incomplete_object",
    "utf16": "input.encoding",
    "invalid-utf8": "input.encoding",
}
"""What kubectl decodes and we refuse, because something would be lost or changed in silence."""


def recorded_input(case: dict[str, Any]) -> bytes:
    return bytes.fromhex(case["inputHex"]) if "inputHex" in case else case["input"].encode()


def without_default_namespace(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for each in objects:
        if each["metadata"].get("namespace") == "default":
            del each["metadata"]["namespace"]
    return objects


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: str(case["name"]))
def test_decodes_as_recorded(case: dict[str, Any]) -> None:
    """Each recorded text decodes to the recorded objects, or is refused as kubectl or the table refuses it."""
    data = recorded_input(case)
    if case["exit"] != 0 or case["name"] in DELIBERATE_REFUSALS:
        codes = {error.code for error in refusals_of(data)}
        assert codes == {DELIBERATE_REFUSALS.get(case["name"], next(iter(codes)))}
        return
    decoded = [manifest.body for manifest in load_text(data).manifests]
    assert decoded == without_default_namespace(case["decoded"])
    assert json.dumps(decoded, sort_keys=True) == json.dumps(case["decoded"], sort_keys=True), "types differ, such as true and 1"


def test_the_table_names_recorded_cases_that_kubectl_takes() -> None:
    """No entry of the table is idle."""
    taken = {case["name"] for case in RECORDED if case["exit"] == 0}
    assert taken >= DELIBERATE_REFUSALS.keys()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((word, True) for word in ("y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE")),
        *((word, False) for word in ("n", "N", "no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE")),
        *((word, None) for word in ("", "~", "null", "Null", "NULL")),
        *((word, word) for word in ("yEs", "oN", "tRUE", "nULL", "nope", "~x", "yes please", "=", "<<", "x")),
        ("0", 0),
        ("00", 0),
        ("-0", 0),
        ("-0.0", 0),
        ("+5", 5),
        ("0777", 511),
        ("-07", -7),
        ("010", 8),
        ("08", 8),
        ("0_8", 8),
        ("0o777", 511),
        ("0O17", 15),
        ("-0o7", -7),
        ("0o8", "0o8"),
        ("0x1F", 31),
        ("0X1f", 31),
        ("+0x1F", 31),
        ("0x", "0x"),
        ("0b11", 3),
        ("0B11", 3),
        ("-0b11", -3),
        ("0b-11", -3),
        ("0b12", "0b12"),
        ("1_000", 1000),
        ("1__0", 10),
        ("-_1", -1),
        ("_1", "_1"),
        ("1,000", "1,000"),
        ("3e4", 30000),
        ("1E3", 1000),
        ("1_e3", 1000),
        ("1.", 1),
        ("1.0", 1),
        ("1.10", 1.1),
        ("1_0.5", 10.5),
        (".5", 0.5),
        ("+.5", 0.5),
        (".5_5", 0.55),
        ("._5", "._5"),
        (".", "."),
        ("+", "+"),
        ("1e400", "1e400"),
        ("1e20", 1e20),
        ("0x1p3", "0x1p3"),
        ("1.5.2", "1.5.2"),
        ("1:30", "1:30"),
        ("22:22", "22:22"),
        ("2001-01-01", "2001-01-01"),
        ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z"),
        ("9007199254740993", 9007199254740993),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
    ],
)
def test_plain_scalars_mean_what_kubectl_reads(text: str, value: object) -> None:
    """The scalar matrix, as kubectl answered it."""
    resolved = resolve_plain(text)
    assert resolved == value
    assert type(resolved) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        "9223372036854775808",
        "-9223372036854775809",
        "18446744073709551615",
        "0xFFFFFFFFFFFFFFFF",
        "0777777777777777777777777",
        "09999999999999999999",
        "1" * 5000,
        ".inf",
        "-.Inf",
        "+.INF",
        ".nan",
    ],
)
def test_numbers_that_would_change_are_refused(text: str) -> None:
    """kubectl rounds integers outside 64 bits; JSON holds no infinity."""
    with pytest.raises(UnrepresentableError):
        resolve_plain(text)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("! 12", "12"),
        ('! "12"', "12"),
        ("!!int '12'", 12),
        ("!!float 1", 1),
        ("!!bool 'yes'", True),
        ("!!null ''", None),
        ("!!str", ""),
        ("!!str ~", "~"),
        ("!!timestamp 2001-01-01", "2001-01-01"),
        ("!<tag:yaml.org,2002:int> 5", 5),
        ("!!map {}", {}),
        ("!!seq []", []),
        ("'on'", "on"),
        ('"12"', "12"),
    ],
)
def test_tags_and_quotes_mean_what_kubectl_reads(written: str, value: object) -> None:
    """Core tags resolve; quoted text is text."""
    body = load_text(f"apiVersion: e.com/v1\nkind: Sample\nmetadata: {{name: s}}\nspec: {written}\n").manifests[0].body
    assert body["spec"] == value
    assert type(body["spec"]) is type(value)


def test_the_last_line_is_ended() -> None:
    """A block scalar that ends with the file has its line end, as kubectl gives it."""
    body = load_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata:\n  a: |\n    text").manifests[0].body

    assert body["data"]["a"] == "text\n"


def test_a_byte_order_mark_may_stand_before_any_document() -> None:
    """Files that were put together from marked files read as kubectl reads them."""
    one = "\ufeffapiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"

    assert len(load_text(one + "---\n" + one).manifests) == 2
