"""The page about syncing says what the program reads."""

import re
from pathlib import Path

import msgspec
import yaml

from delegate.model.ownership import Mode, ownership_of
from delegate.model.resources import Manifest
from delegate.model.sync_options import SyncOptionSet, read_sync_options
from delegate.model.tasks import SyncSpec, read_task

PAGE = (Path(__file__).parent.parent.parent / "docs" / "syncing.md").read_text()


def blocks() -> list[object]:
    found: list[object] = []
    for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL):
        found += list(yaml.safe_load_all(text))
    return found


def test_its_examples_are_read() -> None:
    """An annotation, the rules of an Application, a rollback, and one of what Git owns."""
    annotated, application, rollback, owned = blocks()
    assert isinstance(annotated, dict)
    assert isinstance(application, dict)
    assert ownership_of(Manifest(annotated)).mode is Mode.MERGE
    assert len(msgspec.convert(application["spec"], SyncSpec).ownership) == 2
    assert read_task(rollback).rollback_spec().to == "last-verified"
    assert read_task(owned).rollback_spec().gitops.pin


def test_every_option_that_it_names_is_known() -> None:
    """None of them leads to a notice, and each in the first column changes something."""
    rows = re.findall(r"^\| (`[^|]+) \|", PAGE.partition("## Sync options")[2].partition("## ")[0], re.MULTILINE)
    named = [word for row in rows for word in re.findall(r"`([^`]+)`", row)]
    assert len(named) >= 8
    for word in named:
        options, notices = read_sync_options([word])
        assert not notices
        assert options != SyncOptionSet()


def test_every_mode_is_told() -> None:
    """With what it does to objects and to fields."""
    assert all(f"| `{mode.value}` |" in PAGE for mode in Mode)
