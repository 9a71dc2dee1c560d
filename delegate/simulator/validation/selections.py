"""Whether the fields that a rule selects are in its structural schema: the part of the server's type check that finds typing errors.

It follows chains of fields, indexes and macros that begin with `self`; where a type isn't plain it says nothing. Operators and
functions aren't checked.
"""

import re
from typing import Any, NamedTuple

from delegate.model.resources import JsonObject
from delegate.simulator.customs import EMBEDDED, INT_OR_STRING

_TOKEN = re.compile(
    r"(?P<space>\s+|//[^\n]*)"
    r"|(?P<text>[rRbB]{0,2}(?:\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''(?:[^\\]|\\.)*?'''|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'))"
    r"|(?P<number>\d[\w.]*)"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<mark>.)",
    re.DOTALL,
)
_MACROS = frozenset({"all", "exists", "exists_one", "existsOne", "map", "filter"})
_KEYWORDS = frozenset(
    {"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let"}
    | {"loop", "package", "namespace", "return", "var", "void", "while"}
)
_ESCAPES = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))
_SCALARS = {"string": "string", "integer": "int", "number": "double", "boolean": "bool"}
_TEXT: JsonObject = {"type": "string"}
_META: JsonObject = {"type": "object", "properties": {"name": _TEXT, "generateName": _TEXT}}
_PARTNERS = {")": "(", "]": "[", "}": "{"}


class Fault(NamedTuple):
    """What is wrong at an offset."""

    at: int
    words: str


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


class _Scope(NamedTuple):
    """A variable of a macro between two tokens; `schema` is None where it isn't known."""

    first: int
    last: int
    name: str
    schema: JsonObject | None


def faults(text: str, schema: JsonObject, *, root: bool) -> list[Fault]:
    """The selections of fields that a schema doesn't have; `root` says that it is the whole object's."""
    return _Checker(text, {**schema, EMBEDDED: True} if root else schema).check()


def fields_of(schema: JsonObject) -> dict[str, Any]:
    """The fields of an object by the names that expressions have for them."""
    fields = {_escaped(name): below for name, below in (schema.get("properties") or {}).items()}
    if schema.get(EMBEDDED):
        fields |= {"apiVersion": _TEXT, "kind": _TEXT, "metadata": _META}
    return fields


def _escaped(name: str) -> str:
    if name in _KEYWORDS:
        return f"__{name}__"
    for plain, escaped in _ESCAPES:
        name = name.replace(plain, escaped)
    return name


class _Checker:
    def __init__(self, text: str, schema: JsonObject) -> None:
        self._schema = schema
        self._tokens = [_Token(str(m.lastgroup), m[0], m.start()) for m in _TOKEN.finditer(text) if m.lastgroup != "space"]
        self._partners = self._pair()
        self._scopes: list[_Scope] = []
        self._faults: list[Fault] = []

    def check(self) -> list[Fault]:
        for index, token in enumerate(self._tokens):
            before = self._text(index - 1) if index else ""
            if token.kind == "name" and before != "." and self._text(index + 1) != "(":
                self._follow(index)
            elif token.text == "(" and self._variable(index) is not None:
                self._bind(index, None)
        return self._faults

    def _pair(self) -> dict[int, int]:
        """The closing bracket of each opening one."""
        found, held = {}, list[int]()
        for index, token in enumerate(self._tokens):
            if token.text in _PARTNERS.values() and token.kind == "mark":
                held.append(index)
            elif token.text in _PARTNERS and token.kind == "mark" and held:
                found[held.pop()] = index
        return found

    def _text(self, index: int) -> str:
        return self._tokens[index].text if 0 <= index < len(self._tokens) else ""

    def _variable(self, opened: int) -> str | None:
        """The variable of the macro whose bracket opens here."""
        named = self._text(opened - 1) in _MACROS and self._text(opened - 2) == "."
        return self._text(opened + 1) if named and self._text(opened + 2) == "," else None

    def _bind(self, opened: int, schema: JsonObject | None) -> None:
        if not any(scope.first == opened for scope in self._scopes):
            name = self._variable(opened) or ""
            self._scopes.append(_Scope(opened, self._partners.get(opened, len(self._tokens)), name, schema))

    def _known(self, index: int) -> JsonObject | None:
        """What a name stands for: the innermost macro's variable, or the value itself."""
        name = self._text(index)
        for scope in sorted(self._scopes, reverse=True):
            if scope.first < index < scope.last and scope.name == name:
                return scope.schema
        return self._schema if name in ("self", "oldSelf") else None

    def _follow(self, index: int) -> None:
        """One chain, as far as types are known."""
        first, schema = index, self._known(index)
        index += 1
        while schema is not None:
            mark = self._text(index)
            if mark == "[":
                schema, index = _item(schema), self._partners.get(index, len(self._tokens)) + 1
            elif mark == "." and self._text(index + 2) == "(":
                schema, index = self._call(schema, index + 2)
            elif mark == ".":
                schema = self._select(schema, index, first)
                index += 2
            else:
                return

    def _call(self, schema: JsonObject, opened: int) -> tuple[JsonObject | None, int]:
        after = self._partners.get(opened, len(self._tokens)) + 1
        if self._variable(opened) is None:
            return None, after
        self._bind(opened, _TEXT if isinstance(schema.get("additionalProperties"), dict) else _item(schema))
        return (schema if self._text(opened - 1) == "filter" else None), after

    def _select(self, schema: JsonObject, dot: int, first: int) -> JsonObject | None:
        """The schema of the field behind a dot."""
        optional = self._text(dot + 1) == "?"
        at = dot + 1 + optional
        name, kind = self._text(at), schema.get("type")
        if at >= len(self._tokens) or self._tokens[at].kind != "name" or schema.get(INT_OR_STRING) or schema.get("format"):
            return None
        if kind in _SCALARS:
            self._faults.append(Fault(self._place(dot, first), f"type '{_SCALARS[kind]}' does not support field selection"))
            return None
        additional = schema.get("additionalProperties")
        if kind != "object" or additional is True:
            return None
        if isinstance(additional, dict):
            return additional
        fields = fields_of(schema)
        if name not in fields:
            self._faults.append(Fault(self._place(dot, first), f"undefined field '{name}'"))
        return None if optional else fields.get(name)

    def _place(self, dot: int, first: int) -> int:
        """Where the server says that it is: at the dot, or at the bracket of a `has` that asks for the field."""
        if (self._text(first - 2), self._text(first - 1), self._text(dot + 2)) == ("has", "(", ")"):
            return self._tokens[first - 1].at
        return self._tokens[dot].at


def _item(schema: JsonObject) -> JsonObject | None:
    found = schema.get("items") if schema.get("type") == "array" else schema.get("additionalProperties")
    return found if isinstance(found, dict) else None
