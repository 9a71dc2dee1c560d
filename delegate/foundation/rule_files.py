"""Files with rules that operators write, policies and health checks: YAML whose every field keeps its line, and which may be replaced."""

import re
from pathlib import Path
from typing import ClassVar

import yaml

from delegate.foundation.errors import Category, DelegateError

LARGEST_FILE = 2**20
"""Bytes."""
_MOST_NESTED = 40
_STEP = re.compile(r"[^.\[\]]+|\[\d*\]")


class RuleFileError(DelegateError):
    """A file with rules that can't be read, or that is no YAML."""

    default_code: ClassVar[str] = "input.rule_file"
    category: ClassVar[Category] = Category.INPUT


class RuleFile:
    """A file as it was read. `document` holds JSON's types alone."""

    def __init__(self, path: Path) -> None:
        """Raises RuleFileError with the line."""
        self.path = path
        self._root = _compose(path)
        self.document: object = _value(self._root, path, 0) if self._root is not None else None

    def line_of(self, field: str) -> int | None:
        """Where a field such as `rules[0].match.kinds` stands; of the deepest part of the way that is there."""
        node = self._root
        line = node.start_mark.line + 1 if node is not None else None
        for step in _STEP.findall(field):
            found = _below(node, step)
            if found is None:
                break
            marked, node = found
            line = marked.start_mark.line + 1
        return line


def fingerprint_of(path: Path) -> tuple[int, int, int] | None:
    """What changes whenever a file is replaced, also behind the links of a mounted ConfigMap; None where it can't be told."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _compose(path: Path) -> yaml.Node | None:
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise RuleFileError(f"can't be read: {error.strerror}", file=str(path), hint="check the path, and who may read it") from error
    if len(content) > LARGEST_FILE:
        raise RuleFileError(f"is larger than {LARGEST_FILE} bytes", file=str(path))
    try:
        return yaml.compose(content.decode(), Loader=yaml.CSafeLoader)
    except UnicodeDecodeError as error:
        raise RuleFileError("is not UTF-8", file=str(path), line=content[: error.start].count(b"\n") + 1) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise RuleFileError(f"is no YAML: {error.problem}", file=str(path), line=mark.line + 1 if mark else None) from error
    except yaml.YAMLError as error:
        raise RuleFileError(f"is no YAML: {error}", file=str(path)) from error


def _value(node: yaml.Node, path: Path, depth: int) -> object:
    line = node.start_mark.line + 1
    if depth > _MOST_NESTED:
        raise RuleFileError(f"nests deeper than {_MOST_NESTED} levels", file=str(path), line=line)
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, path, depth + 1) for item in node.value]
    if not isinstance(node, yaml.MappingNode):
        return _scalar(node, path)
    made: dict[str, object] = {}
    for key_node, value_node in node.value:
        if not isinstance(key_node, yaml.ScalarNode):
            raise RuleFileError("a key is no text", file=str(path), line=key_node.start_mark.line + 1)
        if key_node.value in made:
            raise RuleFileError(f"{key_node.value} is given twice", file=str(path), line=key_node.start_mark.line + 1)
        made[key_node.value] = _value(value_node, path, depth + 1)
    return made


def _scalar(node: yaml.Node, path: Path) -> object:
    loader = yaml.SafeLoader("")
    try:
        value: object = loader.construct_object(node, deep=True)
    except (yaml.YAMLError, ValueError) as error:
        raise RuleFileError(f"{node.value!r} is no value", file=str(path), line=node.start_mark.line + 1) from error
    finally:
        loader.dispose()
    return value if isinstance(value, str | int | float | bool | None) else str(node.value)


def _below(node: yaml.Node | None, step: str) -> tuple[yaml.Node, yaml.Node] | None:
    """The node that bears the mark of a step, and the one to go on from."""
    if isinstance(node, yaml.SequenceNode) and step[1:-1].isdecimal() and int(step[1:-1]) < len(node.value):
        item = node.value[int(step[1:-1])]
        return item, item
    if isinstance(node, yaml.MappingNode):
        return next(((key, value) for key, value in node.value if key.value == step), None)
    return None
