"""What a chart says about itself: its name, and the charts that it depends on. Pure."""

from collections.abc import Iterable

import msgspec

from delegate.engine.sources.dependencies import Dependency
from delegate.engine.sources.errors import ChartError
from delegate.engine.sources.limits import SourceLimits
from delegate.engine.sources.loader.documents import Document, as_object
from delegate.engine.sources.loader.files import SourceFile
from delegate.engine.sources.loader.plain import decode_documents
from delegate.model.resources import JsonObject

CHART_FILE = "Chart.yaml"
VALUES_FILE = "values.yaml"
DEPENDENCY_FILES = ("requirements.yaml", "requirements.lock", "Chart.lock")


class Chart(msgspec.Struct, frozen=True):
    """`path` is that of its Chart.yaml, for messages."""

    path: str
    name: str
    version: str
    library: bool
    dependencies: tuple[Dependency, ...]


def read_chart(file: SourceFile, others: Iterable[SourceFile], limits: SourceLimits) -> Chart:
    """A chart from its Chart.yaml and its DEPENDENCY_FILES. Raises ChartError, and the faults of decoding."""
    body, _ = _read(file, limits)
    name = body.get("name")
    if not isinstance(name, str) or not name or "/" in name:
        raise ChartError("the chart has no name", hint="add `name`", file=file.path, line=1)
    dependencies, locked = _dependencies(file, limits), dict[str, str]()
    for other in others:
        if other.path.endswith(".lock"):
            locked |= {each.name: each.version for each in _dependencies(other, limits)}
        else:
            dependencies += _dependencies(other, limits)
    chosen = tuple(msgspec.structs.replace(each, version=locked.get(each.name) or each.version) for each in dependencies)
    return Chart(file.path, name, str(body.get("version") or ""), body.get("type") == "library", chosen)


def _dependencies(file: SourceFile, limits: SourceLimits) -> list[Dependency]:
    body, document = _read(file, limits)
    listed = body.get("dependencies")
    found = []
    for index, each in enumerate(listed if isinstance(listed, list) else ()):
        texts = (
            {field: str(each.get(field) or "") for field in ("name", "version", "repository", "alias")} if isinstance(each, dict) else {}
        )
        if texts.get("name"):
            found.append(Dependency(**texts, line=document.lines.find(body, ("dependencies", index)) if document else 0))
    return found


def _read(file: SourceFile, limits: SourceLimits) -> tuple[JsonObject, Document | None]:
    documents = decode_documents(file, limits, tolerant=True)
    if not documents:
        return {}, None
    body = as_object(documents[0].body)
    if body is None:
        raise ChartError("it is no mapping", file=file.path, line=documents[0].line)
    return body, documents[0]
