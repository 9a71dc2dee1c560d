"""Charts from Git: rendered as helm renders them, with values in Argo CD's order of strength."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from delegate.engine.sources.errors import (
    ChartDependencyError,
    ChartError,
    LinkError,
    PathNotFoundError,
    RenderFailedError,
    RenderLimitError,
)
from delegate.engine.sources.jails.running import RenderLimits
from delegate.engine.sources.manifests import Sources
from delegate.engine.sources.renders import Rendered
from delegate.engine.sources.settings import RenderSettings
from delegate.engine.sources.targets import Capabilities, ServedKind, Target
from delegate.foundation.errors import DelegateError
from delegate.model.hooks import Phase, take_hooks_apart
from delegate.model.sources import HelmFileParameter, HelmOptions, HelmParameter, Source
from tests.sources.charts import CONFIG, chart, packed
from tests.sources.loading import load_text
from tests.sources.repositories import ENVIRONMENT, Repository, config_map, fault_of, names, render
from tests.tools import require_tool


@pytest.fixture(autouse=True)
def _helm() -> None:
    require_tool("helm")


def helm_bodies(directory: Path, *arguments: str) -> list[dict[str, Any]]:
    """What `helm template` prints in a checkout."""
    command = [str(require_tool("helm")), "template", "--skip-tests", "--include-crds", *arguments, str(directory)]
    output = subprocess.run(command, check=True, capture_output=True, timeout=50, env={"PATH": os.environ["PATH"]}).stdout
    return [manifest.body for manifest in load_text(output).manifests]


def source(repository: Repository, path: str = "shop", options: HelmOptions | None = None) -> Source:
    return Source(repo_url=repository.url, target_revision="main", path=path, helm=options)


async def values(sources: Sources, wanted: Source, target: Target | None = None) -> dict[str, Any]:
    """What the chart of `charts.chart` says its values are."""
    rendered = await render(sources, wanted, target)
    found: dict[str, Any] = json.loads(data_of(rendered)["values"])
    return found


def data_of(rendered: Rendered) -> dict[str, str]:
    (manifest,) = [each for each in rendered.manifests if each.kind == "ConfigMap"]
    data: dict[str, str] = manifest.body["data"]
    return data


RICH = chart(
    directory="shop",
    files={
        "templates/_helpers.tpl": '{{- define "shop.name" -}}{{ .Release.Name }}-{{ .Chart.Name }}{{- end -}}\n',
        "templates/web.yaml": """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ include "shop.name" . }}}
spec:
  replicas: {{ .Values.replicas | default 1 }}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: nginx}]}
---
apiVersion: v1
kind: Service
metadata: {name: {{ include "shop.name" . }}}
spec: {ports: [{port: 80}], selector: {app: web}}
""",
        "templates/hook.yaml": """\
apiVersion: batch/v1
kind: Job
metadata: {name: migrate, annotations: {helm.sh/hook: "pre-install,pre-upgrade", helm.sh/hook-weight: "-5"}}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: m, image: m}]}}}
""",
        "templates/tests/test.yaml": """\
apiVersion: v1
kind: Pod
metadata: {name: "test-{{ randAlphaNum 5 | lower }}", annotations: {helm.sh/hook: test}}
spec: {containers: [{name: m, image: m}]}
""",
        "templates/NOTES.txt": "Thank you for {{ .Release.Name }}\n",
        "crds/shops.yaml": """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shops.example.com}
spec: {group: example.com, names: {kind: Shop, plural: shops}, scope: Namespaced, versions: []}
""",
    },
)


class TestARichChart:
    """Several objects a template, helpers, a hook, a test, notes, a definition."""

    async def test_equals_helm(self, repository: Repository, sources: Sources) -> None:
        """Object by object, in order; tests and notes are left out."""
        repository.commit(RICH)

        rendered = await render(sources, source(repository))

        assert [manifest.body for manifest in rendered.manifests] == helm_bodies(repository.work / "shop")

    async def test_the_target_names_it(self, repository: Repository, sources: Sources) -> None:
        """Release and namespace are the Application's, unless the options say others."""
        repository.commit(RICH)
        target = Target(application="book", namespace="library")

        rendered = await render(sources, source(repository), target)
        other = await render(sources, source(repository, options=HelmOptions(release_name="r", namespace="other")), target)

        assert [each.body for each in rendered.manifests] == helm_bodies(repository.work / "shop", "book", "--namespace", "library")
        assert [each.body for each in other.manifests] == helm_bodies(repository.work / "shop", "r", "--namespace", "other")

    async def test_origins_are_templates(self, repository: Repository, sources: Sources) -> None:
        """As they are found in the repository."""
        repository.commit(RICH)

        rendered = await render(sources, source(repository))

        assert {each.kind: str(each.origin) for each in rendered.manifests} == {
            "CustomResourceDefinition": "shop/crds/shops.yaml",
            "ConfigMap": "shop/templates/config.yaml",
            "Deployment": "shop/templates/web.yaml",
            "Service": "shop/templates/web.yaml",
            "Job": "shop/templates/hook.yaml",
        }
        assert rendered.notices == (f"rendered by helm {_version()}",)

    async def test_hooks_stay_annotated(self, repository: Repository, sources: Sources) -> None:
        """So that a sync runs them."""
        repository.commit(RICH)

        hooked = take_hooks_apart((await render(sources, source(repository))).manifests)

        assert [(hook.phase, hook.wave, hook.manifest.name) for hook in hooked.hooks] == [(Phase.PRE_SYNC, -5, "migrate")]

    async def test_definitions_can_be_left_out(self, repository: Repository, sources: Sources) -> None:
        """`skipCrds`."""
        repository.commit(RICH)

        rendered = await render(sources, source(repository, options=HelmOptions(skip_crds=True)))

        assert "CustomResourceDefinition" not in {each.kind for each in rendered.manifests}

    async def test_on_this_machine(self, repository: Repository, sources: Sources) -> None:
        """A directory as it stands."""
        repository.commit(RICH)

        rendered = await render(sources, Source(path=str(repository.work / "shop")))

        assert [manifest.body for manifest in rendered.manifests] == helm_bodies(repository.work / "shop")


def _version() -> str:
    return subprocess.run([str(require_tool("helm")), "version", "--short"], check=True, capture_output=True, text=True).stdout.strip()


class TestStrength:
    """The chart's values < value files in order < values or valuesObject < parameters < file parameters."""

    FILES = chart(directory="shop", files={"values.yaml": "a: chart\nb: chart\nc: chart\nd: chart\ne: chart\nf: {x: 1, y: 2}\n"}) | {
        "shop/one.yaml": "b: one\nc: one\nd: one\ne: one\nf: {y: null, z: 3}\n",
        "shop/two.yaml": "c: two\nd: two\ne: two\n",
        "env/prod.yaml": "c: prod\n",
        "shop/files/note.txt": "a, note",
    }

    async def test_in_order(self, repository: Repository, sources: Sources) -> None:
        """Each layer over the one before."""
        repository.commit(self.FILES)
        options = HelmOptions(
            value_files=("one.yaml", "two.yaml"),
            values="d: inline\ne: inline\n",
            parameters=(HelmParameter("e", "parameter"),),
            file_parameters=(HelmFileParameter("g", "files/note.txt"),),
        )

        found = await values(sources, source(repository, options=options))

        layers = {"a": "chart", "b": "one", "c": "two", "d": "inline", "e": "parameter", "f": {"x": 1, "z": 3}, "g": "a, note"}
        assert found == layers

    async def test_an_object_takes_the_place_of_a_text(self, repository: Repository, sources: Sources) -> None:
        """Where both are given, `valuesObject` counts."""
        repository.commit(self.FILES)
        options = HelmOptions(values="a: text\n", values_object={"b": "object", "n": {"on": True, "list": [1, "2"]}})

        found = await values(sources, source(repository, options=options))

        assert (found["a"], found["b"], found["n"]) == ("chart", "object", {"on": True, "list": [1, "2"]})

    async def test_parameters(self, repository: Repository, sources: Sources) -> None:
        """Numbers and booleans are read, unless they are to stay texts; commas are part of a value, braces make a list."""
        repository.commit(self.FILES)
        options = HelmOptions(
            parameters=(
                HelmParameter("n", "12"),
                HelmParameter("t", "12", force_string=True),
                HelmParameter("b", "true"),
                HelmParameter("commas", r"a,b\,c"),
                HelmParameter("list", "{x,y}"),
                HelmParameter("deep.er", "1"),
                HelmParameter("f", "null"),
                HelmParameter("app", "$ARGOCD_APP_NAME-${ARGOCD_APP_NAMESPACE}"),
            )
        )

        found = await values(sources, source(repository, options=options), Target(application="book", namespace="library"))

        assert (found["n"], found["t"], found["b"], found["commas"], found["list"]) == (12, "12", True, "a,b,c", ["x", "y"])
        assert (found["deep"], found.get("f"), found["app"]) == ({"er": 1}, None, "book-library")

    @pytest.mark.parametrize(
        ("paths", "winner"),
        [
            (["/env/prod.yaml"], "prod"),
            (["../env/prod.yaml"], "prod"),
            (["./one.yaml"], "one"),
            (["*o.yaml"], "two"),
            (["/**/prod.yaml"], "prod"),
            (["two.yaml", "[a-o]*.yaml"], "one"),
            (["*.yaml", "one.yaml"], "one"),  # named outright, so it stands there
            (["nowhere.yaml", "one.yaml"], "one"),
            (["$ARGOCD_APP_NAME.yaml"], "one"),
        ],
    )
    async def test_value_files(self, paths: list[str], winner: str, repository: Repository, sources: Sources) -> None:
        """Relative to the chart or to the top, by patterns, with variables; the last one wins."""
        repository.commit(self.FILES)
        options = HelmOptions(value_files=tuple(paths), ignore_missing_value_files=True)

        assert (await values(sources, source(repository, options=options), Target(application="one")))["c"] == winner

    @pytest.mark.parametrize(
        ("options", "kind", "words"),
        [
            (HelmOptions(value_files=("nowhere.yaml",)), ChartError, "there is no file of values nowhere.yaml"),
            (HelmOptions(value_files=("no*.yaml",)), ChartError, "there is no file of values no*.yaml"),
            (HelmOptions(value_files=("../../../etc/passwd",)), LinkError, "leads out of the repository"),
            (HelmOptions(value_files=("link.yaml",)), LinkError, "leads out of the repository"),
            (HelmOptions(value_files=("files",)), ChartError, "shop/files is no file of values"),
            (HelmOptions(value_files=("https://host.example/v.yaml",)), ChartError, "would be fetched"),
            (HelmOptions(file_parameters=(HelmFileParameter("g", "nowhere"),)), ChartError, "there is no file nowhere for g"),
            (HelmOptions(value_files=("files/note.txt",)), RenderFailedError, "shop/files/note.txt"),
            (HelmOptions(values="a: [\n"), RenderFailedError, "failed to parse values/0.yaml"),
            (HelmOptions(parameters=(HelmParameter("a[x]", "1"),)), RenderFailedError, "failed parsing --set data"),
        ],
    )
    async def test_what_cant_be_values(
        self, options: HelmOptions, kind: type[DelegateError], words: str, repository: Repository, sources: Sources
    ) -> None:
        """The file or the field is named."""
        repository.commit(self.FILES)
        (repository.work / "shop/link.yaml").symlink_to("../../outside.yaml")
        (repository.work / "shop/.helmignore").write_text("link.yaml\n")
        repository.commit_work_tree()
        if "link.yaml" not in options.value_files:
            (repository.work / "shop/link.yaml").unlink()
            repository.commit_work_tree()

        fault = await fault_of(sources, source(repository, options=options))

        assert isinstance(fault, kind), repr(fault)
        assert words in fault.message


class TestCapabilities:
    """What the cluster serves, for charts that ask."""

    FILES = chart(
        directory="shop",
        files={
            "templates/config.yaml": CONFIG
            + "  version: {{ .Capabilities.KubeVersion.Version | quote }}\n"
            + '  api: {{ .Capabilities.APIVersions.Has "shop.example/v1/Shop" | quote }}\n'
        },
    )

    async def test_of_the_target(self, repository: Repository, sources: Sources) -> None:
        """Asked once for each render, and part of what the render depends on."""
        repository.commit(self.FILES)

        async def old() -> Capabilities:
            return Capabilities("v1.29.3-eks-12+3", ())

        async def new() -> Capabilities:
            return Capabilities("v1.33.0", (ServedKind("shop.example/v1", "Shop", "shops", True),))

        found = [data_of(await render(sources, source(repository), Target(capabilities=served))) for served in (old, new)]

        assert [(data["version"], data["api"]) for data in found] == [("v1.29.3-eks-12", "false"), ("v1.33.0", "true")]

    async def test_of_the_options(self, repository: Repository, sources: Sources) -> None:
        """They win; then nobody is asked."""
        repository.commit(self.FILES)

        async def unreachable() -> Capabilities:
            raise AssertionError("the options say it all")

        options = HelmOptions(kube_version="1.30.1", api_versions=("shop.example/v1/Shop",))
        data = data_of(await render(sources, source(repository, options=options), Target(capabilities=unreachable)))

        assert (data["version"], data["api"]) == ("v1.30.1", "true")


class TestWholeNumbers:
    """A number is printed as it was written, whichever layer it came from."""

    TEMPLATE = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: numbers}
data:
  a: {{ .Values.a | quote }}
  b: {{ .Values.deep.b | quote }}
  c: {{ .Values.deep.c | quote }}
  d: {{ (index .Values.list 1).d | quote }}
  e: {{ (index .Values.list 0) | quote }}
  f: {{ index .Values "with.dot" | quote }}
  small: {{ .Values.small | quote }}
  half: {{ .Values.half | quote }}
"""
    VALUES = """\
a: 1000000
deep: {b: 9007199254740993, c: 1}
list: [0.5, {d: -20000000, text: "20000000"}]
with.dot: 1_000_000
small: 999999
half: 1.5
"""

    async def test_of_every_layer(self, repository: Repository, sources: Sources) -> None:
        """The chart's, a file's, an object's, with the strength of each."""
        repository.commit(
            chart(directory="shop", files={"templates/config.yaml": self.TEMPLATE, "values.yaml": self.VALUES})
            | {"shop/v.yaml": "a: 3000000\n"}
        )
        options = HelmOptions(value_files=("v.yaml",), values_object={"deep": {"c": 5000000}})

        first = data_of(await render(sources, source(repository)))
        second = data_of(await render(sources, source(repository, options=options)))

        numbers = {"a": "1000000", "b": "9007199254740993", "c": "1", "d": "-20000000", "e": "0.5", "f": "1000000"}
        assert first == numbers | {"small": "999999", "half": "1.5"}
        assert (second["a"], second["c"]) == ("3000000", "5000000")

    async def test_parameters_win(self, repository: Repository, sources: Sources) -> None:
        """Also over a part of a list."""
        repository.commit(chart(directory="shop", files={"values.yaml": "a: 1000000\nlist: [1000000, 2]\n"}))
        options = HelmOptions(parameters=(HelmParameter("a", "x"), HelmParameter("list[0]", "y")))

        found = await values(sources, source(repository, options=options))

        assert (found["a"], found["list"]) == ("x", ["y"])

    async def test_of_charts_inside(self, repository: Repository, sources: Sources) -> None:
        """Under their names or aliases, as directories and packed; the parent's values win."""
        template = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Chart.Name }}"}
data: {a: {{ .Values.a | quote }}, b: {{ .Values.b | quote }}}
"""
        inner = {"templates/config.yaml": template, "values.yaml": "a: 4000000\nb: 5000000\n"}
        files = chart(directory="shop", files={"templates/config.yaml": "", "values.yaml": "second: {b: 6000000}\n"})
        files["shop/Chart.yaml"] += "dependencies: [{name: one, version: 1.2.3}, {name: two, alias: second, version: 1.2.3}]\n"
        repository.commit(files | chart("one", inner, directory="shop/charts/one"))
        repository.commit({"shop/charts/two-1.2.3.tgz": packed(chart("two", inner), "two")})

        rendered = await render(sources, source(repository))

        found = {each.name: (each.body["data"]["a"], each.body["data"]["b"]) for each in rendered.manifests}
        assert found == {"one": ("4000000", "5000000"), "second": ("4000000", "6000000")}


class TestWhatIsSaid:
    """Notices about charts that are not what they seem."""

    async def test_chance(self, repository: Repository, sources: Sources) -> None:
        """The leaves that no two renders agree on are named, never their values."""
        template = "apiVersion: v1\nkind: Secret\nmetadata: {name: keys}\nstringData: {fixed: a, password: {{ randAlphaNum 20 | quote }}}\n"
        repository.commit(chart(directory="shop", files={"templates/secret.yaml": template}))

        rendered = await render(sources, source(repository))

        (notice,) = [each for each in rendered.notices if "every render gives other values" in each]
        assert "Secret keys: stringData.password" in notice
        assert "fixed" not in notice
        (secret,) = [each.body for each in rendered.manifests if each.kind == "Secret"]
        assert secret["stringData"]["password"] not in notice

    async def test_chance_that_the_values_take_away(self, repository: Repository, sources: Sources) -> None:
        """What is drawn by lot only where nobody sets it is set."""
        template = CONFIG + "  key: {{ .Values.key | default (randAlphaNum 20) | quote }}\n"
        repository.commit(chart(directory="shop", files={"templates/config.yaml": template}))

        rendered = await render(sources, source(repository, options=HelmOptions(values="key: mine")))

        assert len(rendered.notices) == 1

    async def test_questions_to_the_cluster(self, repository: Repository, sources: Sources) -> None:
        """`lookup` finds nothing, and the result says so."""
        template = CONFIG + '  found: {{ lookup "v1" "Secret" .Release.Namespace "keys" | toJson | quote }}\n'
        repository.commit(chart(directory="shop", files={"templates/config.yaml": template}))

        rendered = await render(sources, source(repository))

        assert data_of(rendered)["found"] == "{}"
        assert any("`lookup`" in notice for notice in rendered.notices)

    async def test_warnings_of_helm(self, repository: Repository, sources: Sources) -> None:
        """Such as that nobody keeps the chart any more."""
        files = chart(directory="shop")
        files["shop/Chart.yaml"] += "deprecated: true\n"
        repository.commit(files)

        rendered = await render(sources, source(repository))

        assert "helm: this chart is deprecated" in rendered.notices


class TestDependencies:
    """Charts that a chart needs: in it, beside it, or named as missing."""

    @staticmethod
    def parent(repository_line: str, **more: str) -> dict[str, str]:
        files = chart(directory="apps/shop")
        files["apps/shop/Chart.yaml"] += f"dependencies:\n  - {{name: redis, version: 1.x, {repository_line}}}\n"
        return files | more

    INNER = chart("redis", {"templates/config.yaml": "", "templates/redis.yaml": config_map("redis")})

    @pytest.mark.parametrize("packing", ["directory", "other-directory", "package"])
    async def test_in_the_chart(self, packing: str, repository: Repository, sources: Sources) -> None:
        """Its repository is nobody's business then."""
        repository.commit(self.parent("repository: 'https://charts.example'"))
        if packing == "package":
            repository.commit({"apps/shop/charts/redis-1.2.3.tgz": packed(self.INNER, "redis")})
        else:
            directory = "redis" if packing == "directory" else "elsewhere"
            repository.commit({f"apps/shop/charts/{directory}/{path}": text for path, text in self.INNER.items()})

        rendered = await render(sources, source(repository, "apps/shop"))

        assert sorted(names(rendered)) == ["redis", "release-name-config"]
        assert [each.body for each in rendered.manifests] == helm_bodies(repository.work / "apps/shop")

    async def test_beside_the_chart(self, repository: Repository, sources: Sources) -> None:
        """`file://` leads anywhere in the repository."""
        repository.commit(self.parent("repository: 'file://../../libs/redis'"))
        repository.commit({f"libs/redis/{path}": text for path, text in self.INNER.items()})

        rendered = await render(sources, source(repository, "apps/shop"))

        assert sorted(names(rendered)) == ["redis", "release-name-config"]

    @pytest.mark.parametrize(
        ("line", "kind", "words"),
        [
            ("repository: 'https://user:secret@charts.example/a'", ChartDependencyError, "https://charts.example/a is not configured"),
            ("repository: 'oci://charts.example/a'", ChartDependencyError, "oci://charts.example/a is not configured"),
            ("repository: '@stable'", ChartDependencyError, "@stable is not configured"),
            ("repository: ''", ChartDependencyError, "no repository is named"),
            ("repository: 'file://../../nowhere'", ChartDependencyError, "there is no ../../nowhere"),
            ("repository: 'file://../../../../etc'", LinkError, "leads out of the repository"),
        ],
    )
    async def test_missing(self, line: str, kind: type[DelegateError], words: str, repository: Repository, sources: Sources) -> None:
        """It is named, with the line that asks for it; nothing is fetched."""
        repository.commit(self.parent(line))

        fault = await fault_of(sources, source(repository, "apps/shop"))

        assert isinstance(fault, kind), repr(fault)
        assert words in fault.message
        assert "secret" not in fault.message
        if kind is ChartDependencyError:
            assert "the chart shop needs redis 1.x" in fault.message
            assert (fault.file, fault.line) == ("apps/shop/Chart.yaml", 5)
            assert "helm dependency build" in fault.hint

    async def test_a_circle(self, repository: Repository, sources: Sources) -> None:
        """Charts that depend on each other."""
        repository.commit(self.parent("repository: 'file://../redis'"))
        files = {f"apps/redis/{path}": text for path, text in self.INNER.items()}
        files["apps/redis/Chart.yaml"] += "dependencies: [{name: shop, version: 1.x, repository: 'file://../shop'}]\n"
        repository.commit(files)

        fault = await fault_of(sources, source(repository, "apps/shop"))

        assert isinstance(fault, ChartError)
        assert "in a circle" in fault.message


@pytest.mark.parametrize(
    ("files", "file", "line", "words"),
    [
        ({"templates/a.yaml": '\n{{ fail "not today" }}\n'}, "shop/templates/a.yaml", 2, "not today"),
        ({"templates/a.yaml": '{{ required "set key" .Values.key }}'}, "shop/templates/a.yaml", 1, "set key"),
        ({"templates/a.yaml": "{{ .Values.a"}, "shop/templates/a.yaml", 1, "unclosed action"),
        ({"templates/a.yaml": "a: b\n{{ nowhere }}"}, "shop/templates/a.yaml", 2, 'function "nowhere" not defined'),
        ({"templates/a.yaml": 'x: 1\n{{ include "nowhere" . }}'}, "shop/templates/a.yaml", 2, "nowhere"),
        ({"templates/a.yaml": "a: [\n"}, "shop/templates/a.yaml", None, "YAML"),
        ({"values.yaml": "a: [\n"}, "shop/Chart.yaml", None, "values.yaml"),
        ({"values.schema.json": '{"type": "object", "required": ["key"]}'}, "shop/Chart.yaml", None, "key"),
        ({"templates/a.yaml": "kind: ConfigMap\nmetadata: {name: a}\n"}, "shop/templates/a.yaml", None, "has kind but no apiVersion"),
        ({"templates/a.yaml": config_map("a") + "data: {b: 1}\n"}, "shop/templates/a.yaml", None, "data.b must be a string"),
        ({"Chart.yaml": "apiVersion: v2\nversion: 1.2.3\n"}, "shop/Chart.yaml", 1, "the chart has no name"),
        ({"Chart.yaml": "- a\n"}, "shop/Chart.yaml", 1, "it is no mapping"),
        ({"Chart.yaml": "a: [\n"}, "shop/Chart.yaml", 2, ""),
        ({"Chart.yaml": "apiVersion: v2\nname: a\nversion: x.y\n"}, "shop/Chart.yaml", None, "version"),
        ({"Chart.yaml": "apiVersion: v2\nname: a\nversion: 1.2.3\nkubeVersion: '>=99'\n"}, "shop/Chart.yaml", None, ">=99"),
    ],
)
async def test_what_cant_be_rendered(  # noqa: PLR0917 - parameters of the cases
    files: Mapping[str, str], file: str, line: int | None, words: str, repository: Repository, sources: Sources
) -> None:
    """The file of the repository is named, and its line where helm tells."""
    repository.commit(chart(directory="shop", files=files))

    fault = await fault_of(sources, source(repository))

    assert words in fault.message
    assert (fault.file, fault.line) == (file, line), repr(fault)
    assert "/renders/" not in fault.message


async def test_a_path_without_a_chart(repository: Repository, sources: Sources) -> None:
    """Options for helm want a chart."""
    repository.commit({"shop/a.yaml": config_map("a")})

    fault = await fault_of(sources, source(repository, options=HelmOptions()))

    assert isinstance(fault, PathNotFoundError)
    assert "there is no chart in shop" in fault.message


class TestLinks:
    """Inside the repository they become what they lead to; out of it nothing is read."""

    async def test_inside(self, repository: Repository, sources: Sources) -> None:
        """A template and a directory of files elsewhere in the repository."""
        template = CONFIG.replace("values: {{ .Values | toJson | quote }}", 'note: {{ .Files.Get "files/note.txt" | quote }}')
        repository.commit(
            chart(directory="shop", files={"templates/config.yaml": ""}) | {"shared/config.yaml": template, "notes/note.txt": "hello"}
        )
        (repository.work / "shop/templates").mkdir(exist_ok=True)
        (repository.work / "shop/templates/config.yaml").symlink_to("../../shared/config.yaml")
        (repository.work / "shop/files").symlink_to("../notes")
        repository.commit_work_tree()

        assert data_of(await render(sources, source(repository))) == {"note": "hello"}

    @pytest.mark.parametrize("target", ["/etc/passwd", "../../outside.yaml", "../values.yaml/../..", "nowhere"])
    async def test_outside(self, target: str, repository: Repository, sources: Sources) -> None:
        """Values, templates, files: whatever the chart's directory holds."""
        repository.commit(chart(directory="shop"))
        (repository.work / "shop/secrets.yaml").symlink_to(target)
        repository.commit_work_tree()

        fault = await fault_of(sources, source(repository))

        assert isinstance(fault, LinkError)

    async def test_templates_read_no_other_files(self, repository: Repository, sources: Sources) -> None:
        """Not by absolute paths, not by paths that lead up."""
        template = CONFIG + '  a: {{ .Files.Get "/etc/passwd" | quote }}\n  b: {{ .Files.Get "../../../../../../etc/passwd" | quote }}\n'
        repository.commit(chart(directory="shop", files={"templates/config.yaml": template}))

        data = data_of(await render(sources, source(repository)))

        assert (data["a"], data["b"]) == ("", "")


class TestCache:
    """What a render depends on is what it reads and is told."""

    async def test_commits_elsewhere_cost_nothing(self, repository: Repository, sources: Sources) -> None:
        """The same content; also a value file beside the chart counts only where it is used."""
        repository.commit(TestStrength.FILES)
        wanted = source(repository, options=HelmOptions(value_files=("/env/prod.yaml",)))
        first = await render(sources, wanted)
        repository.commit({"elsewhere.yaml": config_map("a")})

        second = await render(sources, wanted)
        repository.commit({"env/prod.yaml": "c: changed\n"})
        third = await render(sources, wanted)

        assert second.content == first.content
        assert (second.manifests, second.notices) == (first.manifests, first.notices)
        assert second.revision != first.revision
        assert json.loads(data_of(third)["values"])["c"] == "changed"

    async def test_what_is_drawn_by_lot_stays(self, repository: Repository, sources: Sources) -> None:
        """As long as nothing changes, the same is rendered again and again."""
        repository.commit(chart(directory="shop", files={"templates/config.yaml": CONFIG + "  key: {{ randAlphaNum 20 | quote }}\n"}))

        first, second = [data_of(await render(sources, source(repository))) for _ in range(2)]

        assert first == second


@pytest.mark.parametrize(
    "template",
    [
        "{{ range until 1000000000 }}x{{ end }}",
        '{{ define "a" }}{{ include "a" . }}{{ include "a" . }}{{ end }}{{ include "a" . }}',
        '{{ $a := "x" }}{{ range until 60 }}{{ $a = printf "%s%s" $a $a }}{{ end }}{{ $a }}',
        "{{ $a := list 1 }}{{ range until 40 }}{{ $a = concat $a $a }}{{ end }}{{ $a }}",
    ],
)
async def test_bombs(template: str, repository: Repository, tmp_path: Path) -> None:
    """A template that never ends, or never stops growing, ends its render and nothing else."""
    repository.commit(chart(directory="shop", files={"templates/bomb.yaml": template}))
    limits = RenderLimits(memory_bytes=256 * 2**20, processor_seconds=10, seconds=40)
    sources = Sources(cache_dir=tmp_path / "cache", allow_local=True, rendering=RenderSettings(limits=limits), environment=ENVIRONMENT)

    fault = await fault_of(sources, source(repository))

    assert isinstance(fault, (RenderLimitError, RenderFailedError)), repr(fault)
    repository.commit(chart(directory="other"))
    assert (await values(sources, source(repository, "other"))) == {"level": "chart"}
