"""What controllers make of objects: rollouts, sets, jobs, endpoints, budgets, claims."""

from typing import Any

import pytest

from tests.simulator.clients import Client, deployment, service

DEPLOYMENTS = "/apis/apps/v1{}/deployments/d"


def conditions(body: Any) -> dict[str, tuple[str, str]]:
    return {item["type"]: (item["status"], item.get("reason", "")) for item in body["status"].get("conditions") or ()}


def available(count: int) -> Any:
    def holds(body: Any) -> bool:
        status = body["status"]
        seen = status.get("observedGeneration") == body["metadata"]["generation"]
        return bool(seen and status.get("updatedReplicas", 0) == status.get("availableReplicas", 0) == status.get("replicas", 0) == count)

    return holds


async def sets_of(client: Client, place: str) -> list[Any]:
    items = (await client.get(f"/apis/apps/v1{place}/replicasets"))["items"]
    return sorted(items, key=lambda item: int(item["metadata"]["annotations"]["deployment.kubernetes.io/revision"]))


async def test_a_rollout_replaces_the_pods(admin: Client, place: str) -> None:
    """A new ReplicaSet with the next revision takes over; the old one stays at 0 for a rollback."""
    path = DEPLOYMENTS.format(place)
    await admin.apply(path, deployment("d", replicas=2))
    await admin.until(path, available(2))
    await admin.apply(path, deployment("d", image="nginx:2.0", replicas=2))
    done = await admin.until(path, lambda body: available(2)(body) and conditions(body)["Progressing"][1] == "NewReplicaSetAvailable")
    old, new = await sets_of(admin, place)

    assert done["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
    assert (old["spec"]["replicas"], new["spec"]["replicas"]) == (0, 2)
    assert old["metadata"]["labels"]["pod-template-hash"] != new["metadata"]["labels"]["pod-template-hash"]
    assert conditions(done) == {"Available": ("True", "MinimumReplicasAvailable"), "Progressing": ("True", "NewReplicaSetAvailable")}
    pods = (await admin.get(f"/api/v1{place}/pods", labelSelector=f"pod-template-hash={new['metadata']['labels']['pod-template-hash']}"))[
        "items"
    ]
    assert [item["spec"]["containers"][0]["image"] for item in pods] == ["nginx:2.0"] * 2


async def test_surge_and_unavailability_bound_a_rollout(admin: Client, place: str) -> None:
    """A broken new revision stops where it may: one more, none fewer."""
    path = DEPLOYMENTS.format(place)
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    await admin.apply(path, deployment("d", replicas=3, strategy=strategy))
    await admin.until(path, available(3))
    await admin.apply(path, deployment("d", image="nginx:broken", replicas=3, strategy=strategy, progressDeadlineSeconds=1))
    await admin.until(path, lambda body: conditions(body)["Progressing"] == ("False", "ProgressDeadlineExceeded"))
    stuck = await admin.until(path, lambda body: (body["status"]["replicas"], body["status"].get("updatedReplicas")) == (4, 1))
    old, new = await sets_of(admin, place)

    assert (old["spec"]["replicas"], new["spec"]["replicas"]) == (3, 1)
    assert stuck["status"]["availableReplicas"] == 3
    assert conditions(stuck)["Available"] == ("True", "MinimumReplicasAvailable")


async def test_unavailability_without_surge(admin: Client, place: str) -> None:
    """With maxSurge 0 an old pod goes first."""
    path = DEPLOYMENTS.format(place)
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    await admin.apply(path, deployment("d", replicas=3, strategy=strategy))
    await admin.until(path, available(3))
    await admin.apply(path, deployment("d", image="nginx:broken", replicas=3, strategy=strategy))
    stuck = await admin.until(path, lambda body: (body["status"].get("updatedReplicas"), body["status"].get("replicas")) == (1, 3))

    assert stuck["status"]["availableReplicas"] == 2
    assert stuck["status"]["unavailableReplicas"] == 1


async def test_recreate_ends_the_old_pods_first(admin: Client, place: str) -> None:
    """Never two revisions at once."""
    path = DEPLOYMENTS.format(place)
    await admin.apply(path, deployment("d", replicas=2, strategy={"type": "Recreate"}))
    await admin.until(path, available(2))
    start = (await admin.get(f"/api/v1{place}/pods"))["metadata"]["resourceVersion"]
    async with admin.watch(f"/api/v1{place}/pods", resourceVersion=start) as events:
        await admin.apply(path, deployment("d", image="nginx:2.0", replicas=2, strategy={"type": "Recreate"}))
        order: list[str] = []
        while len(order) < 4:
            kind, _ = await events.next()
            if kind in ("ADDED", "DELETED"):
                order.append(kind)

    assert order == ["DELETED", "DELETED", "ADDED", "ADDED"]


async def test_a_paused_rollout_waits(admin: Client, place: str) -> None:
    """No new ReplicaSet until it is resumed."""
    path = DEPLOYMENTS.format(place)
    await admin.apply(path, deployment("d", replicas=1))
    await admin.until(path, available(1))
    await admin.apply(path, deployment("d", image="nginx:2.0", replicas=1, paused=True))
    await admin.until(path, lambda body: conditions(body).get("Progressing") == ("Unknown", "DeploymentPaused"))
    # The condition is written before the rest of the status is.
    paused = await admin.until(path, lambda body: body["status"]["observedGeneration"] == body["metadata"]["generation"])
    assert paused["status"].get("updatedReplicas", 0) == 0
    assert len(await sets_of(admin, place)) == 1
    await admin.apply(path, deployment("d", image="nginx:2.0", replicas=1))
    await admin.until(path, available(1))

    assert len(await sets_of(admin, place)) == 2


async def test_old_revisions_are_cleaned_up(admin: Client, place: str) -> None:
    """revisionHistoryLimit old ReplicaSets are kept, the oldest go."""
    path = DEPLOYMENTS.format(place)
    for number in range(4):
        await admin.apply(path, deployment("d", image=f"nginx:{number}", replicas=1, revisionHistoryLimit=1))
        await admin.until(path, available(1))
    sets = f"/apis/apps/v1{place}/replicasets"
    left = await admin.until(sets, lambda body: len(body["items"]) == 2)

    revisions = sorted(item["metadata"]["annotations"]["deployment.kubernetes.io/revision"] for item in left["items"])
    assert revisions == ["3", "4"]


async def test_an_old_template_is_an_old_revision_again(admin: Client, place: str) -> None:
    """Going back reuses the old ReplicaSet under a new number."""
    path = DEPLOYMENTS.format(place)
    for image in ("nginx:1", "nginx:2", "nginx:1"):
        await admin.apply(path, deployment("d", image=image, replicas=1))
        await admin.until(path, available(1))
    sets = await sets_of(admin, place)

    assert [item["metadata"]["annotations"]["deployment.kubernetes.io/revision"] for item in sets] == ["2", "3"]
    assert sets[1]["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"] == "1"


def stateful(image: str = "db:1", replicas: int = 2, **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "main", "image": image}]}}
    made = {"serviceName": "db", "replicas": replicas, "selector": {"matchLabels": {"app": "db"}}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": made}


async def pods_of(client: Client, place: str, **params: str) -> list[Any]:
    return list((await client.get(f"/api/v1{place}/pods", **params))["items"])


async def test_a_stateful_set_in_order(admin: Client, place: str) -> None:
    """0 before 1; the update goes from the last to the first; identities stay."""
    path = f"/apis/apps/v1{place}/statefulsets/db"
    start = (await admin.get(f"/api/v1{place}/pods"))["metadata"]["resourceVersion"]
    async with admin.watch(f"/api/v1{place}/pods", resourceVersion=start) as events:
        await admin.apply(path, stateful())
        await admin.until(path, lambda body: body["status"].get("readyReplicas") == 2)
        await admin.apply(path, stateful("db:2"))
        done = await admin.until(
            path,
            lambda body: (
                body["status"].get("observedGeneration") == 2
                and body["status"].get("currentRevision") == body["status"]["updateRevision"]
                and body["status"].get("readyReplicas") == 2
            ),
        )
        order: list[tuple[str, str]] = []
        while len(order) < 6:
            kind, body = await events.next()
            if kind != "MODIFIED":
                order.append((kind, body["metadata"]["name"]))

    assert order == [
        ("ADDED", "db-0"),
        ("ADDED", "db-1"),
        ("DELETED", "db-1"),
        ("ADDED", "db-1"),
        ("DELETED", "db-0"),
        ("ADDED", "db-0"),
    ]
    assert done["status"]["updatedReplicas"] == 2


async def test_a_partition_holds_the_rest_back(admin: Client, place: str) -> None:
    """Only pods from the partition on are updated."""
    path = f"/apis/apps/v1{place}/statefulsets/db"
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    await admin.apply(path, stateful(updateStrategy=strategy))
    await admin.until(path, lambda body: body["status"].get("readyReplicas") == 2)
    await admin.apply(path, stateful("db:2", updateStrategy=strategy))

    def done(body: Any) -> bool:
        status = body["status"]
        return (status.get("updatedReplicas"), status.get("readyReplicas"), status["observedGeneration"]) == (1, 2, 2)

    await admin.until(path, done)
    images = {item["metadata"]["name"]: item["spec"]["containers"][0]["image"] for item in await pods_of(admin, place)}
    assert images == {"db-0": "db:1", "db-1": "db:2"}


async def test_a_daemon_set_on_every_node(admin: Client, place: str) -> None:
    """One pod a node, counted in the status."""
    path = f"/apis/apps/v1{place}/daemonsets/ds"
    template = {"metadata": {"labels": {"app": "ds"}}, "spec": {"containers": [{"name": "main", "image": "agent:1"}]}}
    spec = {"selector": {"matchLabels": {"app": "ds"}}, "template": template}
    await admin.apply(path, {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "ds"}, "spec": spec})
    nodes = len((await admin.get("/api/v1/nodes"))["items"])
    done = await admin.until(path, lambda body: body["status"].get("numberAvailable", 0) == nodes)

    assert done["status"]["desiredNumberScheduled"] == done["status"]["numberReady"] == done["status"]["updatedNumberScheduled"] == nodes
    assert len({item["spec"]["nodeName"] for item in await pods_of(admin, place)}) == nodes


def job(image: str = "task:1", **spec: Any) -> dict[str, Any]:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": image}]}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template, **spec}}


async def test_a_job_completes(admin: Client, place: str) -> None:
    """As many pods as asked for succeed, then it is complete."""
    path = f"/apis/batch/v1{place}/jobs/j"
    await admin.apply(path, job(completions=2, parallelism=1))
    done = await admin.until(path, lambda body: conditions(body).get("Complete", ("", ""))[0] == "True")

    assert (done["status"]["succeeded"], done["status"].get("active", 0)) == (2, 0)
    assert done["status"]["completionTime"]
    assert conditions(done)["SuccessCriteriaMet"] == ("True", "CompletionsReached")


async def test_a_job_fails(admin: Client, place: str) -> None:
    """Beyond its back-off limit."""
    path = f"/apis/batch/v1{place}/jobs/j"
    await admin.apply(path, job("task:fail", backoffLimit=0))
    done = await admin.until(path, lambda body: conditions(body).get("Failed", ("", ""))[0] == "True")

    assert conditions(done)["Failed"] == ("True", "BackoffLimitExceeded")
    assert done["status"]["failed"] == 1
    assert "completionTime" not in done["status"]


async def test_a_suspended_job_waits(admin: Client, place: str) -> None:
    """No pods until it is resumed."""
    path = f"/apis/batch/v1{place}/jobs/j"
    await admin.apply(path, job(suspend=True))
    await admin.until(path, lambda body: conditions(body).get("Suspended") == ("True", "JobSuspended"))
    assert await pods_of(admin, place) == []
    await admin.apply(path, job(suspend=False))
    done = await admin.until(path, lambda body: conditions(body).get("Complete", ("", ""))[0] == "True")

    assert conditions(done)["Suspended"] == ("False", "JobResumed")


@pytest.mark.only_simulator("a real minute is long")
async def test_a_cron_job_makes_jobs(admin: Client, place: str) -> None:
    """One when its time has come, owned by it."""
    template = {"spec": job()["spec"]}
    spec = {"schedule": "* * * * *", "jobTemplate": template}
    await admin.apply(
        f"/apis/batch/v1{place}/cronjobs/c", {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}, "spec": spec}
    )
    jobs = await admin.until(f"/apis/batch/v1{place}/jobs", lambda body: bool(body["items"]))

    assert jobs["items"][0]["metadata"]["ownerReferences"][0]["kind"] == "CronJob"


async def test_endpoints_follow_the_pods(admin: Client, place: str) -> None:
    """A slice with the address of each ready pod, and none for a pod that is not."""
    await admin.apply(f"/api/v1{place}/services/d", service("d", {"port": 80, "targetPort": 8080}))
    await admin.apply(DEPLOYMENTS.format(place), deployment("d", replicas=2))
    slices = f"/apis/discovery.k8s.io/v1{place}/endpointslices"

    def ready(body: Any) -> list[bool]:
        return [endpoint["conditions"]["ready"] for item in body["items"] for endpoint in item.get("endpoints") or ()]

    found = await admin.until(slices, lambda body: ready(body) == [True, True], labelSelector="kubernetes.io/service-name=d")
    assert [port["port"] for port in found["items"][0]["ports"]] == [8080]
    assert {endpoint["targetRef"]["kind"] for endpoint in found["items"][0]["endpoints"]} == {"Pod"}
    await admin.patch(DEPLOYMENTS.format(place), {"spec": {"replicas": 0}})
    await admin.until(slices, lambda body: ready(body) == [], labelSelector="kubernetes.io/service-name=d")
    await admin.delete(f"/api/v1{place}/services/d")
    await admin.until(slices, lambda body: body["items"] == [])


async def test_a_budget_counts_its_pods(admin: Client, place: str) -> None:
    """Healthy, wanted, and how many may go."""
    await admin.apply(DEPLOYMENTS.format(place), deployment("d", replicas=3))
    path = f"/apis/policy/v1{place}/poddisruptionbudgets/b"
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "d"}}}
    await admin.apply(path, {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": spec})
    done = await admin.until(path, lambda body: (body.get("status") or {}).get("currentHealthy") == 3)

    counts = {key: done["status"][key] for key in ("expectedPods", "desiredHealthy", "disruptionsAllowed")}
    assert counts == {"expectedPods": 3, "desiredHealthy": 2, "disruptionsAllowed": 1}
    assert conditions(done)["DisruptionAllowed"] == ("True", "SufficientPods")


async def test_accounts_and_certificates_in_a_new_namespace(admin: Client, place: str) -> None:
    """Every namespace gets a default ServiceAccount and the authority's certificate, again after a deletion."""
    await admin.delete(f"/api/v1{place}/serviceaccounts/default")
    await admin.delete(f"/api/v1{place}/configmaps/kube-root-ca.crt")
    await admin.until(f"/api/v1{place}/serviceaccounts/default", lambda body: body["kind"] == "ServiceAccount")
    await admin.until(f"/api/v1{place}/configmaps/kube-root-ca.crt", lambda body: body["kind"] == "ConfigMap")


async def test_a_claim_without_a_class_waits(admin: Client, place: str) -> None:
    """Pending while there is nothing to bind."""
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "nothing-makes-this"}
    path = f"/api/v1{place}/persistentvolumeclaims"
    await admin.post(path, {"metadata": {"name": "c"}, "spec": claim})
    found = await admin.until(f"{path}/c", lambda body: body["status"].get("phase") == "Pending")

    assert found["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    assert "volumeName" not in found["spec"]
