"""Compiles and evaluates expressions.

An expression is compiled once and evaluated often. Where several are asked about the same values, `Bindings` converts those once: that
is most of the cost.
"""

import functools
import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from delegate.foundation.expressions.errors import EvaluationError, InvalidExpressionError, UnknownExpressionError
from delegate.foundation.expressions.functions import LIBRARY
from delegate.foundation.expressions.functions.kinds import NO_OVERLOAD
from delegate.foundation.expressions.loading import interpreter
from delegate.foundation.expressions.scanning import MOST_STEPS, Demand, scan

if TYPE_CHECKING:
    import cel

MOST_NODES = 200_000
"""Values in the variables, those in lists and maps counted too; more than any object has that an API server takes."""
MOST_DEPTH = 400

_NATIVE = frozenset(
    [
        "size",
        "contains",
        "startsWith",
        "endsWith",
        "matches",
        "string",
        "int",
        "uint",
        "double",
        "bytes",
        "timestamp",
        "duration",
        "type",
        "dyn",
        "getFullYear",
        "getMonth",
        "getDate",
        "getDayOfMonth",
        "getDayOfWeek",
        "getDayOfYear",
        "getHours",
        "getMinutes",
        "getSeconds",
        "getMilliseconds",
    ]
)
_TYPES = frozenset(["int", "uint", "double", "bool", "string", "bytes", "list", "map", "null_type", "type", "google"])
_SPACES = {name.partition(".")[0] for name in LIBRARY if "." in name}
_KNOWN = _NATIVE | {name.rpartition(".")[2] for name in LIBRARY}
_PLACE = re.compile(r"ERROR: <input>:(\d+):(\d+): ([^\n]*)")
_SAID_BY_FUNCTION = re.compile(r"Python function call failed: (?:TypeError|ValueError): (.*)\. Check function arguments", re.DOTALL)
_UNDEFINED = re.compile(r"Undefined variable or function: '([^']*)'")


class Bindings:
    """Values for the variables of expressions, converted once. Raises EvaluationError where they are too large or too deep."""

    def __init__(self, variables: Mapping[str, Any]) -> None:
        self.nodes, self.longest, self.longest_text = _measure(variables)
        self.context: cel.Context = interpreter().context(variables=dict(variables), functions=dict(LIBRARY))


class Expression:
    """A compiled expression. Made by `compile_expression`."""

    def __init__(self, text: str, program: "cel.Program", demand: Demand, variables: frozenset[str]) -> None:
        self.text = text
        self.variables = variables
        self._program = program
        self._demand = demand

    def evaluate(self, variables: Mapping[str, Any] | Bindings) -> Any:
        """The value: JSON's types, bytes, `datetime` and `timedelta`. Whoever asks checks that it is of the type that is meant.

        Raises EvaluationError.
        """
        bindings = variables if isinstance(variables, Bindings) else Bindings(variables)
        if self._demand.steps(bindings.nodes, bindings.longest, bindings.longest_text) > MOST_STEPS:
            raise EvaluationError("operation cancelled: actual cost limit exceeded")
        try:
            return self._program.execute(bindings.context)
        except KeyError as error:
            raise EvaluationError(f"no such key: {error.args[0] if error.args else ''}".replace("'", "")) from None
        except (IndexError, ZeroDivisionError, OverflowError, TypeError, ValueError, RuntimeError) as error:
            raise EvaluationError(_words(error)) from None


@functools.lru_cache(maxsize=1024)
def _compile(text: str) -> Expression:
    demand = scan(text)
    try:
        program = interpreter().compile(text)
    except ValueError as error:
        raise _invalid(str(error)) from None
    for name in program.functions():
        if name[:1].isalpha() and name not in _KNOWN:
            raise UnknownExpressionError(f"the function {name}() isn't known here")
    names = frozenset(program.variables()) - demand.bound - _TYPES - _SPACES
    return Expression(text, program, demand, names)


def compile_expression(text: str, *, variables: Collection[str] | None = None) -> Expression:
    """An expression, ready to be evaluated; the same text is compiled once.

    `variables` are the names that it may use; None leaves that to the evaluation. Raises InvalidExpressionError, as
    UnknownExpressionError where it is well formed but uses what isn't known here.
    """
    compiled = _compile(text)
    if variables is not None:
        for name in sorted(compiled.variables.difference(variables)):
            known = ", ".join(sorted(variables))
            raise InvalidExpressionError(f"undeclared reference to '{name}'", hint=f"the variables are {known}")
    return compiled


def _invalid(said: str) -> InvalidExpressionError:
    match = _PLACE.search(said)
    if match is None:
        return InvalidExpressionError("is no expression")
    message = match[3].removeprefix("Syntax error: ").partition(" expecting ")[0]
    return InvalidExpressionError(message, row=int(match[1]), column=int(match[2]))


def _words(error: Exception) -> str:
    said = str(error)
    match error:
        case IndexError():
            return said
        case ZeroDivisionError():
            return "modulus by zero" if "modulo" in said else "division by zero"
        case OverflowError():
            return "integer overflow"
        case TypeError():
            return NO_OVERLOAD
        case _:
            pass
    by_function, undefined = _SAID_BY_FUNCTION.search(said), _UNDEFINED.search(said)
    if by_function:
        return by_function[1]
    if undefined:
        # The same words stand for a function that has no overload for what it was given.
        return NO_OVERLOAD if undefined[1] in _KNOWN else f"undeclared reference to '{undefined[1]}'"
    return "type conversion error" if "error:" in said else NO_OVERLOAD


def _measure(variables: Mapping[str, Any]) -> tuple[int, int, int]:
    """Nodes, the length of the longest list or map, that of the longest string: what a conversion or a loop may meet."""
    nodes, longest, longest_text = 0, 1, 0
    level: list[Any] = list(variables.values())
    for _ in range(MOST_DEPTH):
        nodes += len(level)
        if nodes > MOST_NODES:
            raise EvaluationError(f"the values have more than {MOST_NODES} parts")
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                longest = max(longest, len(value))
                below += value.values()
            elif isinstance(value, list):
                longest = max(longest, len(value))
                below += value
            elif isinstance(value, str):
                longest_text = max(longest_text, len(value))
        if not below:
            return nodes, longest, longest_text
        level = below
    raise EvaluationError(f"the values nest deeper than {MOST_DEPTH} levels")
