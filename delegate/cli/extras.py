"""Commands that need more than the delegate itself: which extra is missing, and how to install it."""

import importlib.util

from delegate.foundation.errors import Category, DelegateError


class MissingExtraError(DelegateError):
    """A part of the program that isn't installed."""

    default_code = "input.missing_extra"
    category = Category.INPUT


def require_extra(extra: str, *modules: str) -> None:
    """Raises MissingExtraError unless the extra's libraries are there."""
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    if missing:
        raise MissingExtraError(
            f"this needs the extra {extra!r}, and {', '.join(missing)} is not installed",
            hint=f"pip install 'delegate[{extra}]'; in a checkout, `make setup` installs everything",
        )
