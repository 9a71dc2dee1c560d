"""Claims and what they are bound to: by class, at once or when somebody uses them."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.simulator.clients import Client, pod

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
VOLUMES = "/api/v1/persistentvolumes"
NOBODY = "kubernetes.io/no-provisioner"
MakeClass = Callable[..., Awaitable[str]]
MakeVolume = Callable[..., Awaitable[str]]


@pytest.fixture
async def made(admin: Client) -> AsyncIterator[AsyncExitStack]:
    """What has no namespace is taken away in the end."""
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
def storage_class(admin: Client, made: AsyncExitStack) -> MakeClass:
    """Makes a class; gives its name."""

    async def make(mode: str, provisioner: str = NOBODY) -> str:
        body = {"metadata": {"generateName": "class-"}, "provisioner": provisioner, "volumeBindingMode": mode}
        answer = await admin.post(CLASSES, body)
        assert answer.status == 201, answer.body
        name = str(answer.body["metadata"]["name"])
        made.push_async_callback(admin.delete, f"{CLASSES}/{name}")
        return name

    return make


@pytest.fixture
def volume(admin: Client, made: AsyncExitStack) -> MakeVolume:
    """Makes a volume that is kept when it is released; gives its name once it is to be had."""

    async def make(storage_class: str, size: str = "2Gi") -> str:
        spec = {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "hostPath": {"path": "/tmp/nowhere"},  # never mounted
            "persistentVolumeReclaimPolicy": "Retain",
        }
        answer = await admin.post(VOLUMES, {"metadata": {"generateName": "volume-"}, "spec": spec})
        assert answer.status == 201, answer.body
        name = str(answer.body["metadata"]["name"])
        made.push_async_callback(admin.delete, f"{VOLUMES}/{name}")
        await admin.until(f"{VOLUMES}/{name}", lambda body: body["status"].get("phase") == "Available")
        return name

    return make


def claim(storage_class: str | None, **spec: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    if storage_class is not None:
        made["storageClassName"] = storage_class
    return {"metadata": {"name": "c"}, "spec": made}


async def told(admin: Client, place: str, reason: str) -> dict[str, str]:
    """The event of a reason that the claim has got, once it has."""
    path, query = f"/api/v1{place}/events", "involvedObject.name=c"
    events = await admin.until(path, lambda body: reason in [item["reason"] for item in body["items"]], fieldSelector=query)
    event = next(item for item in events["items"] if item["reason"] == reason)
    return {"type": event["type"], "message": event["message"], "component": event["source"]["component"]}


def phase(wanted: str) -> Callable[[Any], bool]:
    return lambda body: body.get("status", {}).get("phase") == wanted


async def test_a_class_without_a_provisioner_waits_for_a_volume(admin: Client, place: str, storage_class: MakeClass) -> None:
    """Pending, with the reason in an event, and nothing written to the claim."""
    path = f"/api/v1{place}/persistentvolumeclaims"
    await admin.post(path, claim(await storage_class("Immediate")))
    event = await told(admin, place, "ProvisioningFailed")
    found = await admin.get(f"{path}/c")

    assert event["type"] == "Warning"
    assert event["message"] == f"no volume plugin matched name: {NOBODY}"
    assert (found["status"], "volumeName" in found["spec"], "annotations" in found["metadata"]) == ({"phase": "Pending"}, False, False)


async def test_a_claim_without_any_class_says_so(admin: Client, place: str) -> None:
    """What is recorded of a claim with nothing to bind to."""
    path = f"/api/v1{place}/persistentvolumeclaims"
    await admin.post(path, claim(None))
    event = await told(admin, place, "FailedBinding")

    assert event == {
        "type": "Normal",
        "message": "no persistent volumes available for this claim and no storage class is set",
        "component": "persistentvolume-controller",
    }
    assert (await admin.get(f"{path}/c"))["status"] == {"phase": "Pending"}


async def test_a_claim_of_a_missing_class_says_so(admin: Client, place: str) -> None:
    """The class may come later."""
    await admin.post(f"/api/v1{place}/persistentvolumeclaims", claim("nothing-makes-this"))
    event = await told(admin, place, "ProvisioningFailed")

    assert (event["type"], event["message"]) == ("Warning", 'storageclass.storage.k8s.io "nothing-makes-this" not found')


async def test_binds_to_a_volume_of_its_class_at_once(admin: Client, place: str, storage_class: MakeClass, volume: MakeVolume) -> None:
    """The smallest that is large enough; both name each other, and the claim has the volume's size."""
    name = await storage_class("Immediate")
    other, small, large, right = (
        await volume(await storage_class("Immediate")),
        await volume(name, "500Mi"),
        await volume(name, "9Gi"),
        await volume(name, "2Gi"),
    )
    path = f"/api/v1{place}/persistentvolumeclaims"
    await admin.post(path, claim(name))
    bound = await admin.until(f"{path}/c", phase("Bound"))
    taken = await admin.until(f"{VOLUMES}/{right}", phase("Bound"))

    assert bound["spec"]["volumeName"] == right
    assert bound["status"] == {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"}}
    assert bound["metadata"]["annotations"] == {
        "pv.kubernetes.io/bind-completed": "yes",
        "pv.kubernetes.io/bound-by-controller": "yes",
    }
    assert taken["spec"]["claimRef"]["uid"] == bound["metadata"]["uid"]
    assert taken["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}
    assert [(await admin.get(f"{VOLUMES}/{each}"))["status"]["phase"] for each in (other, small, large)] == ["Available"] * 3


async def test_a_volume_outlives_its_claim(admin: Client, place: str, storage_class: MakeClass, volume: MakeVolume) -> None:
    """Released and not to be had again, where its policy is to retain."""
    name = await storage_class("Immediate")
    kept = await volume(name)
    path = f"/api/v1{place}/persistentvolumeclaims/c"
    await admin.post(f"/api/v1{place}/persistentvolumeclaims", claim(name))
    await admin.until(path, phase("Bound"))
    await admin.delete(path)
    released = await admin.until(f"{VOLUMES}/{kept}", phase("Released"))

    assert released["spec"]["claimRef"]["name"] == "c"


async def test_waits_for_the_first_consumer(admin: Client, place: str, storage_class: MakeClass, volume: MakeVolume) -> None:
    """A free volume is left alone until somebody reserves it for the claim, as a scheduler does that has a pod for it."""
    name = await storage_class("WaitForFirstConsumer")
    free = await volume(name)
    path = f"/api/v1{place}/persistentvolumeclaims"
    waiting = (await admin.post(path, claim(name))).body
    event = await told(admin, place, "WaitForFirstConsumer")
    assert (event["type"], event["message"]) == ("Normal", "waiting for first consumer to be created before binding")
    assert (await admin.get(f"{path}/c"))["status"] == {"phase": "Pending"}
    assert (await admin.get(f"{VOLUMES}/{free}"))["status"]["phase"] == "Available"
    metadata = waiting["metadata"]
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **{key: metadata[key] for key in ("namespace", "name", "uid")}}
    await admin.patch(f"{VOLUMES}/{free}", {"spec": {"claimRef": reference}})
    bound = await admin.until(f"{path}/c", phase("Bound"))

    assert bound["spec"]["volumeName"] == free


@pytest.mark.only_simulator("a control plane by itself has no scheduler")
async def test_a_pod_is_a_first_consumer(admin: Client, place: str, storage_class: MakeClass, volume: MakeVolume) -> None:
    """Its claim is bound, and the pod runs."""
    name = await storage_class("WaitForFirstConsumer")
    free = await volume(name)
    path = f"/api/v1{place}/persistentvolumeclaims"
    await admin.post(path, claim(name))
    await told(admin, place, "WaitForFirstConsumer")
    user = pod("p", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}])
    await admin.post(f"/api/v1{place}/pods", user)
    bound = await admin.until(f"{path}/c", phase("Bound"))

    assert bound["spec"]["volumeName"] == free
    await admin.until(f"/api/v1{place}/pods/p", phase("Running"))


async def test_a_provisioner_is_told_of_its_claim(admin: Client, place: str, storage_class: MakeClass) -> None:
    """By annotations and an event."""
    name = await storage_class("Immediate", "storage.example.com")
    path = f"/api/v1{place}/persistentvolumeclaims"
    await admin.post(path, claim(name))
    event = await told(admin, place, "ExternalProvisioning")
    annotations = (await admin.get(f"{path}/c"))["metadata"]["annotations"]

    assert event["type"] == "Normal"
    assert event["message"].startswith("Waiting for a volume to be created either by the external provisioner 'storage.example.com'")
    assert annotations["volume.kubernetes.io/storage-provisioner"] == "storage.example.com"
    assert annotations["volume.beta.kubernetes.io/storage-provisioner"] == "storage.example.com"


@pytest.mark.only_simulator("a control plane by itself has no provisioner")
async def test_a_provisioner_makes_a_volume(admin: Client, place: str, storage_class: MakeClass) -> None:
    """Of the size that was asked for; it goes with its claim."""
    name = await storage_class("Immediate", "storage.example.com")
    path = f"/api/v1{place}/persistentvolumeclaims"
    await admin.post(path, claim(name))
    bound = await admin.until(f"{path}/c", phase("Bound"))
    volume = bound["spec"]["volumeName"]
    assert bound["status"]["capacity"] == {"storage": "1Gi"}
    assert (await admin.get(f"{VOLUMES}/{volume}"))["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"] == "storage.example.com"
    await admin.delete(f"{path}/c")

    await admin.until_gone(f"{VOLUMES}/{volume}")
