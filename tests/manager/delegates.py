"""A delegate as a test sees it: the calls of the protocol over real HTTP, nothing automatic."""

import hashlib
import uuid
from collections.abc import Iterable
from typing import Any, TypeVar

import aiohttp
import msgspec

from delegate.protocol import codec, routes
from delegate.protocol.blobs import BlobAnswer, BlobPieceRequest, BlobReference
from delegate.protocol.certificates import RenewAnswer, RenewRequest
from delegate.protocol.control import CommandsAnswer, CommandsRequest, HeartbeatAnswer, HeartbeatRequest, HeldAttempt, PauseReport
from delegate.protocol.enrolment import (
    AttemptReport,
    ByeAnswer,
    ByeRequest,
    ClusterName,
    EnrolAnswer,
    EnrolRequest,
    RefreshAnswer,
    RefreshRequest,
    SessionAnswer,
    SessionRequest,
)
from delegate.protocol.letters import LetterNotice, LettersAnswer, LettersRequest
from delegate.protocol.messages import Answer, Request
from delegate.protocol.problems import Problem
from delegate.protocol.versions import FEATURES
from delegate.protocol.work import (
    AcquireAnswer,
    AcquireRequest,
    EventsAnswer,
    EventsRequest,
    LeasedTask,
    ProgressEvent,
    ReleaseAnswer,
    ReleaseItem,
    ReleaseRequest,
    ResultDecision,
    ResultItem,
    ResultsAnswer,
    ResultsRequest,
)

A = TypeVar("A", bound=Answer)
CLUSTER = "6f1c2a34-0000-4000-8000-000000000001"


class RefusedCallError(Exception):
    """The manager answered with a problem."""

    def __init__(self, problem: Problem, headers: dict[str, str]) -> None:
        super().__init__(f"{problem.status} {problem.code}: {problem.detail}")
        self.problem = problem
        self.headers = headers


class Caller:
    """Posts messages of the protocol and decodes what comes back."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session = session
        self.url = url

    async def post(self, route: str, request: Request, wanted: type[A], token: str) -> A:
        headers = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            routes.REQUEST_ID_HEADER: request.request_id,
        }
        async with self.session.post(self.url + route, data=codec.encode(request), headers=headers, allow_redirects=False) as response:
            body = await response.read()
            if response.status != 200:
                assert response.content_type == routes.PROBLEM_TYPE, body
                raise RefusedCallError(msgspec.json.decode(body, type=Problem), dict(response.headers))
        answer = codec.decode(body, wanted)
        assert answer.request_id == request.request_id
        return answer


def new_request_id() -> str:
    return uuid.uuid4().hex


class FakeDelegate:
    """One process of one delegate."""

    def __init__(
        self,
        caller: Caller,
        name: str = "d-1",
        *,
        labels: dict[str, str] | None = None,
        clusters: dict[str, str] | None = None,
        kinds: tuple[str, ...] = (),
        instance: str = "",
        capacity: int = 16,
    ) -> None:
        self.caller = caller
        self.name = name
        self.labels = labels or {}
        self.clusters = {"in-cluster": CLUSTER} if clusters is None else clusters
        self.kinds = kinds
        self.instance = instance or uuid.uuid4().hex
        self.incarnation = uuid.uuid4().hex
        self.capacity = capacity
        self.delegate_id = ""
        self.token = ""
        self.refresh_token = ""
        self.epoch = 0
        self.sequence = 0

    async def enrol(self, token: str, csr: str = "", life: float | None = None) -> EnrolAnswer:
        request = EnrolRequest(
            request_id=new_request_id(),
            name=self.name,
            instance=self.instance,
            labels=self.labels,
            kinds=self.kinds,
            csr=csr,
            certificate_seconds=life,
        )
        answer = await self.caller.post(routes.ENROL, request, EnrolAnswer, token)
        self.delegate_id, self.token, self.refresh_token = answer.delegate_id, answer.session_token, answer.refresh_token
        return answer

    async def refresh(self) -> RefreshAnswer:
        request = RefreshRequest(request_id=new_request_id(), delegate_id=self.delegate_id)
        answer = await self.caller.post(routes.REFRESH_TOKEN, request, RefreshAnswer, self.refresh_token)
        self.token = answer.session_token
        return answer

    async def renew(self, csr: str, *, life: float | None = None, certificate: str = "", proof: str = "") -> RenewAnswer:
        request = RenewRequest(
            request_id=new_request_id(), delegate_id=self.delegate_id, csr=csr, life_seconds=life, certificate=certificate, proof=proof
        )
        return await self.caller.post(routes.RENEW_CERTIFICATE, request, RenewAnswer, self.token)

    async def open(
        self, attempts: Iterable[AttemptReport] = (), *, restarted: bool = False, features: Iterable[str] = FEATURES
    ) -> SessionAnswer:
        if restarted:
            self.incarnation = uuid.uuid4().hex
        request = SessionRequest(
            request_id=new_request_id(),
            delegate_id=self.delegate_id,
            incarnation=self.incarnation,
            name=self.name,
            labels=self.labels,
            kinds=self.kinds,
            capacity=self.capacity,
            features=tuple(features),
            clusters=tuple(ClusterName(name=name, uid=uid) for name, uid in self.clusters.items()),
            attempts=tuple(attempts),
        )
        answer = await self.caller.post(routes.SESSION, request, SessionAnswer, self.token)
        self.epoch = answer.epoch
        return answer

    async def start(self, token: str) -> "FakeDelegate":
        await self.enrol(token)
        await self.open()
        return self

    async def acquire(
        self, free_slots: int = 1, wait_seconds: float = 0.0, *, request_id: str = "", running: Iterable[str] = ()
    ) -> list[LeasedTask]:
        request = AcquireRequest(
            request_id=request_id or new_request_id(),
            epoch=self.epoch,
            free_slots=free_slots,
            wait_seconds=wait_seconds,
            running=tuple(running),
        )
        answer = await self.caller.post(routes.ACQUIRE, request, AcquireAnswer, self.token)
        tasks, undecodable = codec.decode_tasks(answer.tasks)
        assert not undecodable
        assert len(tasks) <= free_slots
        return tasks

    async def report(self, *results: ResultItem) -> list[ResultDecision]:
        request = ResultsRequest(request_id=new_request_id(), epoch=self.epoch, results=results)
        return list((await self.caller.post(routes.RESULTS, request, ResultsAnswer, self.token)).results)

    async def finish(self, task: LeasedTask, outcome: str = "succeeded", message: str = "") -> str:
        """The verdict on a result of this outcome."""
        (decision,) = await self.report(make_result(task, outcome, message))
        return decision.verdict

    async def beat(
        self,
        *held: LeasedTask,
        stalled: bool = False,
        draining: bool = False,
        acknowledged: Iterable[str] = (),
        free_slots: int | None = None,
        pause: PauseReport | None = None,
    ) -> HeartbeatAnswer:
        self.sequence += 1
        request = HeartbeatRequest(
            request_id=new_request_id(),
            epoch=self.epoch,
            sequence=self.sequence,
            attempts=tuple(HeldAttempt(attempt_id=task.attempt_id, fence=task.fence, pause=pause) for task in held),
            capacity=self.capacity,
            free_slots=self.capacity - len(held) if free_slots is None else free_slots,
            stalled=stalled,
            draining=draining,
            acknowledged=tuple(acknowledged),
        )
        return await self.caller.post(routes.HEARTBEAT, request, HeartbeatAnswer, self.token)

    async def verdict(self, task: LeasedTask) -> str:
        """What a heartbeat that names only this attempt is told of it."""
        (decision,) = (await self.beat(task)).attempts
        return decision.verdict

    async def release(self, task: LeasedTask, reason: str = "draining", message: str = "") -> str:
        item = ReleaseItem(attempt_id=task.attempt_id, fence=task.fence, reason=reason, message=message)
        request = ReleaseRequest(request_id=new_request_id(), epoch=self.epoch, attempts=(item,))
        (decision,) = (await self.caller.post(routes.RELEASE, request, ReleaseAnswer, self.token)).attempts
        return decision.verdict

    async def events(self, *events: ProgressEvent) -> int:
        request = EventsRequest(request_id=new_request_id(), epoch=self.epoch, events=events)
        return (await self.caller.post(routes.EVENTS, request, EventsAnswer, self.token)).kept

    async def letters(self, *letters: LetterNotice) -> int:
        """How many of the letters were new."""
        request = LettersRequest(request_id=new_request_id(), epoch=self.epoch, letters=letters)
        return (await self.caller.post(routes.LETTERS, request, LettersAnswer, self.token)).added

    async def send_piece(self, task: LeasedTask, whole: bytes, offset: int, end: int, *, sha256: str = "") -> BlobAnswer:
        """Sends these bytes of a large result."""
        request = BlobPieceRequest(
            request_id=new_request_id(),
            attempt_id=task.attempt_id,
            task_id=task.task_id,
            fence=task.fence,
            attempt_token=task.attempt_token,
            sha256=sha256 or hashlib.sha256(whole).hexdigest(),
            size=len(whole),
            offset=offset,
            data=whole[offset:end],
        )
        return await self.caller.post(routes.BLOBS, request, BlobAnswer, "")

    async def commands(self, wait_seconds: float = 0.0, acknowledged: Iterable[str] = ()) -> CommandsAnswer:
        request = CommandsRequest(
            request_id=new_request_id(), epoch=self.epoch, wait_seconds=wait_seconds, acknowledged=tuple(acknowledged)
        )
        return await self.caller.post(routes.COMMANDS, request, CommandsAnswer, self.token)

    async def bye(self, reason: str = "drained") -> None:
        await self.caller.post(routes.BYE, ByeRequest(request_id=new_request_id(), epoch=self.epoch, reason=reason), ByeAnswer, self.token)


def make_result(task: LeasedTask, outcome: str = "succeeded", message: str = "", **more: Any) -> ResultItem:
    result = {
        "task": task.task_id,
        "attempt": task.attempt_id,
        "kind": task.kind,
        "application": task.application,
        "outcome": outcome,
        "message": message,
        **more,
    }
    return ResultItem(
        attempt_id=task.attempt_id,
        task_id=task.task_id,
        fence=task.fence,
        attempt_token=task.attempt_token,
        digest=codec.result_digest(result),
        result=result,
    )


def make_notice(task: LeasedTask, letter: str = "", reason: str = "retries_exhausted", **more: Any) -> LetterNotice:
    """What a delegate tells of a letter about this task."""
    return LetterNotice(
        id=letter or f"letter-{task.attempt_id}",
        reason=reason,
        created="2026-03-04T05:06:07Z",
        task=task.task_id,
        attempt=task.attempt_id,
        kind=task.kind,
        application=task.application,
        outcome="failed",
        **{"url": "s3://dead/letters/1.json", **more},
    )


def shortened(item: ResultItem, whole: bytes) -> ResultItem:
    """The result in its short form, which names the blob with the whole of it."""
    short = {name: value for name, value in item.result.items() if name != "resources"}
    return msgspec.structs.replace(item, result=short, blob=BlobReference(sha256=item.digest, size=len(whole)))
