"""Health of kinds that controllers beyond Kubernetes bring, over statuses as those controllers write them."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from delegate.foundation.expressions.programs import compile_expression
from delegate.model.health.conditions import Circumstances
from delegate.model.health.custom import VARIABLES, HealthRuleError, HealthRules, read_health_rules
from delegate.model.health.rules import assess, reads_status
from delegate.model.health.shipped import shipped_rules
from delegate.model.health.verdicts import HealthStatus
from delegate.model.resources import GroupKind, JsonObject

SINCE = "2026-11-30T10:00:00Z"
GENERATION = 3
HEALTHY, PROGRESSING, DEGRADED, SUSPENDED = (
    HealthStatus.HEALTHY,
    HealthStatus.PROGRESSING,
    HealthStatus.DEGRADED,
    HealthStatus.SUSPENDED,
)


def condition(type_: str, status: str, reason: str, message: str = "", generation: int | None = GENERATION) -> JsonObject:
    seen = {} if generation is None else {"observedGeneration": generation}
    return {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": SINCE, **seen}


def resource(api_version: str, kind: str, status: JsonObject | None = None, spec: JsonObject | None = None) -> JsonObject:
    metadata = {"name": "x", "namespace": "shop", "generation": GENERATION, "creationTimestamp": "2026-11-30T09:00:00Z"}
    body: JsonObject = {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec or {}}
    return body if status is None else {**body, "status": status}


def ready(status: str, reason: str, message: str = "", *, seen: int = GENERATION, of: int | None = GENERATION) -> JsonObject:
    return {"observedGeneration": seen, "conditions": [condition("Ready", status, reason, message, of)]}


def rollout(status: JsonObject | None, **spec: Any) -> JsonObject:
    return resource("argoproj.io/v1alpha1", "Rollout", status, {"replicas": 2, "strategy": {"canary": {}}, **spec})


def certificate(*conditions: JsonObject) -> JsonObject:
    return resource("cert-manager.io/v1", "Certificate", {"conditions": list(conditions)})


def gateway(*conditions: JsonObject, listeners: list[JsonObject] | None = None) -> JsonObject:
    return resource("gateway.networking.k8s.io/v1", "Gateway", {"conditions": list(conditions), "listeners": listeners or []})


def route(*parents: list[JsonObject], kind: str = "HTTPRoute") -> JsonObject:
    reported = [
        {"parentRef": {"name": f"gw-{index}"}, "controllerName": "example.org/gw", "conditions": conditions}
        for index, conditions in enumerate(parents)
    ]
    return resource("gateway.networking.k8s.io/v1", kind, {"parents": reported})


def scaled(*conditions: JsonObject) -> JsonObject:
    return resource("keda.sh/v1alpha1", "ScaledObject", {"conditions": list(conditions)})


ACCEPTED = condition("Accepted", "True", "Accepted")
RESOLVED = condition("ResolvedRefs", "True", "ResolvedRefs")
PROGRAMMED = condition("Programmed", "True", "Programmed")
CERT_READY = condition("Ready", "True", "Ready", "Certificate is up to date and has not expired")
CERT_ISSUING = condition("Issuing", "True", "DoesNotExist", "Issuing certificate as Secret does not exist", None)
BAD_REF = condition("ResolvedRefs", "False", "BackendNotFound", "service web not found")
NOT_PROGRAMMED = condition("Programmed", "False", "AddressNotAssigned", "waits for an address")
KEDA_READY = condition("Ready", "True", "ScaledObjectReady", generation=None)
KEDA_FALLBACK = condition("Fallback", "True", "FallbackExists", "at least one trigger is falling back", None)
KEDA_FAILED = condition("Ready", "False", "ScaledObjectCheckFailed", "no scale target", None)

CASES: dict[str, tuple[JsonObject, HealthStatus, str]] = {
    # Argo Rollouts: observedGeneration is text.
    "rollout healthy": (rollout({"observedGeneration": "3", "phase": "Healthy", "currentPodHash": "a"}), HEALTHY, ""),
    "rollout progressing": (rollout({"observedGeneration": "3", "phase": "Progressing", "message": "more replicas"}), PROGRESSING, ""),
    "rollout paused": (
        rollout({"observedGeneration": "3", "phase": "Paused", "message": "CanaryPauseStep"}),
        SUSPENDED,
        "",
    ),
    "rollout degraded": (
        rollout(
            {
                "observedGeneration": "3",
                "phase": "Degraded",
                "message": "ProgressDeadlineExceeded: timed out",
                "conditions": [condition("Progressing", "False", "ProgressDeadlineExceeded", generation=None)],
            }
        ),
        DEGRADED,
        "ProgressDeadlineExceeded",
    ),
    "rollout of an old generation": (rollout({"observedGeneration": "2", "phase": "Healthy"}), PROGRESSING, "GenerationNotObserved"),
    "rollout without status": (rollout(None), PROGRESSING, "NoStatusYet"),
    "rollout before 1.0, aborted": (
        rollout(
            {
                "observedGeneration": "6c5b8d",
                "currentPodHash": "a",
                "conditions": [condition("Progressing", "False", "RolloutAborted", generation=None)],
            }
        ),
        DEGRADED,
        "RolloutAborted",
    ),
    "rollout before 1.0, updating": (
        rollout({"currentPodHash": "a", "updatedReplicas": 1, "availableReplicas": 1, "stableRS": "b"}),
        PROGRESSING,
        "",
    ),
    "rollout before 1.0, done": (
        rollout({"currentPodHash": "a", "updatedReplicas": 2, "availableReplicas": 2, "stableRS": "a"}),
        HEALTHY,
        "",
    ),
    "rollout of a workload that is not observed": (
        {
            **rollout(
                {"observedGeneration": "3", "phase": "Healthy", "workloadObservedGeneration": "1"}, workloadRef={"kind": "Deployment"}
            ),
            "metadata": {"name": "x", "generation": 3, "annotations": {"rollout.argoproj.io/workload-generation": "2"}},
        },
        PROGRESSING,
        "",
    ),
    "analysis failed": (
        resource("argoproj.io/v1alpha1", "AnalysisRun", {"phase": "Failed", "message": "metric success-rate"}),
        DEGRADED,
        "Failed",
    ),
    "analysis running": (resource("argoproj.io/v1alpha1", "AnalysisRun", {"phase": "Running"}), PROGRESSING, "Running"),
    "application degraded": (
        resource("argoproj.io/v1alpha1", "Application", {"health": {"status": "Degraded"}}),
        DEGRADED,
        "Degraded",
    ),
    # cert-manager
    "certificate issued": (certificate(CERT_READY), HEALTHY, ""),
    "certificate being issued": (certificate(CERT_ISSUING, condition("Ready", "False", "DoesNotExist")), PROGRESSING, "DoesNotExist"),
    "certificate being renewed": (certificate(CERT_ISSUING, CERT_READY), PROGRESSING, "DoesNotExist"),
    "certificate that failed": (certificate(condition("Ready", "False", "Failed", "order is invalid")), DEGRADED, "Failed"),
    "certificate of an old generation": (certificate(condition("Ready", "True", "Ready", generation=2)), PROGRESSING, "Progressing"),
    "certificate without status": (resource("cert-manager.io/v1", "Certificate"), PROGRESSING, "NoStatusYet"),
    "issuer ready": (resource("cert-manager.io/v1", "Issuer", ready("True", "ACMEAccountRegistered")), HEALTHY, ""),
    "issuer failed": (
        resource("cert-manager.io/v1", "ClusterIssuer", ready("False", "ErrInitIssuer", "no such secret")),
        DEGRADED,
        "ErrInitIssuer",
    ),
    "issuer without conditions": (resource("cert-manager.io/v1", "Issuer", {}), PROGRESSING, "NoStatusYet"),
    "order invalid": (resource("acme.cert-manager.io/v1", "Order", {"state": "invalid", "reason": "denied"}), DEGRADED, "invalid"),
    "challenge pending": (resource("acme.cert-manager.io/v1", "Challenge", {"state": "pending"}), PROGRESSING, "pending"),
    # Gateway API
    "gateway class accepted": (
        resource("gateway.networking.k8s.io/v1", "GatewayClass", {"conditions": [ACCEPTED]}),
        HEALTHY,
        "",
    ),
    "gateway class waiting": (
        resource("gateway.networking.k8s.io/v1", "GatewayClass", {"conditions": [condition("Accepted", "Unknown", "Pending")]}),
        PROGRESSING,
        "Pending",
    ),
    "gateway programmed": (gateway(ACCEPTED, PROGRAMMED), HEALTHY, ""),
    "gateway without an address": (gateway(ACCEPTED, NOT_PROGRAMMED), PROGRESSING, "AddressNotAssigned"),
    "gateway not accepted": (gateway(condition("Accepted", "False", "InvalidParameters", "no such class")), DEGRADED, "InvalidParameters"),
    "gateway as it is made": (gateway(condition("Accepted", "Unknown", "Pending", generation=None)), PROGRESSING, "Pending"),
    "gateway of an old generation": (
        gateway(condition("Accepted", "True", "Accepted", generation=2), condition("Programmed", "True", "Programmed", generation=2)),
        PROGRESSING,
        "Progressing",
    ),
    "gateway with a listener's certificate missing": (
        gateway(
            ACCEPTED,
            PROGRAMMED,
            listeners=[
                {"name": "http", "conditions": [RESOLVED]},
                {"name": "https", "conditions": [condition("ResolvedRefs", "False", "InvalidCertificateRef", "no secret tls")]},
            ],
        ),
        DEGRADED,
        "ResolvedRefs",
    ),
    "route accepted": (route([ACCEPTED, RESOLVED]), HEALTHY, ""),
    "route accepted by both": (route([ACCEPTED, RESOLVED], [ACCEPTED, RESOLVED, PROGRAMMED], kind="GRPCRoute"), HEALTHY, ""),
    "route without a backend": (route([ACCEPTED, RESOLVED], [ACCEPTED, BAD_REF]), DEGRADED, "BackendNotFound"),
    "route not accepted": (
        route([condition("Accepted", "False", "NotAllowedByListeners", "x"), RESOLVED]),
        DEGRADED,
        "NotAllowedByListeners",
    ),
    "route that nobody has seen": (route(), PROGRESSING, "Progressing"),
    "route without status": (resource("gateway.networking.k8s.io/v1", "HTTPRoute"), PROGRESSING, "NoStatusYet"),
    "route of an old generation": (
        route(
            [condition("Accepted", "True", "Accepted", generation=2), condition("ResolvedRefs", "False", "BackendNotFound", generation=2)]
        ),
        PROGRESSING,
        "",
    ),
    "route not programmed": (route([ACCEPTED, RESOLVED, NOT_PROGRAMMED]), PROGRESSING, "AddressNotAssigned"),
    "reference grant": (resource("gateway.networking.k8s.io/v1beta1", "ReferenceGrant"), HEALTHY, ""),
    # KEDA: conditions without generations
    "scaler ready": (scaled(KEDA_READY, condition("Active", "False", "ScalerNotActive", generation=None)), HEALTHY, ""),
    "scaler failed": (scaled(KEDA_FAILED), DEGRADED, "ScaledObjectCheckFailed"),
    "scaler paused": (
        scaled(KEDA_READY, condition("Paused", "True", "ScaledObjectPaused", generation=None)),
        SUSPENDED,
        "ScaledObjectPaused",
    ),
    "scaler falling back": (scaled(KEDA_READY, KEDA_FALLBACK), PROGRESSING, "FallbackExists"),
    "scaler as it is made": (scaled(condition("Ready", "Unknown", "", generation=None)), PROGRESSING, "Progressing"),
    "scaler without status": (resource("keda.sh/v1alpha1", "ScaledObject"), PROGRESSING, "NoStatusYet"),
    "trigger authentication": (resource("keda.sh/v1alpha1", "TriggerAuthentication"), HEALTHY, ""),
    # External Secrets
    "external secret synced": (
        resource("external-secrets.io/v1", "ExternalSecret", ready("True", "SecretSynced", of=None)),
        HEALTHY,
        "",
    ),
    "external secret refused": (
        resource("external-secrets.io/v1", "ExternalSecret", ready("False", "SecretSyncedError", "could not get secret data", of=None)),
        DEGRADED,
        "SecretSyncedError",
    ),
    "external secret without status": (resource("external-secrets.io/v1", "ExternalSecret"), PROGRESSING, "NoStatusYet"),
    "secret store invalid": (
        resource("external-secrets.io/v1", "ClusterSecretStore", ready("False", "InvalidProviderConfig", "401", of=None)),
        DEGRADED,
        "InvalidProviderConfig",
    ),
    "generator without status": (resource("generators.external-secrets.io/v1alpha1", "Password"), HEALTHY, ""),
    # Flux
    "kustomization ready": (
        resource("kustomize.toolkit.fluxcd.io/v1", "Kustomization", ready("True", "ReconciliationSucceeded")),
        HEALTHY,
        "",
    ),
    "kustomization failed": (
        resource("kustomize.toolkit.fluxcd.io/v1", "Kustomization", ready("False", "BuildFailed", "no such file")),
        DEGRADED,
        "BuildFailed",
    ),
    "kustomization waiting for another": (
        resource("kustomize.toolkit.fluxcd.io/v1", "Kustomization", ready("False", "DependencyNotReady", "infra is not ready")),
        PROGRESSING,
        "DependencyNotReady",
    ),
    "kustomization reconciling": (
        resource(
            "kustomize.toolkit.fluxcd.io/v1",
            "Kustomization",
            {
                "observedGeneration": 3,
                "conditions": [
                    condition("Reconciling", "True", "ProgressingWithRetry", "health check"),
                    condition("Ready", "False", "HealthCheckFailed"),
                ],
            },
        ),
        PROGRESSING,
        "ProgressingWithRetry",
    ),
    "kustomization as it is made": (
        resource("kustomize.toolkit.fluxcd.io/v1", "Kustomization", {"observedGeneration": -1}),
        PROGRESSING,
        "GenerationNotObserved",
    ),
    "kustomization without status": (resource("kustomize.toolkit.fluxcd.io/v1", "Kustomization"), PROGRESSING, "NoStatusYet"),
    "kustomization suspended": (
        resource("kustomize.toolkit.fluxcd.io/v1", "Kustomization", ready("False", "BuildFailed"), {"suspend": True}),
        SUSPENDED,
        "BuildFailed",
    ),
    "release installed": (resource("helm.toolkit.fluxcd.io/v2", "HelmRelease", ready("True", "InstallSucceeded")), HEALTHY, ""),
    "release failed": (
        resource("helm.toolkit.fluxcd.io/v2", "HelmRelease", ready("False", "UpgradeFailed", "timed out")),
        DEGRADED,
        "UpgradeFailed",
    ),
    "release stalled": (
        resource(
            "helm.toolkit.fluxcd.io/v2",
            "HelmRelease",
            {"observedGeneration": 3, "conditions": [condition("Stalled", "True", "RetriesExceeded", "failed to install")]},
        ),
        DEGRADED,
        "RetriesExceeded",
    ),
    "repository of an old generation": (
        resource("source.toolkit.fluxcd.io/v1", "GitRepository", ready("True", "Succeeded", seen=2, of=2)),
        PROGRESSING,
        "GenerationNotObserved",
    ),
    "repository without access": (
        resource("source.toolkit.fluxcd.io/v1", "GitRepository", ready("False", "GitOperationFailed", "authentication required")),
        DEGRADED,
        "GitOperationFailed",
    ),
    "chart repository of a registry": (
        resource("source.toolkit.fluxcd.io/v1", "HelmRepository", None, {"type": "oci"}),
        HEALTHY,
        "",
    ),
    "chart repository without status": (resource("source.toolkit.fluxcd.io/v1", "HelmRepository"), PROGRESSING, "NoStatusYet"),
    "alert provider": (resource("notification.toolkit.fluxcd.io/v1beta3", "Provider"), HEALTHY, ""),
    # others
    "sealed secret": (
        resource("bitnami.com/v1alpha1", "SealedSecret", {"conditions": [condition("Synced", "False", "", "no key could decrypt")]}),
        DEGRADED,
        "Degraded",
    ),
    "snapshot taken": (resource("snapshot.storage.k8s.io/v1", "VolumeSnapshot", {"readyToUse": True}), HEALTHY, ""),
    "snapshot being taken": (resource("snapshot.storage.k8s.io/v1", "VolumeSnapshot", {"readyToUse": False}), PROGRESSING, "Progressing"),
    "snapshot failed": (
        resource("snapshot.storage.k8s.io/v1", "VolumeSnapshot", {"readyToUse": False, "error": {"message": "no class"}}),
        DEGRADED,
        "Degraded",
    ),
    "bucket in the cloud": (
        resource(
            "s3.aws.upbound.io/v1beta1",
            "Bucket",
            {"conditions": [condition("Synced", "True", "ReconcileSuccess"), condition("Ready", "False", "Creating")]},
        ),
        PROGRESSING,
        "Creating",
    ),
    "bucket that is refused": (
        resource("s3.aws.upbound.io/v1beta1", "Bucket", {"conditions": [condition("Synced", "False", "ReconcileError", "denied")]}),
        DEGRADED,
        "ReconcileError",
    ),
    "serverless failed": (resource("serving.knative.dev/v1", "Service", ready("False", "RevisionFailed")), DEGRADED, "RevisionFailed"),
    "serverless coming": (resource("serving.knative.dev/v1", "Service", ready("Unknown", "Deploying")), PROGRESSING, "Deploying"),
}


@pytest.mark.parametrize("name", CASES)
def test_kinds_of_other_controllers(name: str) -> None:
    """Healthy, progressing, degraded, suspended, without status, and about an older generation: each with its reason."""
    body, status, reason = CASES[name]

    health = assess(body)

    assert (health.status, health.reason if reason else "") == (status, reason), health


def test_the_words_of_a_route_name_the_parent() -> None:
    """Which Gateway refused, and why."""
    health = assess(CASES["route without a backend"][0])

    assert health.message == "parent gw-1: service web not found"
    assert "listener https" in assess(CASES["gateway with a listener's certificate missing"][0]).message


def test_since_is_the_clusters_own_time() -> None:
    """Of the condition that was read; of the creation where nothing was said yet; none for what is well."""
    assert assess(CASES["issuer failed"][0]).since == SINCE
    assert assess(CASES["certificate without status"][0]).since == "2026-11-30T09:00:00Z"
    assert assess(CASES["certificate issued"][0]).since is msgspec.UNSET
    assert b"since" not in msgspec.json.encode(assess(CASES["certificate issued"][0]))


def test_silence_is_waited_for_until_it_has_settled() -> None:
    """A kind without rule and without status is done only once its controller had time to look."""
    thing = resource("example.org/v1", "Thing")
    fresh = Circumstances(generation=3, has_status=True)

    assert assess(thing, fresh).reason == "NoStatusYet"
    assert assess(thing, msgspec.structs.replace(fresh, settled=True)).status is HEALTHY
    assert assess(CASES["generator without status"][0], fresh).reason == "NoStatusYet"


def test_every_shipped_expression_can_be_compiled() -> None:
    """They are compiled when a kind is met, so a fault would be silence."""
    for rule in shipped_rules().rules:
        for field in ("degraded", "suspended", "progressing", "healthy", "reason", "message"):
            text = getattr(rule, field)
            if text:
                assert compile_expression(text, variables=VARIABLES).text == text


DATABASE = {
    "kinds": ["example.org/Database", "apps/Deployment"],
    "degraded": "object.status.phase == 'Failed'",
    "suspended": "has(object.spec.paused) && object.spec.paused",
    "progressing": "object.status.phase == 'Creating'",
    "healthy": "object.status.phase == 'Running' && settled",
    "reason": "object.status.phase",
    "message": "'is ' + object.status.phase",
}


@pytest.mark.parametrize(
    ("status", "spec", "expected", "reason"),
    [
        ({"phase": "Running"}, {}, HEALTHY, ""),
        ({"phase": "Creating"}, {}, PROGRESSING, "Creating"),
        ({"phase": "Failed"}, {"paused": True}, DEGRADED, "Failed"),
        ({"phase": "Running"}, {"paused": True}, SUSPENDED, "Running"),
        ({"phase": "Other"}, {}, PROGRESSING, "Other"),
        ({}, {}, PROGRESSING, "NoStatusYet"),
        (None, {}, PROGRESSING, "NoStatusYet"),
        ({"phase": 7}, {}, PROGRESSING, "Progressing"),
    ],
)
def test_a_rule_of_operators(status: JsonObject | None, spec: JsonObject, expected: HealthStatus, reason: str) -> None:
    """Failures are asked for first; what no question answers is progressing."""
    rules = HealthRules(read_health_rules({"rules": [DATABASE]}))

    health = assess(resource("example.org/v1", "Database", status, spec), Circumstances(settled=True), rules)

    assert (health.status, health.reason) == (expected, reason)


def test_a_rule_of_operators_stands_before_a_built_in_one() -> None:
    """Also for a kind of Kubernetes; the generation is looked at before any rule."""
    rules = HealthRules(read_health_rules({"rules": [{"kinds": ["apps/Deployment", "ConfigMap"], "degraded": "true"}]}))
    deployment = resource("apps/v1", "Deployment", {"observedGeneration": 3})

    assert assess(deployment, None, rules).status is DEGRADED
    assert assess({**deployment, "status": {"observedGeneration": 2}}, None, rules).status is PROGRESSING
    assert reads_status(GroupKind("", "ConfigMap"), rules)
    assert not reads_status(GroupKind("", "ConfigMap"))


def test_the_documented_example_can_be_read() -> None:
    """What docs/health.md shows is a file of health rules."""
    text = (Path(__file__).parents[2] / "docs" / "health.md").read_text()

    (rule,) = read_health_rules(yaml.safe_load(text.partition("```yaml\n")[2].partition("```")[0]))

    assert rule.kinds[0] == "example.org/Database"


@pytest.mark.parametrize(
    ("document", "field", "hint"),
    [
        ({"rule": []}, "", ""),
        ({"rules": [{"kind": "x"}]}, "rules[0].kind", "did you mean kinds?"),
        ({"rules": [{"kinds": []}]}, "rules[0].kinds", ""),
        ({"rules": [{"kinds": ["a/B"], "healthy": "object.status ||"}]}, "rules[0].healthy", ""),
        ({"rules": [{"kinds": ["a/B"], "degraded": "self.status"}]}, "rules[0].degraded", "the variables are"),
        ({"rules": {}}, "rules", ""),
    ],
)
def test_health_rules_that_can_not_be_meant_are_refused(document: object, field: str, hint: str) -> None:
    """With the way to the field, and the nearest name where it is unknown."""
    with pytest.raises(HealthRuleError) as refused:
        read_health_rules(document)

    assert refused.value.field == field
    assert hint in refused.value.hint


def test_an_object_may_ask_that_its_health_does_not_count() -> None:
    """By Argo CD's annotation or ours; one that is being deleted still counts."""
    for name in ("argocd.argoproj.io/ignore-healthcheck", "delegate.gitops/ignore-healthcheck"):
        body = resource("apps/v1", "Deployment", {"observedGeneration": 1})
        body["metadata"]["annotations"] = {name: "true"}
        assert assess(body).reason == "HealthIgnored"
        body["metadata"]["deletionTimestamp"] = SINCE
        assert (assess(body).reason, assess(body).since) == ("Terminating", SINCE)


def test_conditions_of_the_old_autoscaling_version_are_in_an_annotation() -> None:
    """autoscaling/v1 has no conditions in its status."""
    said = '[{"type":"AbleToScale","status":"True"},{"type":"ScalingActive","status":"False","reason":"FailedGetResourceMetric"}]'
    body = resource("autoscaling/v1", "HorizontalPodAutoscaler", {"currentReplicas": 1})
    body["metadata"]["annotations"] = {"autoscaling.alpha.kubernetes.io/conditions": said}

    assert assess(body, Circumstances(settled=True)).reason == "FailedGetResourceMetric"
    body["metadata"]["annotations"] = {"autoscaling.alpha.kubernetes.io/conditions": said.replace("False", "True")}
    assert assess(body).status is HEALTHY


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["conditions", "phase", "type", "status", "reason", "parents", "health", "state"]), inner, max_size=4
        )
    ),
    max_leaves=15,
)


@given(_json, _json, st.sampled_from(sorted({(body["apiVersion"], body["kind"]) for body, _, _ in CASES.values()})))
def test_a_status_of_any_shape_has_a_health(status: Any, spec: Any, kind: tuple[str, str]) -> None:
    """A controller may write anything; nothing of it is an error of ours."""
    body = {"apiVersion": kind[0], "kind": kind[1], "metadata": {"name": "x", "generation": 1}, "status": status, "spec": spec}

    assert assess(body).status in HealthStatus
