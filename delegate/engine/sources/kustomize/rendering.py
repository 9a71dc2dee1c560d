"""Renders a kustomization: what it needs goes into a jail, options are written into it, kubectl renders, our loader reads."""

import threading
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from delegate.engine.sources.errors import KustomizationError, PathNotFoundError, RenderFailedError
from delegate.engine.sources.exporting import write_copies
from delegate.engine.sources.jails.running import Jail, open_jail, run_jailed
from delegate.engine.sources.kustomize import editing
from delegate.engine.sources.kustomize.closures import Closure, Root, find_kustomization
from delegate.engine.sources.kustomize.documents import Kustomization
from delegate.engine.sources.kustomize.origins import Origins, Written, generated_by
from delegate.engine.sources.limits import SourceLimits
from delegate.engine.sources.loader.files import Loaded, SourceFile, load, refuse_pointers
from delegate.engine.sources.searching import find_start
from delegate.engine.sources.trees import EntryKind, Handle, text_of
from delegate.engine.sources.workshops import Product, Request, Workshop, fingerprint_of, key_of, words_of
from delegate.foundation.errors import DelegateError, ErrorGroup, flatten
from delegate.model.resources import JsonObject, Manifest, Origin
from delegate.model.sources import KustomizeOptions

_MOST_WARNINGS = 5
_WARNING = "# Warning: "


class _Prepared(NamedTuple):
    """What is to be rendered: the files, the kustomization as edited (None: as it is), the links between directories."""

    root: Root
    kustomizations: list[Kustomization]
    files: list[SourceFile]
    edited: JsonObject | None
    links: Mapping[tuple[str, ...], str]


async def render_kustomization(request: Request[Handle], workshop: Workshop) -> Product:
    """The objects of the kustomization at the source's path.

    Raises the faults of `Closure.collect` and `editing.edit`; RenderFailedError with kustomize's own words; the faults of
    running in a jail; and those of objects that can't be read or sent.
    """
    options = request.source.kustomize or KustomizeOptions()
    place = await find_start(request.tree, request.source.path, request.where)
    name = await find_kustomization(request.tree, place) if place.entry.kind is EntryKind.DIRECTORY else ""
    if not name:
        shown = request.source.path or "."
        raise PathNotFoundError(f"{request.where}: there is no kustomization in {shown}", hint="check the path", file=shown)
    closure = Closure(request.tree, workshop.limits, request.where)
    components = [text for text in options.components if not options.ignore_missing_components or await closure.exists(place, text)]
    root = await closure.collect(place, name, editing.references_of_options(options, components))
    edited = _edit(root, options, components, request.variables)
    version = await workshop.kubectl.version(workshop.directory, workshop.settings.limits)
    found, links = closure.export.files, closure.export.links
    asked = msgspec.json.encode([root.directory, edited, list(links.items())]).decode()
    fingerprint = request.tree.fingerprint(found)
    key = key_of("kustomize", version, asked, fingerprint)
    loaded = await workshop.cached(key) if fingerprint else None
    if loaded is None:
        files = await request.tree.read_files(found)
        refuse_pointers(files)
        key = key if fingerprint else key_of("kustomize", version, asked, fingerprint_of(files))
        loaded = await _Run(workshop, _Prepared(root, closure.kustomizations, files, edited, links)).render()
        await workshop.keep(key, loaded)
    return Product(loaded, key, (f"rendered by kustomize, and read in its dialect of YAML ({version})",))


def _edit(root: Root, options: KustomizeOptions, components: list[str], variables: Mapping[str, str]) -> JsonObject | None:
    """The kustomization with the options in it; None where there are none, so that not a byte of it is changed."""
    if options == KustomizeOptions():
        return None
    try:
        return editing.edit(root.kustomization.body, options, components, variables)
    except KustomizationError as error:
        error.file = error.file or root.kustomization.path
        raise


class _Run:
    def __init__(self, workshop: Workshop, prepared: _Prepared) -> None:
        self._workshop = workshop
        self._prepared = prepared

    async def render(self) -> Loaded:
        output, warnings = await self._run()
        loaded = await self._workshop.decode(lambda stop: self._read(output, stop))
        return loaded._replace(notices=(*loaded.notices, *warnings))

    async def _run(self) -> tuple[bytes, tuple[str, ...]]:
        workshop, settings = self._workshop, self._workshop.settings
        program = workshop.kubectl.find()
        command = "build" if program.name.startswith("kustomize") else "kustomize"
        copies = self._prepared.files
        if self._prepared.edited is not None:
            path, data = "/".join((*self._prepared.root.directory, self._prepared.root.name)), msgspec.json.encode(self._prepared.edited)
            copies = [SourceFile(file.path, data) if file.path == path else file for file in copies]
        async with workshop.turns, open_jail(workshop.directory, settings.limits) as jail:
            await write_copies(jail.inside, copies, self._prepared.links)
            directory = str(jail.inside.joinpath(*self._prepared.root.directory))
            completed = await run_jailed(program, (command, directory), jail, timeout=settings.limits.seconds)
            if completed.exit_code != 0:
                raise self._explain(completed.stderr, jail)
        warnings = [line.removeprefix(_WARNING) for line in completed.stderr.splitlines() if line.startswith(_WARNING)]
        return completed.stdout, tuple(f"kustomize: {warning}" for warning in list(dict.fromkeys(warnings))[:_MOST_WARNINGS])

    def _read(self, output: bytes, stop: threading.Event) -> Loaded:
        """What kustomize printed. Its lines are nobody's, so the kustomization answers for faults."""
        shown = self._prepared.root.kustomization.path
        try:
            loaded = load([SourceFile(shown, output)], _output_limits(self._workshop.limits), stop)
        except DelegateError as error:
            faults = list(flatten(error))
            for each in faults:
                each.message, each.line = f"what kustomize renders can't be applied: {each.message}", None
            raise (ErrorGroup(faults) if len(faults) > 1 else faults[0]) from error
        written = [each for file in self._prepared.files for each in _objects_of(file, self._workshop.limits)]
        generated = [each for kustomization in self._prepared.kustomizations for each in generated_by(kustomization)]
        origins = Origins([*written, *generated], Origin(shown))
        return Loaded(tuple(Manifest(manifest.body, origins.find(manifest)) for manifest in loaded.manifests), (), loaded.notices)

    def _explain(self, stderr: str, jail: Jail) -> RenderFailedError:
        words = words_of(stderr, jail)
        named = [file.path for file in self._prepared.files if file.path.rpartition("/")[2] in words]
        file = max(named, key=lambda path: (path in words, len(path)), default=self._prepared.root.kustomization.path)
        return RenderFailedError(f"kustomize: {words}", hint="`kubectl kustomize` says the same in a checkout", file=text_of((file,)))


def _objects_of(file: SourceFile, limits: SourceLimits) -> list[Written]:
    """What a file holds, where that can be read by our rules; many of them are no manifests at all."""
    try:
        loaded = load([file], limits)
    except DelegateError:
        return []
    return [Written(manifest.kind, manifest.name or manifest.generate_name, manifest.origin) for manifest in loaded.manifests]


def _output_limits(limits: SourceLimits) -> SourceLimits:
    """One file holds what came from many."""
    return msgspec.structs.replace(limits, file_bytes=limits.total_bytes)
