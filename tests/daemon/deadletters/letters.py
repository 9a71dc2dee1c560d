"""Letters to test with."""

import datetime as dt

from delegate.daemon.deadletters.letter import Addressed, Letter, Reason, Writer
from delegate.daemon.deadletters.sealing import Sealed, seal
from delegate.foundation.redaction import KnownSecrets
from delegate.model.resources import JsonObject

WRITER = Writer(delegate="edge-1")
BEGINNING = dt.datetime(2026, 3, 4, 5, 6, 7, 89, tzinfo=dt.UTC)


def letter(number: int = 0, *, reason: Reason = Reason.INVALID, text: str = "", size: int = 0, age: int = 0) -> Letter:
    """A letter about the result of attempt `number`, written `number` seconds after the beginning, less `age`."""
    result: JsonObject = {"task": f"t-{number}", "attempt": f"a-{number}", "kind": "sync", "application": "shop", "outcome": "failed"}
    result["message"] = text + "x" * size
    created = BEGINNING + dt.timedelta(seconds=number - age)
    return WRITER.of_result(result, reason, Addressed(fence=number), created=created)


def sealed(number: int = 0, *, reason: Reason = Reason.INVALID, text: str = "", size: int = 0, age: int = 0) -> tuple[Sealed, ...]:
    return seal(letter(number, reason=reason, text=text, size=size, age=age), known=KnownSecrets())
