"""Differences as unified diffs."""

from delegate.model.resources import JsonObject
from delegate.model.unified import MOST_CHARACTERS, unified_diff


def config_map(**data: str) -> JsonObject:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "resourceVersion": "7", "managedFields": [{}]}, "data": data}


def secret(**data: str) -> JsonObject:
    return {**config_map(**data), "kind": "Secret"}


def test_a_changed_line_is_a_changed_line() -> None:
    """Text of several lines is compared line by line; what the server counts isn't in it."""
    text = unified_diff(config_map(a="one\ntwo\n"), config_map(a="one\nthree\n") | {"status": {"x": 1}}, "ConfigMap demo/a")
    lines = text.splitlines()
    assert lines[:2] == ["--- live/ConfigMap demo/a", "+++ wanted/ConfigMap demo/a"]
    assert [line for line in lines[2:] if line[0] in "+-"] == ["-    two", "+    three"]
    assert "resourceVersion" not in text


def test_what_is_new_is_new_as_a_whole() -> None:
    """Against nothing."""
    text = unified_diff(None, config_map(a="1"), "ConfigMap demo/a")
    assert text.splitlines()[0] == "--- /dev/null"
    assert "+kind: ConfigMap" in text


def test_values_of_a_secret_are_hidden_and_their_change_is_shown() -> None:
    """Neither the old nor the new value, nor what kubectl wrote of them into an annotation."""
    before, after = secret(same="c2FtZQ==", other="b2xk", gone="Z29uZQ=="), secret(same="c2FtZQ==", other="bmV3", came="Y2FtZQ==")
    before["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": "b2xk"}
    text = unified_diff(before, after, "Secret demo/a")
    assert not any(value in text for value in ("b2xk", "bmV3", "Z29uZQ", "Y2FtZQ", "c2FtZQ"))
    assert "+  other: (hidden, another value)" in text
    assert "-  gone: (hidden)" in text
    assert "+  came: (hidden)" in text
    assert "   same: (hidden)" in text


def test_equal_bodies_differ_in_nothing() -> None:
    """Also where the server has counted on."""
    assert unified_diff(config_map(a="1"), config_map(a="1") | {"status": {}}, "x") == ""


def test_a_long_difference_is_cut_off_and_says_so() -> None:
    """A diff is for reading."""
    text = unified_diff(None, config_map(a="\n".join("line" for _ in range(20_000))), "x")
    assert len(text) < MOST_CHARACTERS + 100
    assert text.endswith("more characters)")
