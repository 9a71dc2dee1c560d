"""Numbers out of answers, whatever they are wrapped in: text, null, NaN; and the pieces of JSON around them."""

import hashlib
import math
from collections.abc import Iterable, Mapping

from delegate.engine.verification.answers import Answer, Series
from delegate.engine.verification.errors import UnreadableAnswerError

_SHOWN = 60


def read_number(value: object, where: str) -> float | None:
    """A number as JSON or as text; None for null, an empty text and NaN (nothing was measured); infinities stay.

    Raises UnreadableAnswerError for anything else: a truth value or a word is no number.
    """
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise UnreadableAnswerError(f"{where} is {_shown(value)}, which is no number")
    try:
        number = float(value)
    except (ValueError, OverflowError) as error:
        raise UnreadableAnswerError(f"{where} is {_shown(value)}, which is no number") from error
    return None if math.isnan(number) else number


def is_number(value: object) -> bool:
    """Whether it is one, also as text."""
    try:
        float(str(value))
    except ValueError:
        return False
    return True


def only_number(row: Mapping[str, object], candidates: Iterable[str], what: str) -> str:
    """The one of the fields that holds a number. Raises UnreadableAnswerError where it isn't one."""
    names = [name for name in candidates if is_number(row[name])]
    if len(names) != 1:
        hint = f"name it in the parameter field; there is {', '.join(sorted(row)) or 'none'}"
        raise UnreadableAnswerError(f"a {what} holds {len(names)} numbers where one is wanted", hint=hint)
    return names[0]


def as_list(value: object, where: str) -> list[object]:
    """Raises UnreadableAnswerError. An absent list is none: what is left out is no answer."""
    if not isinstance(value, list):
        raise UnreadableAnswerError(f"{where} is {_shown(value)} where a list is documented")
    return value


def as_mapping(value: object, where: str) -> Mapping[str, object]:
    """Raises UnreadableAnswerError."""
    if not isinstance(value, dict):
        raise UnreadableAnswerError(f"{where} is {_shown(value)} where an object is documented")
    return value


def labels_of(value: object) -> dict[str, str]:
    """Labels as texts; anything but an object has none."""
    return {str(key): str(each) for key, each in value.items()} if isinstance(value, dict) else {}


def texts_of(value: object) -> tuple[str, ...]:
    """The messages in a list of texts or of objects with a `message`, `text`, `value` or `detail`."""
    if value in (None, "", [], {}):
        return ()
    if not isinstance(value, list):
        value = [value]
    return tuple(_message(each) for each in value)


def one_number(at: float, value: float | None, labels: Mapping[str, str] | None = None) -> Series:
    return Series(((at, value),), dict(labels or {}))


def digest_of(bodies: Iterable[bytes]) -> str:
    """Stands for the raw bytes of all the answers that a reading was made of."""
    state = hashlib.sha256()
    for body in bodies:
        state.update(body)
    return f"sha256:{state.hexdigest()}"


def without_empty(answer: Answer) -> Answer:
    """Series in which there is no point at all are no series."""
    if all(series.points for series in answer.series):
        return answer
    return Answer(
        tuple(series for series in answer.series if series.points),
        answer.unit,
        answer.warnings,
        answer.partial,
        answer.age_seconds,
        answer.digest,
        answer.stale,
        answer.at_least,
    )


def _message(value: object) -> str:
    if isinstance(value, dict):
        for key in ("message", "text", "value", "detail", "error", "reason"):
            if isinstance(value.get(key), str):
                return str(value[key])
    return str(value)


def _shown(value: object) -> str:
    text = "missing" if value is None else repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
