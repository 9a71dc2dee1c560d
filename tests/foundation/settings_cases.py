"""What the tests of settings share: loading from nothing but what the test gives, and the faults of a refusal."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import pytest

from delegate.foundation.errors import DelegateError, flatten
from delegate.foundation.settings import DelegateSettings, Loaded, SettingsError, load

P = TypeVar("P")
URL = "https://manager.example"


def load_delegate(
    environment: Mapping[str, str] | None = None,
    *,
    flags: Mapping[str, str] | None = None,
    config: Path | None = None,
) -> Loaded[DelegateSettings]:
    """The delegate's settings with a manager's address, which every test but one takes for granted."""
    return load(DelegateSettings, flags=flags, environment={"DELEGATE_MANAGER_URL": URL, **(environment or {})}, config=config)


def faults(
    environment: Mapping[str, str] | None = None,
    *,
    flags: Mapping[str, str] | None = None,
    config: Path | None = None,
    program: type = DelegateSettings,
) -> tuple[DelegateError, ...]:
    """Every fault that loading reports, each a SettingsError."""
    with pytest.raises(DelegateError) as raised:
        load(program, flags=flags, environment={"DELEGATE_MANAGER_URL": URL, **(environment or {})}, config=config)
    found = flatten(raised.value)
    assert all(isinstance(each, SettingsError) and each.code == "input.settings" for each in found)
    return found


def fault(
    environment: Mapping[str, str] | None = None,
    *,
    flags: Mapping[str, str] | None = None,
    config: Path | None = None,
    program: type = DelegateSettings,
) -> DelegateError:
    """The only fault that loading reports."""
    found = faults(environment, flags=flags, config=config, program=program)
    assert len(found) == 1, [str(each) for each in found]
    return found[0]
