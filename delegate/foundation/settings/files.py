"""The settings file: one YAML mapping of flat keys, the names of the variables in lower case without `DELEGATE_`.

    manager_url: https://manager.example.com
    token_file: /run/secrets/delegate/token
    labels: {env: dev, region: eu}
    task_capacity: 32

One file may hold the settings of the delegate, the manager and people's commands. Every value keeps its line.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from delegate.foundation.settings.errors import SettingsError

LARGEST_FILE = 2**20
"""Bytes."""


@dataclass(frozen=True)
class FileValue:
    """A value as text, the way a variable would hold it, and where it stands (lines from 1)."""

    text: str
    line: int


def read_settings_file(path: Path, on_error: Callable[[SettingsError], None]) -> dict[str, FileValue]:
    """The values of a file by key. What can't be used is reported through `on_error` and left out.

    A key whose value is null counts as absent.
    """
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except OSError as error:
        on_error(SettingsError(f"the settings file can't be read: {error.strerror}", file=str(path), hint=_hint(path, error)))
        return {}
    if len(content) > LARGEST_FILE:
        on_error(SettingsError(f"the settings file is larger than {LARGEST_FILE} bytes", file=str(path)))
        return {}
    try:
        root = yaml.compose(content.decode(), Loader=yaml.CSafeLoader)
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        on_error(SettingsError("the settings file is not UTF-8", file=str(path), line=line))
        return {}
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        words = error.problem or "it is no YAML"
        on_error(SettingsError(f"the settings file is no YAML: {words}", file=str(path), line=mark.line + 1 if mark else None))
        return {}
    except yaml.YAMLError as error:
        on_error(SettingsError(f"the settings file is no YAML: {error}", file=str(path)))
        return {}
    return dict(_values(root, path, on_error))


def _hint(path: Path, error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "check the path given with --config"
    if isinstance(error, PermissionError):
        return f"let the user that runs this read {path}"
    return "give a file that can be read"


def _values(root: yaml.Node | None, path: Path, on_error: Callable[[SettingsError], None]) -> Iterator[tuple[str, FileValue]]:
    if root is None or _is_null(root):
        return
    if not isinstance(root, yaml.MappingNode):
        on_error(SettingsError("the settings file is no mapping of keys to values", file=str(path), line=root.start_mark.line + 1))
        return
    lines: dict[str, int] = {}
    for key_node, value_node in root.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            on_error(SettingsError("a key is no text", file=str(path), line=line))
            continue
        key = key_node.value
        if key in lines:
            on_error(SettingsError(f"{key} is given twice, first in line {lines[key]}", file=str(path), line=line))
            continue
        lines[key] = line
        if _is_null(value_node):
            continue
        try:
            yield key, FileValue(_text(value_node), line)
        except ValueError as error:
            on_error(SettingsError(f"{key}: {error}", file=str(path), line=value_node.start_mark.line + 1))


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"


def _text(node: yaml.Node) -> str:
    """A scalar as written; a list joined with commas; a mapping as `key=value` joined with commas."""
    if isinstance(node, yaml.MappingNode):
        return ",".join(f"{_item(key)}={_item(value)}" for key, value in node.value)
    if isinstance(node, yaml.SequenceNode):
        return ",".join(_item(item) for item in node.value)
    return str(node.value)


def _item(node: yaml.Node) -> str:
    text = "" if _is_null(node) else node.value
    if isinstance(text, str) and "," not in text:
        return text
    raise ValueError("its items are plain texts without commas")
