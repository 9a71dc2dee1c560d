"""Expressions in the part of CEL that validation rules and admission policies are usually written in.

Literals, fields, indexes, operators, `has`, the list macros (all, exists, exists_one, map, filter), sizes, conversions, and the usual
functions of strings and lists. Not there: optionals, durations, timestamps, quantities, bytes, types, and the libraries for URLs,
addresses and authorization. What can't be parsed raises `UnknownExpressionError`, and whoever asked passes it over.
"""

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

MOST_STEPS = 1_000_000
"""Evaluation stops after so many steps, as the server stops by cost."""

Scope = Mapping[str, Any]
Node = Callable[[Scope], Any]


class UnknownExpressionError(Exception):
    """An expression that is none, or that uses what isn't known here."""


class EvaluationError(Exception):
    """A value that isn't there or doesn't fit; the text is CEL's as far as it goes."""


_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+\.\d+(?:[eE][+-]?\d+)?|0x[0-9a-fA-F]+u?|\d+u?)"
    r"|(?P<string>[rR]?(?:\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'))"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<mark>&&|\|\||==|!=|<=|>=|[-+*/%!<>?:.,()\[\]{}]))"
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_CONSTANTS = {"true": True, "false": False, "null": None}
_MACROS = ("all", "exists", "exists_one", "map", "filter")


@functools.lru_cache(maxsize=1024)
def parse(text: str) -> Node:
    """The expression, ready to be evaluated on variables. Raises `UnknownExpressionError`."""
    parser = _Parser(_tokens(text))
    node = parser.expression()
    if parser.kind != "end":
        raise UnknownExpressionError(text)
    return node


def evaluate(text: str, variables: Mapping[str, Any]) -> Any:
    """Raises `UnknownExpressionError` or `EvaluationError`."""
    node = parse(text)
    try:
        return node({**variables, "": [MOST_STEPS]})
    except (TypeError, AttributeError, ValueError, KeyError, RecursionError, OverflowError, re.error) as error:
        raise EvaluationError(f"no such overload: {error}") from error


def _tokens(text: str) -> list[tuple[str, str]]:
    found, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.end() == at:
            raise UnknownExpressionError(text)
        found.append((str(match.lastgroup), match[match.lastgroup or 0]))
        at = match.end()
    return [*found, ("end", "")]


def _text_of(token: str) -> str:
    if token[0] in "rR":
        return token[2:-1]

    def plain(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPES.get(code, code)

    return _ESCAPE.sub(plain, token[1:-1])


class _Parser:
    """Recursive descent; every method returns what evaluates its part."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._at = 0

    @property
    def kind(self) -> str:
        return self._tokens[self._at][0]

    @property
    def text(self) -> str:
        return self._tokens[self._at][1]

    def _take(self, text: str) -> bool:
        if self.kind in ("mark", "name") and self.text == text:
            self._at += 1
            return True
        return False

    def _need(self, text: str) -> None:
        if not self._take(text):
            raise UnknownExpressionError(self.text)

    def _next(self, kind: str) -> str:
        if self.kind != kind:
            raise UnknownExpressionError(self.text)
        text = self.text
        self._at += 1
        return text

    def expression(self) -> Node:
        condition = self._either()
        if not self._take("?"):
            return condition
        yes = self._either()
        self._need(":")
        no = self.expression()
        return lambda scope: yes(scope) if _boolean(condition(scope)) else no(scope)

    def _either(self) -> Node:
        node = self._both()
        while self._take("||"):
            node = _absorbing(node, self._both(), until=True)
        return node

    def _both(self) -> Node:
        node = self._relation()
        while self._take("&&"):
            node = _absorbing(node, self._relation(), until=False)
        return node

    def _relation(self) -> Node:
        node = self._sum()
        for mark in ("==", "!=", "<=", ">=", "<", ">", "in"):
            if self._take(mark):
                return _compared(mark, node, self._sum())
        return node

    def _sum(self) -> Node:
        node = self._product()
        while self.kind == "mark" and self.text in "+-" and self.text:
            node = _arithmetic(self._next("mark"), node, self._product())
        return node

    def _product(self) -> Node:
        node = self._unary()
        while self.kind == "mark" and self.text in "*/%" and self.text:
            node = _arithmetic(self._next("mark"), node, self._unary())
        return node

    def _unary(self) -> Node:
        if self._take("!"):
            negated = self._unary()
            return lambda scope: not _boolean(negated(scope))
        if self._take("-"):
            number = self._unary()
            return lambda scope: -number(scope)
        return self._member()

    def _member(self) -> Node:
        node = self._primary()
        while True:
            if self._take("."):
                name = self._next("name")
                node = self._call(node, name) if self._take("(") else _field(node, name)
            elif self._take("["):
                node = _index(node, self.expression())
                self._need("]")
            else:
                return node

    def _call(self, target: Node, name: str) -> Node:
        if name in _MACROS:
            variable = self._next("name")
            self._need(",")
            bodies = [self.expression()]
            while self._take(","):
                bodies.append(self.expression())
            self._need(")")
            return _macro(name, target, variable, bodies)
        arguments = self._arguments(")")
        method = METHODS.get(name)
        if method is None:
            raise UnknownExpressionError(name)
        return lambda scope: method(target(scope), *(argument(scope) for argument in arguments))

    def _arguments(self, end: str) -> list[Node]:
        found: list[Node] = []
        while not self._take(end):
            if found:
                self._need(",")
                if self._take(end):
                    break
            found.append(self.expression())
        return found

    def _primary(self) -> Node:
        kind, text = self.kind, self.text
        if self._take("("):
            node = self.expression()
            self._need(")")
            return node
        if self._take("["):
            items = self._arguments("]")
            return lambda scope: [item(scope) for item in items]
        if self._take("{"):
            return self._map()
        self._at += 1
        if kind == "number":
            value = float(text) if "." in text else int(text.rstrip("u"), 0)
            return lambda _scope: value
        if kind == "string":
            literal = _text_of(text)
            return lambda _scope: literal
        if kind == "name":
            return self._named(text)
        raise UnknownExpressionError(text)

    def _named(self, name: str) -> Node:
        if name in _CONSTANTS:
            constant = _CONSTANTS[name]
            return lambda _scope: constant
        if not self._take("("):
            return lambda scope: _variable(scope, name)
        if name == "has":
            place = self._member()
            self._need(")")
            return lambda scope: _has(place, scope)
        arguments = self._arguments(")")
        function = FUNCTIONS.get(name)
        if function is None:
            raise UnknownExpressionError(name)
        return lambda scope: function(*(argument(scope) for argument in arguments))

    def _map(self) -> Node:
        pairs: list[tuple[Node, Node]] = []
        while not self._take("}"):
            if pairs:
                self._need(",")
            key = self.expression()
            self._need(":")
            pairs.append((key, self.expression()))
        return lambda scope: {key(scope): value(scope) for key, value in pairs}


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise EvaluationError("no such overload")
    return value


def _variable(scope: Scope, name: str) -> Any:
    try:
        return scope[name]
    except KeyError:
        raise EvaluationError(f"undeclared reference to '{name}'") from None


def _field(target: Node, name: str) -> Node:
    def read(scope: Scope) -> Any:
        holder = target(scope)
        try:
            return holder[name]
        except (KeyError, TypeError, IndexError):
            raise EvaluationError(f"no such key: {name}") from None

    read.place = (target, name)  # type: ignore[attr-defined]
    return read


def _has(place: Node, scope: Scope) -> bool:
    found = getattr(place, "place", None)
    if found is None:
        raise EvaluationError("invalid argument to has() macro")
    holder = found[0](scope)
    return isinstance(holder, Mapping) and found[1] in holder


def _index(target: Node, index: Node) -> Node:
    def read(scope: Scope) -> Any:
        holder, key = target(scope), index(scope)
        if isinstance(holder, list):
            if not isinstance(key, int) or not 0 <= key < len(holder):
                raise EvaluationError(f"index out of bounds: {key}")
            return holder[key]
        try:
            return holder[key]
        except (KeyError, TypeError):
            raise EvaluationError(f"no such key: {key}") from None

    return read


def _absorbing(left: Node, right: Node, *, until: bool) -> Node:
    """`&&` and `||`: an error on one side doesn't matter where the other side decides."""

    def decide(scope: Scope) -> bool:
        try:
            first = _boolean(left(scope))
        except (EvaluationError, TypeError) as error:
            if _boolean(right(scope)) is until:
                return until
            raise EvaluationError(str(error)) from error
        return until if first is until else _boolean(right(scope))

    return decide


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, bool) != isinstance(other, bool):
        return False
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(equal(a, b) for a, b in zip(one, other, strict=True))
    return bool(one == other)


def _compared(mark: str, left: Node, right: Node) -> Node:
    match mark:
        case "==":
            return lambda scope: equal(left(scope), right(scope))
        case "!=":
            return lambda scope: not equal(left(scope), right(scope))
        case "in":
            return lambda scope: _within(left(scope), right(scope))
        case "<":
            return lambda scope: bool(left(scope) < right(scope))
        case "<=":
            return lambda scope: bool(left(scope) <= right(scope))
        case ">":
            return lambda scope: bool(left(scope) > right(scope))
        case _:
            return lambda scope: bool(left(scope) >= right(scope))


def _within(item: Any, holder: Any) -> bool:
    if isinstance(holder, Mapping):
        return item in holder
    if not isinstance(holder, list):
        raise EvaluationError("no such overload")
    return any(equal(item, held) for held in holder)


def _arithmetic(mark: str, left: Node, right: Node) -> Node:
    def compute(scope: Scope) -> Any:
        one, two = left(scope), right(scope)
        if isinstance(one, bool) or isinstance(two, bool):
            raise EvaluationError("no such overload")
        match mark:
            case "+":
                return one + two
            case "-":
                return one - two
            case "*":
                return one * two
            case "%":
                return _remainder(one, two)
            case _:
                return _quotient(one, two)

    return compute


def _quotient(one: Any, two: Any) -> Any:
    if isinstance(one, float) or isinstance(two, float):
        return one / two
    if two == 0:
        raise EvaluationError("division by zero")
    return abs(one) // abs(two) * (1 if (one < 0) == (two < 0) else -1)


def _remainder(one: Any, two: Any) -> Any:
    if two == 0:
        raise EvaluationError("modulus by zero")
    return one - two * _quotient(one, two)


def _macro(name: str, target: Node, variable: str, bodies: list[Node]) -> Node:
    def run(scope: Scope) -> Any:
        items = target(scope)
        items = list(items) if isinstance(items, Mapping) else items
        if not isinstance(items, list):
            raise EvaluationError("no such overload")
        budget = scope[""]
        budget[0] -= len(items)
        if budget[0] < 0:
            raise EvaluationError("operation cancelled: actual cost limit exceeded")
        scopes = [{**scope, variable: item} for item in items]
        match name:
            case "all":
                return all(_boolean(bodies[0](inner)) for inner in scopes)
            case "exists":
                return any(_boolean(bodies[0](inner)) for inner in scopes)
            case "exists_one":
                return sum(_boolean(bodies[0](inner)) for inner in scopes) == 1
            case "filter":
                return [inner[variable] for inner in scopes if _boolean(bodies[0](inner))]
            case _:
                kept = scopes if len(bodies) == 1 else [inner for inner in scopes if _boolean(bodies[0](inner))]
                return [bodies[-1](inner) for inner in kept]

    return run


def _matches(text: str, pattern: str) -> bool:
    return re.search(pattern, text) is not None


def _string(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _index_of(holder: Any, item: Any) -> int:
    if isinstance(holder, str):
        return holder.find(item)
    return next((index for index, held in enumerate(holder) if equal(held, item)), -1)


METHODS: dict[str, Callable[..., Any]] = {
    "size": len,
    "startsWith": str.startswith,
    "endsWith": str.endswith,
    "contains": lambda text, part: part in text,
    "matches": _matches,
    "lowerAscii": str.lower,
    "upperAscii": str.upper,
    "trim": str.strip,
    "split": lambda text, separator, limit=-1: text.split(separator, limit - 1 if limit > 0 else -1) if separator else list(text),
    "join": lambda items, separator="": separator.join(items),
    "replace": lambda text, old, new, limit=-1: text.replace(old, new, limit),
    "substring": lambda text, start, end=None: text[start:end],
    "charAt": lambda text, at: text[at : at + 1],
    "indexOf": lambda holder, item: (
        holder.find(item) if isinstance(holder, str) else next((i for i, x in enumerate(holder) if x == item), -1)
    ),
    "isSorted": lambda items: items == sorted(items),
    "sum": sum,
    "min": min,
    "max": max,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "size": len,
    "int": int,
    "uint": int,
    "double": float,
    "string": _string,
    "bool": lambda value: value if isinstance(value, bool) else {"true": True, "false": False}[value],
    "dyn": lambda value: value,
    "matches": _matches,
}
