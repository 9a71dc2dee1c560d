"""Sources of an Application as task documents write them, field by field as Argo CD's `spec.source` does. Pure values."""

import enum
import re
from collections.abc import Iterator, Sequence

from delegate.model.resources import JsonObject
from delegate.model.strict import Strict

_REF = re.compile(r"[A-Za-z0-9_-]+")
_LONGEST_RELEASE = 53
_RELEASE = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class SourceType(enum.StrEnum):
    """How a source becomes objects. DETECT: by a kustomization or a Chart.yaml at its path, else as plain files."""

    DETECT = ""
    DIRECTORY = "directory"
    HELM = "helm"
    KUSTOMIZE = "kustomize"


class DirectoryOptions(Strict, frozen=True):
    recurse: bool = True
    include: str = ""
    exclude: str = ""


class HelmParameter(Strict, frozen=True):
    """One `--set`; with `force_string` one `--set-string`."""

    name: str
    value: str = ""
    force_string: bool = False


class HelmFileParameter(Strict, frozen=True):
    """One `--set-file`: the content of a file of the repository becomes a value."""

    name: str
    path: str


class HelmOptions(Strict, frozen=True):
    """Strength, from weak to strong: the chart's own values, valueFiles in order, values or valuesObject, parameters.

    `values_object` takes the place of `values` where both are given. Value files and file parameters are paths inside
    the repository, relative to the chart or, with a leading `/`, to the repository's top; `$ref/...` means another source.
    Tests of a release are left out with and without `skip_tests`. `pass_credentials` sends those of a chart repository also to the
    host that its index says a chart is at.
    """

    release_name: str = ""
    namespace: str = ""
    value_files: tuple[str, ...] = ()
    ignore_missing_value_files: bool = False
    pass_credentials: bool = False
    values: str = ""
    values_object: JsonObject | None = None
    parameters: tuple[HelmParameter, ...] = ()
    file_parameters: tuple[HelmFileParameter, ...] = ()
    skip_crds: bool = False
    skip_tests: bool = False
    skip_schema_validation: bool = False
    kube_version: str = ""
    api_versions: tuple[str, ...] = ()


class KustomizeTarget(Strict, frozen=True):
    """Which objects a patch is for; patterns as kustomize reads them."""

    group: str = ""
    version: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""
    annotation_selector: str = ""
    label_selector: str = ""


class KustomizePatch(Strict, frozen=True):
    """A patch by its text or by the path of a file."""

    path: str = ""
    patch: str = ""
    target: KustomizeTarget | None = None
    options: dict[str, bool] = {}


class KustomizeReplica(Strict, frozen=True):
    name: str
    count: int | str


class KustomizeOptions(Strict, frozen=True):
    """What is written into the kustomization before it is rendered, as `kustomize edit` would write it.

    `images` are `name:tag`, `name@digest` or `name=new:tag`. A prefix, suffix or namespace takes the place of the
    kustomization's own; labels and annotations that it has already are an error unless forced.
    """

    name_prefix: str = ""
    name_suffix: str = ""
    namespace: str = ""
    images: tuple[str, ...] = ()
    replicas: tuple[KustomizeReplica, ...] = ()
    common_labels: dict[str, str] = {}
    common_annotations: dict[str, str] = {}
    force_common_labels: bool = False
    force_common_annotations: bool = False
    common_annotations_envsubst: bool = False
    label_without_selector: bool = False
    label_include_templates: bool = False
    patches: tuple[KustomizePatch, ...] = ()
    components: tuple[str, ...] = ()
    ignore_missing_components: bool = False


class SignedObject(enum.StrEnum):
    """What has to be signed: the tag that led to a commit where it is an annotated one, else the commit; or just one; or both."""

    EITHER = "either"
    COMMIT = "commit"
    TAG = "tag"
    BOTH = "both"


class SignaturePolicy(Strict, frozen=True):
    """Which signature a revision has to have. `keys` are fingerprints (or the last 16 digits) or principals; none: any known key."""

    of: SignedObject = SignedObject.EITHER
    keys: tuple[str, ...] = ()


class Source(Strict, frozen=True, rename={"repo_url": "repoURL", "target_revision": "targetRevision", "tag_prefix": "tagPrefix"}):
    """Where manifests come from. An empty `repo_url` is a directory of this machine, for local commands only.

    With `chart`, the repository is one of charts (HTTP, or an OCI registry) and `target_revision` a version or a range of
    versions. With `verify` a commit is only read where it is signed. `submodules` and `lfs` say whether those are fetched where
    they are read; None leaves it to the settings and to what is written of the repository. `ref` gives the source a name that
    other sources reach its files by; one with nothing but a ref holds no manifests itself.
    """

    repo_url: str = ""
    target_revision: str = "HEAD"
    path: str = ""
    chart: str = ""
    ref: str = ""
    name: str = ""
    tag_prefix: str = ""
    verify: SignaturePolicy | None = None
    submodules: bool | None = None
    lfs: bool | None = None
    type: SourceType = SourceType.DETECT
    directory: DirectoryOptions = DirectoryOptions()
    helm: HelmOptions | None = None
    kustomize: KustomizeOptions | None = None

    @property
    def is_reference(self) -> bool:
        """Whether it only lends its files to other sources."""
        return bool(self.ref) and not self.path and not self.chart

    @property
    def explicit_type(self) -> SourceType:
        """The type that it says or that its options mean."""
        if self.type is not SourceType.DETECT:
            return self.type
        if self.helm is not None or self.chart:
            return SourceType.HELM
        return SourceType.KUSTOMIZE if self.kustomize is not None else SourceType.DETECT


def faults_of_sources(sources: Sequence[Source]) -> Iterator[tuple[str, str, str]]:
    """What is wrong with sources beside their types: the field below the source (`[0].helm`), the words, what to do."""
    refs: dict[str, int] = {}
    for index, source in enumerate(sources):
        place = f"[{index}]"
        if source.helm is not None and source.kustomize is not None:
            yield f"{place}.kustomize", "a source is rendered by helm or by kustomize, not by both", "remove one of them"
        elif source.type is SourceType.DIRECTORY and (source.helm is not None or source.kustomize is not None):
            yield f"{place}.type", "a plain directory has neither helm nor kustomize options", "remove one of them"
        if source.chart and (source.kustomize is not None or source.explicit_type is not SourceType.HELM):
            yield f"{place}.chart", "a chart is rendered by helm alone", "remove `chart`, or the other options"
        if source.ref and not _REF.fullmatch(source.ref):
            yield f"{place}.ref", f"{source.ref!r} is no name of a source", "use letters, digits, `-` and `_`"
        elif source.ref in refs and source.ref:
            yield f"{place}.ref", f"two sources are called {source.ref!r}", "give each a name of its own"
        refs[source.ref] = index
        if source.verify is not None and (source.chart or not source.repo_url or source.repo_url.startswith("oci://")):
            yield f"{place}.verify", "signatures are those of commits and tags in Git", "remove `verify`"
        for name in ("submodules", "lfs"):
            if getattr(source, name) and (source.chart or source.repo_url.startswith("oci://")):
                yield f"{place}.{name}", "only repositories of Git have that", f"remove `{name}`"
        yield from _faults_of_release(source, place)
    if sources and all(source.is_reference for source in sources):
        yield "", "no source has a path or a chart, so there is nothing to render", "give one of them a path"


def _faults_of_release(source: Source, place: str) -> Iterator[tuple[str, str, str]]:
    release = source.helm.release_name if source.helm is not None else ""
    if release and (len(release) > _LONGEST_RELEASE or not _RELEASE.fullmatch(release)):
        words = f"{release!r} is no name of a release; use up to {_LONGEST_RELEASE} lower-case letters, digits, `-` and `.`"
        yield f"{place}.helm.releaseName", words, ""
