"""A paused canary goes on by a command: from the program, through manager and delegate, to the cluster."""

import asyncio
import re

from delegate.demo import stages, tasks
from delegate.demo.stages import Stage
from delegate.model.resources import JsonObject
from tests.cli.programs import Ended, run
from tests.cluster.servers import eventually
from tests.process.test_demo import QuietNarrator


async def delegate(stage: Stage, *arguments: str) -> Ended:
    return await asyncio.to_thread(
        run, *arguments, env={"DELEGATE_MANAGER_URL": stage.manager.url, "DELEGATE_API_TOKEN": stage.manager.admin_token}
    )


async def _is_paused(stage: Stage, task_id: str) -> bool:
    return bool((await delegate(stage, "task", "show", task_id, "-o", "json")).document["task"]["paused"])


async def test_a_paused_canary_is_resumed() -> None:
    """Its events say that it pauses, and until when; then it goes on to its end."""
    spec: JsonObject = {
        "workload": {"kind": "Deployment", "name": "web"},
        "images": {"web": "registry.example/shop/web:2.0.0"},
        "steps": [{"setWeight": 25}, {"pause": {}}],
        "minReady": "0s",
    }
    told: list[str] = []
    async with stages.set_stage() as stage:
        await tasks.sync(stage, QuietNarrator(), await stage.repository.commit("Open the shop"))
        running = asyncio.create_task(
            stage.operator.run(tasks.document_of("canary", spec), lambda event, data: told.append(str(data.get("words", ""))))
        )
        await eventually(lambda: "pauses until the task is resumed" in told, within=30)
        [task] = (await delegate(stage, "task", "list", "--state", "running", "-o", "json")).document["items"]
        await eventually(lambda: _is_paused(stage, task["id"]), within=30)
        listed = await delegate(stage, "task", "list")
        shown = await delegate(stage, "task", "show", task["id"])

        resumed = await delegate(stage, "task", "resume", task["id"])
        result = await running
        late = await delegate(stage, "task", "resume", task["id"])

    assert " paused " in listed.stdout
    assert "at step 1 since " in listed.stdout
    assert re.search(r"(?m)^paused +at step 1 since \S+Z \(pause 1\), until it is resumed$", shown.stdout)
    assert f"go on with   delegate task resume {task['id']} --pause 1\n" in shown.stdout
    assert resumed.stdout == f"task {task['id']} runs at demo; its delegate is told to go on from pause 1\n"
    assert result.outcome.value == "succeeded", result
    assert told[told.index("pauses until the task is resumed") + 1] == "resumed"
    assert late.code == 1
    assert f"task {task['id']} has ended: succeeded" in late.stderr
