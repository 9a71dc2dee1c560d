"""Fewer and shorter collections of garbage for processes that have started and now handle many small things."""

import gc

_YOUNG, _MIDDLE, _OLD = 10_000, 20, 50
"""Our messages are trees, freed by their counts; collections find next to nothing, and a full one stops everything for tens of ms."""


def calm_garbage() -> None:
    """Collects less often. Whoever loads libraries later still has to take them out of sight."""
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)


def settle_garbage() -> None:
    """Takes all that was loaded until now out of every later collection. For a process that serves; once, when it has started."""
    gc.collect()
    gc.freeze()
    calm_garbage()
