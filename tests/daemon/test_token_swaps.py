"""Tokens that are replaced while a delegate runs: two of them live for a while, and nobody notices the swap."""

import asyncio
import time
from pathlib import Path

import pytest
import structlog

from delegate.daemon.identity import tokens
from delegate.daemon.identity.tokens import end_of, is_account_token, mark_of
from delegate.engine.tasks.contexts import AttemptContext
from delegate.foundation.lifecycle import StopReason
from delegate.foundation.secrets import Secret
from delegate.model.results import TaskResult
from delegate.model.tasks import Task
from tests.daemon.harness import Json, Operator, TestEngine, result_of, running_daemon, running_manager, settings_for
from tests.daemon.secured import faults, metric, rotations, secured_manager, secured_settings, serial_in_use
from tests.daemon.waiting import eventually
from tests.manager.accounts import SigningKey, registration

EXPIRY = "harness_delegate_token_expiry_timestamp_seconds"


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_LOOK_SECONDS", 0.05)


async def new_token(operator: Operator, name: str, **more: object) -> str:
    return str((await operator.ask("POST", "/tokens", {"name": name, "scope": "GITOPS", **more}))["secret"])


async def delegate_of(operator: Operator) -> Json:
    (shown,) = await operator.delegates()
    return shown


async def eventually_labelled(operator: Operator, labels: Json) -> None:
    async with asyncio.timeout(20):
        while True:
            if (await delegate_of(operator))["labels"] == labels:
                return
            await asyncio.sleep(0.03)


async def test_a_replaced_token_is_swapped_in_while_work_goes_on(tmp_path: Path) -> None:
    """Both tokens live for a moment; then the old one is revoked, and the delegate, with a task that runs all the while, is not."""
    go_on = asyncio.Event()

    async def wait(task: Task, context: AttemptContext) -> TaskResult:
        if task.application == "long":
            await go_on.wait()
        return result_of(task, context)

    file = tmp_path / "token"
    async with secured_manager(tmp_path) as operator:
        file.write_text(await new_token(operator, "spring"))
        settings = secured_settings(operator, "", tmp_path, DELEGATE_TOKEN_FILE=str(file), DELEGATE_TOKEN="")
        async with running_daemon(settings, TestEngine(wait)) as running:
            await running.registered()
            before = await delegate_of(operator)
            long = await operator.submit("long")
            first = serial_in_use(running.daemon)
            file.write_text(await new_token(operator, "summer", labels={"season": "summer"}))
            await eventually(lambda: rotations(running.daemon, "enrolled") == 2)
            await eventually(lambda: serial_in_use(running.daemon) not in ("", first))
            await eventually_labelled(operator, {"season": "summer"})
            await operator.ask("DELETE", "/tokens/spring")

            go_on.set()
            assert (await operator.finished(long))["task"]["outcome"] == "succeeded"
            assert (await operator.finished(await operator.submit("shop")))["task"]["outcome"] == "succeeded"
            after = await delegate_of(operator)
            assert (after["id"], after["token"]) == (before["id"], "summer")
            assert faults(running.daemon) == 0
            assert rotations(running.daemon, "enrolled") == 2


@pytest.mark.parametrize("wrong", [{"scope": "admin"}, {"labels": {"env": "prod"}}, None], ids=["scope", "labels", "unknown"])
async def test_a_new_token_that_is_refused_changes_nothing(tmp_path: Path, wrong: Json | None) -> None:
    """It is told once, with what is missing; the delegate works on with what it has, also after a restart."""
    file = tmp_path / "token"
    async with running_manager(tmp_path) as operator:
        file.write_text(await new_token(operator, "spring"))
        variables = {"DELEGATE_TOKEN_FILE": str(file), "DELEGATE_LABELS": "env=dev"}
        settings = settings_for(operator.manager.url, "", tmp_path / "state", **variables)
        with structlog.testing.capture_logs() as logs:
            async with running_daemon(settings, TestEngine()) as running:
                await running.registered()
                first = serial_in_use_on_disk(running.daemon)
                file.write_text("dgt_none" if wrong is None else await new_token(operator, "wrong", **wrong))
                await eventually(lambda: told(logs, "identity.token_not_taken"))
                assert (await operator.finished(await operator.submit("shop")))["task"]["outcome"] == "succeeded"
                assert serial_in_use_on_disk(running.daemon) == first
            async with running_daemon(settings, TestEngine()) as running:
                await running.registered()
                await eventually(lambda: len(told(logs, "identity.token_not_taken")) == 2)
                assert (await operator.finished(await operator.submit("shop")))["task"]["outcome"] == "succeeded"
        words = told(logs, "identity.token_not_taken")[0]["error"]
        assert "missing: " in words if wrong is not None else "unknown" in words


def told(logs: list[Json] | list[structlog.typing.EventDict], event: str) -> list[Json]:
    return [dict(line) for line in logs if line["event"] == event]


def serial_in_use_on_disk(daemon: object) -> str:
    certificate = daemon._certificates.holder.certificate  # type: ignore[attr-defined]
    return str(certificate.serial)


async def test_a_delegate_that_was_revoked_comes_back_with_a_newer_token(tmp_path: Path) -> None:
    """The old token was revoked before the new one was in place: the process ends with that, and the next one enrols by itself."""
    file = tmp_path / "token"
    async with secured_manager(tmp_path) as operator:
        file.write_text(await new_token(operator, "spring"))
        settings = secured_settings(operator, "", tmp_path, DELEGATE_TOKEN_FILE=str(file), DELEGATE_TOKEN="")
        async with running_daemon(settings, TestEngine()) as running:
            await running.registered()
            before = await delegate_of(operator)
            await operator.ask("DELETE", "/tokens/spring")
            await asyncio.wait_for(running.task, 20)
            assert running.stops.decisive is not None
            assert running.stops.decisive.reason is StopReason.REVOKED
        async with running_daemon(settings, TestEngine()) as running:
            await asyncio.wait_for(running.task, 20)  # the same token again
            assert running.stops.decisive is not None
            assert running.stops.decisive.reason is StopReason.REVOKED
        file.write_text(await new_token(operator, "summer"))
        async with running_daemon(settings, TestEngine()) as running:
            await running.registered()
            assert (await operator.finished(await operator.submit("shop")))["task"]["outcome"] == "succeeded"
            assert (await delegate_of(operator))["id"] == before["id"]


async def test_the_end_of_the_delegate_token_is_a_metric_after_a_restart_too(tmp_path: Path) -> None:
    """Somebody has to be warned before a new pod can't enrol any more."""
    async with running_manager(tmp_path) as operator:
        token = await new_token(operator, "spring", expiresIn="240h")
        settings = settings_for(operator.manager.url, token, tmp_path / "state")
        for _ in range(2):
            async with running_daemon(settings, TestEngine()) as running:
                await running.registered()
                assert abs(metric(running.daemon, EXPIRY) - time.time() - 10 * 86400) < 60


async def test_the_end_of_a_projected_token_follows_its_file(tmp_path: Path) -> None:
    """Case 40: the kubelet replaces it, and what the metric says is what a restart would find."""
    cluster, file = SigningKey(), tmp_path / "token"
    async with running_manager(tmp_path) as operator:
        await operator.ask("PUT", "/clusters/prod/keys", registration(cluster))
        file.write_text(cluster.token(life=1000.0))
        settings = settings_for(
            operator.manager.url, "", tmp_path / "state", DELEGATE_SERVICE_ACCOUNT_TOKEN_FILE=str(file), DELEGATE_TOKEN=""
        )
        async with running_daemon(settings, TestEngine()) as running:
            await running.registered()
            await eventually(lambda: abs(metric(running.daemon, EXPIRY) - time.time() - 1000) < 30)
            file.write_text(cluster.token(life=3600.0))
            await eventually(lambda: abs(metric(running.daemon, EXPIRY) - time.time() - 3600) < 30)


def test_tokens_are_told_apart_without_being_kept() -> None:
    """The mark of a token says nothing of it; only tokens of service accounts say when they end."""
    one, other = Secret("dgt_one"), Secret("dgt_other")
    assert mark_of(one) == mark_of(Secret("dgt_one")) != mark_of(other)
    assert "one" not in mark_of(one)
    account = Secret(SigningKey().token(now=1000.0, life=50.0))
    assert (is_account_token(account), end_of(account)) == (True, 1050.0)
    assert (is_account_token(one), end_of(one)) == (False, None)
    for strange in ("eyJ.x.y", "eyJ..", "eyJ.e30.x", "eyJ.\xff.x"):
        assert end_of(Secret(strange)) is None
