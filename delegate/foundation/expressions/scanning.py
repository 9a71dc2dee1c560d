"""What an expression may cost, read from its text before it runs.

The interpreter can't be stopped once it runs, and it holds the thread. So the work is bounded beforehand: by the length and nesting of
the text, and by its macros, which are all the loops there are. A macro over something of an enclosing macro's variable walks down a tree,
whose every node is met once; any other macro inside of a macro multiplies. `map` and `filter` copy what they have for every item.
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from delegate.foundation.expressions.errors import InvalidExpressionError, UnknownExpressionError

MOST_CHARACTERS = 10_240
MOST_TOKENS = 1_500
MOST_NESTED = 50
MOST_NESTED_MACROS = 6
MOST_STEPS = 4_000_000
"""Steps of one evaluation by the estimate; about half a second."""

_TOKEN = re.compile(
    r"(?P<space>\s+|//[^\n]*)"
    r"|(?P<text>[rRbB]{0,2}(?:\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''(?:[^\\]|\\.)*?'''|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'))"
    r"|(?P<number>(?:0x[0-9a-fA-F]+|\d+\.\d+(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|\d+(?:[eE][+-]?\d+)?)[uU]?)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<mark>\.\?|\[\?|&&|\|\||==|!=|<=|>=|.)",
    re.DOTALL,
)
_MACROS = frozenset({"all", "exists", "exists_one", "existsOne", "map", "filter"})
_COPYING = frozenset({"map", "filter"})
_SPLITTING = ("split", "findAll")
_OPENING, _CLOSING = {"(": ")", "[": "]", "{": "}", "[?": "]"}, frozenset(")]}")


class Nest(NamedTuple):
    """One way down through macros that stand in each other: how many of them loop over a collection of the values, how many over what was
    made of a text, and whether others walk on down from an enclosing macro's item.
    """

    collections: int = 0
    texts: int = 0
    walks: bool = False


class Demand(msgspec.Struct, frozen=True):
    """What an expression needs: its `nests` of macros.

    `joins` is how many `+` may make collections longer, `written` how many items the text itself may bring. `bound` are the names that
    macros bring.
    """

    nests: frozenset[Nest] = frozenset()
    joins: int = 0
    written: int = 0
    bound: frozenset[str] = frozenset()

    def steps(self, nodes: int, longest: int, longest_text: int = 0) -> int:
        """An upper estimate for values that have so many nodes, items in the longest collection, and characters in the longest text."""
        longest = max(longest, self.written) * (1 + self.joins)
        return max((_steps(nest, nodes, longest, longest_text) for nest in self.nests), default=1)


def _steps(nest: Nest, nodes: int, longest: int, longest_text: int) -> int:
    steps = int(longest_text**nest.texts)
    if not nest.collections:
        return steps
    first = max(nodes, longest) if nest.walks else longest
    return int(steps * first * longest ** (nest.collections - 1))


class _Token(msgspec.Struct, frozen=True):
    kind: str
    text: str
    at: int


class _Macro(msgspec.Struct):
    name: str
    variable: str
    root: str
    splits: bool
    opened: int
    commas: int = 0


def scan(text: str) -> Demand:
    """Raises InvalidExpressionError for what is too much, UnknownExpressionError for syntax that isn't known here."""
    if len(text) > MOST_CHARACTERS:
        raise InvalidExpressionError(f"has {len(text)} characters, at most {MOST_CHARACTERS} are taken")
    tokens = list(_tokens(text))
    if len(tokens) > MOST_TOKENS:
        raise InvalidExpressionError(f"has {len(tokens)} words and signs, at most {MOST_TOKENS} are taken")
    return _Scanner(text, tokens).demand()


def place_of(text: str, at: int) -> tuple[int, int]:
    """Row and column of an offset, both from 1."""
    row = text.count("\n", 0, at) + 1
    return row, at - (text.rfind("\n", 0, at) + 1) + 1


def _tokens(text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text):
        if match.lastgroup != "space":
            yield _Token(str(match.lastgroup), match[0], match.start())


class _Scanner:
    def __init__(self, text: str, tokens: list[_Token]) -> None:
        self._text = text
        self._tokens = tokens
        self._partner: dict[int, int] = {}
        self._open: list[int] = []
        self._macros: list[_Macro] = []
        self._nests: set[Nest] = set()
        self._bound: set[str] = set()

    def demand(self) -> Demand:
        for index, token in enumerate(self._tokens):
            if token.kind == "mark":
                self._mark(index, token.text)
        words = Counter(token.text for token in self._tokens)
        return Demand(
            nests=frozenset(self._nests),
            joins=words["+"] if any(nest.collections > 1 for nest in self._nests) else 0,
            written=words[","] + 1,
            bound=frozenset(self._bound),
        )

    def _mark(self, index: int, mark: str) -> None:
        if mark in (".?", "[?"):
            raise self._unknown(index, f"optionals ({mark}) aren't known here; use has()")
        if mark == "`":
            raise self._unknown(index, "quoted field names aren't known here; use an index, such as labels['a/b']")
        if mark in _OPENING:
            self._enter(index, mark)
        elif mark in _CLOSING and self._open:
            opened = self._open.pop()
            self._partner[index] = opened
            if self._macros and self._macros[-1].opened == opened:
                self._leave(index)
        elif mark == "," and self._macros and self._open and self._macros[-1].opened == self._open[-1]:
            self._macros[-1].commas += 1

    def _enter(self, index: int, mark: str) -> None:
        if mark == "(" and self._is_macro(index):
            self._enter_macro(index)
        self._open.append(index)
        if len(self._open) > MOST_NESTED:
            row, column = self._place(index)
            raise InvalidExpressionError(f"brackets stand deeper in each other than {MOST_NESTED} levels", row=row, column=column)

    def _is_macro(self, index: int) -> bool:
        named = index >= 2 and self._tokens[index - 1].text in _MACROS and self._tokens[index - 2].text == "."
        return named and index + 2 < len(self._tokens) and self._tokens[index + 1].kind == "name" and self._tokens[index + 2].text == ","

    def _enter_macro(self, index: int) -> None:
        name, variable = self._tokens[index - 1].text, self._tokens[index + 1].text
        root, splits = self._chain(index - 3)
        self._bound.add(variable)
        self._macros.append(_Macro(name, variable, root, splits, index))
        if len(self._macros) > MOST_NESTED_MACROS:
            row, column = self._place(index)
            raise InvalidExpressionError(f"macros stand deeper in each other than {MOST_NESTED_MACROS} levels", row=row, column=column)
        self._nests.add(self._nest())

    def _nest(self) -> Nest:
        collections, texts, walks, enclosing = 0, 0, False, set[str]()
        for macro in self._macros:
            again = 1 + (macro.name in _COPYING)
            if macro.splits:
                texts += again
            elif macro.root in enclosing:
                walks, collections = True, collections + again - 1
            else:
                collections += again
            enclosing.add(macro.variable)
        return Nest(collections, texts, walks)

    def _leave(self, index: int) -> None:
        macro = self._macros.pop()
        if macro.commas > (2 if macro.name == "map" else 1):
            raise self._unknown(macro.opened - 1, f"{macro.name} with two variables isn't known here")

    def _chain(self, index: int) -> tuple[str, bool]:
        """The variable that a chain of fields, indexes and calls begins with, empty where it begins with something else; and whether the
        chain makes a list of a text.
        """
        splits = False
        while index >= 0:
            token = self._tokens[index]
            if token.text in _CLOSING and index in self._partner:
                opened = self._partner[index]
                index = opened - 1
                if index >= 0 and self._tokens[opened].text == "(" and self._tokens[index].kind != "name":
                    break
                continue
            if token.kind != "name":
                break
            splits = splits or token.text in _SPLITTING
            if index == 0 or self._tokens[index - 1].text != ".":
                return token.text, splits
            index -= 2
        return "", splits

    def _unknown(self, index: int, message: str) -> UnknownExpressionError:
        row, column = self._place(index)
        return UnknownExpressionError(message, row=row, column=column)

    def _place(self, index: int) -> tuple[int, int]:
        return place_of(self._text, self._tokens[index].at)
