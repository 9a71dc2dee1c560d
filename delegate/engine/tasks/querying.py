"""Finds the fields that jq expressions name, in a process of its own: an expression may run for ever, or take all memory there is.

The child runs in the jail of the renderers, with the limits of a question that has to be answered at once.
"""

import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path as FilePath

import msgspec

from delegate.engine.sources.errors import RenderLimitError, RenderTimeoutError
from delegate.engine.sources.jails.running import RenderLimits, open_jail, run_jailed
from delegate.engine.sources.limits import MEBIBYTE
from delegate.engine.tasks import query_child
from delegate.engine.tasks.errors import InvalidQueryError
from delegate.model.fieldsets import Path
from delegate.model.resources import Manifest

_LIMITS = RenderLimits(memory_bytes=256 * MEBIBYTE, processor_seconds=2, seconds=10.0, output_bytes=MEBIBYTE, file_bytes=16 * MEBIBYTE)
_INPUT = "query.json"


class _Answer(msgspec.Struct, frozen=True):
    paths: dict[str, list[list[str | int | None]]] = {}
    faults: dict[str, str] = {}


class PathQueries:
    """`directory` is where children get a place of their own for a moment."""

    def __init__(self, directory: FilePath) -> None:
        self._directory = directory

    async def find(self, manifest: Manifest, expressions: Sequence[str]) -> dict[str, list[Path]]:
        """The places in a manifest that each expression leads to; those that lead nowhere have none. Raises InvalidQueryError."""
        if not expressions:
            return {}
        words = "; ".join(expressions)
        try:
            answer = await self._ask(manifest, expressions)
        except (RenderLimitError, RenderTimeoutError) as error:
            raise InvalidQueryError(
                f"{manifest.key}: jqPathExpressions took more than they may ({_LIMITS.processor_seconds} s, "
                f"{_LIMITS.memory_bytes // MEBIBYTE} MiB): {words}",
                hint="write an expression that only names fields",
                object=str(manifest.key),
            ) from error
        for expression, fault in answer.faults.items():
            raise InvalidQueryError(
                f"{manifest.key}: jqPathExpressions: {expression}: {fault}",
                hint='an expression names fields, as .spec.template.spec.containers[] | select(.name == "side") | .image',
                object=str(manifest.key),
            )
        return {expression: _whole(found) for expression, found in answer.paths.items()}

    async def _ask(self, manifest: Manifest, expressions: Sequence[str]) -> _Answer:
        if importlib.util.find_spec("jq") is None:
            raise InvalidQueryError("jqPathExpressions need the package jq, which is not installed", hint="install it, or use jsonPointers")
        async with open_jail(self._directory, _LIMITS) as jail:
            (jail.inside / _INPUT).write_text(json.dumps({"body": manifest.body, "expressions": list(expressions)}))
            completed = await run_jailed(
                FilePath(sys.executable),
                ("-I", "-B", str(FilePath(query_child.__file__)), _INPUT),
                jail,
                timeout=_LIMITS.seconds,
                reads=sorted({sys.prefix, sys.base_prefix, sys.exec_prefix, str(FilePath(query_child.__file__)), *_packages()}),
            )
        try:
            return msgspec.json.decode(completed.stdout, type=_Answer)
        except msgspec.DecodeError as error:
            last = (completed.stderr.strip().splitlines() or [f"exit code {completed.exit_code}"])[-1]
            raise InvalidQueryError(f"{manifest.key}: jqPathExpressions could not be asked: {last}", object=str(manifest.key)) from error


def _packages() -> list[str]:
    spec = importlib.util.find_spec("jq")
    return [str(FilePath(spec.origin).parent)] if spec is not None and spec.origin else []


def _whole(found: list[list[str | int | None]]) -> list[Path]:
    """Paths without holes; jq names one for a step that it could not take."""
    return [tuple(step for step in path if step is not None) for path in found if path and None not in path]
