"""What people see of a running task: steps, counts, and what is waited for with the cluster's words."""

import io
import re

import pytest
from rich.console import Console

from delegate.cli.progress import LineProgress, LiveProgress, Steps
from delegate.model.resources import JsonObject

EVENTS: list[tuple[str, JsonObject]] = [
    ("resolve.started", {}),
    ("source.resolved", {"revision": "9f3c2ab17d5e0b6a41c2"}),
    ("render.started", {}),
    ("plan.started", {}),
    ("plan.made", {"hash": "abc", "changes": True, "objects": 12, "writes": 2, "prunes": 1}),
    ("apply.started", {}),
    ("object.written", {"object": "ConfigMap shop/web", "action": "created"}),
    ("wait.started", {}),
    ("object.written", {"object": "apps/Deployment shop/web", "action": "configured"}),
    ("wait.started", {}),
    (
        "object.health",
        {"object": "apps/Deployment shop/web", "status": "Progressing", "reason": "Updating", "message": "1 of 3 replicas are updated"},
    ),
]


def test_steps_are_shown_in_order_with_what_is_known_of_each() -> None:
    """Waves go from applying to waiting and back: both stay one step, and their times add up."""
    steps = Steps()
    for second, (event, data) in enumerate(EVENTS):
        steps.take(event, data, float(second))

    assert [(step.words, step.detail) for step in steps.steps.values()] == [
        ("find the revision", "9f3c2ab17d5e"),
        ("read the manifests", ""),
        ("compare with the cluster", "12 objects, 2 to write, 1 to prune"),
        ("apply", "2 of 2"),
        ("wait until healthy", ""),
    ]
    assert steps.steps["apply"].seconds_at(20.0) == (7 - 5) + (9 - 8)
    assert steps.steps["wait"].seconds_at(20.0) == (8 - 7) + (20 - 9)


def test_what_is_waited_for_is_shown_with_the_words_of_the_cluster() -> None:
    """And no longer once it is healthy, or once something else goes on."""
    steps = Steps()
    for event, data in EVENTS:
        steps.take(event, data, 0.0)

    assert steps.pending == {"apps/Deployment shop/web": "Progressing: 1 of 3 replicas are updated"}

    steps.take("object.health", {"object": "apps/Deployment shop/web", "status": "Healthy"}, 0.0)
    assert steps.pending == {}


def test_an_event_of_a_newer_version_is_no_fault() -> None:
    """Nor are data that lack what is expected of them."""
    steps = Steps()

    assert steps.take("object.admired", {}, 0.0) == ""
    assert steps.take("plan.made", {"writes": "many"}, 0.0) == "0 objects, nothing to write"
    assert steps.take("object.health", {}, 0.0) == " is "


def test_lines_come_one_for_each_thing_worth_one(capfd: pytest.CaptureFixture[str]) -> None:
    """On standard error, and nothing on standard output."""
    progress = LineProgress()
    for event, data in EVENTS:
        progress.report(event, data)
    progress.stopping()

    told = capfd.readouterr()
    assert told.out == ""
    assert told.err.splitlines() == [
        "find the revision",
        "9f3c2ab17d5e",
        "read the manifests",
        "compare with the cluster",
        "12 objects, 2 to write, 1 to prune",
        "apply",
        "created ConfigMap shop/web",
        "wait until healthy",
        "configured apps/Deployment shop/web",
        "wait until healthy",
        "apps/Deployment shop/web is Progressing: 1 of 3 replicas are updated",
        "stopping; once more to hurry",
    ]


def test_a_terminal_shows_steps_and_what_is_pending_and_is_clean_afterwards() -> None:
    """At most a handful of what is waited for, and how many more there are."""
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=120, color_system=None)
    with LiveProgress(console) as live:
        for event, data in EVENTS:
            live.report(event, data)
        for number in range(6):
            live.report("object.health", {"object": f"Pod shop/p{number}", "status": "Progressing", "message": "Pulling"})
        with console.capture() as capture:
            console.print(live._draw())
        drawn = capture.get()

    assert re.search(r"✓ compare with the cluster +12 objects, 2 to write, 1 to prune", drawn)
    assert "1 of 3 replicas are updated" in drawn
    assert "Pod shop/p3" in drawn
    assert "Pod shop/p4" not in drawn
    assert "and 2 more" in drawn
    assert screen.getvalue().endswith("\x1b[2K")  # the last line that was drawn is erased
