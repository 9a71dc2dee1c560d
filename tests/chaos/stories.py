"""One run of chaos: a manager, delegates, people who submit, and somebody who breaks things, all by one seed.

The run has three parts. While things break, tasks are submitted, superseded and cancelled. Then everything is mended, and all tasks have to
end. Then the manager's own history, its tables and what the tasks themselves wrote down are judged by a checker that knows nothing of the
manager's code.
"""

import asyncio
import contextlib
import itertools
import random
import signal
import socket
import sqlite3
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from tests.chaos.lives import Life
from tests.chaos.weather import Weather, weather
from tests.fakes.s3_server import FaultyS3, cut, faulty_s3, s3_server
from tests.manager.history import Checker, from_audit
from tests.process.harness import delegate_variables

Json = dict[str, Any]
DELEGATES = 3
_BREAKERS = 2
APPLICATIONS = 9
LIMITS = {"environment/prod": 2, "key/database": 1}
WORK = ("quick", "quick", "big", "sleep-0.3", "sleep-1.5", "sleep-3.9", "sleep-4", "sleep-4.1", "deaf-1", "deaf-3.9", "deaf-4", "child-1")
_HOUR = 3600.0
_MENDING_SECONDS = 100.0
BUCKET = "letters"


@dataclass
class Account:
    """What a run came to: what contradicts the promises, what was done, and how much went on."""

    seed: int
    violations: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    deeds: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    attempts: int = 0

    def __str__(self) -> str:
        lines = [f"chaos seed {self.seed}: {self.outcomes.total()} tasks in {self.attempts} attempts: {dict(self.outcomes)}"]
        lines.append("  " + ", ".join(f"{name} {count}" for name, count in sorted(self.done.items())))
        return "\n".join([*lines, *(f"  VIOLATION {each}" for each in self.violations)])


class Story:
    """One run in a directory of its own."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.account = Account(seed)
        self._directory = directory
        self._dice = random.Random(seed)
        self._began = time.monotonic()
        self._submitted: list[str] = []

    async def tell(self, seconds: float) -> Account:
        """The whole run; what breaks lasts for `seconds`."""
        async with AsyncExitStack() as exits:
            await self._set_up(exits)
            people = [asyncio.create_task(self._submit_on_and_on()), asyncio.create_task(self._cancel_now_and_then())]
            until = time.monotonic() + seconds
            async with asyncio.TaskGroup() as breakers:
                for _ in range(_BREAKERS):
                    breakers.create_task(self._break_things(until))
            for person in people:
                person.cancel()
            for ended in await asyncio.gather(*people, return_exceptions=True):
                if not isinstance(ended, asyncio.CancelledError):
                    raise AssertionError("somebody could not go on to submit or cancel") from ended  # noqa: TRY004
            await self._mend()
            await self._wait_until_all_ended()
            for life in (*self._delegates, self._manager):
                await life.end(within=20.0)
        self._judge()
        return self.account

    # The stage.

    async def _set_up(self, exits: AsyncExitStack) -> None:
        port = _free_port()
        url = f"http://127.0.0.1:{port}"
        manager = {
            "DELEGATE_MANAGER_LISTEN": f"127.0.0.1:{port}",
            "DELEGATE_MANAGER_STATE_DIR": str(self._directory / "manager"),
            "DELEGATE_MANAGER_LEASE": "3s",
            "DELEGATE_MANAGER_HEARTBEAT": "300ms",
            "DELEGATE_MANAGER_POLL": "2s",
            "DELEGATE_MANAGER_GRACE": "3s",
            "DELEGATE_MANAGER_REQUEUES": "200",
            "DELEGATE_MANAGER_REQUEUE_BASE": "50ms",
            "DELEGATE_MANAGER_REQUEUE_MAX": "1s",
        }
        self._manager = Life("manager", "manager", self._directory, manager)
        await self._manager.start()
        exits.push_async_callback(self._manager.kill)
        self._session = await exits.enter_async_context(aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5.0)))
        self._url = url
        await self._insist(self._find_token)
        for limit, most in LIMITS.items():
            await self._insist(lambda limit=limit, most=most: self._ask("PUT", f"/limits/{limit}", {"maxParallel": most}))  # type: ignore[misc]
        token = str((await self._insist(lambda: self._ask("POST", "/tokens", {"name": "chaos", "scope": "GITOPS"})))["secret"])
        self._bucket = await exits.enter_async_context(_bucket(exits))
        self._delegates, self._weathers = list[Life](), list[Weather]()
        for number in range(DELEGATES):
            way = await exits.enter_async_context(weather(url, random.Random(self._dice.random())))
            variables = delegate_variables(way.proxy.url, token, self._directory / f"d-{number}", **self._bucket_variables())
            variables |= {"DELEGATE_NAME": f"d-{number}", "EFFECTS_FILE": str(self._directory / f"effects-{number}")}
            life = Life(f"d-{number}", "delegate", self._directory, variables)
            await life.start()
            exits.push_async_callback(life.kill)
            self._delegates.append(life)
            self._weathers.append(way)

    def _bucket_variables(self) -> dict[str, str]:
        return {
            "DLQ_BUCKET": f"s3://{BUCKET}/chaos",
            "AWS_ENDPOINT_URL": self._bucket.url,
            "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
            "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMIexampleKEY",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    async def _find_token(self) -> None:
        path = self._directory / "manager" / "admin-token"
        if not path.exists():
            raise TimeoutError
        self._headers = {"Authorization": f"Bearer {path.read_text().strip()}"}

    # People.

    async def _submit_on_and_on(self) -> None:
        for number in itertools.count():
            document = self._document()
            key = f"{self.account.seed}-{number}"
            submit = self._asking("POST", "/tasks", document, {"Idempotency-Key": key})
            self._submitted.append(str((await self._insist(submit))["task"]["id"]))
            await asyncio.sleep(self._dice.expovariate(12.0))

    def _document(self) -> Json:
        dice = self._dice
        work = dice.choice(WORK)
        document: Json = {
            "kind": "sync",
            # What a task does is in the application's name, so applications are few for each work, and they meet.
            "application": work if "-" in work else f"{work}-{dice.randrange(APPLICATIONS)}",
            "destination": {"name": "in-cluster"},
            "spec": {"source": {"repoURL": "https://git.example/config.git"}},
            "priority": dice.choice([0, 0, 0, 1, -1]),
            "supersedes": dice.random() < 0.1,
            "environment": dice.choice(["prod", "dev", "dev"]),
            "timeout": dice.choice(["15m", "15m", "15m", "5s"]),
        }
        return document | ({"concurrencyKey": "database"} if dice.random() < 0.1 else {})

    async def _cancel_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(self._dice.expovariate(0.7))
            if self._submitted:
                task = self._dice.choice(self._submitted[-20:])
                await self._insist(self._asking("POST", f"/tasks/{task}/cancel", {}))
                self.account.done["cancel"] += 1

    # Whoever breaks things.

    async def _break_things(self, until: float) -> None:
        while time.monotonic() < until:
            await self._break_something()
            await asyncio.sleep(self._dice.uniform(0.1, 0.9))

    async def _break_something(self) -> None:
        deeds: list[tuple[str, int, Callable[[], Awaitable[None]]]] = [
            ("kill the manager", 2, self._kill_manager),
            ("suspend the manager", 1, lambda: self._suspend(self._manager)),
            ("fill the manager's disk", 1, lambda: self._fill_disk(self._manager)),
            ("move the manager's clock", 1, lambda: self._move_clock(self._manager)),
            ("kill a delegate", 3, self._kill_delegate),
            ("stop a delegate", 1, self._stop_delegate),
            ("suspend a delegate", 3, lambda: self._suspend(self._dice.choice(self._delegates))),
            ("fill a delegate's disk", 2, lambda: self._fill_disk(self._dice.choice(self._delegates))),
            ("move a delegate's clock", 1, lambda: self._move_clock(self._dice.choice(self._delegates))),
            ("bad weather", 4, self._bad_weather),
            ("cut off a delegate", 3, self._cut_off),
            ("take the bucket away", 1, self._take_bucket_away),
        ]
        name, _, deed = self._dice.choices(deeds, weights=[weight for _, weight, _ in deeds])[0]
        self.account.done[name] += 1
        self.account.deeds.append(f"{time.monotonic() - self._began:7.2f} {name}")
        await deed()

    async def _kill_manager(self) -> None:
        await self._manager.kill()
        await asyncio.sleep(self._dice.choice([0.0, 0.0, 1.0]))
        await self._manager.start()

    async def _kill_delegate(self) -> None:
        life = self._dice.choice(self._delegates)
        await life.kill()
        await asyncio.sleep(self._dice.choice([0.0, 0.0, 1.0, 4.0]))
        await life.start()

    async def _stop_delegate(self) -> None:
        life = self._dice.choice(self._delegates)
        await life.end(within=8.0)
        await life.start()

    async def _suspend(self, life: Life) -> None:
        life.signal(signal.SIGSTOP)
        await asyncio.sleep(self._dice.choice([0.3, 1.0, 5.0]))  # the last one is longer than a lease
        life.signal(signal.SIGCONT)

    async def _fill_disk(self, life: Life) -> None:
        life.fill_disk(True)
        await asyncio.sleep(self._dice.uniform(0.3, 2.0))
        life.fill_disk(False)

    async def _move_clock(self, life: Life) -> None:
        life.set_clock(self._dice.choice([_HOUR, -_HOUR, 0.0]))

    async def _bad_weather(self) -> None:
        way = self._dice.choice(self._weathers)
        way.rough = self._dice.choice([0.0, 0.5, 1.0])

    async def _cut_off(self) -> None:
        way = self._dice.choice(self._weathers)
        way.cut_off()
        await asyncio.sleep(self._dice.choice([0.5, 1.5, 5.0]))
        way.clear_up()

    async def _take_bucket_away(self) -> None:
        self._bucket.add(cut, times=self._dice.randrange(1, 10))

    # The end.

    async def _mend(self) -> None:
        """Everything works again; what ended for a reason of its own is started again."""
        self._bucket.forget()
        for way in self._weathers:
            way.clear_up()
        for life in (self._manager, *self._delegates):
            life.signal(signal.SIGCONT)
            life.fill_disk(False)
            await life.start()

    async def _wait_until_all_ended(self) -> None:
        """Tasks of one application run one after another, and how many of them are left is up to the dice: what counts is that some end."""
        until = time.monotonic() + _MENDING_SECONDS
        left: list[Json] = []
        fewest: int | None = None
        while time.monotonic() < until:
            for life in (self._manager, *self._delegates):
                await life.start()  # one that ended, as it may after a part of it failed again and again
            with contextlib.suppress(aiohttp.ClientError, TimeoutError, AssertionError):
                left = [
                    each for state in ("queued", "running") for each in (await self._ask("GET", f"/tasks?state={state}&limit=500"))["items"]
                ]
                if not left:
                    return
                if fewest is None or len(left) < fewest:
                    fewest, until = len(left), time.monotonic() + _MENDING_SECONDS
            await asyncio.sleep(0.2)
        for each in left[:10]:
            shown = await self._ask("GET", f"/tasks/{each['id']}")
            why = shown["whyQueued"] or each["state"]
            self.account.violations.append(f"task {each['id']} ({each['application']}) has not ended: {why}")

    def _judge(self) -> None:
        """By the tables, long after everybody has gone."""
        account = self.account
        with contextlib.closing(sqlite3.connect(self._directory / "manager" / "manager.db")) as database:
            database.row_factory = sqlite3.Row
            audit = [
                {**row, "detail": msgspec.json.decode(row["detail"])}
                for row in map(dict, database.execute("SELECT * FROM history WHERE task_id <> '' ORDER BY id"))
            ]
            states = {row["id"]: dict(row) for row in database.execute("SELECT id, state, outcome, attempt_id FROM tasks")}
            results = Counter(row["task_id"] for row in database.execute("SELECT task_id FROM results"))
            account.attempts = database.execute("SELECT count(*) FROM attempts").fetchone()[0]
        account.outcomes.update(row["outcome"] for row in states.values())
        account.violations += Checker(most_losses=201, limits=LIMITS).read(from_audit(audit)).expect_all_final().violations
        account.violations += [
            f"task {task} was acknowledged to its submitter, and is gone" for task in self._submitted if task not in states
        ]
        account.violations += self._check_effects(audit)
        account.violations += [
            f"task {task} succeeded without a result" for task, row in states.items() if row["outcome"] == "succeeded" and not results[task]
        ]

    def _check_effects(self, audit: list[Json]) -> list[str]:
        """Whatever was reported as done was done, by the attempt that reported it, and as it said."""
        ended: set[tuple[str, str]] = set()
        for path in self._directory.glob("effects-*"):
            for line in path.read_text(errors="replace").splitlines():
                word, _, rest = line.partition(" ")
                if word == "ended":
                    attempt, _, outcome = rest.partition(" ")
                    ended.add((attempt, outcome))
        return [
            f"attempt {row['attempt_id']} was accepted as succeeded, and never did the work"
            for row in audit
            if row["operation"] == "result_accepted"
            and row["detail"]["outcome"] == "succeeded"
            and (row["attempt_id"], "succeeded") not in ended
        ]

    # Calls.

    def _asking(
        self, method: str, path: str, body: Json | None = None, headers: dict[str, str] | None = None
    ) -> Callable[[], Awaitable[Json]]:
        return lambda: self._ask(method, path, body, headers)

    async def _ask(self, method: str, path: str, body: Json | None = None, headers: dict[str, str] | None = None) -> Json:
        url = f"{self._url}/api/v1{path}"
        async with self._session.request(method, url, json=body, headers={**self._headers, **(headers or {})}) as response:
            answer: Json = await response.json()
            if response.status >= 500 or response.status == 429:
                raise TimeoutError  # not now
            assert response.status < 300, answer
            return answer

    async def _insist(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """Until it is answered; whatever was said meanwhile counts as not heard."""
        async with asyncio.timeout(60.0):
            while True:
                with contextlib.suppress(aiohttp.ClientError, TimeoutError, msgspec.DecodeError):
                    return await call()
                await asyncio.sleep(0.05)


@asynccontextmanager
async def _bucket(exits: AsyncExitStack) -> AsyncIterator[FaultyS3]:
    upstream = exits.enter_context(s3_server())
    async with aiohttp.ClientSession() as session, session.put(f"{upstream}/{BUCKET}") as answer:
        assert answer.status == 200
    async with faulty_s3(upstream) as proxy:
        yield proxy


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        return int(reserved.getsockname()[1])
