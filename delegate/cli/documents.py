"""Task documents in files, read as strictly as manifests are, with the line of each fault."""

import sys
import threading
from pathlib import Path

from delegate.engine.sources.limits import SourceLimits
from delegate.engine.sources.loader import syntax
from delegate.engine.sources.loader.composition import Composer
from delegate.engine.sources.loader.documents import Document, Faults
from delegate.engine.sources.loader.json_documents import decode_json
from delegate.engine.sources.loader.positions import parse_pointer
from delegate.foundation.errors import DelegateError, ErrorGroup, flatten
from delegate.model.tasks import Task, TaskDocumentError, read_task

STANDARD_INPUT = "-"
LARGEST_DOCUMENT = 2**20
"""Bytes; the same as a manager takes."""


def read_task_file(path: str) -> Task:
    """The one task document (or Argo CD Application) of a file, or of standard input for `-`.

    Raises a DelegateError, or a group of them, that names the file and the line.
    """
    name = "standard input" if path == STANDARD_INPUT else path
    document = _only(_decode(syntax.check_encoding(_read(path, name), name), name), name)
    try:
        return read_task(document.body, name)
    except DelegateError as error:
        for each in flatten(error):
            if isinstance(each, TaskDocumentError):
                each.line = _line(document, each.field)
        if isinstance(error, ErrorGroup):
            raise ErrorGroup(list(error.errors)) from error  # the first one speaks for all, now with its line
        raise


def _read(path: str, name: str) -> bytes:
    try:
        if path == STANDARD_INPUT:
            data = sys.stdin.buffer.read(LARGEST_DOCUMENT + 1)
        else:
            with Path(path).open("rb") as file:
                data = file.read(LARGEST_DOCUMENT + 1)
    except OSError as error:
        hint = "check the path" if isinstance(error, FileNotFoundError) else "give the file of one task document, or - for standard input"
        raise TaskDocumentError(f"it can't be read: {error.strerror}", hint=hint, file=name) from error
    if len(data) > LARGEST_DOCUMENT:
        raise TaskDocumentError(f"it is larger than {LARGEST_DOCUMENT} bytes, the limit of a task document", file=name)
    return data


def _decode(data: bytes, name: str) -> list[Document]:
    limits = SourceLimits()
    faults = Faults(limits.faults)
    documents: list[Document] | None = None
    if data.lstrip()[:1] == b"{":
        try:
            documents = list(decode_json(data.decode(), name, limits, faults))
        except ValueError as error:
            if name.endswith(".json"):
                raise syntax.explain_json(error, name) from error
    if documents is None:
        documents = list(Composer(data, name, limits, faults, []).compose(threading.Event()))
    errors = faults.all()
    if errors:
        raise errors[0] if len(errors) == 1 else ErrorGroup(errors)
    return documents


def _only(documents: list[Document], name: str) -> Document:
    if not documents:
        raise TaskDocumentError("there is no document in it", hint="write one with at least `kind` and `application`", file=name)
    if len(documents) > 1:
        raise TaskDocumentError(
            f"it holds {len(documents)} documents, and one task is run at a time",
            hint="give each a file of its own",
            file=name,
        )
    return documents[0]


def _line(document: Document, field: str) -> int:
    path = parse_pointer(field, document.body)
    return document.lines.find(document.body, path) if path else document.line
