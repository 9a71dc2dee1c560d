"""Files in, manifests out: the one way by which anything that is applied was read.

All or nothing: one bad file fails the whole set, and the report names every fault of every file (of a file that is no
YAML, its first).
"""

import threading
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import NamedTuple

from delegate.engine.sources.errors import ForeignDocumentError, IncompleteObjectError, TooLargeError
from delegate.engine.sources.limits import SourceLimits
from delegate.engine.sources.loader import json_documents, objects, syntax
from delegate.engine.sources.loader.composition import Composer
from delegate.engine.sources.loader.documents import Document, Faults, Lines, as_object, describe_type
from delegate.engine.sources.loader.lists import flatten
from delegate.engine.sources.loader.positions import JsonLines
from delegate.foundation.errors import DelegateError
from delegate.model.errors import ManifestError, raise_all
from delegate.model.resources import JsonObject, Manifest, Origin

_KUSTOMIZATION_NAMES = ("kustomization.yaml", "kustomization.yml")


class SourceFile(NamedTuple):
    """A file of a source: its path as messages and origins show it, and its bytes."""

    path: str
    data: bytes


class Loaded(NamedTuple):
    """What a set of files holds, in file and document order. `lines` stand beside the manifests, one each."""

    manifests: tuple[Manifest, ...]
    lines: tuple[Lines, ...]
    notices: tuple[str, ...]


def load(files: Iterable[SourceFile], limits: SourceLimits | None = None, stop: threading.Event | None = None) -> Loaded:
    """Decodes a set of files. Blocks, so it is called in a thread; `stop` ends it at the next document.

    Raises a ManifestError, or an ErrorGroup of all that were found.
    """
    loading = _Loading(limits or SourceLimits(), stop or threading.Event())
    for file in files:
        if loading.stop.is_set():
            break
        loading.add(file)
    raise_all(loading.faults.all())
    return Loaded(tuple(loading.manifests), tuple(loading.lines), loading.all_notices())


def refuse_pointers(files: Iterable[SourceFile]) -> None:
    """Raises a ForeignDocumentError for each file that is but a pointer to what Git LFS keeps, or an ErrorGroup of them."""
    hint = "say `lfs: true` of the source, or enableLfs in its repository's Secret; in a work tree, `git lfs pull`"
    pointers = [file.path for file in files if syntax.is_lfs_pointer(file.data)]
    raise_all([ForeignDocumentError("LFS pointer, content not fetched", hint=hint, file=path) for path in pointers])


class _Loading:
    def __init__(self, limits: SourceLimits, stop: threading.Event) -> None:
        self.stop = stop
        self.manifests: list[Manifest] = []
        self.lines: list[Lines] = []
        self.faults = Faults(limits.faults)
        self._limits = limits
        self._notices: list[str] = []
        self._skipped: list[str] = []

    def add(self, file: SourceFile) -> None:
        try:
            lines = None
            for document in self._documents(file):
                lines = document.lines
                self._add_document(file.path, document)
            if isinstance(lines, JsonLines):
                lines.text.pack()
        except DelegateError as error:
            self.faults.add(error)

    def all_notices(self) -> tuple[str, ...]:
        shown = self._limits.notices
        notices = self._notices[:shown] + self._skipped[:shown]
        left_out = len(self._notices) + len(self._skipped) - len(notices)
        return (*notices, f"{left_out} more notices are not listed") if left_out else tuple(notices)

    def _documents(self, file: SourceFile) -> Iterable[Document]:
        if len(file.data) > self._limits.file_bytes:
            raise TooLargeError(f"{len(file.data)} bytes; the limit of one file is {self._limits.file_bytes}", file=file.path)
        refuse_pointers([file])
        data = syntax.check_encoding(file.data, file.path)
        if data.lstrip()[:1] == b"{":
            try:
                return json_documents.decode_json(data.decode(), file.path, self._limits, self.faults)
            except ValueError as error:
                # A flow mapping of YAML begins with a brace too.
                if file.path.endswith(".json"):
                    raise syntax.explain_json(error, file.path) from error
        return Composer(data, file.path, self._limits, self.faults, self._notices).compose(self.stop)

    def _add_document(self, file: str, document: Document) -> None:
        body = as_object(document.body)
        if body is None:
            words = f"document {document.number} is no object but a {describe_type(document.body)} (line {document.line})"
            hint = "a manifest is a mapping with apiVersion, kind and metadata"
            self.faults.add(IncompleteObjectError(words, hint=hint, file=file, line=document.line))
        elif not objects.is_manifest(body):
            self._skip(file, document)
        elif not document.mixed:
            self._add_objects(file, document, body)

    def _skip(self, file: str, document: Document) -> None:
        if PurePosixPath(file).name in _KUSTOMIZATION_NAMES:
            self.faults.add(_located(objects.kustomization(), file, document, document.line, ""))
            return
        self._skipped.append(f"{file}:{document.line}: document {document.number} is skipped, it has neither apiVersion nor kind")

    def _add_objects(self, file: str, document: Document, body: JsonObject) -> None:
        for item in flatten(body, document.lines):
            if isinstance(item, objects.Fault):
                line = document.lines.find(body, item.path)
                self.faults.add(_located(item, file, document, line, objects.name_of(body)))
                continue
            faults = list(objects.check_object(item.body)) if objects.is_manifest(item.body) else []
            for fault in faults:
                line = item.lines.find(item.body, fault.path)
                self.faults.add(_located(fault, file, document, line, objects.name_of(item.body)))
            if not faults:
                self.manifests.append(Manifest(item.body, Origin(file, item.lines.first(item.body), document.number)))
                self.lines.append(item.lines)


def _located(fault: objects.Fault, file: str, document: Document, line: int, name: str) -> ManifestError:
    place = f"document {document.number}, line {line}"
    message = f"{name}: {fault.message} ({place})" if name else f"{fault.message} ({place})"
    return fault.kind(message, hint=fault.hint, file=file, line=line or None, object=name)
