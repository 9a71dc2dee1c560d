"""An operator of the manager under measurement, and the pair of manager and settings that delegates are started with."""

import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec

from benchmarks import processes
from benchmarks.errors import BrokenRunError
from delegate.model.resources import JsonObject

_FINISHED = re.compile(rb'^delegate_manager_tasks_finished_total\{[^}]*outcome="(\w+)"[^}]*\} ([0-9.e+]+)', re.MULTILINE)
_ANSWERS = re.compile(rb'^delegate_manager_requests_total\{[^}]*code="(\d+)"[^}]*route="/api/delegate/[^}]*\} ([0-9.e+]+)', re.MULTILINE)
_READY_SECONDS = 60.0


class Operator:
    """Calls the manager's API with its first admin token."""

    def __init__(self, session: aiohttp.ClientSession, url: str, token: str) -> None:
        self.url = url
        self._session = session
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    async def submit(self, application: str) -> None:
        """One task that a delegate is handed at once."""
        await self.submit_document(
            {
                "kind": "sync",
                "application": application,
                "destination": {"name": "in-cluster", "namespace": "default"},
                "spec": {"source": {"repoURL": "https://git.example.com/config.git"}},
            }
        )

    async def submit_document(self, document: JsonObject) -> str:
        """A task as it is; its id."""
        return str((await self._post("/api/v1/tasks", document))["task"]["id"])

    async def result_of(self, task: str) -> JsonObject | None:
        """None until it has ended."""
        result: JsonObject | None = (await self._get(f"/api/v1/tasks/{task}")).get("result")
        return result

    async def create_token(self) -> str:
        """The secret of a token for delegates."""
        return str((await self._post("/api/v1/tokens", {"name": "bench", "scope": "GITOPS"}))["secret"])

    async def connected(self) -> int:
        """Delegates that are connected."""
        items = (await self._get("/api/v1/delegates"))["items"]
        return sum(each["connection"] == "Connected" for each in items)

    async def answers(self) -> tuple[int, int]:
        """Calls of delegates that the manager has answered: all, and those that were no success."""
        async with self._session.get(self.url + "/metrics") as response:
            text = await response.read()
        counts = [(code, int(float(count))) for code, count in _ANSWERS.findall(text)]
        return sum(count for _, count in counts), sum(count for code, count in counts if not code.startswith(b"2"))

    async def finished(self) -> dict[str, int]:
        """Tasks that have ended, by outcome."""
        async with self._session.get(self.url + "/metrics") as response:
            text = await response.read()
        return {outcome.decode(): int(float(count)) for outcome, count in _FINISHED.findall(text)}

    async def _post(self, path: str, body: JsonObject) -> JsonObject:
        async with self._session.post(self.url + path, data=msgspec.json.encode(body), headers=self._headers) as response:
            return await _decoded(response)

    async def _get(self, path: str) -> JsonObject:
        async with self._session.get(self.url + path, headers=self._headers) as response:
            return await _decoded(response)


async def _decoded(response: aiohttp.ClientResponse) -> JsonObject:
    body = await response.read()
    if response.status >= 300:
        raise BrokenRunError(f"{response.method} {response.url.path} answered {response.status}: {body[:300]!r}")
    decoded: JsonObject = msgspec.json.decode(body)
    return decoded


@asynccontextmanager
async def managing(directory: Path, *, secured: bool = False) -> AsyncIterator[tuple[Operator, processes.Child]]:
    """A manager in a process of its own, on SQLite in the directory, and its operator; `secured`: it speaks TLS, and gives certificates."""
    state = directory / "manager"
    name = "secured" if secured else "manager"
    async with processes.running(["-m", "benchmarks.standins", name, str(state)], log=directory / "manager.log") as child:
        ready, _ = await child.hear("ready", within=_READY_SECONDS)
        token = (state / "admin-token").read_text().strip()
        tls = ssl.create_default_context(cafile=authorities_of(directory)) if secured else True
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, ssl=tls)) as session:
            yield Operator(session, str(ready["url"]), token), child


def authorities_of(directory: Path) -> Path:
    """Whom to believe that they are the secured manager of this directory."""
    return directory / "manager" / "authorities.pem"


def delegate_settings(directory: Path, operator: Operator, token: str, *, capacity: int = 16, kubeconfig: str = "") -> dict[str, str]:
    """The environment of a delegate of that manager; everything that it writes is in the directory."""
    return {
        "DELEGATE_MANAGER_URL": operator.url,
        "DELEGATE_TOKEN": token,
        "DELEGATE_NAME": "bench",
        "DELEGATE_STATE_DIR": str(directory),
        "DELEGATE_DLQ_DIR": str(directory / "dlq"),
        "DELEGATE_HTTP_PORT": "0",
        "DELEGATE_HTTP_HOST": "127.0.0.1",
        "DELEGATE_TASK_CAPACITY": str(capacity),
        "DELEGATE_DRAIN_TIMEOUT": "5s",
        "DELEGATE_KUBECONFIG": kubeconfig,
    }
