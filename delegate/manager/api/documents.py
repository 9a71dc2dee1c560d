"""Task documents as people send them: JSON, or YAML read as strictly as manifests are. Knows neither store nor network."""

import threading

from delegate.engine.sources.limits import SourceLimits
from delegate.engine.sources.loader import syntax
from delegate.engine.sources.loader.composition import Composer
from delegate.engine.sources.loader.documents import Document, Faults
from delegate.engine.sources.loader.json_documents import decode_json
from delegate.foundation.errors import DelegateError, ErrorGroup
from delegate.model.tasks import TaskDocumentError


def read_documents(data: bytes, file: str = "") -> list[object]:
    """The documents of a text, empty ones left out. Raises a DelegateError that names the line."""
    limits = SourceLimits()
    faults = Faults(limits.faults)
    if not data.strip():
        raise TaskDocumentError("there is no document", file=file)
    documents = _decode(syntax.check_encoding(data, file), file, limits, faults)
    errors: list[DelegateError] = faults.all()
    if errors:
        raise errors[0] if len(errors) == 1 else ErrorGroup(errors)
    if not documents:
        raise TaskDocumentError("there is no document", file=file)
    return [document.body for document in documents]


def _decode(data: bytes, file: str, limits: SourceLimits, faults: Faults) -> list[Document]:
    if data.lstrip()[:1] == b"{":
        try:
            return decode_json(data.decode(), file, limits, faults)
        except ValueError as error:
            if file.endswith(".json"):
                raise syntax.explain_json(error, file) from error
    return list(Composer(data, file, limits, faults, []).compose(threading.Event()))
