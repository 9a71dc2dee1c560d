"""What can go wrong in the demo.

DemoError
├── MissingPartError    something that the demo needs isn't installed
└── UnexpectedError     a step didn't do what it was to do
"""

from delegate.foundation.errors import Category, DelegateError


class DemoError(DelegateError):
    default_code = "internal.demo"
    category = Category.INTERNAL


class MissingPartError(DemoError):
    default_code = "input.missing_part"
    category = Category.INPUT


class UnexpectedError(DemoError):
    """What was expected, and what was found instead."""

    default_code = "internal.demo_unexpected"
