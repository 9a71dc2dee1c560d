"""JSON texts: files that begin with `{`. Several documents may follow each other, as kubectl takes them."""

import json
import re

from delegate.engine.sources.errors import DuplicateKeyError, ScalarError
from delegate.engine.sources.limits import SourceLimits
from delegate.engine.sources.loader import json_scanning
from delegate.engine.sources.loader.documents import Document, Faults, as_object, check_depth, describe_path, too_deep
from delegate.engine.sources.loader.positions import JsonLines, JsonText
from delegate.engine.sources.loader.scalars import UnrepresentableError, bounded_integer, integer_or_float
from delegate.model.resources import JsonObject

_SPACE = re.compile(r"[ \t\n\r]*")
_LONGEST_INTEGER = 20


class _Suspicion:
    """Set by the decoder's hooks when the text holds something that a JSON object can't carry unchanged."""

    def __init__(self) -> None:
        self.raised = False

    def pairs(self, pairs: list[tuple[str, object]]) -> JsonObject:
        mapping = dict(pairs)
        if len(mapping) != len(pairs):
            self.raised = True
        return mapping

    def integer(self, text: str) -> int:
        try:
            return bounded_integer(int(text)) if len(text) <= _LONGEST_INTEGER else self._suspect()
        except UnrepresentableError:
            return self._suspect()

    def number(self, text: str) -> int | float:
        number = float(text)
        return self._suspect() if number in (float("inf"), float("-inf")) else integer_or_float(number)

    def _suspect(self) -> int:
        self.raised = True
        return 0


def decode_json(text: str, file: str, limits: SourceLimits, faults: Faults) -> list[Document]:
    """The documents of a JSON text. Raises ValueError where it isn't JSON, TooLargeError where it nests too deep."""
    suspicion = _Suspicion()
    decoder = json.JSONDecoder(
        object_pairs_hook=suspicion.pairs, parse_int=suspicion.integer, parse_float=suspicion.number, parse_constant=_refuse_constant
    )
    shared = JsonText(text)
    documents: list[Document] = []
    position, counted, line = 0, 0, 1
    while (position := _skip_space(text, position)) < len(text):
        line += text.count("\n", counted, position)
        counted = position
        try:
            body, end = decoder.raw_decode(text, position)
        except RecursionError as error:
            raise too_deep(limits.depth, file, line) from error
        check_depth(body, limits.depth, file, line)
        documents.append(Document(body, len(documents) + 1, JsonLines(shared, position, line)))
        position = end
    repeating = _tell(text, file, documents, faults) if suspicion.raised else set()
    return [document._replace(mixed=document.number in repeating) for document in documents]


def _tell(text: str, file: str, documents: list[Document], faults: Faults) -> set[int]:
    """Adds what is wrong with the text's manifests. Returns the numbers of the documents that repeat keys."""
    repeating: set[int] = set()
    for node in json_scanning.scan(text):
        body = as_object(documents[node.document - 1].body)
        if body is not None and not ("apiVersion" in body or "kind" in body):
            continue
        where = f"(line {node.line}) in document {node.document}"
        if node.first_line:
            repeating.add(node.document)
            key = str(node.path[-1])
            faults.add(
                DuplicateKeyError(
                    f"duplicate mapping key `{key}` (line {node.line}, first at line {node.first_line}) in document {node.document}",
                    hint="one of the two would be lost; keep one",
                    file=file,
                    line=node.line,
                )
            )
        elif not node.quoted and (reason := _fault_of(node.lexeme)):
            faults.add(ScalarError(f"{describe_path(node.path)}: {reason} {where}", file=file, line=node.line))
    return repeating


def _fault_of(lexeme: str) -> str:
    if lexeme.lstrip("-").isdigit():
        outside = len(lexeme) > _LONGEST_INTEGER or not -(2**63) <= int(lexeme) < 2**63
        return "integer outside 64 bits, which would be rounded; quote it if it is a text" if outside else ""
    if lexeme[0] in "-0123456789" and float(lexeme) in (float("inf"), float("-inf")):
        return "a number that is too large for JSON; quote it if it is a text"
    return ""


def _skip_space(text: str, position: int) -> int:
    space = _SPACE.match(text, position)
    return space.end() if space else position


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")
