"""The gate before every task, through a real manager: what this machine's policy doesn't allow is refused, whoever wants it."""

import datetime as dt
from pathlib import Path

import pytest

from delegate.daemon.trusting import FinishedTasks, TrustPolicyError, read_policy
from delegate.engine.tasks.contexts import AttemptContext
from delegate.model.results import Outcome, TaskResult
from delegate.model.tasks import Task, read_task
from delegate.protocol.signatures import make_signing_key, sign_task, write_public_key
from tests.daemon.harness import Json, Operator, TestEngine, result_of, running_daemon, running_manager, settings_for
from tests.daemon.waiting import eventually

KEY = make_signing_key()
POLICY = f"""
keys: {{release-team: "{write_public_key(KEY)}"}}
signatures: [{{kinds: [sync], environments: [prod]}}]
allow: {{kinds: [sync], namespaces: [shop], repositories: ["https://git.example/*"]}}
"""


def document(application: str, **more: object) -> Json:
    spec = {"source": {"repoURL": "https://git.example/config.git"}}
    return {"kind": "sync", "application": application, "destination": {"name": "in-cluster", "namespace": "shop"}, "spec": spec, **more}


def signed(application: str, life: float = 3600.0) -> Json:
    now, seconds = dt.datetime.now(dt.UTC), dt.timedelta(seconds=life)
    return sign_task(read_task(document(application, environment="prod")), KEY, now=now, life=seconds).document()


async def submit(operator: Operator, body: Json) -> str:
    return str((await operator.ask("POST", "/tasks", body))["task"]["id"])


async def test_a_manager_cannot_widen_what_is_allowed_here(tmp_path: Path) -> None:
    """Other kinds, namespaces and repositories, and what is not signed where it has to be, end as refused, in clear words, untouched."""
    (tmp_path / "trust.yaml").write_text(POLICY)
    engine = TestEngine()
    async with running_manager(tmp_path) as operator:
        settings = settings_for(
            operator.manager.url, await operator.token(), tmp_path / "d", DELEGATE_TRUST_POLICY=str(tmp_path / "trust.yaml")
        )
        async with running_daemon(settings, engine) as running:
            await running.registered()
            for body, code, words in (
                (document("a") | {"kind": "diff"}, "policy.not_allowed", "does not allow tasks of kind diff"),
                (document("b", destination={"name": "in-cluster", "namespace": "kube-system"}), "policy.not_allowed", "kube-system"),
                (document("c", spec={"source": {"repoURL": "https://evil.example/x"}}), "policy.not_allowed", "https://evil.example/x"),
                (document("d", environment="prod"), "policy.signature", "the task is not signed"),
                (signed("e") | {"application": "f"}, "policy.signature", "somebody has changed it"),
            ):
                shown = await operator.finished(await submit(operator, body))
                assert shown["task"]["outcome"] == "refused"
                assert shown["result"]["error"]["code"] == code
                assert words in shown["result"]["error"]["message"]
            assert engine.began == []

            good = signed("g")
            for body in (document("h"), good):
                assert (await operator.finished(await submit(operator, body)))["task"]["outcome"] == "succeeded"
            assert good["signature"]["id"] == (await operator.show(good["signature"]["id"]))["task"]["id"]


async def test_a_signed_task_is_begun_once(tmp_path: Path) -> None:
    """Submitted again it is a conflict, tried again it has to be signed anew; handed out again by a manager that forgot it, it is refused,
    also after a restart of the delegate."""
    (tmp_path / "trust.yaml").write_text(POLICY)
    body, engine, shown = signed("a"), TestEngine(), Json()
    for life in ("one", "two"):
        async with running_manager(tmp_path / life) as operator:
            state = tmp_path / f"state-{life}"
            if life == "two":
                state.mkdir(mode=0o700)
                (tmp_path / "state-one" / "signed-tasks").rename(state / "signed-tasks")
            settings = settings_for(operator.manager.url, await operator.token(), state, DELEGATE_TRUST_POLICY=str(tmp_path / "trust.yaml"))
            async with running_daemon(settings, engine) as running:
                await running.registered()
                task = await submit(operator, body)
                shown = await operator.finished(task)
                if life == "one":
                    await eventually((state / "signed-tasks").exists)
                    for path, sent in (("/tasks", body), (f"/tasks/{task}/retry", None)):
                        url = f"{operator.manager.url}/api/v1{path}"
                        async with operator.session.post(url, json=sent) as response:
                            assert response.status == 409
                            assert "good for one task" in await response.text()
    assert shown["task"]["outcome"] == "refused"
    assert "has ended here before" in shown["result"]["error"]["message"]
    assert len(engine.began) == 1


async def test_an_interrupted_signed_task_goes_on(tmp_path: Path) -> None:
    """Another attempt of the same task is no replay."""
    (tmp_path / "trust.yaml").write_text(POLICY)
    outcomes = [Outcome.INTERRUPTED, Outcome.SUCCEEDED]

    async def run(task: Task, context: AttemptContext) -> TaskResult:
        return result_of(task, context, outcomes.pop(0))

    async with running_manager(tmp_path) as operator:
        policy = str(tmp_path / "trust.yaml")
        settings = settings_for(operator.manager.url, await operator.token(), tmp_path / "d", DELEGATE_TRUST_POLICY=policy)
        async with running_daemon(settings, TestEngine(run)) as running:
            await running.registered()
            shown = await operator.finished(await submit(operator, signed("a")))

    assert (shown["task"]["outcome"], len(shown["attempts"])) == ("succeeded", 2)


async def test_a_policy_that_breaks_lets_nothing_through(tmp_path: Path) -> None:
    """Changed under a running delegate: the new one holds at once; one that can't be read refuses every task until it can."""
    policy = tmp_path / "trust.yaml"
    policy.write_text("{}")
    async with running_manager(tmp_path) as operator:
        settings = settings_for(operator.manager.url, await operator.token(), tmp_path / "d", DELEGATE_TRUST_POLICY=str(policy))
        async with running_daemon(settings, TestEngine()) as running:
            await running.registered()

            async def outcome(application: str) -> tuple[str, str]:
                shown = await operator.finished(await submit(operator, document(application)))
                return shown["task"]["outcome"], shown["task"]["message"]

            assert (await outcome("a"))[0] == "succeeded"
            policy.write_text("allow: {kinds: [verify]}")
            assert (await outcome("b"))[0] == "refused"
            policy.write_text("allow: {kind: [sync]}")
            told = await outcome("c")
            assert told[0] == "refused"
            assert "unknown field `kind`" in told[1]
            policy.unlink()
            assert "can't be read" in (await outcome("d"))[1]
            policy.write_text("allow: {kinds: [sync]} ")
            assert (await outcome("e"))[0] == "succeeded"


@pytest.mark.parametrize("content", [b"a: [", b"\xff", b"[]", b"keys: 1", b"x" * (2**20 + 1)])
def test_a_policy_that_cannot_be_meant_is_said_so(content: bytes) -> None:
    """Before anything is begun."""
    with pytest.raises(TrustPolicyError):
        read_policy(content, "trust.yaml")


def test_what_has_ended_is_remembered_until_its_signature_ends(tmp_path: Path) -> None:
    """Across restarts; a torn line, as of a crash, spoils nothing."""
    now = dt.datetime(2027, 1, 1, tzinfo=dt.UTC)
    first = FinishedTasks(tmp_path / "signed")
    first.load(now)
    first.add("a", now + dt.timedelta(hours=1))
    first.add("b", now + dt.timedelta(hours=3))
    with (tmp_path / "signed").open("a") as file:
        file.write("c 2027-01-")
    second = FinishedTasks(tmp_path / "signed")

    second.load(now + dt.timedelta(hours=2))

    assert ["a" in second, "b" in second, "c" in second] == [False, True, False]
    assert len((tmp_path / "signed").read_text().splitlines()) == 1
