"""Kustomizations: rendered as kubectl renders them, from what their repository holds and nothing else."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from delegate.engine.sources.errors import (
    CommandNotFoundError,
    DuplicateKeyError,
    ForeignDocumentError,
    KustomizationError,
    LinkError,
    PathNotFoundError,
    RemoteBaseError,
    RenderFailedError,
    RenderLimitError,
    SubmoduleError,
)
from delegate.engine.sources.jails.running import RenderLimits
from delegate.engine.sources.manifests import Sources
from delegate.engine.sources.settings import RenderSettings
from delegate.engine.sources.targets import Target
from delegate.foundation.errors import DelegateError
from delegate.model.sources import DirectoryOptions, KustomizeOptions, KustomizePatch, KustomizeReplica, KustomizeTarget, Source
from tests.sources.loading import load_text
from tests.sources.repositories import ENVIRONMENT, Repository, config_map, fault_of, git, names, render
from tests.tools import require_tool

DEPLOYMENT = """\
# the shop
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
        - {name: main, image: "nginx:1.0", env: [{name: LEVEL, valueFrom: {configMapKeyRef: {name: settings, key: level}}}]}
"""
BASE = {
    "base/kustomization.yaml": """\
resources: [web.yaml, ../shared]
configMapGenerator:
  - name: settings
    literals: [level=info]
    files: [config.json, other=files/other.txt]
    envs: [settings.env]
""",
    "base/web.yaml": DEPLOYMENT,
    "base/config.json": '{"a": 1}',
    "base/files/other.txt": "other\n",
    "base/settings.env": "COLOUR=blue\n",
    "base/unused.yaml": "[",
    "shared/kustomization.yml": "resources: [account.yaml]\n",
    "shared/account.yaml": "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: web, annotations: {a: b}}\n",
}
OVERLAY = {
    "overlays/prod/kustomization.yaml": """\
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [../../base]
components: [../../components/tls]
namespace: shop
namePrefix: prod-
labels: [{pairs: {team: shop}, includeSelectors: true}]
images: [{name: nginx, newTag: "1.1"}]
patches:
  - path: patches/replicas.yaml
  - target: {kind: Deployment}
    patch: '[{"op": "add", "path": "/metadata/annotations", "value": {"on": "true"}}]'
replacements: [{path: replacement.yaml}]
transformers: [suffix.yaml]
secretGenerator: [{name: keys, literals: [key=value], options: {disableNameSuffixHash: true}}]
""",
    "overlays/prod/patches/replicas.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 3}\n",
    "overlays/prod/replacement.yaml": """\
- source: {kind: Deployment, fieldPath: spec.replicas}
  targets: [{select: {kind: ServiceAccount}, fieldPaths: [metadata.annotations.a]}]
""",
    "overlays/prod/suffix.yaml": """\
apiVersion: builtin
kind: PatchTransformer
metadata: {name: more}
path: patches/more.yaml
target: {kind: ServiceAccount}
""",
    "overlays/prod/patches/more.yaml": '[{"op": "add", "path": "/metadata/labels/more", "value": "yes"}]',
    "components/tls/Kustomization": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nresources: [secret.yaml]\n",
    "components/tls/secret.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: tls}\nstringData: {big: '1000000'}\n",
}


@pytest.fixture(autouse=True)
def _kubectl() -> None:
    require_tool("kubectl")


def kubectl_bodies(directory: Path) -> list[dict[str, Any]]:
    """What `kubectl kustomize` prints in a checkout."""
    command = [str(require_tool("kubectl")), "kustomize", str(directory)]
    output = subprocess.run(command, check=True, capture_output=True, timeout=50, env={"PATH": os.environ["PATH"]}).stdout
    return [manifest.body for manifest in load_text(output).manifests]


def source(repository: Repository, path: str = ".", options: KustomizeOptions | None = None, **fields: Any) -> Source:
    return Source(repo_url=repository.url, target_revision="main", path=path, kustomize=options, **fields)


async def bodies(sources: Sources, wanted: Source, target: Target | None = None) -> list[dict[str, Any]]:
    return [manifest.body for manifest in (await render(sources, wanted, target)).manifests]


@pytest.mark.parametrize("path", ["base", "overlays/prod", "shared"])
async def test_equals_kubectl(path: str, repository: Repository, sources: Sources) -> None:
    """Object by object, in order."""
    repository.commit(BASE | OVERLAY)

    assert await bodies(sources, source(repository, path)) == kubectl_bodies(repository.work / path)


async def test_a_directory_of_this_machine(repository: Repository, sources: Sources, tmp_path: Path) -> None:
    """In a work tree, and in a directory that is in none; bases above it are reached both times."""
    repository.commit(BASE | OVERLAY)
    (tmp_path / "plain").mkdir()
    git("-C", str(repository.work), "checkout-index", "-a", f"--prefix={tmp_path}/plain/")

    for top in (repository.work, tmp_path / "plain"):
        rendered = await render(sources, Source(path=str(top / "overlays/prod")))
        assert [manifest.body for manifest in rendered.manifests] == kubectl_bodies(top / "overlays/prod")


async def test_origins(repository: Repository, sources: Sources) -> None:
    """The file and line that an object was written at, or the kustomization that made it."""
    repository.commit(BASE | OVERLAY)

    rendered = await render(sources, source(repository, "overlays/prod"))

    assert {(manifest.kind, str(manifest.origin)) for manifest in rendered.manifests} == {
        ("Deployment", "base/web.yaml:2"),
        ("ServiceAccount", "shared/account.yaml:1"),
        ("ConfigMap", "base/kustomization.yaml:3"),
        ("Secret", "components/tls/secret.yaml:1"),
        ("Secret", "overlays/prod/kustomization.yaml:15"),
    }
    (notice,) = rendered.notices
    assert notice.startswith("rendered by kustomize, and read in its dialect of YAML (Client Version: v")


async def test_annotations_are_copied_as_they_are(repository: Repository, sources: Sources) -> None:
    """Nothing of ours is in what kustomize sees, so a replacement that copies all annotations copies no more than these."""
    kustomization = """\
resources: [web.yaml, account.yaml]
replacements:
  - source: {kind: ServiceAccount, fieldPath: metadata.annotations}
    targets: [{select: {kind: Deployment}, fieldPaths: [spec.template.metadata.annotations], options: {create: true}}]
"""
    files = {"kustomization.yaml": kustomization, "web.yaml": DEPLOYMENT, "account.yaml": BASE["shared/account.yaml"]}
    repository.commit(files)

    assert await bodies(sources, source(repository)) == kubectl_bodies(repository.work)


async def test_options_of_an_application(repository: Repository, sources: Sources) -> None:
    """As `kustomize edit` would write them: in the place of what is there, by name, or after it."""
    repository.commit(BASE | OVERLAY)
    options = KustomizeOptions(
        name_prefix="blue-",
        name_suffix="-x",
        namespace="elsewhere",
        images=("nginx=registry.example/nginx:2.0@sha256:" + "0" * 64,),
        replicas=(KustomizeReplica("web", "5"),),
        common_labels={"app.kubernetes.io/part-of": "$ARGOCD_APP_NAME"},
        label_without_selector=True,
        common_annotations={"revision": "${ARGOCD_APP_REVISION_SHORT_8}", "plain": "$$5"},
        common_annotations_envsubst=True,
        patches=(
            KustomizePatch(
                patch='[{"op": "add", "path": "/metadata/annotations", "value": {"last": "1"}}]', target=KustomizeTarget(kind="Secret")
            ),
        ),
        components=("../../shared", "../../nowhere"),
        ignore_missing_components=True,
    )
    repository.commit({"shared/kustomization.yml": "kind: Component\napiVersion: kustomize.config.k8s.io/v1alpha1\nnamePrefix: c-\n"})
    repository.commit({"base/kustomization.yaml": BASE["base/kustomization.yaml"].replace(", ../shared", "")})
    wanted = source(repository, "overlays/prod", options)
    revision = (await sources.resolve(wanted, timeout=40)).revision

    found = {body["kind"] + "/" + body["metadata"]["name"]: body for body in await bodies(sources, wanted, Target(application="shop"))}

    web = found["Deployment/blue-c-web-x"]
    assert (web["metadata"]["namespace"], web["spec"]["replicas"]) == ("elsewhere", 5)
    assert web["metadata"]["annotations"] == {"on": "true", "plain": "$5", "revision": revision[:8]}
    assert web["metadata"]["labels"]["app.kubernetes.io/part-of"] == "shop"
    assert web["metadata"]["labels"]["team"] == "shop"
    assert "app.kubernetes.io/part-of" not in web["spec"]["selector"]["matchLabels"]
    (container,) = web["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example/nginx:2.0@sha256:" + "0" * 64
    assert found["Secret/blue-c-tls-x"]["metadata"]["annotations"]["last"] == "1"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (KustomizeOptions(images=("nginx",)), "'nginx' changes nothing"),
        (KustomizeOptions(common_labels={"team": "x"}, label_without_selector=True), "team stands in the kustomization's labels already"),
        (KustomizeOptions(replicas=(KustomizeReplica("web", "many"),)), "'many' of web is no number"),
        (KustomizeOptions(components=("../../nowhere",)), "there is no ../../nowhere"),
        (KustomizeOptions(patches=(KustomizePatch(path="nowhere.yaml"),)), "there is no nowhere.yaml"),
        (KustomizeOptions(patches=(KustomizePatch(path="../../base/web.yaml"),)), "is not in or below the directory"),
        (KustomizeOptions(components=("https://host.example/a",)), "would be fetched"),
    ],
)
async def test_options_that_cant_be_meant(options: KustomizeOptions, words: str, repository: Repository, sources: Sources) -> None:
    """The option is named."""
    repository.commit(BASE | OVERLAY)
    if options.common_labels:
        text = OVERLAY["overlays/prod/kustomization.yaml"].replace(", includeSelectors: true", "")
        repository.commit({"overlays/prod/kustomization.yaml": text})

    fault = await fault_of(sources, source(repository, "overlays/prod", options))

    assert words in fault.message
    assert fault.file == "overlays/prod/kustomization.yaml"


@pytest.mark.parametrize(
    ("files", "kind", "line", "words"),
    [
        ({"kustomization.yaml": "resources:\n- a.yaml\n- nowhere.yaml\n"}, KustomizationError, 3, "there is no nowhere.yaml"),
        (
            {"kustomization.yaml": "resources: [https://github.com/o/r//d?ref=main]"},
            RemoteBaseError,
            1,
            "https://github.com/o/r//d?ref=main would be",
        ),
        ({"kustomization.yaml": "resources: [github.com/o/r/d]"}, RemoteBaseError, 1, "github.com/o/r/d would be fetched"),
        ({"kustomization.yaml": "resources: ['git@host.example:o/r']"}, RemoteBaseError, 1, "git@host.example:o/r would be fetched"),
        ({"kustomization.yaml": "resources: [/etc/passwd]"}, KustomizationError, 1, "/etc/passwd is an absolute path"),
        ({"kustomization.yaml": "resources: [../../../x]"}, LinkError, 1, "../../../x leads out of the repository"),
        ({"kustomization.yaml": "patches:\n- path: https://host.example/p\n"}, RemoteBaseError, 2, "would be fetched"),
        ({"kustomization.yaml": "configMapGenerator:\n- name: a\n  files: [b=../../x]\n"}, LinkError, 3, "leads out of the repository"),
        ({"kustomization.yaml": "helmCharts: [{name: a}]"}, KustomizationError, 1, "charts inside a kustomization are not rendered"),
        ({"kustomization.yaml": "resources: [a.yaml]\nresources: []"}, DuplicateKeyError, 2, "resources"),
        ({"kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1beta1\n"}, KustomizationError, 1, "the kustomization is empty"),
        ({"kustomization.yaml": "# nothing\n"}, KustomizationError, 1, "the kustomization is empty"),
        ({"kustomization.yaml": "- a\n"}, KustomizationError, 1, "a kustomization is one mapping"),
        (
            {"kustomization.yaml": "resources: [empty]", "empty/x.txt": ""},
            KustomizationError,
            1,
            "empty is a directory without a kustomization",
        ),
        ({"kustomization.yaml": "bases: [a.yaml]"}, KustomizationError, 1, "a.yaml is not a directory"),
        ({"kustomization.yaml": "resources: [a.yaml]", "Kustomization": "resources: []"}, KustomizationError, None, "are in one directory"),
        (
            {"kustomization.yaml": "resources: [a.yaml]\npatches: [{path: a.yaml, tarjet: {}}]"},
            RenderFailedError,
            None,
            'unknown field "tarjet"',
        ),
        (
            {"kustomization.yaml": "resources: [a.yaml, b.yaml]", "b.yaml": config_map("a")},
            RenderFailedError,
            None,
            "already registered id",
        ),
        ({"kustomization.yaml": "resources: [b.yaml]", "b.yaml": "a: [\n"}, RenderFailedError, None, "yaml"),
        (
            {"kustomization.yaml": "transformers: [p.yaml]\nresources: [a.yaml]", "p.yaml": "apiVersion: x\nkind: Y\nmetadata: {name: z}"},
            RenderFailedError,
            None,
            "external plugins disabled",
        ),
    ],
)
async def test_what_cant_be_rendered(  # noqa: PLR0917 - parameters of the cases
    files: Mapping[str, str], kind: type[DelegateError], line: int | None, words: str, repository: Repository, sources: Sources
) -> None:
    """What is told before kustomize runs is told with its line; the rest in kustomize's words, without our own paths."""
    repository.commit({"d/a.yaml": config_map("a")} | {f"d/{name}": text for name, text in files.items()})

    fault = await fault_of(sources, source(repository, "d"))

    assert isinstance(fault, kind), repr(fault)
    assert words in fault.message
    assert fault.file.startswith("d/")
    assert fault.line == line
    assert "renders" not in fault.message
    assert str(repository.bare.parent) not in fault.message


async def test_functions_are_not_run(repository: Repository, sources: Sources) -> None:
    """A generator that is a program stays one that nobody ran."""
    function = """\
apiVersion: x/v1
kind: Generator
metadata:
  name: run
  annotations:
    config.kubernetes.io/function: |
      exec: {path: ./run.sh}
"""
    script = f"#!/bin/sh\ntouch {repository.work.parent}/was-run\n"
    repository.commit({"kustomization.yaml": "generators: [run.yaml]\n", "run.yaml": function, "run.sh": script})
    (repository.work / "run.sh").chmod(0o755)
    repository.commit_work_tree()

    fault = await fault_of(sources, source(repository))

    assert isinstance(fault, RenderFailedError)
    assert not (repository.work.parent / "was-run").exists()


class TestLinks:
    """Inside the repository they work as in a checkout; out of it they lead nowhere."""

    async def test_inside(self, repository: Repository, sources: Sources) -> None:
        """A base through a linked directory; a resource that is a link to a file elsewhere in the repository."""
        repository.commit(BASE | {"app/kustomization.yaml": "resources: [base, linked.yaml]\n", "files/a.yaml": config_map("linked")})
        (repository.work / "app/base").symlink_to("../base")
        (repository.work / "app/linked.yaml").symlink_to("../files/a.yaml")
        repository.commit_work_tree()

        found = await bodies(sources, source(repository, "app"))

        linked = [each for each in found if each["metadata"]["name"] == "linked"]
        assert len(linked) == 1
        assert [each for each in found if each not in linked] == kubectl_bodies(repository.work / "base")

    @pytest.mark.parametrize("target", ["/etc", "../../outside", "base"])
    async def test_outside(self, target: str, repository: Repository, sources: Sources) -> None:
        """Absolute ones, ones above the top, and circles."""
        repository.commit({"app/kustomization.yaml": "resources: [base]\n"})
        (repository.work / "app/base").symlink_to(target)
        repository.commit_work_tree()

        fault = await fault_of(sources, source(repository, "app"))

        assert isinstance(fault, LinkError)
        assert (fault.file, fault.line) == ("app/kustomization.yaml", 1)

    async def test_a_submodule(self, repository: Repository, sources: Sources) -> None:
        """Its content is not here."""
        head = repository.commit({"kustomization.yaml": "resources: [vendor/sub/base]\n"})
        repository.git("update-index", "--add", "--cacheinfo", f"160000,{head},vendor/sub")
        repository.git("commit", "-q", "-m", "add")
        repository.git("push", "-q", "origin", "HEAD:refs/heads/main")

        fault = await fault_of(sources, source(repository))

        assert isinstance(fault, SubmoduleError)
        assert "vendor/sub is a submodule" in fault.message


class TestDetection:
    """What stands at the path decides, unless the source says what it is."""

    async def test_a_plain_directory_on_demand(self, repository: Repository, sources: Sources) -> None:
        """By excluding the kustomization."""
        repository.commit(BASE)
        wanted = source(repository, "shared", directory=DirectoryOptions(exclude="kustomization.yml"))

        assert names(await render(sources, wanted)) == ["web"]

    async def test_a_directory_that_says_so(self, repository: Repository, sources: Sources) -> None:
        """Then a kustomization in it is a mistake."""
        repository.commit(BASE)

        fault = await fault_of(sources, Source(repo_url=repository.url, path="shared", type="directory"))  # type: ignore[arg-type]

        assert isinstance(fault, ForeignDocumentError)

    async def test_a_kustomization_that_is_none(self, repository: Repository, sources: Sources) -> None:
        """Options for kustomize want something to kustomize."""
        repository.commit({"d/a.yaml": config_map("a")})

        fault = await fault_of(sources, source(repository, "d", KustomizeOptions()))

        assert isinstance(fault, PathNotFoundError)
        assert "there is no kustomization in d" in fault.message


class TestCache:
    """What a render depends on is the files that it reads, the options and the renderer."""

    async def test_commits_elsewhere_cost_nothing(self, repository: Repository, sources: Sources, tmp_path: Path) -> None:
        """Also without a renderer, nothing has to be rendered."""
        repository.commit(BASE | OVERLAY)
        first = await render(sources, source(repository, "overlays/prod"))
        repository.commit({"base/unused.yaml": config_map("unused"), "elsewhere/a.yaml": config_map("a")})
        renders = count_renders(sources)

        second = await render(sources, source(repository, "overlays/prod"))

        assert second.content == first.content
        assert second.revision != first.revision
        assert [(each.body, each.origin) for each in second.manifests] == [(each.body, each.origin) for each in first.manifests]
        assert second.notices == first.notices
        assert renders == []

    @pytest.mark.parametrize(
        "name", ["base/files/other.txt", "base/settings.env", "overlays/prod/patches/more.yaml", "components/tls/secret.yaml"]
    )
    async def test_each_file_counts(self, name: str, repository: Repository, sources: Sources) -> None:
        """A change of whichever is read is another content."""
        repository.commit(BASE | OVERLAY)
        before = await render(sources, source(repository, "overlays/prod"))
        text = (BASE | OVERLAY)[name]
        repository.commit({name: text.replace("other", "changed").replace("blue", "red").replace("yes", "no").replace("1000000", "2")})

        after = await render(sources, source(repository, "overlays/prod"))

        assert after.content != before.content
        assert [each.body for each in after.manifests] == kubectl_bodies(repository.work / "overlays/prod")

    async def test_options_count(self, repository: Repository, sources: Sources) -> None:
        """The same files with another prefix are another content."""
        repository.commit(BASE)

        found = [await bodies(sources, source(repository, "shared", KustomizeOptions(name_prefix=prefix))) for prefix in ("a-", "b-")]

        assert [each[0]["metadata"]["name"] for each in found] == ["a-web", "b-web"]


def count_renders(sources: Sources) -> list[str]:
    """Lists the programs that are run from now on."""
    workshop, ran = sources._workshop, list[str]()
    find = workshop.kubectl.find
    version = workshop.kubectl._known

    def noted() -> Path:
        path = find()
        if workshop.kubectl._known is not version:
            ran.append(str(path))
        return path

    workshop.kubectl.find = noted  # type: ignore[method-assign]
    return ran


async def test_without_a_renderer(repository: Repository, tmp_path: Path) -> None:
    """It is named, with the setting that says where it is."""
    repository.commit(BASE)
    sources = Sources(
        cache_dir=tmp_path / "cache", allow_local=True, rendering=RenderSettings(kubectl="kubectl-elsewhere"), environment=ENVIRONMENT
    )

    fault = await fault_of(sources, source(repository, "shared"))

    assert isinstance(fault, CommandNotFoundError)
    assert "DELEGATE_KUBECTL" in fault.hint


async def test_a_bomb_of_aliases(repository: Repository, tmp_path: Path) -> None:
    """What takes more memory or work than a render may have ends the render, and nothing else."""
    levels = "".join(f"  l{level}: &l{level} [{', '.join([f'*l{level - 1}'] * 10)}]\n" for level in range(1, 9))
    bomb = f"apiVersion: example.com/v1\nkind: Bomb\nmetadata: {{name: bomb}}\nspec:\n  l0: &l0 [{', '.join(['x' * 50] * 10)}]\n{levels}"
    repository.commit({"kustomization.yaml": "resources: [bomb.yaml]\n", "bomb.yaml": bomb})
    limits = RenderLimits(memory_bytes=256 * 2**20, processor_seconds=10, seconds=30)
    sources = Sources(cache_dir=tmp_path / "cache", allow_local=True, rendering=RenderSettings(limits=limits), environment=ENVIRONMENT)

    fault = await fault_of(sources, source(repository))

    assert isinstance(fault, RenderLimitError), repr(fault)
