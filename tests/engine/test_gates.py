"""The policy file of a gate: read at the start, and again when it changes; refused with file and line."""

from pathlib import Path

import pytest

from delegate.engine.policies.gates import Gate, load_policies
from delegate.foundation.errors import DelegateError
from delegate.foundation.rule_files import RuleFile, RuleFileError
from delegate.model.policies.violations import PolicyAction


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("shipped:\n  mutable-tags:\n    actoin: deny\n", 3, "actoin"),
        ("rules:\n- name: a\n  expression: 'true'\n- name: b\n  expression: object ||\n", 5, "rules[1].expression"),
        ("rules:\n- name: a\n  expression: 'true'\n  match:\n    operations: [MOVE]\n", 5, "MOVE"),
        ("shipped: {}\nshipped: {}\n", 2, "given twice"),
        ("rules: [\n", 2, "no YAML"),
        ("- a\n", 1, "mapping"),
        ("? [a]\n: b\n", 1, "a key is no text"),
        ("rules: \xff\n", 1, "UTF-8"),
    ],
)
def test_a_file_that_can_not_be_meant_stops_the_start(tmp_path: Path, text: str, line: int, message: str) -> None:
    """With the line of the field, as near as it can be told."""
    path = tmp_path / "policies.yaml"
    path.write_bytes(text.encode("latin-1"))

    with pytest.raises(DelegateError) as refused:
        Gate(path)

    assert (refused.value.file, refused.value.line) == (str(path), line)
    assert message in refused.value.message


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """A gate without its file is closed, not open."""
    with pytest.raises(RuleFileError, match="No such file"):
        Gate(tmp_path / "none.yaml")


async def test_a_replaced_file_counts_from_the_next_task_on(tmp_path: Path) -> None:
    """Also behind a link that is moved, as a mounted ConfigMap's are; a file that is gone refuses."""
    for name, expression in (("one", "true"), ("two", "oldObject == null")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "policies.yaml").write_text(f"rules: [{{name: a, expression: '{expression}'}}]\n")
    link = tmp_path / "current"
    link.symlink_to("one")
    gate = Gate(link / "policies.yaml")
    before = gate.reads_old_objects

    link.unlink()
    link.symlink_to("two")
    await gate.refresh()

    assert (before, gate.reads_old_objects) == (False, True)

    link.unlink()
    with pytest.raises(RuleFileError):
        await gate.refresh()


def test_values_are_those_of_json(tmp_path: Path) -> None:
    """Numbers, truth values and null; whatever else YAML knows is text."""
    path = tmp_path / "rules.yaml"
    path.write_text("a: [1, 1.5, true, null, text, 2026-01-01, '1']\nb: {c: &x d, e: *x}\n")

    file = RuleFile(path)

    assert file.document == {"a": [1, 1.5, True, None, "text", "2026-01-01", "1"], "b": {"c": "d", "e": "d"}}
    assert [file.line_of(field) for field in ("a[2]", "b.e", "b.nothing", "")] == [1, 2, 2, 1]


def test_the_documented_example_can_be_read(tmp_path: Path) -> None:
    """What docs/policies.md shows is a policy file."""
    text = (Path(__file__).parents[2] / "docs" / "policies.md").read_text()
    path = tmp_path / "policies.yaml"
    path.write_text(text.partition("```yaml\n")[2].partition("```")[0])

    policies = load_policies(path)

    assert policies.shipped["mutable-tags"].action is PolicyAction.DENY
    assert policies.rules
