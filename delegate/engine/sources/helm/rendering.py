"""Renders a chart: what it needs goes into a jail, values beside it, helm renders, our loader reads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic

import msgspec

from delegate.engine.sources.commands import Completed
from delegate.engine.sources.errors import ChartError
from delegate.engine.sources.exporting import write_copies
from delegate.engine.sources.helm import impurity, lookups, outputs
from delegate.engine.sources.helm.charts import CHART_FILE
from delegate.engine.sources.helm.closures import ChartClosure, Needed, ValueFile, ValueSearch, find_chart
from delegate.engine.sources.helm.defaults import default_values, may_bring_large, values_in
from delegate.engine.sources.helm.integers import exact_arguments, may_hold_large
from delegate.engine.sources.helm.lookups import Window, digest_of
from delegate.engine.sources.helm.values import file_argument, inline_values, merge, parameter_arguments
from delegate.engine.sources.jails.running import Jail, open_jail, run_jailed
from delegate.engine.sources.loader.files import Loaded, SourceFile, refuse_pointers
from delegate.engine.sources.targets import Capabilities, Look, ServedKind, Target
from delegate.engine.sources.trees import Handle, Place, text_of, top_of
from delegate.engine.sources.variables import substitute
from delegate.engine.sources.workshops import Product, Request, Workshop, fingerprint_of, key_of, words_of
from delegate.foundation.errors import DelegateError
from delegate.model.resources import Manifest
from delegate.model.sources import HelmOptions

_RELEASE, _NAMESPACE = "release-name", "default"
"""What helm takes where nobody says otherwise."""
_CHART, _VALUES, _FILES, _KUBECONFIG = "chart", "values", "files", "kubeconfig"
"""Where things are in the jail."""
_ARGUMENT_BYTES = 512 * 1024
_LONGEST_ARGUMENT = 100 * 1024
_MOST_LEAVES = 10
_WORD_LINES = 12
_LOOKUP = "the chart's templates ask the cluster (`lookup`): a render reaches none, so they find nothing"


@dataclass(frozen=True)
class _Asked(Generic[Handle]):
    """All that a render is made of: the chart, files of values from weak to strong, files whose content is a value."""

    place: Place[Handle]
    needed: Needed[Handle]
    values: Sequence[ValueFile]
    inline: bytes | None
    files: Sequence[tuple[str, ValueFile]]
    arguments: Sequence[str]
    parameters: Sequence[str]
    release: str
    capabilities: Capabilities


async def render_chart(request: Request[Handle], workshop: Workshop) -> Product:
    """The objects of the chart at the source's path.

    Raises the faults of finding what it takes (see `closures`); RenderFailedError in helm's words, ChartDependencyError;
    the faults of running in a jail; those of objects that can't be read or sent; and those of asking for capabilities.
    """
    asked = await _ask(request, workshop)
    version = await workshop.helm.version(workshop.directory, workshop.settings.limits)
    named = [(name, value.found.path) for name, value in asked.files]
    words = msgspec.json.encode([asked.release, asked.place.path, asked.arguments, named, [each.shown for each in asked.values]])
    beside = fingerprint_of([*asked.needed.fetched, SourceFile("", asked.inline or b"")])
    prints = [request.tree.fingerprint(asked.needed.export.files), beside]
    prints += [each.tree.fingerprint([each.found]) for each in (*asked.values, *(value for _, value in asked.files))]
    look = request.target.look
    kind = "helm" if look is None else "helm with a cluster"
    key = key_of(kind, version, words.decode(), *prints) if all(prints) else ""
    answered = await _answered(key, workshop, look)
    loaded = await workshop.cached(answered)
    if loaded is None:
        run = await _Run.prepare(request, workshop, asked)
        first = key or key_of(kind, version, words.decode(), fingerprint_of(run.files))
        loaded, answers = await run.render()
        if answers is not None:
            workshop.remember_asked(first, answers)
        answered = first if answers is None else key_of(first, *answers.values())
        await workshop.keep(answered, loaded)
    return Product(loaded, answered, (f"rendered by helm {version}",))


async def _answered(key: str, workshop: Workshop, look: Look | None) -> str:
    """The key of a render that asked its cluster, with what the cluster answers now."""
    paths = workshop.asked.get(key) if key else None
    if paths is None or look is None:
        return key
    return key_of(key, *[digest_of(await look(path)) for path in paths])


async def _ask(request: Request[Handle], workshop: Workshop) -> _Asked[Handle]:
    options = request.source.helm or HelmOptions()
    place = await find_chart(request.tree, request.source.path, request.where)
    needed = await ChartClosure(request.tree, workshop.limits, request.where, request.fetch).collect(place)
    values: list[ValueFile] = []
    explicit = {each.shown for path in options.value_files if not _is_pattern(path) for each in await _find(request, place, path)}
    for path in options.value_files:
        found = await _find(request, place, path)
        if not found and not options.ignore_missing_value_files:
            raise ChartError(f"{request.where}: there is no file of values {path}", hint="check valueFiles, or say ignoreMissingValueFiles")
        # A file that is also named outright stands where it is named, and each is taken once.
        taken = [each for each in found if not (_is_pattern(path) and each.shown in explicit)]
        values += [each for each in taken if each not in values]
    files = []
    for parameter in options.file_parameters:
        matches = await _find(request, place, parameter.path)
        if len(matches) != 1:
            raise ChartError(f"{request.where}: there is no file {parameter.path} for {parameter.name}", hint="check fileParameters")
        files.append((parameter.name, matches[0]))
    capabilities = await _capabilities(request, options)
    return _Asked(
        place=place,
        needed=needed,
        values=values,
        inline=inline_values(options),
        files=files,
        arguments=[*_settings(request, options, capabilities), *parameter_arguments(options, request.variables)],
        parameters=[*(each.name for each in options.parameters), *(each.name for each in options.file_parameters)],
        release=options.release_name or request.target.application or _RELEASE,
        capabilities=capabilities,
    )


async def _find(request: Request[Handle], place: Place[Handle], path: str) -> list[ValueFile]:
    """`$ref/path` is a file of another source; in any other path variables are put in."""
    name, slash, rest = path.partition("/")
    lent = request.lent.get(name.removeprefix("$")) if name.startswith("$") and slash else None
    if lent is not None:
        return await ValueSearch(lent.tree, top_of(lent.tree), lent.where).find(substitute(rest, request.variables))
    return await ValueSearch(request.tree, place, request.where).find(substitute(path, request.variables))


def _is_pattern(path: str) -> bool:
    return any(character in path for character in "*?[")


async def _capabilities(request: Request[Handle], options: HelmOptions) -> Capabilities:
    """Those of the target, but for what the Application says itself."""
    if options.kube_version and options.api_versions and request.target.look is None:
        served = Capabilities()
    else:
        served = await request.target.capabilities()
    version = options.kube_version or served.kube_version
    if not options.api_versions:
        return msgspec.structs.replace(served, kube_version=version)
    given = dict.fromkeys(_as_kind(each) for each in options.api_versions)
    known = {each.api_version: None for each in given}
    return Capabilities(version, (*given, *(each for each in served.kinds if each.api_version in known or each.api_version == "v1")))


def _as_kind(api_version: str) -> ServedKind:
    """`v1`, `apps/v1`, `apps/v1/Deployment`."""
    parts = api_version.split("/")
    kind = parts.pop() if parts[-1][:1].isupper() else ""
    return ServedKind("/".join(parts), kind, f"{kind.lower()}s", True)


def _settings(request: Request[Handle], options: HelmOptions, capabilities: Capabilities) -> list[str]:
    """What helm is told about the target and what to leave out."""
    kube_version = capabilities.kube_version
    api_versions = options.api_versions or capabilities.api_versions
    # Tests of a release are no part of what is wanted, whatever the options say.
    arguments = ["--skip-tests", "--namespace", options.namespace or request.target.namespace or _NAMESPACE]
    if kube_version:
        arguments += ["--kube-version", kube_version.partition("+")[0]]
    for api_version in sorted(set(api_versions)):
        arguments += ["--api-versions", api_version]
    if not options.skip_crds:
        arguments.append("--include-crds")
    if options.skip_schema_validation:
        arguments.append("--skip-schema-validation")
    return arguments


class _Run(Generic[Handle]):
    """One render. `files` are the chart's, `values` the layers over them, all with their places in the jail."""

    def __init__(
        self, workshop: Workshop, asked: _Asked[Handle], target: Target, files: list[SourceFile], values: list[SourceFile]
    ) -> None:
        self.files = [*files, *values]
        self._workshop = workshop
        self._target = target
        self._chart = files
        self._layers = [file for file in values if file.path.startswith(f"{_VALUES}/")]
        self._directory = text_of(asked.place.path)
        self._asked = asked
        named = [(f"{_VALUES}/{index}.yaml", each.shown) for index, each in enumerate(asked.values)]
        named += [(f"{_FILES}/{index}", each.shown) for index, (_, each) in enumerate(asked.files)]
        self._names = dict(reversed(named))

    @classmethod
    async def prepare(cls, request: Request[Handle], workshop: Workshop, asked: _Asked[Handle]) -> "_Run[Handle]":
        own = await request.tree.read_files(asked.needed.export.files)
        refuse_pointers([SourceFile(text_of((*asked.place.path, path)), data) for path, data in own])
        chart = [*own, *asked.needed.fetched]
        placed = [SourceFile(f"{_CHART}/{path}", data) for path, data in chart]
        values = [SourceFile(f"{_VALUES}/{index}.yaml", await _read(each)) for index, each in enumerate(asked.values)]
        if asked.inline is not None:
            values.append(SourceFile(f"{_VALUES}/{len(values)}.yaml", asked.inline))
        values += [SourceFile(f"{_FILES}/{index}", await _read(each)) for index, (_, each) in enumerate(asked.files)]
        return cls(workshop, asked, request.target, placed, values)

    async def render(self) -> tuple[Loaded, Mapping[str, str] | None]:
        """The objects; and what was asked of the cluster with digests of its answers, where anything could be."""
        looks = await self._workshop.decode(lambda stop: impurity.mentions_lookup(self.files))
        window = Window(self._target.look, self._asked.capabilities) if looks and self._target.look is not None else None
        exact, notices = await self._workshop.decode(lambda stop: self._exact())
        arguments = [self._asked.release, _CHART, *exact, *self._asked.arguments]
        for file in self._layers:
            arguments += ["--values", file.path]
        for index, (name, _) in enumerate(self._asked.files):
            arguments += file_argument(name, f"{_FILES}/{index}")
        loaded, warnings = await self._render_once(arguments, window)
        notices += warnings
        if await self._workshop.decode(lambda stop: impurity.mentions_chance(self._chart)):
            again, _ = await self._render_once(arguments, window)
            notices += _impure(loaded.manifests, again.manifests)
        if looks and window is None:
            notices.append(_LOOKUP)
        return loaded._replace(notices=(*loaded.notices, *notices)), None if window is None else window.asked

    async def _render_once(self, arguments: Sequence[str], window: Window | None) -> tuple[Loaded, list[str]]:
        workshop, limits = self._workshop, self._workshop.settings.limits
        while True:
            async with workshop.turns, open_jail(workshop.directory, limits) as jail:
                completed = await self._run_helm(jail, arguments, window)
                if completed.exit_code == 0:
                    break
                # Each turn adds kinds that were missing, and helm names all that are.
                if window is None or not window.add_kinds(lookups.unserved_kinds(completed.stderr)):
                    raise self._explain(completed.stderr, jail)
        output = completed.stdout
        loaded = await workshop.decode(lambda stop: outputs.read_output(output, self._otherwise, self._shown, workshop.limits, stop))
        return loaded, list(outputs.warnings_of(completed.stderr))

    async def _run_helm(self, jail: Jail, arguments: Sequence[str], window: Window | None) -> Completed:
        files, environment, serve = self.files, _environment(jail), None
        if window is not None:
            arguments = [*arguments, *lookups.ARGUMENTS]
            files, serve = [*files, SourceFile(_KUBECONFIG, lookups.KUBECONFIG)], window.serve
            environment = environment | {"KUBECONFIG": str(jail.inside / _KUBECONFIG)}
        await write_copies(jail.inside, files, {})
        program, timeout = self._workshop.helm.find(), self._workshop.settings.limits.seconds
        return await run_jailed(program, ["template", *arguments], jail, timeout=timeout, environment=environment, serve=serve)

    def _exact(self) -> tuple[list[str], list[str]]:
        """The arguments that keep whole numbers whole, and a word where there is no room for them."""
        if not (may_bring_large(self._chart) or any(may_hold_large(file.data) for file in self._layers)):
            return [], []
        limits = self._workshop.limits
        files = {file.path.removeprefix(f"{_CHART}/"): file.data for file in self._chart}
        values = merge([default_values(files, limits), *(values_in(file, limits) for file in self._layers)])
        arguments = exact_arguments(values, self._asked.parameters)
        if sum(map(len, arguments)) > _ARGUMENT_BYTES or any(len(each) > _LONGEST_ARGUMENT for each in arguments):
            return [], ["the chart has so many large numbers in its values that helm may print them as 1e+06 instead of 1000000"]
        return arguments, []

    def _explain(self, stderr: str, jail: Jail) -> DelegateError:
        words = words_of(stderr.partition("\nUse --debug flag")[0], jail, lines=_WORD_LINES)
        for name, shown in self._names.items():
            words = words.replace(name, shown)
        return outputs.explain(words, self._otherwise, self._shown)

    @property
    def _otherwise(self) -> str:
        return f"{self._directory}/{CHART_FILE}".lstrip("/")

    def _shown(self, template: str) -> str:
        """Helm names a template by the chart's name; people look for it in its directory."""
        return f"{self._directory}/{template.partition('/')[2] or template}".lstrip("/")


def _environment(jail: Jail) -> dict[str, str]:
    """No plugins, no repositories, no cluster."""
    homes = {f"HELM_{name}_HOME": str(jail.home(name.lower())) for name in ("CACHE", "CONFIG", "DATA")}
    return homes | {"HELM_PLUGINS": str(jail.home("plugins")), "KUBECONFIG": "/dev/null"}


def _impure(first: Sequence[Manifest], second: Sequence[Manifest]) -> list[str]:
    leaves = impurity.differing_leaves(first, second)
    if not leaves:
        return []
    more = f" and {len(leaves) - _MOST_LEAVES} more" if len(leaves) > _MOST_LEAVES else ""
    shown = ", ".join(leaves[:_MOST_LEAVES])
    return [f"every render gives other values, and every sync would write them: {shown}{more}; set them in the values"]


async def _read(value: ValueFile) -> bytes:
    (file,) = await value.tree.read_files([value.found])
    refuse_pointers([file])
    return bytes(file.data)
