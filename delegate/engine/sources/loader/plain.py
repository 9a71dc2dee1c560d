"""Files that are no manifests: kustomizations, charts' own files, values, indexes. Decoded by the same rules, as strictly."""

import threading

from delegate.engine.sources.errors import TooLargeError
from delegate.engine.sources.limits import SourceLimits
from delegate.engine.sources.loader import json_documents, syntax
from delegate.engine.sources.loader.composition import Composer
from delegate.engine.sources.loader.documents import Document, Faults
from delegate.engine.sources.loader.files import SourceFile
from delegate.model.errors import raise_all


def decode_documents(file: SourceFile, limits: SourceLimits, *, tolerant: bool = False) -> list[Document]:
    """The documents of a file that hold anything. Blocks for as long as the file is long.

    Raises a ManifestError, or an ErrorGroup of all that were found; where it is `tolerant`, only for what is no YAML or too
    large: another program reads the file too, and takes it or not.
    """
    if len(file.data) > limits.file_bytes:
        raise TooLargeError(f"{len(file.data)} bytes; the limit of one file is {limits.file_bytes}", file=file.path)
    faults = Faults(limits.faults)
    data = syntax.check_encoding(file.data, file.path)
    documents: list[Document] | None = None
    if data.lstrip()[:1] == b"{":
        try:
            documents = json_documents.decode_json(data.decode(), file.path, limits, faults)
        except ValueError as error:
            if file.path.endswith(".json"):
                raise syntax.explain_json(error, file.path) from error
    if documents is None:
        documents = list(Composer(data, file.path, limits, faults, [], every_document=True).compose(threading.Event()))
    if not tolerant:
        raise_all(faults.all())
    return documents
