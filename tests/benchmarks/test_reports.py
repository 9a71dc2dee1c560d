"""What figures say: medians, ratios within rounds, targets, and the lines that people read."""

import pytest

from benchmarks.reports import Figure, Report, Target, number, of_samples, percentile, render


def test_ratio_is_the_median_of_the_rounds() -> None:
    """A round that was slow for both sides says nothing about the ratio."""
    figure = of_samples("sync", [2.0, 20.0, 3.0], "s", against="bare", base=[1.0, 10.0, 2.0])

    assert figure.value == 3.0
    assert figure.ratio == 2.0


@pytest.mark.parametrize(
    ("target", "reached"),
    [
        (Target("value", at_most=0.5), True),
        (Target("value", at_most=0.4), False),
        (Target("value", at_least=0.6), False),
        (Target("ratio", at_most=2.0), True),
        (Target("ratio", at_least=2.1), False),
    ],
)
def test_target_is_a_bound_of_value_or_ratio(target: Target, reached: bool) -> None:
    """Targets bound what they name, from the side that they name."""
    assert Figure(name="x", value=0.5, unit="s", ratio=2.0, target=target).reached is reached


def test_ratio_target_needs_a_ratio() -> None:
    """What was compared with nothing reaches no ratio."""
    assert Figure(name="x", value=0.5, unit="s", target=Target("ratio", at_most=2.0)).reached is False


@pytest.mark.parametrize(("share", "wanted"), [(0.5, 2.0), (0.51, 3.0), (0.99, 4.0), (1.0, 4.0), (0.0, 1.0)])
def test_percentile_is_a_sample(share: float, wanted: float) -> None:
    """No value is made up between two samples."""
    assert percentile([4.0, 1.0, 3.0, 2.0], share) == wanted


@pytest.mark.parametrize(
    ("value", "words"), [(0.0, "0"), (0.01234, "0.0123"), (1.5, "1.5"), (12.345, "12.35"), (1234.5, "1,234"), (99.999, "100")]
)
def test_numbers_have_three_digits(value: float, words: str) -> None:
    """As many digits as mean something."""
    assert number(value) == words


def test_line_has_value_ratio_and_target() -> None:
    """Absolute value, ratio, target and spread stand side by side."""
    slow = of_samples("sync", [2.0, 3.0], "s", against="bare", base=[1.0, 1.0], target=Target("ratio", at_most=1.3), note="4 reads")
    report = Report(subject="sync", title="objects", circumstances=("two cores",), figures=(slow,), skipped=("kubectl: not there",))

    lines = render(report).splitlines()

    assert lines[:2] == ["sync: objects", "  on two cores"]
    assert lines[2].split("  ")[1:] == ["sync", "2.5 s", "2.5 x bare", "target <= 1.3 x: MISSED", "(2 to 3) 4 reads"]
    assert lines[3] == "  not compared: kubectl: not there"
