"""Known secrets in results and steps: the pool lets none of them out, and changes nothing else."""

import base64

import msgspec
import pytest

from delegate.daemon.pool.masking import mask_result, mask_step
from delegate.engine.tasks.contexts import AttemptContext
from delegate.foundation.redaction import KNOWN_SECRETS, KnownSecrets
from delegate.foundation.secrets import HIDDEN
from delegate.model.results import Action, Change, ErrorDetail, Outcome, ResourceResult, TaskResult
from delegate.model.rollouts.pauses import Pause
from delegate.model.tasks import Task
from tests.daemon.pool.harness import leased, result_of, running_pool
from tests.daemon.waiting import eventually

TOKEN = 'tok/en"with\\odd<characters>'
ENCODED = base64.b64encode(f"user:{TOKEN}".encode()).decode()


def known(*secrets: str) -> KnownSecrets:
    registry = KnownSecrets()
    for secret in secrets:
        registry.add(secret)
    return registry


def result(**more: object) -> TaskResult:
    return msgspec.structs.replace(TaskResult(task="t", attempt="t-1", kind="sync", application="a", outcome=Outcome.FAILED), **more)


def test_a_result_without_secrets_is_the_same_object() -> None:
    """Nothing is decoded or copied for it."""
    plain = result(message="nothing to hide")

    assert mask_result(plain, known(TOKEN)) is plain


def test_every_text_of_a_result_is_masked() -> None:
    """Case 35: messages, hints, changed values however deep, and what is encoded; names of things stay."""
    leaking = result(
        message=f"clone failed with {TOKEN}",
        error=ErrorDetail(code="x", category="input", message=f"sent {ENCODED}", hint=f"not {TOKEN}", file="apps/a.yaml"),
        resources=(
            ResourceResult(
                group="",
                kind="ConfigMap",
                namespace="n",
                name="c",
                action=Action.CONFIGURED,
                changes=(Change(path="/data", before={"name": TOKEN, "list": [TOKEN]}, after=TOKEN),),
            ),
        ),
    )

    masked = mask_result(leaking, known(TOKEN))

    text = msgspec.json.encode(masked).decode()
    assert "odd" not in text
    assert ENCODED[8:30] not in text
    assert masked.message == f"clone failed with {HIDDEN}"
    assert (masked.error.file if masked.error else "", masked.resources[0].name) == ("apps/a.yaml", "c")


@pytest.mark.parametrize("word", ["failed", "sync", "ConfigMap", "configured", "apps"])
def test_a_secret_that_is_a_word_of_results_spoils_none(word: str) -> None:
    """Somebody's password is `failed`: the result still says so where it names its outcome."""
    leaking = result(message=f"it says {word}", notices=(word,))

    masked = mask_result(leaking, known(word))

    assert (masked.outcome, masked.kind) == (Outcome.FAILED, "sync")
    assert (masked.message, masked.notices) == (f"it says {HIDDEN}", (HIDDEN,))


def test_a_step_is_masked() -> None:
    """Keys and values, however deep."""
    masked = mask_step({"line": TOKEN, "more": [{TOKEN: 1}]}, known(TOKEN))

    assert masked == {"line": HIDDEN, "more": [{HIDDEN: 1}]}


async def test_what_a_task_tells_is_masked_on_its_way_out() -> None:
    """Its steps, what it pauses for, and its result."""
    KNOWN_SECRETS.add(TOKEN)
    paused: list[Pause | None] = []

    async def leak(task: Task, context: AttemptContext) -> TaskResult:
        context.report("log.line", {"text": f"using {TOKEN}"})
        context.paused(Pause(1, 0, "2026-01-01T00:00:00+00:00", held=True, reason=TOKEN))
        (held,) = harness.pool.roster.all()
        paused.append(held.pause)
        return msgspec.structs.replace(result_of(task, context), message=TOKEN)

    try:
        async with running_pool(leak) as harness:
            await harness.submit(leased("a"))
            await eventually(lambda: harness.told.results)
    finally:
        KNOWN_SECRETS.discard(TOKEN)

    assert harness.told.results["a"].message == HIDDEN
    assert [each.reason for each in paused if each is not None] == [HIDDEN]
    assert harness.told.progress == [("a", "log.line", {"text": f"using {HIDDEN}"})]
