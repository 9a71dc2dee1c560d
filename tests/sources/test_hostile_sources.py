"""Charts and kustomizations that mean harm, or nothing: each render ends in objects or a fault, soon, and nobody else is harmed."""

import asyncio
import contextlib
import json
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from delegate.engine.sources.errors import RenderLimitError, RenderTimeoutError
from delegate.engine.sources.jails.running import RenderLimits
from delegate.engine.sources.limits import MEBIBYTE, SourceLimits
from delegate.engine.sources.manifests import Sources
from delegate.engine.sources.settings import RenderSettings
from delegate.foundation.errors import DelegateError
from delegate.model.sources import HelmOptions, KustomizeOptions, Source
from tests.sources.charts import chart
from tests.sources.repositories import ENVIRONMENT
from tests.tools import require_tool

LIMITS = RenderLimits(memory_bytes=192 * MEBIBYTE, processor_seconds=2, seconds=8.0, output_bytes=2 * MEBIBYTE, file_bytes=4 * MEBIBYTE)
SOURCES = SourceLimits(total_bytes=4 * MEBIBYTE, file_bytes=MEBIBYTE)
MOST_GROWTH = 160 * MEBIBYTE
"""What the process that renders may take more at its peak, whatever is rendered."""

CHART_BOMBS = {
    "a loop": "{{ range $i := until 2000000000 }}x{{ end }}",
    "loops in loops": "{{ range until 9999 }}{{ range until 9999 }}{{ range until 9999 }}{{ end }}{{ end }}{{ end }}",
    "a long text": '{{ repeat 2000000000 "x" }}',
    "a wide number": '{{ printf "%999999999d" 1 }}',
    "much output": '{{ range until 20000 }}{{ repeat 1000 "x" }}{{ end }}',
    "itself": '{{ define "a" }}{{ include "a" . }}{{ end }}{{ include "a" . }}',
    "templates of templates": '{{ $t := "{{ tpl .t . }}" }}{{ tpl $t (dict "t" $t "Template" .Template) }}',
    "many matches": '{{ regexFindAll "(a*)*b" (repeat 100000 "a") -1 | len }}',
    "keys": '{{ genPrivateKey "rsa" }}{{ range until 400 }}{{ genSelfSignedCert "a" nil nil 365 }}{{ end }}',
}


@contextlib.asynccontextmanager
async def within_memory() -> AsyncIterator[None]:
    """Fails where this process took far more at its peak than it had."""
    Path("/proc/self/clear_refs").write_text("5")  # noqa: ASYNC240 - sets the peak back to what is taken now
    before = _kibibytes("VmRSS")
    yield
    assert (_kibibytes("VmHWM") - before) * 1024 < MOST_GROWTH


def _kibibytes(field: str) -> int:
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(f"{field}:"))
    return int(line.split()[1])


async def outcome_of(folder: Path, files: Mapping[str, str | bytes], source: Source) -> DelegateError | int:
    """What rendering files ends in: a fault, or the number of objects."""
    top = Path(tempfile.mkdtemp(dir=folder))
    for name, content in files.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode(errors="surrogatepass") if isinstance(content, str) else content)
    sources = Sources(
        cache_dir=folder / "cache", allow_local=True, rendering=RenderSettings(limits=LIMITS), limits=SOURCES, environment=ENVIRONMENT
    )
    wanted = Source(path=str(top), helm=source.helm, kustomize=source.kustomize)
    began = time.monotonic()
    try:
        rendered = await sources.render(wanted, await sources.resolve(wanted, timeout=40), timeout=40)
        return len(rendered.manifests)
    except DelegateError as error:
        return error
    finally:
        sources.close()
        assert time.monotonic() - began < 40
        assert not list((folder / "cache/renders").glob("*")), "nothing is left of a render"
        shutil.rmtree(top)


@pytest.mark.parametrize("name", CHART_BOMBS)
async def test_bombs_of_templates(name: str, tmp_path: Path) -> None:
    """Time, memory and output have their ends; whoever renders beside it isn't harmed."""
    require_tool("helm")
    for name_of_place in ("one", "two"):
        (tmp_path / name_of_place).mkdir()
    bomb = chart(files={"templates/config.yaml": f"a: {CHART_BOMBS[name]}\n"})
    async with within_memory():
        outcome, beside = await asyncio.gather(
            outcome_of(tmp_path / "one", bomb, Source(helm=HelmOptions())),
            outcome_of(tmp_path / "two", chart(), Source(helm=HelmOptions())),
        )

    assert isinstance(outcome, DelegateError) or name == "many matches", outcome
    if name in ("a loop", "loops in loops", "a long text", "much output"):
        assert isinstance(outcome, (RenderLimitError, RenderTimeoutError)), repr(outcome)
    assert beside == 1


WORDS = st.sampled_from(
    [
        "a",
        "Values",
        ".Values.x",
        "$",
        "nil",
        '"x"',
        "0",
        "-1",
        "1e309",
        "(list)",
        "(dict)",
        ".",
        "$.Files",
        "`",
        "\\",
        "{{",
        "}}",
        "\x00",
        "é",
        "\ud800",
    ]
)
FUNCTIONS = st.sampled_from(
    [
        *("toYaml", "fromYaml", "toJson", "fromJson", "tpl", "include", "lookup", "required", "fail", "default", "index", "get", "set"),
        *("printf", "trunc", "indent", "nindent", "b64dec", "substr", "until", "untilStep", "slice", "regexReplaceAll", "mustRegexMatch"),
        *(
            "fromToml",
            "toToml",
            "getHostByName",
            "env",
            "expandenv",
            "genCA",
            "derivePassword",
            "semverCompare",
            "mergeOverwrite",
            "deepCopy",
        ),
        *(".Files.Get", ".Files.Glob", "kindOf", "dig", "pluck", "chunk", "seq", "div", "mod", "now", "date", "urlParse"),
    ]
)
CALLS = st.lists(st.one_of(WORDS, FUNCTIONS), min_size=1, max_size=5).map(lambda words: "{{ " + " ".join(words) + " }}")
BLOCKS = st.sampled_from(
    [
        "{{ if true }}",
        "{{ range .Values }}",
        "{{ with .Values }}",
        '{{ define "x" }}',
        '{{ block "x" . }}',
        "{{ else }}",
        "{{ end }}",
        "{{- ",
        " -}}",
        "{{/*",
    ]
)
LINES = st.sampled_from(
    [
        *(
            "kind: ConfigMap",
            "apiVersion: v1",
            "metadata: {name: a}",
            "---",
            "...",
            "data:",
            "  a: b",
            "- a",
            "&a [*a, *a]",
            "<<: *a",
            "? [a]: b",
        ),
        *("!!binary x", "%YAML 1.2", "\t", "'", "- - - - - -", "a: |", "{", "[", "\x00", "\ufeff", "9" * 400, "kind: List\nitems: null"),
        *("  annotations: {helm.sh/hook: pre-install}", "  annotations: {helm.sh/hook: '}'}", "# Source: x/../../y.yaml"),
    ]
)
TEMPLATES = st.lists(st.one_of(LINES, CALLS, BLOCKS), max_size=12).map("\n".join)
VALUES = st.one_of(st.just(""), st.lists(LINES, max_size=5).map("\n".join), st.just("x: {y: [1, 2.5, null, 1e400, 0x1F]}\n"))
FIELDS = st.sampled_from(
    [
        *(
            "resources",
            "bases",
            "components",
            "patches",
            "patchesStrategicMerge",
            "patchesJson6902",
            "configMapGenerator",
            "secretGenerator",
        ),
        *("images", "replacements", "vars", "namePrefix", "commonLabels", "labels", "transformers", "generators", "validators", "crds"),
        *(
            "helmCharts",
            "openapi",
            "configurations",
            "buildMetadata",
            "namespace",
            "replicas",
            "sortOptions",
            "generatorOptions",
            "kind",
            "x",
        ),
    ]
)
LEAVES = st.one_of(
    st.sampled_from(["a.yaml", ".", "..", "../..", "/etc", "https://example.test/x", "a.yaml#", "", None, 0, True, "kustomization.yaml"]),
    st.sampled_from(
        [{"name": "a"}, {"path": "a.yaml"}, {"patch": "- op: replace\n  path: /a/-/b\n  value: 1"}, {"literals": ["a=b", "="]}]
    ),
    st.sampled_from([{"name": "a", "files": ["../x", "a.yaml"]}, {"name": "a", "envs": ["a.yaml"]}, {"source": {}, "targets": [{}]}]),
)
KUSTOMIZATIONS = st.dictionaries(FIELDS, st.one_of(LEAVES, st.lists(LEAVES, max_size=3), st.dictionaries(st.just("a"), LEAVES)), max_size=5)
FUZZED = settings(
    max_examples=25, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck), print_blob=False
)


@FUZZED
@given(template=TEMPLATES, values=VALUES, head=VALUES)
def test_charts_of_chance(template: str, values: str, head: str) -> None:
    """Objects or a fault that names something; never another exception, and never much memory."""
    require_tool("helm")
    files = chart(files={"templates/x.yaml": template, "values.yaml": values, "templates/_h.tpl": head})
    with tempfile.TemporaryDirectory() as place:
        _check(asyncio.run(_measured(Path(place), files, Source(helm=HelmOptions()))))


@FUZZED
@given(kustomization=KUSTOMIZATIONS, other=st.lists(LINES, max_size=8).map("\n".join), edited=st.booleans())
def test_kustomizations_of_chance(kustomization: Mapping[str, object], other: str, edited: bool) -> None:
    """The same."""
    require_tool("kubectl")
    files: dict[str, str] = {"kustomization.yaml": json.dumps(kustomization), "a.yaml": other}
    options = KustomizeOptions(name_prefix="x-", images=("a:1",)) if edited else KustomizeOptions()
    with tempfile.TemporaryDirectory() as place:
        _check(asyncio.run(_measured(Path(place), files, Source(kustomize=options))))


async def _measured(folder: Path, files: Mapping[str, str | bytes], source: Source) -> DelegateError | int:
    async with within_memory():
        return await outcome_of(folder, files, source)


def _check(outcome: DelegateError | int) -> None:
    if isinstance(outcome, DelegateError):
        assert outcome.code
        assert outcome.category in ("input", "policy", "timeout"), repr(outcome)
        assert "/tmp/" not in f"{outcome}", "our own directories are nobody's business"
