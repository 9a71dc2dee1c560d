"""Argo CD Applications read as tasks: sources of every kind, and a word for each field that has no meaning here."""

from typing import Any

import pytest

from delegate.foundation.errors import DelegateError, flatten
from delegate.model.resources import JsonObject
from delegate.model.sources import (
    HelmFileParameter,
    HelmParameter,
    KustomizePatch,
    KustomizeReplica,
    KustomizeTarget,
    SignaturePolicy,
    SignedObject,
    SourceType,
)
from delegate.model.tasks import Task, TaskDocumentError, read_task


def application(**spec: Any) -> JsonObject:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": "guestbook"},
        "spec": {"destination": {"namespace": "guestbook"}, **spec},
    }


def read(**source: Any) -> Task:
    return read_task(application(source={"repoURL": "https://git.example/a.git", **source}))


def faults(document: JsonObject) -> list[tuple[str, str]]:
    with pytest.raises(DelegateError) as caught:
        read_task(document)
    return [(each.field, each.message) for each in flatten(caught.value) if isinstance(each, TaskDocumentError)]


def test_helm_options() -> None:
    """Every one that Argo CD writes."""
    helm = {
        "releaseName": "book",
        "namespace": "elsewhere",
        "valueFiles": ["values-*.yaml", "$values/prod.yaml"],
        "ignoreMissingValueFiles": True,
        "values": "a: 1\n",
        "valuesObject": {"b": 2},
        "parameters": [{"name": "image.tag", "value": "1", "forceString": True}],
        "fileParameters": [{"name": "config", "path": "files/config.json"}],
        "skipCrds": True,
        "skipTests": True,
        "skipSchemaValidation": True,
        "kubeVersion": "1.30.0",
        "apiVersions": ["monitoring.coreos.com/v1"],
    }
    task = read(path="chart", helm=helm)

    options = task.sync_spec().source.helm
    assert options is not None
    assert (options.release_name, options.namespace, options.values, options.values_object) == ("book", "elsewhere", "a: 1\n", {"b": 2})
    assert options.value_files == ("values-*.yaml", "$values/prod.yaml")
    assert options.parameters == (HelmParameter("image.tag", "1", force_string=True),)
    assert options.file_parameters == (HelmFileParameter("config", "files/config.json"),)
    assert (options.skip_crds, options.skip_tests, options.skip_schema_validation, options.ignore_missing_value_files) == (True,) * 4
    assert (options.kube_version, options.api_versions) == ("1.30.0", ("monitoring.coreos.com/v1",))
    assert task.notices == ()
    assert read_task(task.document()) == task


def test_kustomize_options() -> None:
    """Every one that Argo CD writes."""
    kustomize = {
        "namePrefix": "a-",
        "nameSuffix": "-z",
        "namespace": "ns",
        "images": ["nginx:1.2", "old=new:3"],
        "replicas": [{"name": "web", "count": 3}, {"name": "db", "count": "2"}],
        "commonLabels": {"team": "shop"},
        "commonAnnotations": {"rev": "$ARGOCD_APP_REVISION"},
        "forceCommonLabels": True,
        "forceCommonAnnotations": True,
        "commonAnnotationsEnvsubst": True,
        "labelWithoutSelector": True,
        "labelIncludeTemplates": True,
        "patches": [
            {"patch": "- op: remove", "target": {"kind": "Deployment", "labelSelector": "a=b"}, "options": {"allowNameChange": True}}
        ],
        "components": ["../component"],
        "ignoreMissingComponents": True,
    }
    options = read(path="overlay", kustomize=kustomize).sync_spec().source.kustomize

    assert options is not None
    assert options.images == ("nginx:1.2", "old=new:3")
    assert options.replicas == (KustomizeReplica("web", 3), KustomizeReplica("db", "2"))
    target = KustomizeTarget(kind="Deployment", label_selector="a=b")
    assert options.patches == (KustomizePatch(patch="- op: remove", target=target, options={"allowNameChange": True}),)
    assert options.force_common_labels
    assert options.label_include_templates
    assert options.ignore_missing_components


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ({"path": "a"}, SourceType.DETECT),
        ({"path": "a", "directory": {"recurse": True}}, SourceType.DIRECTORY),
        ({"path": "a", "directory": {}}, SourceType.DIRECTORY),
        ({"path": "a", "helm": {}}, SourceType.HELM),
        ({"chart": "redis"}, SourceType.HELM),
        ({"path": "a", "kustomize": {}}, SourceType.KUSTOMIZE),
    ],
)
def test_what_decides_how_a_source_is_rendered(source: JsonObject, wanted: SourceType) -> None:
    """Its options; without any, what stands at its path."""
    assert read(**source).sync_spec().source.explicit_type is wanted


def test_several_sources() -> None:
    """They take the place of the single one; one with nothing but a ref holds no manifests."""
    sources = [
        {"repoURL": "https://charts.example", "chart": "redis", "targetRevision": "20.*", "helm": {"valueFiles": ["$values/redis.yaml"]}},
        {"repoURL": "https://git.example/values.git", "ref": "values"},
    ]
    task = read_task(application(sources=sources, source={"repoURL": "https://git.example/old.git"}))

    spec = task.sync_spec()
    assert [source.is_reference for source in spec.all_sources] == [False, True]
    assert spec.all_sources[0].target_revision == "20.*"
    assert task.notices == ("spec.source has no effect beside spec.sources",)


def test_fields_without_a_meaning_are_named() -> None:
    """In one line together; with words of their own where what happens instead could surprise."""
    document = application(
        project="default",
        syncPolicy={"automated": {"prune": True, "selfHeal": True}, "retry": {"limit": 2, "refresh": True}},
        source={"repoURL": "https://git.example/a.git", "path": "a", "helm": {"version": "v3"}, "pathh": "b"},
    )
    document["metadata"] |= {"namespace": "argocd", "finalizers": ["resources-finalizer.argocd.argoproj.io"]}
    document["operation"] = {"sync": {}}

    notices = read_task(document).notices

    named = "operation", "metadata.namespace, metadata.finalizers, spec.source.helm.version"
    assert f"these fields have no effect here: {named[1]}" in notices
    for field in ("operation", "spec.syncPolicy.retry.refresh", "spec.syncPolicy.automated.selfHeal"):
        assert sum(notice.startswith(f"{field} has no effect here: ") for notice in notices) == 1
    assert "spec.source.pathh is not known and has no effect; did you mean `path`?" in notices


def test_what_an_application_says_of_its_objects() -> None:
    """Ignored differences, history, retry and the metadata of its namespace mean what they mean in Argo CD."""
    document = application(
        revisionHistoryLimit=3,
        ignoreDifferences=[
            {"group": "apps", "kind": "Deployment", "jsonPointers": ["/spec/replicas"], "managedFieldsManagers": ["hpa"]},
            {"kind": "ConfigMap", "name": "a", "namespace": "b", "jqPathExpressions": [".data.x"]},
        ],
        syncPolicy={
            "retry": {"limit": 4, "backoff": {"duration": "5s", "factor": 2, "maxDuration": "3m"}},
            "managedNamespaceMetadata": {"labels": {"team": "a"}},
        },
        source={"repoURL": "https://git.example/a.git", "path": "a"},
    )
    document["metadata"]["annotations"] = {"argocd.argoproj.io/deletion-approved": "2026-01-01T00:00:00Z"}

    task = read_task(document)
    spec = task.sync_spec()

    first, second = spec.ignore_differences
    assert (first.group, first.json_pointers, first.managed_fields_managers) == ("apps", ("/spec/replicas",), ("hpa",))
    assert (second.name, second.namespace, second.jq_path_expressions) == ("a", "b", (".data.x",))
    assert spec.revision_history_limit == 3
    assert (task.retry.max_attempts, task.retry.base_ms, task.retry.max_ms) == (5, 5_000, 180_000)
    assert spec.sync_policy.managed_namespace_metadata.labels == {"team": "a"}
    assert task.options.confirm
    assert [notice for notice in task.notices if "effect" in notice] == [
        "spec.syncPolicy.retry.backoff.factor has no effect here: waits double, with jitter"
    ]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"revisionHistoryLimit": "many"}, "spec.revisionHistoryLimit"),
        ({"ignoreDifferences": {"kind": "Deployment"}}, "spec.ignoreDifferences"),
        ({"syncPolicy": {"retry": {"limit": "x"}}}, "spec.syncPolicy.retry.limit"),
        ({"syncPolicy": {"retry": {"backoff": {"duration": "soon"}}}}, "spec.syncPolicy.retry.backoff.duration"),
    ],
)
def test_parts_of_the_wrong_shape_are_refused(spec: JsonObject, field: str) -> None:
    """By the field that they stand in."""
    document = application(source={"repoURL": "https://git.example/a.git", "path": "a"}, **spec)
    assert [where for where, _ in faults(document)] == [field]


def test_from_whom_it_takes_its_objects_over() -> None:
    """By an annotation, for the document itself has no place for it."""
    document = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": "shop", "annotations": {"delegate.gitops/take-over-from": "argocd-controller, helm"}},
        "spec": {"source": {"repoURL": "https://git.example/a.git", "path": "a"}, "destination": {"namespace": "shop"}},
    }
    assert read_task(document).sync_spec().sync_policy.take_over_from == ("argocd-controller", "helm")


def test_its_project_and_what_has_to_be_signed() -> None:
    """The project is kept, since it may want signatures; a source may say so itself."""
    verify = {"of": "tag", "keys": ["4AEE18F83AFDEB23"]}
    source = {"repoURL": "https://git.example/a.git", "path": "a", "verify": verify}
    spec = read_task(application(project="prod", source=source)).sync_spec()

    assert spec.project == "prod"
    assert spec.source.verify == SignaturePolicy(SignedObject.TAG, ("4AEE18F83AFDEB23",))
    document = application(source={"repoURL": "https://charts.example", "chart": "redis", "verify": {}})
    assert [field for field, _ in faults(document)] == ["spec.source.verify"]


def test_a_hydrated_branch_is_synced() -> None:
    """What Argo CD would write to it is somebody else's."""
    hydrator = {
        "drySource": {"repoURL": "https://git.example/dry.git", "targetRevision": "main", "path": "app"},
        "syncSource": {"targetBranch": "env/prod", "path": "app"},
    }
    task = read_task(application(sourceHydrator=hydrator))

    source = task.sync_spec().source
    assert (source.repo_url, source.target_revision, source.path) == ("https://git.example/dry.git", "env/prod", "app")
    assert any("nothing is hydrated here" in notice for notice in task.notices)


@pytest.mark.parametrize(
    ("spec", "field", "words"),
    [
        ({"source": {"repoURL": "r", "plugin": {"name": "x"}}}, "spec.source.plugin", "config management plugins are not run here"),
        ({"sources": [{"repoURL": "r", "plugin": {}}]}, "spec.sources[0].plugin", "config management plugins are not run here"),
        ({"source": {"repoURL": "r", "helm": {}, "kustomize": {}}}, "spec.source.kustomize", "not by both"),
        ({"source": {"repoURL": "r", "directory": {}, "kustomize": {}}}, "spec.source.type", "a plain directory has neither"),
        ({"source": {"repoURL": "r", "chart": "x", "kustomize": {}}}, "spec.source.chart", "a chart is rendered by helm alone"),
        (
            {"source": {"repoURL": "r", "path": "a", "helm": {"releaseName": "A_b"}}},
            "spec.source.helm.releaseName",
            "is no name of a release",
        ),
        (
            {"source": {"repoURL": "r", "helm": {"parameters": [{"value": "1"}]}}},
            "spec.source.helm.parameters[0]",
            "missing required field",
        ),
        ({"sources": [{"repoURL": "r", "ref": "a"}]}, "spec.sources", "nothing to render"),
        ({"sources": [{"repoURL": "r", "ref": "a", "path": "x"}, {"repoURL": "r", "ref": "a"}]}, "spec.sources[1].ref", "two sources"),
        ({"sources": [{"repoURL": "r", "ref": "a/b", "path": "x"}]}, "spec.sources[0].ref", "is no name of a source"),
        ({"sources": ["x"]}, "spec.sources[0]", "is no mapping"),
        ({"source": []}, "spec.source", "is no mapping"),
    ],
)
def test_sources_that_cant_be_meant(spec: JsonObject, field: str, words: str) -> None:
    """The field is named, and what is wrong with it."""
    ((place, message),) = faults(application(**spec))

    assert place == field
    assert words in message


def test_a_task_has_one_source_or_several() -> None:
    """In our own documents both are a mistake."""
    source = {"repoURL": "https://git.example/a.git", "path": "a"}
    document = {"kind": "sync", "application": "a", "spec": {"source": source, "sources": [source]}}

    assert faults(document) == [("spec.source", "spec has both `source` and `sources`")]
