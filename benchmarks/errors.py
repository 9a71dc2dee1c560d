"""Why a benchmark has no figures.

BenchmarkError
├── BrokenRunError      what was measured did not do its work, so its time means nothing
├── ChildEndedError     a process that was started ended by itself
└── OutOfBoundsError    a subject that took more time than it may
"""

from delegate.foundation.errors import Category, DelegateError


class BenchmarkError(DelegateError):
    """The root of this package's errors."""

    default_code = "benchmark"
    category = Category.INTERNAL


class BrokenRunError(BenchmarkError):
    default_code = "benchmark.broken_run"


class ChildEndedError(BenchmarkError):
    default_code = "benchmark.child_ended"


class OutOfBoundsError(BenchmarkError):
    default_code = "benchmark.out_of_bounds"
