"""Cases 42 and 43: whatever a client sends, no secret of it is told on, and what can't be read gets one final answer."""

import json
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp

from delegate.protocol import routes
from tests.daemon.waiting import eventually
from tests.manager.delegates import Caller, FakeDelegate, make_result
from tests.manager.operators import Operator
from tests.process.harness import started
from tests.process.test_crashes import Address, free_port

SECRET = "0123456789abcdef0123456789abcdef"
ROUTES = (routes.ENROL, routes.SESSION, routes.HEARTBEAT, routes.ACQUIRE, routes.RESULTS, routes.EVENTS, routes.BLOBS, routes.LETTERS)
BODIES = (
    json.dumps({"requestId": "r", "delegateRandomToken": SECRET, "token": SECRET, "name": SECRET, "instance": 7, "attemptToken": SECRET}),
    f'{{"delegateRandomToken": "{SECRET}", ',
    f"oops {SECRET}",
    "",
)


async def test_a_secret_in_a_body_is_told_to_nobody(tmp_path: Path) -> None:
    """At the finest log level, in every answer, metric, page and log line of a manager; whatever the body, it is refused for good."""
    port = free_port()
    async with AsyncExitStack() as exits:
        manager = await exits.enter_async_context(
            started(
                tmp_path / "manager.log",
                *("-m", "delegate", "manager", "serve"),
                DELEGATE_MANAGER_LISTEN=f"127.0.0.1:{port}",
                DELEGATE_MANAGER_STATE_DIR=str(tmp_path / "manager"),
                DELEGATE_LOG_LEVEL="debug",
            )
        )
        await eventually(lambda: manager.logs("manager.started") or manager.process.returncode is not None)
        address = Address(tmp_path, port)
        http = await exits.enter_async_context(aiohttp.ClientSession())
        operator = Operator(http, address.url, address.admin_token)
        delegate = await FakeDelegate(Caller(http, address.url)).start(await operator.create_token())
        headers = {"Content-Type": "application/json"}
        for token in (f"dgt_{SECRET}", delegate.token):
            for route in ROUTES:
                for body in BODIES:
                    call = http.post(address.url + route, data=body, headers={**headers, "Authorization": f"Bearer {token}"})
                    async with call as response:
                        answer = await response.text()
                        assert 400 <= response.status < 500, (route, response.status, answer)
                        assert SECRET not in answer

        assert SECRET not in json.dumps(await operator.call("GET", "/api/v1/delegates"))
        async with http.get(f"{address.url}/metrics") as response:
            assert SECRET not in await response.text()
        assert SECRET not in manager.text()


async def test_a_result_that_says_nothing_is_refused_once(tmp_path: Path) -> None:
    """A result without an outcome, or that is no document, is final for its sender, and the task goes its way."""
    port = free_port()
    async with AsyncExitStack() as exits:
        manager = await exits.enter_async_context(
            started(
                tmp_path / "manager.log",
                *("-m", "delegate", "manager", "serve"),
                DELEGATE_MANAGER_LISTEN=f"127.0.0.1:{port}",
                DELEGATE_MANAGER_STATE_DIR=str(tmp_path / "manager"),
            )
        )
        await eventually(lambda: manager.logs("manager.started") or manager.process.returncode is not None)
        address = Address(tmp_path, port)
        http = await exits.enter_async_context(aiohttp.ClientSession())
        operator = Operator(http, address.url, address.admin_token)
        delegate = await FakeDelegate(Caller(http, address.url)).start(await operator.create_token())
        task_id = await operator.submit()
        (task,) = await delegate.acquire(1)

        [silent] = await delegate.report(make_result(task, outcome=7))  # type: ignore[arg-type]
        [unknown] = await delegate.report(make_result(task, "a word of tomorrow"))

        assert (silent.verdict, unknown.verdict) == ("invalid", "accepted")
        assert (await operator.task(task_id))["outcome"] == "failed"
