"""The recorded answers of a real control plane, by name."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from delegate.model.resources import JsonObject

_DIRECTORY = Path(__file__).parent.parent / "data" / "recordings"


class RecordedAnswer(NamedTuple):
    """One exchange; `note` is the recording's own word for it."""

    file: str
    number: int
    note: str
    method: str
    path: str
    status: int
    body: JsonObject | str

    def __str__(self) -> str:
        return f"{self.file}-{self.number}-{self.note or self.method}".replace(" ", "_")


def recorded(*files: str) -> Iterator[RecordedAnswer]:
    """Every answer of the named recordings, in order; of all of them where none is named."""
    paths = [_DIRECTORY / f"{file}.json" for file in files] or sorted(_DIRECTORY.glob("*.json"))
    for path in paths:
        for number, step in enumerate(json.loads(path.read_text()).get("steps", ())):
            request, response = step.get("request") or {}, step.get("response") or {}
            if "body" in response:
                yield RecordedAnswer(
                    path.stem, number, step.get("note", ""), request["method"], request["path"], response["status"], response["body"]
                )
