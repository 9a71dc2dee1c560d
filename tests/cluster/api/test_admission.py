"""What stands between a valid object and the store: quotas, limits, defaults, pod security, policies, sizes, and warnings."""

import asyncio
import uuid
from typing import Any

import pytest

from tests.simulator.clients import Client, config_map, deployment, pod, service


async def with_quota(client: Client, place: str, hard: dict[str, str]) -> dict[str, str]:
    """A quota whose use has been counted."""
    path = f"/api/v1{place}/resourcequotas"
    made = await client.post(path, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
    assert made.status == 201, made.body
    counted = await client.until(f"{path}/q", lambda body: set(body["status"].get("used") or {}) == set(hard))
    return dict(counted["status"]["used"])


async def test_a_quota_on_counts(admin: Client, place: str) -> None:
    """What exceeds it is refused with the numbers, a dry run too, and freed again by a deletion."""
    used = await with_quota(admin, place, {"count/configmaps": "2"})
    path = f"/api/v1{place}/configmaps"
    before = int(used["count/configmaps"])
    await admin.patch(f"/api/v1{place}/resourcequotas/q", {"spec": {"hard": {"count/configmaps": str(before + 1)}}})
    await admin.until(f"/api/v1{place}/resourcequotas/q", lambda body: body["status"]["hard"]["count/configmaps"] == str(before + 1))
    assert (await admin.apply(f"{path}/a", config_map("a", {"k": "v"}))).status == 201
    for answer in (
        await admin.post(path, config_map("b")),
        await admin.apply(f"{path}/b", config_map("b", {"k": "v"})),
        await admin.post(path, config_map("b"), dryRun="All"),
    ):
        assert (answer.status, answer.body["reason"]) == (403, "Forbidden")
        assert answer.body["message"] == (
            f'configmaps "b" is forbidden: exceeded quota: q, requested: count/configmaps=1, used: count/configmaps={before + 1},'
            f" limited: count/configmaps={before + 1}"
        )
    assert (await admin.patch(f"{path}/a", {"data": {"k": "w"}})).status == 200
    await admin.delete(f"{path}/a")
    await admin.until(f"/api/v1{place}/resourcequotas/q", lambda body: body["status"]["used"]["count/configmaps"] == str(before))

    assert (await admin.post(path, config_map("b"))).status == 201


async def test_a_quota_on_services_by_type(admin: Client, place: str) -> None:
    """Several counts at once: each names what it lacks."""
    await with_quota(admin, place, {"services": "2", "services.nodeports": "1", "count/secrets": "0"})
    path = f"/api/v1{place}/services"
    assert (await admin.post(path, service("a", type="NodePort"))).status == 201
    refused = await admin.post(path, service("b", type="NodePort"))
    assert refused.status == 403
    assert (
        "exceeded quota: q, requested: services.nodeports=1, used: services.nodeports=1, limited: services.nodeports=1"
        in (refused.body["message"])
    )
    assert (await admin.post(path, service("b"))).status == 201
    secret = await admin.post(f"/api/v1{place}/secrets", {"metadata": {"name": "s"}})
    assert secret.status == 403
    assert (await admin.post(path, service("c"))).status == 403


async def test_a_workload_that_a_quota_stops_says_so(admin: Client, place: str) -> None:
    """The Deployment is accepted; its ReplicaSet can't make pods, and both tell."""
    await with_quota(admin, place, {"pods": "0"})
    path = f"/apis/apps/v1{place}/deployments/d"
    assert (await admin.apply(path, deployment("d", replicas=1))).status == 201

    def failed(body: Any) -> bool:
        found = {item["type"]: item for item in body["status"].get("conditions") or ()}
        return "ReplicaFailure" in found and found["ReplicaFailure"]["reason"] == "FailedCreate"

    body = await admin.until(path, failed)
    message = next(item["message"] for item in body["status"]["conditions"] if item["type"] == "ReplicaFailure")
    assert "exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0" in message
    assert body["status"]["unavailableReplicas"] == 1


async def test_a_limit_range_fills_in_and_refuses(admin: Client, place: str) -> None:
    """Defaults for containers without limits, and a maximum."""
    limits = [{"type": "Container", "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "250m"}, "max": {"cpu": "1"}}]
    await admin.post(f"/api/v1{place}/limitranges", {"metadata": {"name": "l"}, "spec": {"limits": limits}})
    path = f"/api/v1{place}/pods"
    filled = None
    async with asyncio.timeout(20):
        while filled is None:
            answer = await admin.post(path, pod("a", schedulerName="nobody"), dryRun="All")
            filled = answer.body["spec"]["containers"][0]["resources"] or None
            await asyncio.sleep(0.02)
    assert filled == {"limits": {"cpu": "500m"}, "requests": {"cpu": "250m"}}
    big = pod("b")
    big["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "2"}}
    refused = await admin.post(path, big)

    assert refused.status == 403
    assert "maximum cpu usage per Container is 1, but limit is 2" in refused.body["message"]


async def test_pod_security(admin: Client, place: str) -> None:
    """Enforced on pods, warned of on workloads."""
    labels = {"pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/warn": "baseline"}
    await admin.patch(f"/api/v1{place}", {"metadata": {"labels": labels}})
    bad = pod("bad", hostNetwork=True)
    async with asyncio.timeout(20):
        while True:
            refused = await admin.post(f"/api/v1{place}/pods", bad, dryRun="All")
            if refused.status == 403:
                break
            await asyncio.sleep(0.02)
    assert 'violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)' in refused.body["message"]
    body = deployment("d", replicas=0)
    body["spec"]["template"]["spec"]["hostNetwork"] = True
    warned = await admin.apply(f"/apis/apps/v1{place}/deployments/d", body)

    assert warned.status == 201
    assert any("would violate PodSecurity" in text and "host namespaces (hostNetwork=true)" in text for text in warned.warnings)
    assert (await admin.post(f"/api/v1{place}/pods", pod("good", schedulerName="nobody"))).status == 201


async def test_a_policy_of_ones_own(admin: Client, place: str) -> None:
    """A ValidatingAdmissionPolicy with a binding denies in its own words, dry runs too."""
    name = f"api-{uuid.uuid4().hex[:8]}"
    group = "/apis/admissionregistration.k8s.io/v1"
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}]
    validations = [{"expression": "!has(object.data) || !('bad' in object.data)", "message": "bad is bad"}]
    policy = {"matchConstraints": {"resourceRules": rules}, "validations": validations, "failurePolicy": "Fail"}
    binding = {
        "policyName": name,
        "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": place.rpartition("/")[2]}}},
    }
    try:
        assert (await admin.post(f"{group}/validatingadmissionpolicies", {"metadata": {"name": name}, "spec": policy})).status == 201
        made = await admin.post(f"{group}/validatingadmissionpolicybindings", {"metadata": {"name": name}, "spec": binding})
        assert made.status == 201, made.body
        path = f"/api/v1{place}/configmaps"
        async with asyncio.timeout(30):
            while True:
                denied = await admin.apply(f"{path}/a", config_map("a", {"bad": "x"}), dryRun="All")
                if denied.status != 201:
                    break
                await asyncio.sleep(0.05)
        assert (denied.status, denied.body["reason"]) == (422, "Invalid")
        assert denied.body["message"].endswith("denied request: bad is bad")
        assert (await admin.apply(f"{path}/a", config_map("a", {"good": "x"}))).status == 201
        assert (await admin.patch(f"{path}/a", {"data": {"bad": "x"}})).status == 422
    finally:
        await admin.delete(f"{group}/validatingadmissionpolicybindings/{name}")
        await admin.delete(f"{group}/validatingadmissionpolicies/{name}")


async def test_a_request_may_be_too_large(admin: Client, place: str) -> None:
    """Beyond 3 MiB: 413; below, an object that is too large for its kind is invalid."""
    path = f"/api/v1{place}/configmaps"
    huge = await admin.post(path, config_map("a", {"k": "x" * (3 * 1024 * 1024 + 100)}))
    large = await admin.post(path, config_map("a", {"k": "x" * (1024 * 1024 + 1)}))
    annotated = await admin.post(path, config_map("a", annotations={"k": "x" * (256 * 1024)}))

    assert (huge.status, huge.body["reason"]) == (413, "RequestEntityTooLarge")
    assert (large.status, large.causes) == (422, [("FieldValueTooLong", "[]")])
    assert (annotated.status, annotated.causes) == (422, [("FieldValueTooLong", "metadata.annotations")])


async def test_warns_of_what_is_unwise(admin: Client, place: str) -> None:
    """Warning headers for unknown fields and duplicate names; strict refuses the unknown, ignore says nothing."""
    path = f"/api/v1{place}/configmaps"
    unknown = await admin.post(path, {**config_map("a"), "odd": 1})
    ignored = await admin.post(path, {**config_map("b"), "odd": 1}, fieldValidation="Ignore")
    strict = await admin.post(path, {**config_map("c"), "odd": 1}, fieldValidation="Strict")
    body = deployment("d", replicas=0)
    body["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    twice = await admin.post(f"/apis/apps/v1{place}/deployments", body)

    assert unknown.warnings == ['299 - "unknown field \\"odd\\""']
    assert ignored.warnings == []
    assert (strict.status, strict.body["reason"]) == (400, "BadRequest")
    assert 'strict decoding error: unknown field "odd"' in strict.body["message"]
    assert any("hides previous definition of" in text for text in twice.warnings)


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"fieldValidation": "strict"}, "FieldValueNotSupported"),
        ({"dryRun": "some"}, "FieldValueNotSupported"),
        ({"fieldManager": "\x01"}, "FieldValueInvalid"),
        ({"fieldManager": "x" * 129}, "FieldValueTooLong"),
    ],
)
async def test_refuses_parameters(params: dict[str, str], reason: str, admin: Client, place: str) -> None:
    """422 at the parameter, for each kind of write."""
    path = f"/api/v1{place}/configmaps"
    for answer, kind in (
        (await admin.post(path, config_map("a"), **params), "CreateOptions"),
        (await admin.put(f"{path}/a", config_map("a"), **params), "UpdateOptions"),
        (await admin.patch(f"{path}/a", {}, **params), "PatchOptions"),
    ):
        assert (answer.status, answer.causes) == (422, [(reason, next(iter(params)))])
        assert answer.body["details"]["kind"] == kind


async def test_services_are_given_addresses(admin: Client, place: str) -> None:
    """A free cluster address each; a taken one and one outside of the range are refused; headless has none."""
    path = f"/api/v1{place}/services"
    first = await admin.post(path, service("a"))
    second = await admin.post(path, service("b"))
    taken = await admin.post(path, service("c", clusterIP=first.body["spec"]["clusterIP"]))
    outside = await admin.post(path, service("c", clusterIP="192.168.1.1"))
    headless = await admin.post(path, service("c", clusterIP="None"))
    node = await admin.post(path, service("n", type="NodePort"))

    assert first.body["spec"]["clusterIP"] != second.body["spec"]["clusterIP"]
    assert first.body["spec"]["clusterIPs"] == [first.body["spec"]["clusterIP"]]
    assert [answer.status for answer in (taken, outside, headless)] == [422, 422, 201]
    assert ("FieldValueInvalid", "spec.clusterIPs") in taken.causes
    assert 30000 <= node.body["spec"]["ports"][0]["nodePort"] <= 32767
    again = await admin.post(path, service("m", {"port": 80, "nodePort": node.body["spec"]["ports"][0]["nodePort"]}, type="NodePort"))
    assert again.status == 422
    assert "provided port is already allocated" in again.body["message"]
    moved = await admin.patch(f"{path}/a", {"spec": {"clusterIP": second.body["spec"]["clusterIP"]}})
    assert (moved.status, moved.causes[0][1]) == (422, "spec.clusterIPs[0]")


SLEEPING = {"suspend": True, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "m", "image": "i"}]}}}


FIXED: dict[str, tuple[str, Any, Any, str]] = {
    "selector": (
        "apis/apps/v1/deployments",
        deployment("x", replicas=0),
        {"spec": {"selector": {"matchLabels": {"app": "y"}}}},
        "spec.selector",
    ),
    "completions": ("apis/batch/v1/jobs", {"metadata": {"name": "x"}, "spec": SLEEPING}, {"spec": {"completions": 3}}, "spec.completions"),
    "data": ("api/v1/configmaps", {**config_map("x", {"k": "v"}), "immutable": True}, {"data": {"k": "w"}}, "data"),
    "type": ("api/v1/secrets", {"metadata": {"name": "x"}, "type": "Opaque"}, {"type": "other"}, "type"),
    "claim": (
        "api/v1/persistentvolumeclaims",
        {"metadata": {"name": "x"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
        {"spec": {"accessModes": ["ReadWriteMany"]}},
        "spec",
    ),
    "pod": ("api/v1/pods", pod("x", schedulerName="nobody"), {"spec": {"restartPolicy": "Never"}}, "spec"),
}


@pytest.mark.parametrize("name", FIXED)
async def test_some_fields_are_for_ever(name: str, admin: Client, place: str) -> None:
    """422 at the field; the object stays as it is."""
    plural, body, change, field = FIXED[name]
    group, _, resource = plural.rpartition("/")
    path = f"/{group}{place}/{resource}"
    made = await admin.post(path, body)
    assert made.status == 201, made.body
    answer = await admin.patch(f"{path}/x", change)

    assert (answer.status, answer.body["reason"]) == (422, "Invalid")
    assert field in [where for _, where in answer.causes]
