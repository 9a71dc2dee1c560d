"""Several comparisons at once: Holm's correction keeps the chance of any false alarm among them at what one was to have."""

from collections.abc import Sequence


def holm(tests: Sequence[tuple[float, float]]) -> list[bool]:
    """Which of the tests (p, alpha) are rejected. Each alpha is what its test would be held to alone."""
    order = sorted(range(len(tests)), key=lambda index: tests[index][0] / tests[index][1])
    rejected = [False] * len(tests)
    for position, index in enumerate(order):
        p, alpha = tests[index]
        if p > alpha / (len(tests) - position):
            break
        rejected[index] = True
    return rejected


def levels(tests: Sequence[tuple[float, float]]) -> list[float]:
    """The level that each test was held to in Holm's procedure."""
    order = sorted(range(len(tests)), key=lambda index: tests[index][0] / tests[index][1])
    found = [0.0] * len(tests)
    for position, index in enumerate(order):
        found[index] = tests[index][1] / (len(tests) - position)
    return found
