"""The outage: a pod is scheduled anew after the token that its deployment was given has expired.

Manager, operators' commands and delegates are processes of their own, as they are in a cluster; a pod is a process with an empty state
directory, its own uid and its own projected token, and it ends with SIGKILL.
"""

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.daemon.waiting import eventually
from tests.manager.accounts import SigningKey, key_set
from tests.process.harness import CHILD, Child, delegate_variables, effects, started
from tests.process.secured import SecuredManager, secured_manager

TASK = {
    "kind": "sync",
    "application": "quick",
    "destination": {"name": "in-cluster"},
    "spec": {"source": {"repoURL": "https://git.example/config.git"}},
}


class Cluster:
    """What a cluster gives its pods: a projected token that the kubelet replaces, and the deployment's own, in a Secret."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.key = SigningKey()
        self.secret = directory / "secret"

    def project(self, pod: str, *, life: float = 3600.0) -> None:
        """As the kubelet does: into another file, and renamed."""
        path = self.token_of(pod)
        path.with_suffix(".new").write_text(self.key.token(pod=pod, life=life))
        path.with_suffix(".new").rename(path)

    def token_of(self, pod: str) -> Path:
        return self.directory / f"{pod}.token"

    @asynccontextmanager
    async def pod(self, manager: SecuredManager, name: str, *, projected: bool = True) -> AsyncIterator[Child]:
        variables = delegate_variables(manager.url, "", self.directory / name, DELEGATE_LABELS="team=shop", DELEGATE_NAME="delegate")
        if projected:
            self.project(name)
            variables["DELEGATE_SERVICE_ACCOUNT_TOKEN_FILE"] = str(self.token_of(name))
        variables |= {
            "DELEGATE_TOKEN_FILE": str(self.secret),
            "DELEGATE_MANAGER_CA_FILE": manager.authorities,
            "EFFECTS_FILE": str(self.directory / "effects"),
            "POD_UID": name,
        }
        async with started(self.directory / f"{name}.log", str(CHILD), "run", **variables) as child:
            yield child


async def operate(manager: SecuredManager, *arguments: str) -> Any:
    ended = await asyncio.to_thread(manager.operate, *arguments, "-o", "json")
    assert ended.code == 0, ended.stderr
    return ended.document


async def submit(manager: SecuredManager, directory: Path) -> str:
    """Waits until a task has succeeded; the delegate's instance that did it."""
    file = directory / "task.json"
    file.write_text(json.dumps(TASK))
    shown = await operate(manager, "task", "submit", str(file), "--wait")
    assert shown["task"]["outcome"] == "succeeded", shown
    return str(shown["attempts"][-1]["delegateId"])


async def metric(child: Child, name: str) -> float:
    port = child.logs("daemon.started")[-1]["probes_port"]
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/metrics") as response:
        lines = (await response.text()).splitlines()
    return next((float(line.split()[-1]) for line in lines if line.startswith(f"{name} ")), -1.0)


async def expired_token(manager: SecuredManager) -> str:
    """One that lived, and has ended."""
    created = await operate(manager, "token", "create", "--name", "deployment", "--scope", "GITOPS", "--expires-in", "1s")
    deadline = time.monotonic() + 20
    while (await operate(manager, "token", "list"))["items"][-1]["state"] != "expired":
        assert time.monotonic() < deadline
        await asyncio.sleep(0.2)
    return str(created["secret"])


@pytest.mark.timeout(120)
async def test_a_pod_that_is_rescheduled_after_its_token_expired_gets_in(tmp_path: Path) -> None:
    """By its service account, whose cluster's keys an administrator registered; also while the manager itself comes back."""
    cluster = Cluster(tmp_path)
    (tmp_path / "keys.json").write_text(json.dumps(key_set(cluster.key)))
    async with secured_manager(tmp_path) as manager:
        port = int(manager.url.rpartition(":")[2])
        registered = await operate(
            manager, "manager", "cluster-keys", "register", "prod", "--keys", str(tmp_path / "keys.json"), "--labels", "env=prod"
        )
        assert registered["serviceAccounts"] == ["delegate/delegate"]
        cluster.secret.write_text(await expired_token(manager))

        async with cluster.pod(manager, "pod-1") as first:
            await first.logged("session.opened")
            before = await submit(manager, tmp_path)
            first.signal(signal.SIGKILL)  # the node is gone, and the emptyDir with it
            await first.ended()
        async with cluster.pod(manager, "pod-2") as second:
            await second.logged("session.opened")
            after = await submit(manager, tmp_path)
            assert after != before
            assert abs(await metric(second, "harness_delegate_token_expiry_timestamp_seconds") - time.time() - 3600) < 120
            cluster.project("pod-2", life=7200.0)  # replaced while it runs, in a file that nobody told it of
            deadline = time.monotonic() + 20
            while abs(await metric(second, "harness_delegate_token_expiry_timestamp_seconds") - time.time() - 7200) > 120:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.2)
            manager.child.signal(signal.SIGKILL)
            await manager.child.ended()
            async with cluster.pod(manager, "pod-3") as third:  # scheduled while there is no manager
                await third.logged("connection.failed")
                async with secured_manager(tmp_path, port=port) as revived:
                    await third.logged("session.opened")
                    await eventually(lambda: len(second.logs("session.opened")) >= 1)
                    await submit(revived, tmp_path)
                    items = (await operate(revived, "delegates", "list"))["items"]
                    assert {each["labels"]["env"] for each in items} == {"prod"}
                    assert {each["instance"] for each in items} == {"pod-1", "pod-2", "pod-3"}
        assert len(effects(tmp_path, "ended")) == 3


@pytest.mark.timeout(90)
async def test_without_a_service_account_the_same_pod_stays_out_and_says_why(tmp_path: Path) -> None:
    """The outage as it was; and what a person reads at night names the token, and both ways out."""
    cluster = Cluster(tmp_path)
    async with secured_manager(tmp_path) as manager:
        cluster.secret.write_text(await expired_token(manager))
        async with cluster.pod(manager, "pod-1", projected=False) as pod:
            assert await pod.ended() == 2
            assert "'deployment' has expired" in pod.text()
            assert "delegate token create" in pod.text()
        async with cluster.pod(manager, "pod-2") as pod:  # its cluster's keys are nobody's
            assert await pod.ended() == 2
            assert "no keys are registered for service account tokens of" in pod.text()
            assert "delegate manager cluster-keys register" in pod.text()
            assert "'deployment' has expired" in pod.text()
            assert cluster.token_of("pod-2").read_text() not in pod.text()
