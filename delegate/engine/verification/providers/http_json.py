"""Anything that speaks HTTP: a number out of a JSON document by a path, or the status of an endpoint.

With a JSONPath as the query (see `json_paths`) the number there is read; several are several series. Without one, or with `status`, the
number is the status, whatever it is: a redirect is not followed, a 503 is 503. Parameters `expect.<path>` then say what the document
must hold: one that holds something else comes from another version (or cache) and is no data; a good status without such a
document is a page of something in between, and fails whatever the rule is.
"""

from collections.abc import Mapping

import msgspec

from delegate.engine.verification.answers import Answer, Series
from delegate.engine.verification.errors import ProviderConfigurationError, UnreadableAnswerError
from delegate.engine.verification.providers.calls import Calls, Reply, Request
from delegate.engine.verification.providers.json_paths import find
from delegate.engine.verification.providers.kinds import Kind, Question
from delegate.engine.verification.providers.numbers import read_number

_EXPECT = "expect."
_ANY_STATUS = frozenset(range(100, 600))


async def read(calls: Calls, question: Question) -> Answer:
    text = question.text.strip()
    wants_status = text in ("", "status") or "://" in text
    reply = await calls.send(_request(question, _ANY_STATUS if wants_status else frozenset()))
    if wants_status:
        return _status(calls, reply, question)
    document = await reply.document()
    _check_expected(document, question)
    end, found = question.window.end, find(document, text)
    if not found and not _may_be_empty(document, text):
        raise UnreadableAnswerError(f"{calls.source}: the document has nothing at {text}", hint="check the path against the document")
    several = len(found) > 1
    return calls.answer(Series(((end, _number(value, where)),), {"path": where} if several else {}) for where, value in found)


def _may_be_empty(document: object, path: str) -> bool:
    """Whether there is what `*` goes through, and only nothing in it."""
    before, star, _ = path.partition("*")
    return bool(star) and bool(find(document, before.rstrip(".[") or "$"))


def _request(question: Question, answers: frozenset[int]) -> Request:
    method = question.choice("method", "GET", "POST").upper()
    body: object = None
    if method == "POST":
        try:
            body = msgspec.json.decode(question.option("body", "{}"))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ProviderConfigurationError("the parameter body is no JSON") from error
    return Request(method, question.option("path"), json=body, answers=answers)


def _status(calls: Calls, reply: Reply, question: Question) -> Answer:
    labels, wrong, is_good = {"status": str(reply.status)}, "", 200 <= reply.status < 300
    expected = _expected(question)
    if expected:
        document = _decoded(reply)
        if not isinstance(document, dict | list):
            if is_good:
                kind = "a page" if reply.is_page else "no JSON"
                wrong = f"{calls.source} answered {reply.status} with {kind}, where a document with {', '.join(expected)} was expected"
        elif _is_anothers(document, expected, is_good=is_good):
            return calls.answer(())
        else:
            labels |= expected
    return calls.answer([Series(((question.window.end, float(reply.status)),), labels)], wrong=wrong)


def _is_anothers(document: object, expected: Mapping[str, str], *, is_good: bool) -> bool:
    """Whether another version (or cache) has answered. The document of a fault need not name a version."""
    named = {path: text for path, text in expected.items() if is_good or find(document, path)}
    return not all(_holds(document, path, text) for path, text in named.items())


def _check_expected(document: object, question: Question) -> None:
    for path, text in _expected(question).items():
        if not _holds(document, path, text):
            raise UnreadableAnswerError(
                f"the document does not hold {text!r} at {path}", hint="another version or another page has answered"
            )


def _expected(question: Question) -> Mapping[str, str]:
    return {key.removeprefix(_EXPECT): text for key, text in question.options.items() if key.startswith(_EXPECT)}


def _holds(document: object, path: str, text: str) -> bool:
    return any(_written(value) == text for _, value in find(document, path))


def _written(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _decoded(reply: Reply) -> object:
    try:
        return msgspec.json.decode(reply.body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _number(value: object, where: str) -> float | None:
    return float(value) if isinstance(value, bool) else read_number(value, where)


KINDS = (
    Kind(
        ("http", "json", "web"), read, settings=("path",), parameters=("path", "method", "body", f"{_EXPECT}*"), right="read the document"
    ),
)
