"""The interpreter, a compiled extension module, brought in on the first use."""

import functools
import logging
import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import cel

_COMMAND_LINE = "cel.cli"


class Interpreter(NamedTuple):
    compile: "Callable[[str], cel.Program]"
    context: "type[cel.Context]"


@functools.cache
def interpreter() -> Interpreter:
    """What is needed of the `cel` module.

    Its package imports its own command line and with it typer, pydantic and prompt_toolkit: 100 ms and 28 MiB for what a daemon never
    calls. An empty module stands in while it is imported, which leaves 5 ms and 5 MiB.
    """
    absent = _COMMAND_LINE not in sys.modules
    if absent:
        sys.modules[_COMMAND_LINE] = types.ModuleType(_COMMAND_LINE)
    try:
        import cel  # noqa: PLC0415 - see above
    finally:
        if absent:
            del sys.modules[_COMMAND_LINE]
    # It logs what a function had against its arguments, and that may quote a value; the error itself is raised all the same.
    logging.getLogger("cel").setLevel(logging.CRITICAL)
    return Interpreter(cel.compile, cel.Context)
