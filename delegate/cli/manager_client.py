"""The manager's public API as operators' commands call it: typed, bounded, and with faults in words."""

import ssl
import uuid
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import quote, urlencode

import aiohttp
import msgspec

from delegate.daemon.connection.hops import explain_connect_fault
from delegate.daemon.connection.trust import believe, tls_context
from delegate.foundation.errors import Category, DelegateError
from delegate.foundation.lifecycle import Retrying, retrying
from delegate.foundation.proxying import way_through
from delegate.foundation.settings.programs import OperatorSettings
from delegate.foundation.settings.proxies import ProxyRules
from delegate.manager.credential_views import (
    AuthorityList,
    CertificateList,
    ClusterKeysList,
    ClusterKeysView,
    RevocationList,
    RevocationView,
)
from delegate.manager.letter_views import LetterList, PurgeView, RedriveList, RedriveView
from delegate.manager.views import (
    CancelView,
    DelegateList,
    DelegateView,
    EventList,
    LimitList,
    LimitView,
    NewTokenView,
    ResumeView,
    TaskList,
    TaskView,
    TokenList,
    TokenView,
)
from delegate.model.resources import JsonObject
from delegate.protocol.problems import Problem
from delegate.protocol.routes import PROBLEM_TYPE, REQUEST_ID_HEADER

T = TypeVar("T")
_SECONDS = 30.0
_LARGEST_ANSWER = 32 * 2**20
_POLICY = Retrying(max_attempts=4, base_seconds=0.2, max_seconds=2.0, max_duration_seconds=20.0)


class ManagerRefusedError(DelegateError):
    """The manager answered with a problem. The category follows its status."""

    default_code = "manager.refused"

    def __init__(self, problem: Problem, retry_after: float | None = None) -> None:
        code = problem.type.removeprefix("urn:delegate:") if problem.type.startswith("urn:delegate:") else f"manager.{problem.code}"
        words = problem.detail or problem.title
        super().__init__(words, hint=problem.hint, code=code, retryable=problem.retryable, retry_after=retry_after)
        self.status = problem.status
        self.category = _CATEGORIES.get(problem.status, Category.DEPENDENCY)  # type: ignore[misc]  # one class for all refusals


class NotTheManagerError(DelegateError):
    """Something else answered."""

    default_code = "manager.strange_answer"
    category = Category.DEPENDENCY


_CATEGORIES = {
    400: Category.INPUT,
    401: Category.PERMISSION,
    403: Category.PERMISSION,
    404: Category.INPUT,
    409: Category.CONFLICT,
    413: Category.INPUT,
    415: Category.INPUT,
    422: Category.INPUT,
}


class ManagerClient:
    """Calls of one command, while the context is entered. Every method raises DelegateErrors that a person can act on.

    A call that got no answer is made again: reads change nothing, and what does carries an idempotency key.
    """

    def __init__(self, settings: OperatorSettings) -> None:
        self._link = settings.link
        self._token = settings.link.require_token()
        self._proxies = ProxyRules.from_settings(settings.network)
        self._authorities = settings.network.ssl_cert_file
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        tls: ssl.SSLContext | bool = True
        if self._link.url.startswith("https:"):
            tls = tls_context(self._authorities)
            if self._link.manager_ca_file is not None:
                believe(tls, self._link.manager_ca_file, "DELEGATE_MANAGER_CA_FILE")
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=tls, limit=4), trust_env=False, timeout=aiohttp.ClientTimeout(total=_SECONDS)
        )
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if self._session is not None:
            await self._session.close()

    async def submit_task(self, document: JsonObject) -> TaskView:
        """Queues a task."""
        return await self._call("POST", "/api/v1/tasks", TaskView, body=document, key=uuid.uuid4().hex)

    async def list_tasks(self, **wanted: str | int) -> TaskList:
        """A page of tasks, the newest first."""
        query = urlencode({name: value for name, value in wanted.items() if value != ""})
        return await self._call("GET", f"/api/v1/tasks?{query}", TaskList)

    async def show_task(self, task_id: str) -> TaskView:
        return await self._call("GET", f"/api/v1/tasks/{quote(task_id, safe='')}", TaskView)

    async def list_events(self, task_id: str, after: int) -> EventList:
        """The progress of a task after a known event."""
        return await self._call("GET", f"/api/v1/tasks/{quote(task_id, safe='')}/events?after={after}", EventList)

    async def cancel_task(self, task_id: str, reason: str) -> CancelView:
        return await self._call("POST", f"/api/v1/tasks/{quote(task_id, safe='')}/cancel", CancelView, body={"reason": reason})

    async def resume_task(self, task_id: str, pause: int) -> ResumeView:
        """`pause` is its number; 0: the one that the task stands at."""
        return await self._call("POST", f"/api/v1/tasks/{quote(task_id, safe='')}/resume?pause={pause}", ResumeView)

    async def retry_task(self, task_id: str) -> TaskView:
        """A new task with the document of a finished one."""
        return await self._call("POST", f"/api/v1/tasks/{quote(task_id, safe='')}/retry", TaskView, key=uuid.uuid4().hex)

    async def list_delegates(self, *, revoked: bool) -> DelegateList:
        return await self._call("GET", f"/api/v1/delegates?revoked={str(revoked).lower()}", DelegateList)

    async def create_token(self, wanted: JsonObject) -> NewTokenView:
        """A token with its secret. Made once: a lost answer is a token of this name that nobody knows, and has to be revoked."""
        return await self._call("POST", "/api/v1/tokens", NewTokenView, body=wanted, repeat=False)

    async def list_tokens(self) -> TokenList:
        return await self._call("GET", "/api/v1/tokens", TokenList)

    async def revoke_token(self, name: str) -> TokenView:
        return await self._call("DELETE", f"/api/v1/tokens/{quote(name, safe='')}", TokenView)

    async def revoke_delegate(self, delegate_id: str) -> DelegateView:
        return await self._call("POST", f"/api/v1/delegates/{quote(delegate_id, safe='')}/revoke", DelegateView)

    async def register_cluster_keys(self, cluster: str, wanted: JsonObject) -> ClusterKeysView:
        return await self._call("PUT", f"/api/v1/clusters/{quote(cluster, safe='')}/keys", ClusterKeysView, body=wanted)

    async def list_cluster_keys(self) -> ClusterKeysList:
        return await self._call("GET", "/api/v1/clusters/keys", ClusterKeysList)

    async def forget_cluster_keys(self, cluster: str) -> ClusterKeysView:
        return await self._call("DELETE", f"/api/v1/clusters/{quote(cluster, safe='')}/keys", ClusterKeysView)

    async def list_certificates(self, delegate_id: str) -> CertificateList:
        """The newest first; of all delegates where none is named."""
        return await self._call("GET", f"/api/v1/certificates?{urlencode({'delegate': delegate_id})}", CertificateList)

    async def revoke_certificates(self, wanted: JsonObject) -> RevocationView:
        return await self._call("POST", "/api/v1/revocations", RevocationView, body=wanted)

    async def list_revocations(self) -> RevocationList:
        return await self._call("GET", "/api/v1/revocations", RevocationList)

    async def list_authorities(self) -> AuthorityList:
        return await self._call("GET", "/api/v1/authorities", AuthorityList)

    async def announce_authority(self, signs_after: str) -> AuthorityList:
        """Made once: a lost answer is an authority that was announced all the same, and is listed."""
        return await self._call("POST", "/api/v1/authorities", AuthorityList, body={"signsAfter": signs_after}, repeat=False)

    async def list_letters(self, query: JsonObject) -> LetterList:
        """A page of dead letters, the oldest first."""
        return await self._call("GET", f"/api/v1/dead-letters?{urlencode(query)}", LetterList)

    async def purge_letters(self, order: JsonObject) -> PurgeView:
        return await self._call("POST", "/api/v1/dead-letters/purge", PurgeView, body=order)

    async def redrive(self, order: JsonObject) -> RedriveView:
        """Begins a redrive. Made once: where its answer is lost, the next try is told its id."""
        return await self._call("POST", "/api/v1/redrives", RedriveView, body=order, repeat=False)

    async def list_redrives(self) -> RedriveList:
        return await self._call("GET", "/api/v1/redrives", RedriveList)

    async def show_redrive(self, redrive_id: str) -> RedriveView:
        return await self._call("GET", f"/api/v1/redrives/{quote(redrive_id, safe='')}", RedriveView)

    async def cancel_redrive(self, redrive_id: str) -> RedriveView:
        return await self._call("POST", f"/api/v1/redrives/{quote(redrive_id, safe='')}/cancel", RedriveView)

    async def list_limits(self) -> LimitList:
        return await self._call("GET", "/api/v1/limits", LimitList)

    async def set_limit(self, kind: str, name: str, most: int) -> LimitView:
        return await self._call("PUT", f"/api/v1/limits/{kind}/{quote(name, safe='')}", LimitView, body={"maxParallel": most})

    async def remove_limit(self, kind: str, name: str) -> LimitList:
        """The limits that are left. Made once: a repeated call would not find it any more."""
        return await self._call("DELETE", f"/api/v1/limits/{kind}/{quote(name, safe='')}", LimitList, repeat=False)

    async def _call(
        self, method: str, path: str, wanted: type[T], *, body: JsonObject | None = None, key: str = "", repeat: bool = True
    ) -> T:
        async def once() -> T:
            return await self._exchange(method, path, wanted, body, key)

        return await (retrying(once, _POLICY) if repeat else once())

    async def _exchange(self, method: str, path: str, wanted: type[T], body: JsonObject | None, key: str) -> T:
        assert self._session is not None
        url = self._link.join(path)
        request_id = uuid.uuid4().hex
        headers = {"Authorization": f"Bearer {self._token.reveal()}", "Accept": "application/json", REQUEST_ID_HEADER: request_id}
        if key:
            headers["Idempotency-Key"] = key
        if body is not None:
            headers["Content-Type"] = "application/json"
        data = msgspec.json.encode(body) if body is not None else None
        proxy = self._proxies.address_for(url)
        way = way_through(proxy, url)
        try:
            async with self._session.request(
                method,
                url,
                data=data,
                headers=headers | way.headers,
                allow_redirects=False,
                proxy=way.address,
                proxy_headers=way.connect_headers,
            ) as response:
                raw = await _read(response)
                return _decode(response, raw, wanted, request_id)
        except aiohttp.ClientError as error:
            raise explain_connect_fault(error, url, proxy) from error
        except TimeoutError as error:
            raise NotTheManagerError(
                f"no answer from {url} within {_SECONDS:g} s", hint="check that the manager is not overloaded", retryable=True
            ) from error


async def _read(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > _LARGEST_ANSWER:
            raise NotTheManagerError(f"an answer of more than {_LARGEST_ANSWER} bytes was not read to its end")
    return bytes(body)


def _decode(response: aiohttp.ClientResponse, raw: bytes, wanted: type[T], request_id: str) -> T:
    """Success is a 2xx with JSON and our request id; anything else that is no problem document came from somebody else."""
    ours = response.headers.get(REQUEST_ID_HEADER) == request_id
    try:
        if ours and 200 <= response.status < 300 and response.content_type == "application/json":
            return msgspec.json.decode(raw, type=wanted)
        if response.content_type == PROBLEM_TYPE:
            problem = msgspec.json.decode(raw, type=Problem)
            raise ManagerRefusedError(problem, _retry_after(response))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _strange(response) from error
    raise _strange(response)


def _strange(response: aiohttp.ClientResponse) -> NotTheManagerError:
    return NotTheManagerError(
        f"what answers at {response.url.origin()} is not the manager: status {response.status}, {response.content_type}",
        hint="check DELEGATE_MANAGER_URL; or a proxy or login page on the way answered",
    )


def _retry_after(response: aiohttp.ClientResponse) -> float | None:
    given = response.headers.get("Retry-After", "")
    return float(given) if given.isdecimal() and len(given) < 6 else None
