"""How a source becomes objects: as plain files, as a kustomization, as a chart. What stands at its path decides, or it says so."""

import threading
from collections.abc import Sequence

from delegate.engine.sources.globs import Filter
from delegate.engine.sources.helm.charts import CHART_FILE
from delegate.engine.sources.helm.rendering import render_chart
from delegate.engine.sources.kustomize.documents import NAMES
from delegate.engine.sources.kustomize.rendering import render_kustomization
from delegate.engine.sources.loader.files import Loaded, SourceFile, load
from delegate.engine.sources.searching import Search, find_start
from delegate.engine.sources.trees import EntryKind, Found, Handle, text_of
from delegate.engine.sources.workshops import Product, Request, Workshop, fingerprint_of
from delegate.model.sources import Source, SourceType


async def detect_type(request: Request[Handle]) -> SourceType:
    """The type of a source: what it says, else a kustomization or a chart that `include` and `exclude` leave in sight.

    Raises what is wrong with its path.
    """
    explicit = request.source.explicit_type
    if explicit is not SourceType.DETECT:
        return explicit
    place = await find_start(request.tree, request.source.path, request.where)
    if place.entry.kind is not EntryKind.DIRECTORY:
        return SourceType.DIRECTORY
    members = await request.tree.list_directory(place.entry.handle, text_of(place.path))
    chosen = filter_of(request.source)
    for names, found in ((NAMES, SourceType.KUSTOMIZE), ((CHART_FILE,), SourceType.HELM)):
        if any(name in members and chosen.chooses(name) for name in names):
            return found
    return SourceType.DIRECTORY


async def render_request(request: Request[Handle], workshop: Workshop) -> Product:
    """Raises everything that can be wrong with a source's files; see the three ways for what that is."""
    match await detect_type(request):
        case SourceType.KUSTOMIZE:
            return await render_kustomization(request, workshop)
        case SourceType.HELM:
            return await render_chart(request, workshop)
        case _:
            return await render_directory(request, workshop)


async def render_directory(request: Request[Handle], workshop: Workshop, *, shown: str = "") -> Product:
    """The objects of plain files, in path order. `shown` is what people call the file, where the path is that of one."""
    source = request.source
    search = Search(request.tree, recurse=source.directory.recurse, chosen=filter_of(source), limits=workshop.limits, where=request.where)
    found = await search.find(source.path)
    if shown:
        found = [Found(shown, each.handle) for each in found]
    content = request.tree.fingerprint(found)
    loaded = await workshop.cached(content)
    if loaded is None:
        files = await request.tree.read_files(found)
        kept = content
        content = content or fingerprint_of(files)
        loaded = await workshop.decode(lambda stop: _load(files, workshop, stop, kept))
    return Product(loaded, content, tuple(search.notices))


def filter_of(source: Source) -> Filter:
    return Filter(source.directory.include, source.directory.exclude)


def _load(files: Sequence[SourceFile], workshop: Workshop, stop: threading.Event, key: str) -> Loaded:
    loaded = load(files, workshop.limits, stop)
    if key and not stop.is_set():
        workshop.cache.put(key, loaded)
    return loaded
