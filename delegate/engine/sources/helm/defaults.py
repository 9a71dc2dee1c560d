"""The values that a chart brings itself, those of the charts in it included. Pure.

What can't be read here counts for nothing: helm refuses it in its own words.
"""

import gzip
import io
import posixpath
import tarfile
from collections.abc import Iterable, Mapping

from delegate.engine.sources.helm.charts import CHART_FILE, DEPENDENCY_FILES, VALUES_FILE, Chart, read_chart
from delegate.engine.sources.helm.integers import may_hold_large
from delegate.engine.sources.helm.values import merge
from delegate.engine.sources.limits import SourceLimits
from delegate.engine.sources.loader.documents import as_object
from delegate.engine.sources.loader.files import SourceFile
from delegate.engine.sources.loader.plain import decode_documents
from delegate.foundation.errors import DelegateError
from delegate.model.resources import JsonObject

PACKED = (".tgz", ".tar.gz")
_CHARTS = "charts/"
_ARCHIVE_BYTES = 32 * 2**20
_DEEPEST = 10


def values_in(file: SourceFile, limits: SourceLimits) -> JsonObject:
    """The values of one file; several documents are merged, as helm does it."""
    try:
        documents = decode_documents(file, limits, tolerant=True)
    except DelegateError:
        return {}
    return merge(as_object(document.body) or {} for document in documents)


def default_values(files: Mapping[str, bytes], limits: SourceLimits, depth: int = 0) -> JsonObject:
    """The default values of the chart whose files these are, by paths below it; a chart in it has its name or alias."""
    chart = _chart(files, limits)
    if chart is None or depth > _DEEPEST:
        return {}
    layers: list[JsonObject] = []
    for inner in _charts_in(files):
        name = _chart(inner, limits)
        if name is not None:
            values = default_values(inner, limits, depth + 1)
            aliases = [each.alias or each.name for each in chart.dependencies if each.name == name.name] or [name.name]
            layers += [{alias: values} for alias in aliases]
    own = SourceFile(VALUES_FILE, files.get(VALUES_FILE, b""))
    return merge([*layers, values_in(own, limits)])


def may_bring_large(files: Iterable[SourceFile]) -> bool:
    """Whether any chart among these could have large numbers in its values."""
    return any(file.path.endswith(PACKED) or (posixpath.basename(file.path) == VALUES_FILE and may_hold_large(file.data)) for file in files)


def unpack(data: bytes) -> dict[str, bytes]:
    """The files of a packed chart by their paths below it; empty where it is none."""
    try:
        content = gzip.GzipFile(fileobj=io.BytesIO(data)).read(_ARCHIVE_BYTES)
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            taken = [(member.name, archive.extractfile(member)) for member in archive if member.isfile()]
            return {name.partition("/")[2]: file.read() for name, file in taken if file is not None}
    except (OSError, EOFError, tarfile.TarError, ValueError, MemoryError):
        return {}


def _chart(files: Mapping[str, bytes], limits: SourceLimits) -> Chart | None:
    if CHART_FILE not in files:
        return None
    try:
        others = [SourceFile(name, files[name]) for name in DEPENDENCY_FILES if name in files]
        return read_chart(SourceFile(CHART_FILE, files[CHART_FILE]), others, limits)
    except DelegateError:
        return None


def _charts_in(files: Mapping[str, bytes]) -> list[dict[str, bytes]]:
    directories: dict[str, dict[str, bytes]] = {}
    found = []
    for path, data in files.items():
        if not path.startswith(_CHARTS):
            continue
        name, slash, rest = path.removeprefix(_CHARTS).partition("/")
        if slash:
            directories.setdefault(name, {})[rest] = data
        elif name.endswith(PACKED):
            found.append(unpack(data))
    return [*directories.values(), *found]
