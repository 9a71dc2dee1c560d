"""The page about the simulated cluster names what there is."""

from pathlib import Path
from typing import get_args

import pytest

from delegate.cli.simulation import simulator as command
from delegate.simulator import behaviors

_ROOT = Path(__file__).parents[2]
_PAGE = (_ROOT / "docs" / "simulator.md").read_text(encoding="utf-8")


def test_every_flag_and_every_rule_is_on_the_page() -> None:
    """Those of logs and settings files are common to all commands."""
    flags = {name for option in command.params for name in option.opts if not name.startswith(("--log-", "--config"))}
    words = {f"`{word}`" for word in get_args(behaviors.Behavior)}
    annotations = {behaviors.BEHAVIOR, behaviors.READY_AFTER, behaviors.LOG}

    assert {name for name in flags if f"`{name}" not in _PAGE} == set()
    assert {word for word in words | annotations if word not in _PAGE} == set()


@pytest.mark.parametrize("path", sorted((_ROOT / "delegate" / "simulator").rglob("*.py")), ids=lambda path: path.stem)
def test_no_module_is_over_four_hundred_lines(path: Path) -> None:
    """Each is one subject, and says which."""
    text = path.read_text(encoding="utf-8")

    assert len(text.splitlines()) <= 400
    assert text.startswith('"""')
