"""Results as people read them, and the exit codes that scripts read."""

import pytest

from delegate.cli.exits import ExitCode
from delegate.cli.outputs import Output
from delegate.cli.results import exit_code_of_diff, exit_code_of_result, show_differences, show_result, show_value
from delegate.model.health.verdicts import HEALTHY, HealthStatus, progressing
from delegate.model.results import Action, Change, ErrorDetail, Outcome, ResourceResult, Summary, SyncStatus, TaskResult

RESOURCES = (
    ResourceResult("", "ConfigMap", "shop", "web", Action.UNCHANGED, health=HEALTHY),
    ResourceResult("", "Service", "shop", "web", Action.CREATED, health=HEALTHY, origin="web.yaml:30"),
    ResourceResult(
        "apps",
        "Deployment",
        "shop",
        "web",
        Action.CONFIGURED,
        health=progressing("Updating", "1 of 3 replicas are updated"),
        changes=(
            Change("/spec/replicas", 1, 3),
            Change("/metadata/labels/tier", after="front"),
            Change("/metadata/labels/team", before="a b"),
        ),
        origin="web.yaml:3",
    ),
    ResourceResult("", "Secret", "shop", "old", Action.PRUNED),
)


def _result(
    outcome: Outcome = Outcome.SUCCEEDED, *, sync: SyncStatus = SyncStatus.SYNCED, kind: str = "sync", category: str = ""
) -> TaskResult:
    errors = (
        (ErrorDetail("x.y", category, "it is broken", "mend it", file="web.yaml", line=14, object="Service shop/web"),) if category else ()
    )
    return TaskResult(
        task="t",
        attempt="a",
        kind=kind,
        application="shop",
        outcome=outcome,
        revision="9f3c2ab17d5e0b6a41c2",
        sync=sync,
        health=HealthStatus.PROGRESSING,
        message="it is broken; stopped part way" if outcome is not Outcome.SUCCEEDED else "",
        error=errors[0] if errors else None,
        errors=errors,
        summary=Summary(created=1, configured=1, unchanged=1, pruned=1),
        resources=RESOURCES,
        seconds={"plan": 0.25, "apply": 1.0},
        notices=("the namespace is created first",),
    )


def test_a_result_shows_what_changed_and_how_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """Objects that are as they were are only counted."""
    show_result(_result(), Output.TEXT)

    told = capsys.readouterr()
    assert told.out.splitlines() == [
        "created     Healthy      Service shop/web",
        "configured  Progressing  apps/Deployment shop/web",
        "    /spec/replicas: 1 -> 3",
        "    /metadata/labels/tier: added front",
        "    /metadata/labels/team: removed a b",
        "    1 of 3 replicas are updated",
        "pruned      -            Secret shop/old",
        "succeeded: 4 resources, 2 changed, 1 pruned; Synced, Progressing; revision 9f3c2ab17d5e; 1.2 s",
    ]
    assert told.err == "note: the namespace is created first\n"


def test_a_fault_is_told_with_its_place_its_object_and_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    """On standard error; the last line of standard output says how it ended."""
    show_result(_result(Outcome.REFUSED, category="input"), Output.TEXT)

    told = capsys.readouterr()
    assert told.err.splitlines()[-2:] == ["error: web.yaml:14: Service shop/web: it is broken", "hint: mend it"]
    assert told.out.splitlines()[-1].startswith("refused: nothing was touched; 4 resources")


def test_an_end_without_a_fault_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    """As an interrupted one."""
    show_result(_result(Outcome.INTERRUPTED), Output.TEXT)

    told = capsys.readouterr()
    assert told.err.splitlines()[-1] == "error: it is broken; stopped part way"
    assert told.out.splitlines()[-1].startswith("interrupted: ")


def test_a_diff_shows_each_leaf(capsys: pytest.CaptureFixture[str]) -> None:
    """With the place in the source that it comes from."""
    show_differences(_result(kind="diff", sync=SyncStatus.OUT_OF_SYNC), Output.TEXT)

    assert capsys.readouterr().out.splitlines() == [
        "+ Service shop/web would be created  (web.yaml:30)",
        "~ apps/Deployment shop/web would change  (web.yaml:3)",
        "    /spec/replicas",
        "      - 1",
        "      + 3",
        "    /metadata/labels/tier",
        "      + front",
        "    /metadata/labels/team",
        "      - a b",
        "- Secret shop/old would be pruned",
        "differences: 4 resources, 2 changed, 1 pruned; revision 9f3c2ab17d5e; 1.2 s",
    ]


@pytest.mark.parametrize(
    ("outcome", "category", "of_sync", "of_diff"),
    [
        (Outcome.SUCCEEDED, "", ExitCode.DONE, ExitCode.DONE),
        (Outcome.REFUSED, "input", ExitCode.USAGE, ExitCode.USAGE),
        (Outcome.REFUSED, "permission", ExitCode.FAILED, ExitCode.USAGE),
        (Outcome.REFUSED, "policy", ExitCode.FAILED, ExitCode.USAGE),
        (Outcome.FAILED, "input", ExitCode.FAILED, ExitCode.USAGE),
        (Outcome.TIMED_OUT, "timeout", ExitCode.FAILED, ExitCode.USAGE),
        (Outcome.CANCELLED, "", ExitCode.FAILED, ExitCode.USAGE),
        (Outcome.INTERRUPTED, "", ExitCode.INTERRUPTED, ExitCode.INTERRUPTED),
    ],
)
def test_exit_codes_say_how_it_ended(outcome: Outcome, category: str, of_sync: ExitCode, of_diff: ExitCode) -> None:
    """2 is for what was given and left nothing touched; for a diff, for everything that it can't tell."""
    result = _result(outcome, category=category)

    assert exit_code_of_result(result) is of_sync
    assert exit_code_of_diff(result) is of_diff


def test_a_diff_with_differences_ends_with_1() -> None:
    """As diff programs have it."""
    assert exit_code_of_diff(_result(kind="diff", sync=SyncStatus.OUT_OF_SYNC)) is ExitCode.FAILED


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("front", "front"),
        ("a b", "a b"),
        ("(hidden)", "(hidden)"),
        ("3", '"3"'),
        ("true", '"true"'),
        (3, "3"),
        (None, "null"),
        ("", '""'),
        (" x", '" x"'),
        ("two\nlines", '"two\\nlines"'),
        ("\x1b[31mred", '"\\u001b[31mred"'),
        ("Größe", "Größe"),
        ({"a": [1]}, '{"a": [1]}'),
    ],
)
def test_a_value_takes_one_line_and_can_not_be_mistaken(value: object, shown: str) -> None:
    """Nor play with the terminal."""
    assert show_value(value) == shown
