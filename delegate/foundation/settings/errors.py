"""Errors of the settings:

DelegateError
  SettingsError        a value, file, variable or flag that can't be meant
"""

from delegate.foundation.errors import Category, DelegateError


class SettingsError(DelegateError):
    """A setting that can't be used: the message names the variable, the flag or the place in the file, the hint the remedy."""

    default_code = "input.settings"
    category = Category.INPUT
